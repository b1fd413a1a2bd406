"""Which sessions fail again and again, and how long each is left alone so that the slots go on with others. Decides only, and never waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from common.retry import Backoff

FORGOTTEN: Final = 300.0
"""Seconds without another failure after which a session's next failure counts as a new one."""

LASTING: Final = 60.0
"""Seconds after its last failure in which a session counts as still failing: it is tried again after at most 15 s. After that another router or
worker may have it."""


Failing = Mapping[str, tuple[int, float]]
"""By session: failures in a row, and when the last one was, by the machine's steady clock."""


class Troubled:
    """Shared by the slots, because a session's failures may be in different slots."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._failing: dict[str, tuple[int, float]] = {}
        """Failures in a row, and when the last one was."""

    def failed(self, session_id: str, now: float) -> int:
        """Its failures in a row, this one included. `now`: seconds of a steady clock."""
        with self._guard:
            self._failing = {each: held for each, held in self._failing.items() if now - held[1] < FORGOTTEN}
            count = self._failing.get(session_id, (0, now))[0] + 1
            self._failing[session_id] = (count, now)
            return count

    def told(self) -> Failing:
        """For another process of this router."""
        with self._guard:
            return dict(self._failing)

    def learn(self, told: Failing) -> None:
        with self._guard:
            self._failing = {**self._failing, **told}

    def well(self, session_id: str) -> int:
        """How many times it had failed in a row."""
        # Without the lock, because every session comes here and hardly any is failing.
        if session_id not in self._failing:
            return 0
        with self._guard:
            return self._failing.pop(session_id, (0, 0.0))[0]

    def failing(self, now: float) -> int:
        """Sessions that fail again and again."""
        with self._guard:
            return sum(count > 1 and now - last < LASTING for count, last in self._failing.values())


def ready_after(backoff: Backoff, failures: int, clock: Callable[[], float]) -> Callable[[], bool]:
    """Whether a session that has failed so often may be tried again."""
    until = clock() + backoff.delay(failures)
    return lambda: clock() >= until
