"""The bundles that Spark has and no worker has begun: which they are, and for how long nothing at all has moved. Asks nobody."""

from __future__ import annotations

import threading

from common.clock import SteadyClock, SteadyTime, steady


class Queued:
    """Thread-safe. A bundle waits from `handed` until `begun` or `ended`."""

    def __init__(self, clock: SteadyClock = steady) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._since: dict[int, SteadyTime] = {}
        self._running: set[int] = set()
        self._moved = clock()

    def handed(self, bundle: int) -> None:
        with self._guard:
            self._since[bundle] = self._clock()

    def begun(self, bundle: int) -> None:
        """A worker or its executor has it."""
        with self._guard:
            if self._since.pop(bundle, None) is not None:
                self._running.add(bundle)
                self._moved = self._clock()

    def ended(self, bundle: int) -> None:
        with self._guard:
            self._since.pop(bundle, None)
            self._running.discard(bundle)
            self._moved = self._clock()

    def waits(self, bundle: int) -> bool:
        return bundle in self._since

    def oldest(self, most: int, *, waited: float = 0.0) -> list[int]:
        """The bundles that have waited longest, and for so many seconds at least."""
        now = self._clock()
        with self._guard:
            return [bundle for bundle, since in self._since.items() if now - since >= waited][:most]

    def stuck(self) -> tuple[int, float]:
        """How many bundles wait, and for how many seconds they have while no other ran. (0, 0.0) if one runs."""
        with self._guard:
            if not self._since or self._running:
                return 0, 0.0
            return len(self._since), self._clock() - max(min(self._since.values()), self._moved)
