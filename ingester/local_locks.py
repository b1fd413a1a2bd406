"""Locks within this process: for the demo, and for those who run exactly one ingester. Protects nobody from a second process:
there the offsets' epoch does, and the older process stops its tables."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from ingester.locks import Lease


class LocalLocks:
    """An epoch is the time of acquisition in milliseconds: it grows over restarts without storing anything."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._owner = f"{socket.gethostname()}:{os.getpid()}"
        self._held: dict[str, Lease] = {}
        self._lost: set[str] = set()
        self._last_epoch = 0

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
        self._held.pop(lease.name, None)

    def lost(self, lease: Lease) -> None:
        """A newer process owns the table; taking it back would only make the two take turns."""
        self._held.pop(lease.name, None)
        self._lost.add(lease.name)
