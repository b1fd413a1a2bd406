"""How long the process for the first slices may be silent. Decides on counted seconds; asks and ends nothing.

A second counts when the driver says so, which it can only while it runs. While it was stopped or its machine slept, no answer could reach it,
and nobody had waited.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import ceil

SECONDS = 1.0
"""For a slice, whatever its setting, so that tables soon go on to Spark. It ends between two pages, as any slice does."""
_AT_ONCE = 8
"""Slices that the process reads at the same time. The others wait for their turn."""
_UNANSWERED = 10
"""After so many questions without an answer, a second apart, the process stands still."""
_LATE_SECONDS = 10.0
"""For the last page of a slice on a machine that is busy with a start. Later ones make tables wait."""
_LAST_SECONDS = 15.0
"""The same once Spark has started. What is not back then is read there: a slow statement has all its time there."""
_HANG_SECONDS = 150.0
"""The same before: one statement (120 s), and a login."""


_STOOD_STILL = (
    "see whether somebody has stopped it (SIGSTOP), and whether this machine is short of memory or processor time"
)
_NO_ANSWER = "see whether Service Bus and SQL Server answer: one of them accepts connections and then says nothing"


@dataclass(frozen=True, slots=True)
class Hang:
    """Why the process must be ended, and what a person can do about it."""

    why: str
    hint: str


@dataclass(slots=True)
class _Out:
    """A bundle that is out. `turn`: seconds until the last of its slices has had its time. `silent`: since its last result."""

    slices: int
    turn: float
    out: int = 0
    silent: int = 0


class Patience:
    """From any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._out: dict[int, _Out] = {}
        self._last: float | None = None
        self._up = 0

    def begun(self, number: int, slices: int) -> None:
        with self._guard:
            self._out[number] = _Out(slices, self._turn(slices))

    def heard(self, number: int) -> None:
        """One of its slices is back."""
        with self._guard:
            if (bundle := self._out.get(number)) is not None:
                bundle.silent, bundle.slices = 0, bundle.slices - 1

    def over(self, number: int) -> None:
        with self._guard:
            self._out.pop(number, None)

    def spark_is_up(self) -> None:
        with self._guard:
            self._last = self._turn(0) + _LAST_SECONDS

    def second(self, unanswered: int) -> Hang | None:
        """One more second has passed. None: the process need not be ended. `unanswered`: questions before the present one."""
        with self._guard:
            for bundle in self._out.values():
                bundle.out += 1
                bundle.silent += 1
            if unanswered >= _UNANSWERED:
                return Hang(f"it has not answered for {unanswered} s", _STOOD_STILL)
            if self._last is not None:
                self._up += 1
                if self._out and self._up >= self._last:
                    return Hang(f"slices were not back {self._up} s after Spark had started", _NO_ANSWER)
            hung = max((bundle.out for bundle in self._out.values() if _hangs(bundle)), default=None)
            return None if hung is None else Hang(f"a slice did not come back within {hung} s", _NO_ANSWER)

    @property
    def late(self) -> int | None:
        """For how many seconds the process has brought no result of a bundle that is late; None: none is."""
        with self._guard:
            late = [each.silent for each in self._out.values() if each.silent >= each.turn + _LATE_SECONDS]
        return max(late, default=None)

    def _turn(self, more: int) -> float:
        return SECONDS * max(1, ceil((sum(bundle.slices for bundle in self._out.values()) + more) / _AT_ONCE))


def _hangs(bundle: _Out) -> bool:
    return bundle.out >= bundle.turn + _HANG_SECONDS
