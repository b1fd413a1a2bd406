"""What the configuration says about snapshots. Values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from common.names import TableName


@dataclass(frozen=True, slots=True)
class TableRules:
    """`initial`: a table without an offset gets one. `after_gap`: so does one with a gap, after an event about it. `exact`: see Chunk."""

    initial: bool = False
    after_gap: bool = False
    exact: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotRules:
    """`chunk_rows`: most rows of a chunk. `rate`: most rows of a table's snapshots in a second; None: no limit."""

    tables: Mapping[TableName, TableRules] = field(default_factory=dict)
    chunk_rows: int = 10_000
    rate: int | None = None

    def of(self, table: TableName) -> TableRules:
        return self.tables.get(table, _NONE)

    @property
    def takes_any(self) -> bool:
        """Whether a snapshot may be taken that nobody asked for."""
        return any(rules.initial or rules.after_gap for rules in self.tables.values())


_NONE = TableRules()
NO_SNAPSHOTS = SnapshotRules()
