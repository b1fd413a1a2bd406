"""Port: snapshots as a person asks for them, sees them and stops them, from the database alone: no ingester has to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from common.names import TableName
from ingester.history.snapshot import Snapshot, SnapshotState

OPEN: Final = (SnapshotState.WAITING, SnapshotState.RUNNING, SnapshotState.PAUSED)
"""The states of a snapshot that is not over."""

POSSIBLE: Final[Mapping[SnapshotState, tuple[SnapshotState, ...]]] = {
    SnapshotState.PAUSED: (SnapshotState.WAITING, SnapshotState.RUNNING),
    SnapshotState.WAITING: (SnapshotState.PAUSED, SnapshotState.FAILED),
    SnapshotState.STOPPED: (*OPEN, SnapshotState.FAILED),
}
"""What a person can make of a snapshot, and from which states."""


@dataclass(frozen=True, slots=True)
class SeenSnapshot:
    """`asked_by`: login and machine. Times in UTC. `owner`: which ingester began the last round of one that runs."""

    snapshot: Snapshot
    asked: str
    asked_by: str | None = None
    begun: str | None = None
    updated: str | None = None
    owner: str | None = None
    error: str | None = None


class SnapshotDesk(Protocol):
    """Not thread-safe. Every method raises TransientError or PermanentError."""

    def start(self, table: TableName, *, where: str | None, topic: str | None) -> str:
        """Ask for a snapshot. Returns its id."""
        ...

    def snapshots(self, tables: Sequence[TableName] | None, most: int) -> Sequence[SeenSnapshot]:
        """Those that are not over first, then the newest. `tables` None: of all that were ever asked for."""
        ...

    def find(self, snapshot: str) -> SeenSnapshot | None:
        """The one of this id."""
        ...

    def change(self, snapshot: str, state: SnapshotState) -> SeenSnapshot | None:
        """Make it PAUSED, WAITING or STOPPED, if that is POSSIBLE. Returns it as it is then; None if there
        is none of this id."""
        ...

    def sizes(self, tables: Sequence[TableName]) -> Mapping[TableName, int]:
        """About how many rows each has now; without those of which that cannot be seen."""
        ...

    def close(self) -> None: ...
