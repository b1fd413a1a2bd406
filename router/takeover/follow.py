"""Follows the configuration file: each edit is planned, opened beside what is in force, and handed over; one that cannot be used changes nothing.

Runs in a thread of its own, beside the routing. It routes nothing and names no adapter: the caller makes a candidate of settings. The newest edit
wins: one that is still being opened is given up for it. What fails is tried again, because a right or a place may be given meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import structlog

from common.errors import ConfigurationError, DStreamError, Stopped, TransientError, unforeseen
from common.retry import Backoff
from router.settings import RouterSettings
from router.takeover.plan import OutputChanges, Plan, output_changes, plan
from router.tally import Tally

AGAIN: Final = Backoff(first=2.0, longest=30.0)
"""Between two attempts to take the same edit over."""

UNDONE_AGAIN: Final = 600.0
"""The same for an edit that opened, and failed as it was handed over: each attempt costs a worker that routes."""

ENDED_WITHIN: Final = 2.0
"""Seconds that a stop waits for an edit that is being opened; its calls are cut."""

STAYS: Final = "the previous one stays in force, and this one is tried again by itself"
CORRECT: Final = "correct the file; the previous configuration stays in force"
WAITS: Final = "the changed configuration waits for a restart as a whole: {} cannot change while the router runs"
WAITS_WHOLE: Final = "nothing of this edit is in force before that"

log = structlog.get_logger(__name__)


class Candidate(Protocol):
    """Settings with what they need."""

    def open(self, changed: Collection[str]) -> None:
        """Open everything. `changed`: outputs whose lasting fault is one of the edit. Raises DStreamError, and Stopped once abandoned."""
        ...

    def abandon(self) -> None:
        """Give up: what is being opened ends soon. From any thread."""
        ...

    def close(self) -> None:
        """Release everything. Never raises."""
        ...


C = TypeVar("C", bound=Candidate)

Take = Callable[[RouterSettings], None]
Refuse = Callable[[ConfigurationError], None]


class Watch(Protocol):
    """Inside its context, calls `take` with each changed configuration that is valid, and `refused` with the problems of one that is not."""

    def __call__(self, take: Take, refused: Refuse) -> AbstractContextManager[object]: ...


def unwatched(take: Take, refused: Refuse) -> AbstractContextManager[object]:
    """For a router whose file nobody watches."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class _Edit:
    """`settings`: None where the file cannot be used, for which `fault` is the reason, or where nothing is wanted."""

    settings: RouterSettings | None
    fault: str | None = None


class Follower(Generic[C]):
    """`make` makes a candidate of settings, and opens nothing. `adopt` hands it over, and returns once it is in force, or False at a stop;
    what it raises has left the previous one in force, and `Stopped` means that it gave way to a newer edit."""

    def __init__(
        self,
        settings: RouterSettings,
        make: Callable[[RouterSettings], C],
        adopt: Callable[[C], bool],
        tally: Tally,
        *,
        again: Backoff = AGAIN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._in_force = settings
        self._waiting: str | None = None
        """Why the last edit is not in force."""
        self._make, self._adopt = make, adopt
        self._tally = tally
        self._again, self._clock = again, clock
        self._guard = threading.Condition()
        self._news: _Edit | None = None
        self._opening: C | None = None
        self._over = self._undone = False
        self._thread = threading.Thread(target=self._run, name="takeover", daemon=True)

    def __enter__(self) -> Follower[C]:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        with self._guard:
            self._over = True
            self._abandon()
        self._thread.join(ENDED_WITHIN)

    @property
    def has_news(self) -> bool:
        """Whether a newer edit waits."""
        return self._news is not None

    def edited(self, settings: RouterSettings) -> None:
        """The file has changed to these. From any thread."""
        with self._guard:
            self._news = _Edit(settings)
            self._abandon()

    def refused(self, error: ConfigurationError) -> None:
        """The file has changed, and cannot be used, which is logged already. From any thread."""
        with self._guard:
            self._news = _Edit(None, f"the configuration file cannot be used: {error.problems[0]} ({CORRECT})")
            self._abandon()

    def _abandon(self) -> None:
        if self._opening is not None:
            self._opening.abandon()
        self._guard.notify_all()

    def _pause(self, failures: int) -> float:
        return max(self._again.delay(failures), UNDONE_AGAIN if self._undone else 0.0)

    def _run(self) -> None:
        wanted, failures, told = _Edit(None), 0, ""
        while not self._over:
            if (news := self._next(None if wanted.settings is None else self._pause(failures))) is not None:
                wanted, failures, told = news, 0, ""
            try:
                if wanted.settings is not None:
                    self._follow(wanted.settings, first=not failures)
            except Stopped:
                continue  # for a newer edit, or a stop
            except Exception as raised:
                error = raised if isinstance(raised, DStreamError) else TransientError(unforeseen(raised))
                failures += 1
                self._tally.not_in_force = f"the changed configuration cannot be taken over: {error.with_hint(STAYS)}"
                if str(error) != told:
                    told = str(error)
                    self._tell(error)
            else:
                self._tally.not_in_force = wanted.fault if wanted.settings is None else self._waiting
                wanted = _Edit(None, wanted.fault)

    def _next(self, seconds: float | None) -> _Edit | None:
        """The next edit; None: it is time to try again, or to end."""
        with self._guard:
            until = None if seconds is None else self._clock() + seconds
            while not self._over and self._news is None:
                left = None if until is None else until - self._clock()
                if left is not None and left <= 0:
                    return None
                self._guard.wait(left)
            news, self._news = self._news, None
            return news

    def _follow(self, wanted: RouterSettings, *, first: bool) -> None:
        decided = plan(self._in_force, wanted)
        if decided.restart and first:
            log.warning(
                "changed settings need a restart",
                settings=list(decided.restart),
                effect=WAITS_WHOLE if decided.whole else None,
            )
        self._waiting = WAITS.format(", ".join(decided.restart)) if decided.whole else None
        if decided.settings is None:
            return
        began, changes = self._clock(), output_changes(self._in_force, decided.settings)
        self._undone = False
        candidate = self._opened(decided.settings, {*changes.added, *changes.changed})
        self._undone = True
        if not self._adopt(candidate):
            candidate.close()
            raise Stopped("asked to stop")
        self._tell_remarks(decided.settings)
        self._in_force, self._undone = decided.settings, False
        self._tell_done(decided, changes, self._clock() - began)

    def _opened(self, settings: RouterSettings, changed: Collection[str]) -> C:
        candidate = self._make(settings)
        with self._guard:
            if self._over or self._news is not None:
                candidate.abandon()
            self._opening = candidate
        try:
            candidate.open(changed)
        except BaseException:
            candidate.close()
            self._tally.forget_outputs_besides(self._in_force.streams)
            raise
        finally:
            with self._guard:
                self._opening = None
        return candidate

    @staticmethod
    def _tell(error: DStreamError) -> None:
        report = log.warning if isinstance(error, TransientError) else log.error
        report(
            "the changed configuration cannot be taken over; the previous one stays in force",
            error=error.message,
            hint=error.hint or "correct the file, or what it names; it is tried again by itself",
        )

    def _tell_remarks(self, settings: RouterSettings) -> None:
        for it in settings.remarks:
            if (it.event, it.setting) not in {(each.event, each.setting) for each in self._in_force.remarks}:
                log.warning(it.event, setting=it.setting, line=it.line or None, hint=it.hint)

    @staticmethod
    def _tell_done(decided: Plan, changes: OutputChanges, seconds: float) -> None:
        assert decided.settings is not None
        log.info(
            "configuration reloaded",
            outputs=", ".join(decided.settings.streams),
            outputs_added=", ".join(changes.added) or None,
            outputs_removed=", ".join(changes.removed) or None,
            outputs_changed=", ".join(changes.changed) or None,
            routes=len(decided.settings.route),
            seconds=round(seconds, 1),
        )
