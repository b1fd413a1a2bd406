"""Port: one lock per table; only its holder reads the table. The epoch fences: it grows with every acquisition, everywhere.

Epochs of all kinds of locks are of one scale, milliseconds since 1970 or more, so that the kind can be changed in a running
installation (docs/decisions/0008-lock-epochs.md).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from common.clock import SteadyTime


def this_owner() -> str:
    """This process, as a person looks for it; ASCII, since it travels in headers."""
    return f"{socket.gethostname()}:{os.getpid()}".encode("ascii", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Lease:
    """A held lock. `ends_at`: time of the steady clock after which the holder must act as if the lease were lost; None if it
    cannot run out."""

    name: str
    owner: str
    epoch: int
    ends_at: SteadyTime | None = None


class Locks(Protocol):
    """Thread-safe. Raises TransientError when the lock service cannot be asked, PermanentError when it refuses."""

    @property
    def renew_seconds(self) -> float | None:
        """How often leases are to be renewed; None: never, they do not run out."""
        ...

    def ensure(self) -> None:
        """See that the locks can be kept: that their service knows us, and has a place for them."""
        ...

    def acquire(self, name: str) -> Lease | None:
        """The lease, or None while another owner holds the lock; never waits, never evicts a live owner."""
        ...

    def renew(self, lease: Lease) -> Lease:
        """The lease with a later `ends_at`. Raises LeaseLost; after a TransientError the lease still holds until its `ends_at`."""
        ...

    def release(self, lease: Lease) -> None:
        """Give the lock back; quiet when it is no longer ours."""
        ...

    def lost(self, lease: Lease) -> None:
        """Tell the service that a newer owner was met, so that it does not hand the lock out again at once."""
        ...

    def held(self, names: Collection[str]) -> frozenset[str]:
        """Those of `names` that somebody, or this process, holds at present. A hint: `acquire` decides."""
        ...

    def close(self) -> None: ...
