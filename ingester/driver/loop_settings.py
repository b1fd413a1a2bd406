"""What the loop needs of the configuration, and the slices made from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from common.names import TRANSACTIONS, Ordering, TableName
from ingester.driver.schedule import Rhythm
from ingester.driver.tables import Decision, TrackedTable
from ingester.history.rules import NO_SNAPSHOTS, SnapshotRules
from ingester.locks import Lease
from ingester.position import Position
from ingester.shape.table_shape import TableShape
from ingester.slices import Slice

STOP_SECONDS = 5.0
"""How long a stop waits for slices."""
_FIRST_LOOK_SECONDS = 1.0
"""How long a table may hold a shared slot while no backlog of it is known."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """What the loop needs of the configuration. Times in seconds. `stop_seconds`: how long a stop waits for slices.

    `shapes`: at the start; a reload brings others.
    `ordering`: the queue's, or "table" if every table is read by one task; `most_parts`: the most tasks for one table.
    """

    tables: dict[TableName, Rhythm]
    lock_names: dict[TableName, str]
    page_rows: int
    slice_seconds: float
    coalesce_seconds: float
    skip_gaps: bool
    skips_events: bool = False
    ordering: Ordering = "table"
    most_parts: int | None = None
    stop_seconds: float = STOP_SECONDS
    snapshots: SnapshotRules = NO_SNAPSHOTS
    shapes: Mapping[TableName, TableShape] = field(default_factory=dict)

    def skips(self, table: TableName) -> bool:
        """Whether `table` goes on behind a gap, after a warning."""
        return self.skip_gaps or (self.skips_events and table == TRANSACTIONS)

    def slice(
        self, table: TrackedTable, lease: Lease, decision: Decision, upto: Position, *, announces_gaps: bool
    ) -> Slice:
        """What one task may do with `table`, whose window ends at `upto`. `announces_gaps`: see Slice."""
        return Slice(
            table=table.name,
            instance=decision.window.instance,
            start=decision.start,
            upto=upto,
            epoch=lease.epoch,
            rows=self.page_rows,
            seconds=self.slice_seconds if table.backlog else _FIRST_LOOK_SECONDS,
            skip_gaps=self.skips(table.name),
            announces_gaps=announces_gaps,
            row_bytes=table.row_bytes,
        )
