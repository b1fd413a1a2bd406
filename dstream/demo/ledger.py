"""What the workload committed, in its own words: the truth that the verdict compares with. Knows nothing of CDC or DStream.

The changes of one statement form a group. The groups of a table are in commit order; within a group no order is promised.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from common.names import TableName

INSERT, UPDATE, DELETE = "Insert", "Update", "Delete"


class Anything:
    """Equal to every value except null: for values that the server generates (rowversion)."""

    def __eq__(self, other: object) -> bool:
        return other is not None

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "<anything>"


@dataclass(frozen=True, slots=True)
class Committed:
    """One change of one row: the operation and the row as JSON values (a delete's is the deleted row)."""

    table: TableName
    operation: str
    row: Mapping[str, object]

    @property
    def identity(self) -> tuple[str, object]:
        """Unique among the changes of a table: every insert and update gives the row a new Version, and one delete ends it."""
        return ("Delete" if self.operation == DELETE else "Write"), self.row["Version"]


@dataclass(slots=True)
class _Entry:
    change: Committed
    group: int
    at: float


@dataclass(slots=True)
class Ledger:
    """Thread-safe. `entries` by table, in commit order."""

    _entries: dict[TableName, list[_Entry]] = field(default_factory=dict)
    _groups: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def commit(self, groups: Sequence[Sequence[Committed]], at: float) -> None:
        """Record a transaction of these statements, whose commit the server confirmed at Unix time `at`."""
        with self._lock:
            for group in groups:
                self._groups += 1
                for change in group:
                    self._entries.setdefault(change.table, []).append(_Entry(change, self._groups, at))

    def counts(self) -> dict[TableName, int]:
        """Committed changes so far, by table."""
        with self._lock:
            return {table: len(entries) for table, entries in self._entries.items()}

    def entries(self, table: TableName) -> list[tuple[Committed, int, float]]:
        """(change, group, commit time) in commit order."""
        with self._lock:
            return [(entry.change, entry.group, entry.at) for entry in self._entries.get(table, ())]
