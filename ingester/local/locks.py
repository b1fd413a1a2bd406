"""Locks within this process, for the demo and for exactly one ingester.

They do not keep a second process out. The offsets' epoch does: the older process stops its tables.
"""

from __future__ import annotations

from collections.abc import Collection

from common.clock import UnixClock
from ingester.locks import Lease, this_owner


class LocalLocks:
    """An epoch is the time of acquisition in milliseconds, so it grows over restarts with nothing stored. `now`: Unix time."""

    renew_seconds: float | None = None

    def __init__(self, now: UnixClock) -> None:
        self._now = now
        self._owner = this_owner()
        self._held: dict[str, Lease] = {}
        self._lost: set[str] = set()
        self._last_epoch = 0

    def ensure(self) -> None:
        pass

    def acquire(self, name: str) -> Lease | None:
        if name in self._held or name in self._lost:
            return None
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
        """A newer process owns the table. Taking the lock again would only make the two take turns."""
        self.release(lease)
        self._lost.add(lease.name)

    def held(self, names: Collection[str]) -> frozenset[str]:
        return frozenset(names) & self._held.keys()

    def close(self) -> None:
        pass
