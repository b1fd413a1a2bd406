"""What becomes of a table whose changes were lost before they were read: it stops, goes on, or sends an event and a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import structlog

from common.errors import DStreamError
from common.names import TableName
from ingester.driver.dispatch import Dispatcher
from ingester.driver.history.snapshots import Snapshots
from ingester.driver.schedule import TableOutcome
from ingester.driver.tables import Decision, TrackedTable
from ingester.history.snapshot import Reason
from ingester.position import Position
from ingester.slices import Slice
from ingester.source import CaptureInstance, Hints
from ingester.watch.stats import IngesterStats
from ingester.window import gap_error, lost_error

log = structlog.get_logger("ingester")


@dataclass(slots=True)
class Gaps:
    """`skips`: whether a table goes on behind a gap without an event. `stop`: stops a table. `put`: looks at it again
    later. `slice`: a slice of a table at its offset."""

    skips: Callable[[TableName], bool]
    snapshots: Snapshots
    dispatcher: Dispatcher
    stats: IngesterStats
    hints: Hints
    stop: Callable[[TrackedTable, DStreamError], None]
    put: Callable[[TableName, TableOutcome], None]
    slice: Callable[[TrackedTable, CaptureInstance], Slice]
    _sent_off: set[TableName] = field(default_factory=set)

    def goes_on(self, table: TrackedTable, decision: Decision) -> bool:
        """Whether the stream goes on at `decision.start` now. If not, `table` has stopped, or is out. Raises ConnectionLost."""
        assert decision.found is not None
        if self._announces(table):
            self._announce(table, decision.window.instance, decision.start)
            return False
        return self._skips(table, gap_error(decision.window.instance, decision.found))

    def goes_over(self, table: TrackedTable) -> bool:
        """Whether `table` may go over to the table that has its name now, while the changes of the former one were dropped with it. If not,
        it has stopped, or is out, or waits. Raises ConnectionLost."""
        to = table.successor
        assert to is not None
        if not self._announces(table):
            return self._skips(table, lost_error(table.name, table.offset, table.source, self.hints))
        if table.offset is None or table.offset >= to.start:  # the event was sent
            return True
        self._announce(table, replace(to.instances[0], source=table.source or ""), to.start)
        return False

    def sent_off(self) -> frozenset[TableName]:
        """The tables whose events were handed to workers since the last call."""
        found = frozenset(self._sent_off)
        self._sent_off.clear()
        return found

    def _announces(self, table: TrackedTable) -> bool:
        return self.snapshots.rules.of(table.name).after_gap

    def _skips(self, table: TrackedTable, error: DStreamError) -> bool:
        if not self.skips(table.name):
            self.stop(table, error)
            return False
        self.stats.skipped(table.name)
        log.warning("skipping lost changes", table=table.name.key, what=error.message)
        return True

    def _announce(self, table: TrackedTable, instance: CaptureInstance, to: Position) -> None:
        """The snapshot is stored first: when the offset has moved past the gap, nothing else would ask for it."""
        if not self.snapshots.add(table, Reason.GAP):
            self.put(table.name, TableOutcome.FAILED)
            return
        self.stats.skipped(table.name)
        log.warning(
            "changes were lost, a gap event and a snapshot follow",
            table=table.name.key,
            offset=str(table.offset),
            goes_on_at=str(to),
        )
        self.dispatcher.add(replace(self.slice(table, instance), upto=to, gap=True), backlog=False)
        self._sent_off.add(table.name)
