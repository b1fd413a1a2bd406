"""Logs once for all slots of a process that receiving is interrupted, and once when it works again. Decides nothing about messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from common.errors import TransientError

SETTLED: Final = 5.0
"""Seconds without a failure before an answer ends an interruption, because the slots' links break one after the other."""

LASTING: Final = 10.0
"""Seconds after which readiness shows an interruption; shorter ones end with the first repetitions."""

FORGOTTEN: Final = 40.0
"""Seconds without a further failure after which it is over, answered or not: a slot tries again after at most 15 s, and an attempt
takes 20."""

TRIED_AGAIN: Final = (
    "it is tried again; if this lasts, check the namespace, and the network between it and this machine"
)
"""What to do when an error has no hint."""

log = structlog.get_logger(__name__)


class Interruption:
    """Shared by the slots, and read by the health page."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._since: float | None = None
        """None: receiving works."""
        self._last = 0.0
        self._why = ""
        self._hints: set[str | None] = set()
        """Those that were logged."""

    def failed(self, error: TransientError) -> None:
        """A slot cannot receive, or cannot settle what it received; it tries again."""
        with self._guard:
            self._last, self._why = self._clock(), error.with_hint(TRIED_AGAIN)
            if first := self._since is None:
                self._since, self._hints = self._last, {None}
            news = first or error.hint not in self._hints
            self._hints.add(error.hint)
        report = log.warning if news else log.debug
        report("receiving interrupted", error=error.message, hint=error.hint or TRIED_AGAIN)

    def answered(self) -> None:
        """A slot has asked for messages and had an answer."""
        if self._since is None:  # without the lock, since every batch asks
            return
        with self._guard:
            now = self._clock()
            if self._since is None or now - self._last < SETTLED:
                return
            seconds, self._since = now - self._since, None
        log.info("receiving again", seconds=round(seconds, 1))

    def lasting(self) -> str | None:
        """Why nothing can be received, with a hint, once the interruption lasts."""
        with self._guard:
            now = self._clock()
            if self._since is None or now - self._since < LASTING or now - self._last > FORGOTTEN:
                return None
            return self._why
