"""The promises of `ingester/locks.py` in a dictionary: leases that run out by a clock that a test moves."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from common.clock import SteadyClock, SteadyTime
from common.errors import LeaseLost
from ingester.locks import Lease

LEASE_SECONDS, MARGIN = 60.0, 6.0


@dataclass
class LockService:
    """What all ingesters see: who holds what until when, and the last epoch of each lock."""

    clock: SteadyClock
    held: dict[str, tuple[str, float]] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    owners: int = 0

    def holder(self, name: str) -> str | None:
        """The owner whose lease has not run out."""
        owner, until = self.held.get(name, ("", 0.0))
        return owner if owner and self.clock() < until else None


class FakeLocks:
    """One ingester's. `fail`: raised by every call while it is set."""

    renew_seconds: float | None = LEASE_SECONDS / 3

    def __init__(self, service: LockService) -> None:
        self._service = service
        service.owners += 1
        self._owner = f"owner {service.owners}"
        self.fail: Exception | None = None

    def ensure(self) -> None:
        self._raise()

    def acquire(self, name: str) -> Lease | None:
        self._raise()
        if self._service.holder(name) is not None:
            return None
        self._service.epochs[name] = max(self._service.epochs.get(name, 0) + 1, int(self._service.clock() * 1000))
        return self._leased(name)

    def renew(self, lease: Lease) -> Lease:
        self._raise()
        if not self._ours(lease):
            raise LeaseLost(f"renewing the lock {lease.name}: another has it")
        return self._leased(lease.name)

    def release(self, lease: Lease) -> None:
        self._raise()
        if self._ours(lease):
            del self._service.held[lease.name]

    def lost(self, lease: Lease) -> None:
        self.release(lease)

    def held(self, names: Collection[str]) -> frozenset[str]:
        self._raise()
        return frozenset(name for name in names if self._service.holder(name) is not None)

    def close(self) -> None:
        pass

    def _ours(self, lease: Lease) -> bool:
        owner, _ = self._service.held.get(lease.name, ("", 0.0))
        return owner == self._owner and self._service.epochs[lease.name] == lease.epoch

    def _leased(self, name: str) -> Lease:
        until = self._service.clock() + LEASE_SECONDS
        self._service.held[name] = (self._owner, until)
        return Lease(name, self._owner, self._service.epochs[name], SteadyTime(until - MARGIN))

    def _raise(self) -> None:
        if self.fail is not None:
            raise self.fail
