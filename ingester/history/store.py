"""Port: the snapshots that were asked for, and how far each has come. Only the owner of the table's lock moves one on.

The fence: while a chunk may still be sent, the table's stream stands. A task raises the fence before it reads, for a number of seconds by
the store's clock, and sends nothing after them. The owner lowers it once all chunks are settled. So after a kill nobody has to know whether a
task still runs somewhere: the next owner waits until the fence has run out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from common.names import TableName
from ingester.history.rows import RowKey
from ingester.history.snapshot import ChunkId, Reason, Snapshot, SnapshotState

FENCE_SECONDS = 25.0
"""For how long a task holds the fence at a time."""


@dataclass(frozen=True, slots=True)
class StoredSnapshots:
    """What the store has for a table. `snapshot`: the one that runs, else the oldest that waits; None: there is none.

    `fence_seconds`: for how long something of any snapshot of the table may still be sent; 0: the stream may go on.
    """

    snapshot: Snapshot | None = None
    fence_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What a round has sent. `done`, `chunks`, `rows`: as in Snapshot, in all. `state`: RUNNING, DONE or FAILED, with `error`.

    `lowers`: everything of the round is settled, so the fence is lowered."""

    done: RowKey | None
    chunks: int
    rows: int
    state: SnapshotState = SnapshotState.RUNNING
    error: str | None = None
    lowers: bool = True


class Fence(Protocol):
    """What a task uses. Not thread-safe. Raises TransientError and PermanentError."""

    def hold(self, chunk: ChunkId, table: TableName, epoch: int, *, round: int, seconds: float) -> None:
        """The stream of the table stands for `seconds` from now on, at least.

        Raises LeaseLost when the snapshot no longer runs, when its `round` is over (the chunk was given up, and must not be sent any more),
        or when a newer owner has claimed the table.
        """
        ...


class SnapshotStore(Fence, Protocol):
    """What the driver uses."""

    def ensure(self) -> None:
        """Create the store if there is none; one that is there stays as it is. Raises PermanentError if this login may not create or use it."""
        ...

    def standings(self, tables: Sequence[TableName]) -> Mapping[TableName, StoredSnapshots]:
        """For each of `tables`, in one round trip. A store that does not exist has nothing, nor has one that this login never could read.

        Asked after a claim, it knows each fence that an older owner has raised: later ones are refused.
        """
        ...

    def add(self, table: TableName, epoch: int, reason: Reason) -> None:
        """A snapshot of the whole table, unless one for this reason waits that was never begun. Rows that an older one has sent keep
        their ids, so duplicate detection may drop them when they are read again. Raises LeaseLost when a newer owner has claimed the table."""
        ...

    def begin(self, snapshot: str, table: TableName, epoch: int) -> Snapshot | None:
        """Begin a round of a snapshot that waits or runs, and make it this owner's. Counts the round, and an attempt if nothing of the snapshot
        is recorded. Returns it as it is now; None if it no longer waits or runs. Raises LeaseLost."""
        ...

    def record(
        self, snapshot: str, table: TableName, epoch: int, seen: RowKey | None, progress: Progress
    ) -> SnapshotState:
        """End the round of a snapshot whose `done` is `seen`: store `progress`, and count the round, so that no chunk of it holds the fence
        again. The state is then what a person has set meanwhile (PAUSED, STOPPED; WAITING after both), unless all rows were sent, else
        `progress.state`. Returns it. Repeated with the same values after a lost answer, it counts once. Raises LeaseLost."""
        ...

    def close(self) -> None: ...
