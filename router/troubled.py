"""Which sessions fail again and again, and how long each is left alone, so that the slots go on with the others. Decides; waits for nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from common.retry import Backoff

FORGOTTEN: Final = 300.0
"""Seconds after its last failure in which a session has not failed again: what comes then is a new trouble."""


LASTING: Final = 60.0
"""Seconds after its last failure in which a session is taken to fail still: it is tried again after 15 s at most. Another router or worker may
have it after that."""


class Troubled:
    """Shared by the slots, since each failure of a session may be another slot's."""

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

    def well(self, session_id: str) -> int:
        """How often it had failed in a row."""
        if session_id not in self._failing:  # without the lock, since this is asked of every session and hardly any is
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
