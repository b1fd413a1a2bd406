"""Which settings the workers of a parent get: those in force, or others that replace them worker by worker. Starts and ends no process.

Settings with which a worker cannot route are taken back: the previous ones are in force again, for the workers that have left them as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog

from common.errors import DStreamError, Stopped, TransientError
from router.settings import RouterSettings

GLANCE: Final = 0.1
"""Seconds between two looks for a newer edit."""

TRIALS: Final = 2
"""So often workers may fail with settings that are being taken over; a lasting error counts at once."""

STARTED_WITHIN: Final = 90.0
"""Seconds after which a worker that does not route with such settings has failed for good."""

TRIED: Final = "the log of that worker says why; give it what it needs (memory, processor time), or take the edit back"

log = structlog.get_logger(__name__)


class Rollout:
    """`settings`: for the next worker that is started. `take_over` is for one thread, the rest for the thread that runs the workers."""

    def __init__(self, settings: RouterSettings) -> None:
        self.settings, self.fans_out = settings, bool(settings.route)
        self._guard = threading.Condition()
        self._before: RouterSettings | None = None
        """What was in force, while other settings are being taken over."""
        self._refusal: DStreamError | None = None
        self._failures = 0
        self._over = False

    @property
    def trying(self) -> bool:
        """Whether it is not known yet that a worker can route with `settings`, beside those with which workers route."""
        return self._before is not None

    def take_over(self, settings: RouterSettings, done: Callable[[], bool], gives_way: Callable[[], bool]) -> bool:
        """Waits until `done`; False at the end. Raises what a worker met with the settings, and Stopped once `gives_way`."""
        with self._guard:
            self._before, self._refusal, self._failures = self.settings, None, 0
            self.settings, self.fans_out = settings, self.fans_out or bool(settings.route)
            while not self._over and not done():
                if self._refusal is None and gives_way():
                    self._undo(Stopped("for a newer edit"))
                if self._refusal is not None:
                    raise self._refusal
                self._guard.wait(GLANCE)
            self._before = None
            return not self._over

    def _undo(self, reason: DStreamError) -> None:
        assert self._before is not None
        self.settings, self._before, self._refusal = self._before, None, reason

    def refused(self, had: RouterSettings | None, worker: int, error: DStreamError | None, how: str) -> bool:
        """A worker with the settings `had` ended, or does not begin: whether that is the end of an attempt to take these over."""
        with self._guard:
            if self._before is None or had is not self.settings:
                return False
            self._failures += 1
            if self._failures < TRIALS and (error is None or isinstance(error, TransientError)):
                return False
            reason = error or TransientError(f"worker {worker} {how} with these settings", hint=TRIED)
            self._undo(reason)
            self._guard.notify_all()
        log.warning(
            "worker cannot route with the changed settings; starting it again with the previous ones",
            worker=worker,
            error=reason.message,
            hint=reason.hint,
        )
        return True

    def looked(self, *, over: bool = False) -> None:
        """The workers may have changed. `over`: they have ended."""
        with self._guard:
            self._over = self._over or over
            self._guard.notify_all()
