"""Port: one lock per table; only its holder reads the table. The epoch fences: it grows with every acquisition, everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Lease:
    """A held lock. `not_after`: Unix time after which the holder must act as if the lease were lost; None if it cannot run out."""

    name: str
    owner: str
    epoch: int
    not_after: float | None = None


class Locks(Protocol):
    """Raises TransientError when the lock service cannot be asked."""

    def acquire(self, name: str) -> Lease | None:
        """The lease, or None while another owner holds the lock; never waits, never evicts a live owner."""
        ...

    def renew(self, lease: Lease) -> Lease:
        """Raises LeaseLost."""
        ...

    def release(self, lease: Lease) -> None:
        """Give the lock back; quiet when it is no longer ours."""
        ...

    def lost(self, lease: Lease) -> None:
        """Tell the service that a newer owner was met, so that it does not hand the lock out again at once."""
        ...
