"""Takes in the results of slices: offsets, figures, troubles, and when each table is due again. Reads nothing."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from common.bus.throttling import ThrottleLog
from common.clock import SteadyClock
from common.errors import PermanentError
from common.names import TableName
from ingester.driver.executor_clocks import ExecutorClocks
from ingester.driver.history.snapshots import Snapshots
from ingester.driver.outage import Outage
from ingester.driver.ownership import Ownership
from ingester.driver.queue_gate import QueueGate
from ingester.driver.queue_silence import QueueSilence
from ingester.driver.roster import Roster
from ingester.driver.schedule import TableOutcome
from ingester.driver.strides import Strides
from ingester.driver.tables import TrackedTable
from ingester.shape.columns import ShapeRefused
from ingester.slices import SliceResult, Trouble
from ingester.source import UNREACHABLE
from ingester.watch.stats import IngesterStats

log = structlog.get_logger("ingester")


class Returns:
    """`changes`: how many were sent in all. `paused`: whether a person has paused a table."""

    def __init__(
        self,
        roster: Roster,
        strides: Strides,
        snapshots: Snapshots,
        ownership: Ownership,
        gate: QueueGate,
        outage: Outage,
        stats: IngesterStats,
        clocks: ExecutorClocks,
        clock: SteadyClock,
        paused: Callable[[TableName], bool],
    ) -> None:
        self._roster = roster
        self._strides = strides
        self._snapshots = snapshots
        self._ownership = ownership
        self._gate = gate
        self._outage = outage
        self._stats = stats
        self._clocks = clocks
        self._clock = clock
        self._paused = paused
        self._throttling = ThrottleLog(clock)
        self._silence = QueueSilence(stats, clock)
        self.changes = 0
        self.left_out = 0

    def settle(self, ended: SliceResult) -> TrackedTable | None:
        """Take in a slice's result. Returns its table if that is due again at once."""
        ended = self._clocks.looked(ended)
        self._silence.look(ended)
        if ended.refusals:
            self._throttling.refused(ended.throttled, times=ended.refusals)
            self._stats.refused(ended.refusals)
            self._snapshots.throttled()
        else:
            self._throttling.look()
        if ended.chunk is not None:
            return self._chunk(ended)
        result = self._strides.settled(ended)
        if result is None:
            return None
        if self._gate.settled(result):
            self._roster.hurry(self._roster.tables)
        table = self._roster.returned(result.table)
        if table is None:
            return None
        self.changes += result.changes
        self.left_out += result.dropped
        self._stats.settled(result)
        self._note(table, result)
        return None if self._roster.left(table) else self._goes_on(table, result)

    def _chunk(self, ended: SliceResult) -> TrackedTable | None:
        """Take in the result of a snapshot's chunk. Its failure is none of the table's stream, which goes on when the round is over."""
        if ended.trouble is Trouble.QUEUE:
            self._gate.settled(ended)
        self._set_aside(ended)
        self.left_out += ended.dropped
        self._stats.chunk(ended)
        if not self._snapshots.settled(ended):
            return None
        table = self._roster.returned(ended.table)
        if table is None:
            return None
        self._snapshots.record(table)
        return None if self._roster.left(table) else table

    def _note(self, table: TrackedTable, result: SliceResult) -> None:
        table.row_bytes = result.row_bytes or table.row_bytes
        table.page_rows = result.page_rows or table.page_rows
        self._set_aside(result)
        if result.position is not None:
            table.offset, table.stored_at = result.position, self._clock()

    def _set_aside(self, result: SliceResult) -> None:
        for found in result.set_aside:
            _, lsn, _, seqval = found.position.place()
            log.warning(
                "change fits no message, sent to be dead-lettered",
                table=result.table.key,
                key=found.key_text,
                lsn=lsn,
                seqval=seqval,
                bytes=found.size,
                limit=found.limit,
            )
        if (failed := result.filter_failed) is not None:
            _, lsn, _, seqval = failed.first.place()
            log.warning(
                "filter failed on changes, sent to be dead-lettered",
                table=result.table.key,
                changes=failed.count,
                first_lsn=lsn,
                first_seqval=seqval,
                error=failed.why,
                hint="correct the filter; docs/fail.md says how the dead letters are sent again",
            )

    def _goes_on(self, table: TrackedTable, result: SliceResult) -> TrackedTable | None:
        if result.trouble is not None:
            self._in_trouble(table, result)
            return None
        if table.failing:
            table.failing = table.deadly = False
            log.info("table recovered", table=table.name.key)
        table.backlog = result.more
        if result.more:
            return table
        self._roster.put(table.name, TableOutcome.CHANGED)
        return None

    def _in_trouble(self, table: TrackedTable, result: SliceResult) -> None:
        if result.trouble is Trouble.PERMANENT:
            self._roster.stop(table, PermanentError(result.message, hint=result.hint))
            return
        if result.trouble is Trouble.SHAPE:
            self._roster.stop(table, ShapeRefused(result.message, hint=result.hint or ""))
            return
        if result.trouble is Trouble.LEASE_LOST:
            self._ownership.superseded(table, result.message)
        elif result.trouble is Trouble.EXPIRED and (self._paused(table.name) or not self._roster.ours(table)):
            self._roster.put(table.name, TableOutcome.LOCKED)
            return
        elif result.trouble is Trouble.KILLS_WORKER:
            self._roster.kills(table, result.message)
            self._roster.put(table.name, TableOutcome.DEADLY)
            return
        elif result.trouble is not Trouble.QUEUE:
            hint = result.hint or (UNREACHABLE if result.lost else None)
            self._roster.fails(table, result.message, hint, logged=result.lost and self._outage.lately)
        self._roster.put(table.name, TableOutcome.FAILED)
