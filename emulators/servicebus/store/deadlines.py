"""What ends when: many deadlines, of which the next is known at once.

A deadline that is set anew or taken back leaves its old entry in the heap; it is passed over when it comes up, and the
heap is built anew when such entries outnumber the others. So every operation costs the logarithm of what is alive.
"""

from __future__ import annotations

import heapq
from typing import Final, Generic, TypeVar

NEVER: Final = 1 << 62
"""Later than any moment."""
_FEW: Final = 64

_K = TypeVar("_K")


class Deadlines(Generic[_K]):
    """At most one deadline a key (hashable), in milliseconds since the Unix epoch."""

    __slots__ = ("_at", "_heap", "_number")

    def __init__(self) -> None:
        self._at: dict[_K, int] = {}
        self._heap: list[tuple[int, int, _K]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._at)

    @property
    def next(self) -> int:
        """The earliest deadline, or NEVER."""
        heap, at = self._heap, self._at
        while heap and at.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else NEVER

    def set(self, key: _K, at: int) -> None:
        """Set the deadline of a key, or move it."""
        self._at[key] = at
        self._number += 1
        heapq.heappush(self._heap, (at, self._number, key))
        if len(self._heap) > 2 * len(self._at) + _FEW:
            self._heap = [entry for entry in self._heap if self._at.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def advance(self, key: _K, at: int) -> None:
        """Set the deadline of a key unless it has an earlier one."""
        if at < self._at.get(key, NEVER):
            self.set(key, at)

    def discard(self, key: _K) -> None:
        """Take the deadline of a key back, if it has one."""
        self._at.pop(key, None)

    def take(self, now: int) -> list[_K]:
        """Keys whose deadline has come, in order of their deadlines; they have none any more."""
        taken: list[_K] = []
        while self.next <= now:
            key = heapq.heappop(self._heap)[2]
            del self._at[key]
            taken.append(key)
        return taken
