"""How long this process has run: the clock for finding slots and workers that stand still. It waits for nothing and decides nothing.

A machine, a container or a virtual machine can be frozen as a whole and go on later. Steady clocks count that time, so everything due meanwhile
looks overdue although nothing stood still. So the time between two reads of this clock counts only up to a limit.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass


class Awake:
    """Seconds since it was made, without those in which nobody read it; from any thread."""

    def __init__(self, clock: Callable[[], float], most: float) -> None:
        """`most`: the most seconds that count between two reads; a small multiple of the usual time between them in a process that runs."""
        self._clock = clock
        self._most = most
        self._guard = threading.Lock()
        self._looked = clock()
        self._ran = 0.0

    def __call__(self) -> float:
        with self._guard:
            now = self._clock()
            self._ran += min(now - self._looked, self._most)
            self._looked = now
            return self._ran


@dataclass(frozen=True, slots=True)
class Stillness:
    """What has stood still for longest, in words ("slot-3 has not turned"); for how many seconds, and after how many it is stuck."""

    seconds: float = 0.0
    limit: float = math.inf
    what: str = ""

    @property
    def stuck(self) -> bool:
        return self.seconds > self.limit

    def __str__(self) -> str:
        return f"{self.what} for {self.seconds:.0f} s"


def stillest(found: Iterable[Stillness]) -> Stillness:
    """The one closest to its limit, or farthest past it."""
    return max(found, key=lambda still: still.seconds / still.limit, default=Stillness())
