"""Locks within this process, for the demo and for exactly one ingester.

They do not keep a second process out. The offsets' epoch does: the older process stops reading its tables. It takes
each of them again after a pause, as the newer owner may be gone, or may have been `dstream offsets set`, which owns
nothing for longer than a statement.
"""

from __future__ import annotations

from collections.abc import Collection

from common.clock import SteadyClock, UnixClock, steady
from ingester.locks import Lease, this_owner

AGAIN_SECONDS = 30.0
"""How long a lock that was lost is left to its newer owner. Two processes that run by mistake take turns at this pace,
and each logs it."""


class LocalLocks:
    """An epoch is the time of acquisition in milliseconds, so it grows over restarts with nothing stored. `now`: Unix time."""

    renew_seconds: float | None = None

    def __init__(self, now: UnixClock, *, clock: SteadyClock = steady) -> None:
        self._now = now
        self._clock = clock
        self._owner = this_owner()
        self._held: dict[str, Lease] = {}
        self._lost: dict[str, float] = {}
        """Until when a lock is left to its newer owner."""
        self._last_epoch = 0

    def ensure(self) -> None:
        pass

    def acquire(self, name: str) -> Lease | None:
        if name in self._held or self._clock() < self._lost.get(name, 0.0):
            return None
        self._lost.pop(name, None)
        self._last_epoch = max(int(self._now() * 1000), self._last_epoch + 1)
        lease = Lease(name, self._owner, self._last_epoch)
        self._held[name] = lease
        return lease

    def renew(self, lease: Lease) -> Lease:
        return lease

    def release(self, lease: Lease) -> None:
        if self._held.get(lease.name) == lease:
            del self._held[lease.name]

    def lost(self, lease: Lease) -> None:
        """A newer process owns the table, or somebody has moved its offset. Taken again at once, two processes would do
        nothing but take turns."""
        self.release(lease)
        self._lost[lease.name] = self._clock() + AGAIN_SECONDS

    def held(self, names: Collection[str]) -> frozenset[str]:
        return frozenset(names) & self._held.keys()

    def close(self) -> None:
        pass
