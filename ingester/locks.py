"""Port: one lock a table, whose holder alone reads the table. The epoch fences: every acquisition, anywhere, raises it.

Epochs of all kinds of locks have one scale, milliseconds since 1970 or more, so that a running installation can change
its kind of lock (docs/decisions/0008-lock-epochs.md).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from common.clock import SteadyTime


def this_owner() -> str:
    """This process, under the name that a person looks for; ASCII, because it travels in headers."""
    return f"{socket.gethostname()}:{os.getpid()}".encode("ascii", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Lease:
    """A held lock.

    `ends_at`: when the holder must act as if the lease were lost (steady clock); None if the lease cannot run out.
    """

    name: str
    owner: str
    epoch: int
    ends_at: SteadyTime | None = None


class Locks(Protocol):
    """Thread-safe. Raises TransientError when the lock service is unavailable, PermanentError when it refuses."""

    @property
    def renew_seconds(self) -> float | None:
        """How often to renew leases; None: never, because they do not run out."""
        ...

    def ensure(self) -> None:
        """Make sure that locks can be kept: their service accepts this process and has a place for them."""
        ...

    def acquire(self, name: str) -> Lease | None:
        """The lease, or None while another owner holds the lock. Never waits, never evicts a live owner."""
        ...

    def renew(self, lease: Lease) -> Lease:
        """The lease with a later `ends_at`. Raises LeaseLost. After a TransientError `lease` holds until it ends."""
        ...

    def release(self, lease: Lease) -> None:
        """Give the lock back. Does nothing if it is no longer ours."""
        ...

    def lost(self, lease: Lease) -> None:
        """Report that a newer owner was found, so that this process does not take the lock again at once."""
        ...

    def held(self, names: Collection[str]) -> frozenset[str]:
        """Those of `names` that any process, this one included, holds now. A hint only: `acquire` decides."""
        ...

    def close(self) -> None: ...
