"""Port: snapshots as a person asks for them, sees them and stops them, from the database alone: no ingester has to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from common.names import TableName
from ingester.history.snapshot import Snapshot, SnapshotState


@dataclass(frozen=True, slots=True)
class SeenSnapshot:
    """`asked_by`: login and machine. Times in UTC. `owner`: which ingester works on it; None if none does or that is not known."""

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
        """Those that are not over first, then the newest."""
        ...

    def change(self, snapshot: str, state: SnapshotState) -> SeenSnapshot | None:
        """Make it PAUSED, WAITING (after a pause) or STOPPED, if that is possible. Returns it as it is then; None if there is none of this id."""
        ...

    def close(self) -> None: ...
