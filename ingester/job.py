"""The loop of stage 1: which tables are due, which of them hold anything new, and what becomes of the results.

One thread decides everything; rows never pass through here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import SimpleQueue

import structlog

from common.errors import DStreamError, LeaseLost, PermanentError, TransientError
from common.names import Ordering, TableName
from common.throttling import Spell
from ingester.dispatch import Dispatcher
from ingester.executor import Executor
from ingester.executor_clocks import ExecutorClocks
from ingester.lease_keeper import LeaseKeeper
from ingester.locks import Clock, Lease
from ingester.lsn import Position
from ingester.offsets import Offsets
from ingester.ownership import Ownership
from ingester.progress import Progress, Standing
from ingester.reload import TableChanges
from ingester.schedule import Outcome, Rhythm, Schedule
from ingester.slices import Slice, SliceResult, Trouble
from ingester.source import Source
from ingester.strides import Strides
from ingester.table_state import Act, Decision, TrackedTable, absence, decide, lost_error, superseded_notes
from ingester.window import gap_error, probe_request

log = structlog.get_logger("ingester")

_TICK = 0.2
"""Seconds after which a stop is noticed at the latest."""
_CATALOG_SECONDS = 30.0
"""How old the list of capture instances may be: a new one is filled beside the old for far longer."""
_PATIENCE_SECONDS = 60.0
"""After so long without the database tables are left to ingesters that may reach it."""
_FIRST_LOOK_SECONDS = 1.0
"""How long a table that is not known to have a backlog may hold a slot that it shares."""
_KILL_SECONDS = 3.0
"""A cancelled Python task runs on for up to 2 seconds (spark.python.task.killTimeout)."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What the loop needs of the configuration. Times in seconds; `stop_seconds`: how long a stop waits for running slices.

    `ordering`: the queue's, or "table" where no table is to be spread over several tasks; `most_shares`: over how many at most.
    """

    tables: dict[TableName, Rhythm]
    lock_names: dict[TableName, str]
    page_rows: int
    slice_seconds: float
    coalesce_seconds: float
    skip_gaps: bool
    ordering: Ordering = "table"
    most_shares: int | None = None
    stop_seconds: float = 10.0


class Job:
    """`source` and `offsets` are the driver's own; `leases` is closed with the job; `chance` is a random number in [0, 1).

    `clock` is the steady clock, which everything here is timed by; `now` is Unix time, for what is said to other machines.
    """

    def __init__(
        self,
        settings: JobSettings,
        *,
        source: Source,
        offsets: Offsets,
        leases: LeaseKeeper,
        executor: Executor,
        progress: Progress,
        stop: threading.Event,
        clock: Clock,
        now: Clock,
        chance: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._source = source
        self._offsets = offsets
        self._ownership = Ownership(leases, offsets, settings.lock_names)
        self._executor = executor
        self._dispatcher = Dispatcher(executor, self._stamped)
        self._strides = Strides(source, offsets, settings.ordering, most=settings.most_shares)
        self._progress = progress
        self._stop = stop
        self._clock, self._now = clock, now
        self._schedule = Schedule(chance)
        self._tables = {name: TrackedTable(name, rhythm) for name, rhythm in settings.tables.items()}
        self._leaving: dict[TableName, TrackedTable] = {}
        """Removed, with a slice still under way."""
        self._throttling = Spell(clock)
        self._clocks = ExecutorClocks(now)
        self._asked: SimpleQueue[tuple[TableChanges, Mapping[TableName, str]]] = SimpleQueue()
        self._catalog_at = float("-inf")
        self._disconnected_at: float | None = None
        self.changes = 0

    def run(self) -> int:
        """Until stopped: 0. Until every table has stopped for good: 1. Raises PermanentError when the executor is gone for good."""
        for table in self._tables.values():
            self._schedule.add(table.name, table.rhythm, self._clock())
        try:
            while not self._stop.is_set() and self._tables:
                self._turn()
                self._progress.executor(self._executor.check())
        finally:
            self._finish()
        return 0 if self._tables else 1

    def reconfigure(self, changes: TableChanges, lock_names: Mapping[TableName, str]) -> None:
        """Take other tables from the loop's next turn on; `lock_names` has those of the added ones. From any thread."""
        self._asked.put((changes, lock_names))

    def _turn(self) -> None:
        self._progress.turned()
        while not self._asked.empty():
            self._reconfigure(*self._asked.get())
        again = [self._settle(result) for result in self._dispatcher.results(self._wait_seconds())]
        ready = [table for table in again if table is not None]
        for name in self._ownership.news():
            self._schedule.hurry(name, self._clock())
        due_at = self._schedule.next_due()
        if due_at is not None and due_at + self._settings.coalesce_seconds <= self._clock():
            ready += [self._tables[name] for name in self._schedule.take(self._clock()) if name in self._tables]
        if ready and not self._stop.is_set():
            with self._progress.passing():
                self._pass(ready)
        self._dispatcher.start()

    def _reconfigure(self, changes: TableChanges, lock_names: Mapping[TableName, str]) -> None:
        """Between two turns: a table is either in the schedule or has a slice under way."""
        removed = [table for name in sorted(changes.removed) if (table := self._tables.pop(name, None)) is not None]
        if self._disconnected_at is None:
            self._want()
        for table in removed:
            if self._schedule.remove(table.name):
                self._remove(table)
            else:
                self._leaving[table.name] = table
        for name, rhythm in changes.added.items():
            self._ownership.add(name, lock_names[name])
            if name in self._leaving:  # its slice, once back, puts it into the schedule
                self._tables[name] = self._leaving.pop(name)
                self._schedule.pace(name, rhythm, self._clock())
            else:
                self._tables[name] = TrackedTable(name, rhythm)
                self._schedule.add(name, rhythm, self._clock())
            self._progress.stands(name, Standing.ELSEWHERE)
            log.info("table added", table=name.key)
        for name in changes.paced.keys() & self._tables.keys():
            self._schedule.pace(name, changes.paced[name], self._clock())

    def _remove(self, table: TrackedTable) -> None:
        self._ownership.remove(table)
        self._progress.removed(table.name)
        log.info("table removed", table=table.name.key)

    def _wait_seconds(self) -> float:
        due_at = self._schedule.next_due()
        if due_at is None:
            return _TICK
        return min(_TICK, max(0.0, due_at + self._settings.coalesce_seconds - self._clock()))

    # a pass: catalog, locks, one probe for all

    def _pass(self, tables: list[TrackedTable]) -> None:
        waiting = {table.name for table in tables}
        try:
            for table, decision in self._probe(self._readable(tables)):
                self._act(table, decision)
                waiting.discard(table.name)
            self._connection_works()
        except TransientError as error:
            self._connection_lost(error, waiting)
        for name in waiting & self._tables.keys():
            self._progress.stands(name, _standing(self._tables[name]))
            self._schedule.put(name, self._waiting_for(self._tables[name]), self._clock())

    def _waiting_for(self, table: TrackedTable) -> Outcome:
        """Why `table` was not read."""
        if self._disconnected_at is not None:
            return Outcome.FAILED
        return Outcome.LOCKED if table.instances and table.lease is None else Outcome.IDLE

    def _readable(self, tables: list[TrackedTable]) -> list[TrackedTable]:
        """Those of `tables` that exist, are under CDC and locked by us."""
        if self._clock() - self._catalog_at >= _CATALOG_SECONDS or not all(table.instances for table in tables):
            self._load_catalog()
        ours = [table for table in tables if table.instances and self._ours(table)]
        if any(table.misread and table.successor is None for table in ours):
            self._load_catalog()
        return [table for table in ours if table.instances and not self._lost(table)]

    def _lost(self, table: TrackedTable) -> bool:
        """Whether `table` is not read now because the one that had its name is gone, unread changes and all."""
        if table.successor is None or not table.successor.lost or table.lease is None:
            return False
        error = lost_error(table)
        if not self._settings.skip_gaps:
            self._stop_table(table, error)
            return True
        self._progress.skipped(table.name)
        log.warning("skipping lost changes", table=table.name.key, what=error.message)
        return not self._gone_over(table)

    def _gone_over(self, table: TrackedTable) -> bool:
        try:
            over = self._ownership.gone_over(table)
        except PermanentError as error:
            self._stop_table(table, error)
            return False
        table.stored_at = self._clock()
        return over

    def _ours(self, table: TrackedTable) -> bool:
        try:
            return self._ownership.ours(table)
        except PermanentError as error:
            self._stop_table(table, error)
            return False

    def _load_catalog(self) -> None:
        sources = {table.name: table.source for table in self._tables.values() if table.source is not None}
        states = self._source.states(list(self._tables), sources)
        for table in self._tables.values():
            if (renamed := table.take_in(states[table.name])) is not None:
                log.warning(renamed)
            reason = absence(table.name, states[table.name])
            if reason != table.absence:
                if reason:
                    log.warning(reason)
                else:
                    log.info("table found", table=table.name.key)
            table.absence = reason
            if table.lease is not None:
                for note in superseded_notes(table):
                    log.info(note)
        self._catalog_at = self._clock()

    def _probe(self, tables: list[TrackedTable], *, fresh: bool = False) -> list[tuple[TrackedTable, Decision]]:
        """A decision for each of `tables`; one whose probe fails for good is stopped, the others are asked one by one.

        `fresh`: the catalog has just been read. What an instance that was dropped in between would have said is asked again later.
        """
        requests = [probe_request(table.instances, table.offset) for table in tables]
        if not tables:
            return []
        try:
            probe = self._source.probe(requests)
        except PermanentError as error:
            self._catalog_at = float("-inf")  # a change table may have been dropped since the catalog was read
            if len(tables) > 1:
                return [found for table in tables for found in self._probe([table])]
            self._stop_table(tables[0], error)
            return []
        if probe.stale and not fresh:
            self._load_catalog()
            return self._probe([table for table in tables if table.instances and not self._lost(table)], fresh=True)
        return [
            (table, decide(table, answer, probe.max_lsn, self._clock()))
            for table, request in zip(tables, requests, strict=True)
            if (answer := probe.answers.get(request.instance.name)) is not None
        ]

    def _act(self, table: TrackedTable, decision: Decision) -> None:
        lease = table.lease
        assert lease is not None
        self._progress.stands(table.name, Standing.READ, behind=decision.act in (Act.READ, Act.GAP))
        if decision.act is Act.GAP and decision.found is not None:
            error = gap_error(decision.window.instance, decision.found.offset, decision.found.low_watermark.hex)
            if not self._settings.skip_gaps:
                self._stop_table(table, error)
                return
            self._progress.skipped(table.name)
            log.warning("skipping lost changes", table=table.name.key, what=error.message)
            self._move(table, lease, decision.start, Outcome.MORE)
        elif decision.act is Act.ADVANCE and decision.upto is not None:
            self._move(table, lease, decision.upto, Outcome.MORE if decision.window.hands_over else Outcome.IDLE)
        elif decision.act is Act.READ and decision.upto is not None:
            todo = self._slice(table, lease, decision, decision.upto)
            for part in self._strides.slices(todo, table, room=self._dispatcher.room):
                self._dispatcher.add(part, backlog=table.backlog)
        elif decision.act is Act.GO_OVER and decision.upto is not None:
            self._go_over(table, decision.upto)
        else:
            self._schedule.put(table.name, Outcome.IDLE, self._clock())

    def _go_over(self, table: TrackedTable, upto: Position) -> None:
        """Nothing is left of the former table up to `upto`: that is its end if capture has come past the moment when it lost the name."""
        assert table.successor is not None
        over = self._source.passed(upto.lsn, table.successor.moment) and self._gone_over(table)
        if table.name in self._tables:
            self._schedule.put(table.name, Outcome.MORE if over else Outcome.CHANGED, self._clock())

    def _slice(self, table: TrackedTable, lease: Lease, decision: Decision, upto: Position) -> Slice:
        return Slice(
            table=table.name,
            instance=decision.window.instance,
            start=decision.start,
            upto=upto,
            epoch=lease.epoch,
            rows=self._settings.page_rows,
            seconds=self._settings.slice_seconds if table.backlog else _FIRST_LOOK_SECONDS,
            skip_gaps=self._settings.skip_gaps,
            row_bytes=table.row_bytes,
        )

    def _stamped(self, todo: Slice) -> Slice:
        self._progress.started(todo.table)
        return self._ownership.stamped(todo, self._tables.get(todo.table), self._now())

    def _move(self, table: TrackedTable, lease: Lease, position: Position, outcome: Outcome) -> None:
        """Move the offset of a table that has nothing to read before `position`."""
        try:
            self._offsets.commit(table.name, lease.epoch, seen=table.offset, position=position)
        except LeaseLost as error:
            self._ownership.superseded(table, error.message)
        except PermanentError as error:
            self._stop_table(table, error)
            return
        else:
            table.offset, table.stored_at = position, self._clock()
        self._schedule.put(table.name, outcome, self._clock())

    # results

    def _settle(self, ended: SliceResult) -> TrackedTable | None:
        """Take in what a slice came to; the table, if it is to be looked at again at once."""
        ended = self._clocks.looked(ended)
        if ended.refusals:
            self._throttling.refused(ended.throttled, times=ended.refusals)
        else:
            self._throttling.look()
        result = self._strides.settled(ended)
        if result is None:
            return None
        table = self._tables.get(result.table) or self._leaving.get(result.table)
        if table is None:
            return None
        self.changes += result.changes
        self._progress.settled(result)
        table.row_bytes = result.row_bytes or table.row_bytes
        table.page_rows = result.page_rows or table.page_rows
        for found in result.set_aside:
            log.warning(
                "change fits no message, sent to be dead-lettered",
                table=table.name.key,
                key=found.key_text,
                lsn=found.position.lsn.hex,
                seqval=found.position.seqval.hex(),
                bytes=found.size,
                limit=found.limit,
            )
        if result.position is not None:
            table.offset, table.stored_at = result.position, self._clock()
        if self._leaving.pop(table.name, None) is not None:
            self._remove(table)
            return None
        if result.trouble is not None:
            self._in_trouble(table, result)
            return None
        if table.failing:
            table.failing = False
            log.info("recovered", table=table.name.key)
        table.backlog = result.more
        if result.more:
            return table
        self._schedule.put(table.name, Outcome.CHANGED, self._clock())
        return None

    def _in_trouble(self, table: TrackedTable, result: SliceResult) -> None:
        if result.trouble is Trouble.PERMANENT:
            self._stop_table(table, PermanentError(result.message, hint=result.hint))
            return
        if result.trouble is Trouble.LEASE_LOST:
            self._ownership.superseded(table, result.message)
        elif result.trouble is Trouble.EXPIRED and not self._ours(table):
            if table.name in self._tables:
                self._schedule.put(table.name, Outcome.LOCKED, self._clock())
            return
        elif not table.failing:
            table.failing = True
            log.warning("will try again", table=table.name.key, error=result.message, hint=result.hint)
        self._schedule.put(table.name, Outcome.FAILED, self._clock())

    def _stop_table(self, table: TrackedTable, error: DStreamError) -> None:
        del self._tables[table.name]
        self._schedule.remove(table.name)
        self._ownership.leave(table)
        self._progress.stands(table.name, Standing.STOPPED)
        log.error("table stopped; restart the ingester once it is mended", table=table.name.key, error=str(error))

    def _want(self) -> None:
        self._ownership.want(table for table in self._tables.values() if table.instances)

    def _connection_works(self) -> None:
        self._want()
        self._progress.connected(True)
        if self._disconnected_at is not None:
            self._disconnected_at = None
            log.info("reconnected to SQL Server")
            for name in self._tables:  # nobody waits for an interval that grew during the outage
                self._schedule.hurry(name, self._clock())

    def _connection_lost(self, error: TransientError, waiting: set[TableName]) -> None:
        """Another ingester may still reach the server: it is to have every table if this lasts, but for those with a slice under way.

        `waiting`: tables that were taken out of the schedule and are not read.
        """
        self._ownership.want(())
        self._progress.connected(False)
        self._catalog_at = float("-inf")
        if self._disconnected_at is None:
            self._disconnected_at = self._clock()
            log.warning("connection lost, will try again", error=error.message, hint=error.hint)
        if self._clock() - self._disconnected_at >= _PATIENCE_SECONDS:
            self._ownership.give_back_all(
                self._tables.values(), besides=self._leaving.keys() | self._schedule.out() - waiting
            )

    # the end

    def _finish(self) -> None:
        deadline = self._clock() + self._settings.stop_seconds
        self._executor.finish()
        while self._dispatcher.running and self._clock() < deadline:
            for result in self._dispatcher.results(_TICK):
                self._settle(result)
        if self._dispatcher.running:
            self._executor.cancel()
            threading.Event().wait(_KILL_SECONDS)
        self._dispatcher.close()
        self._ownership.close()


def _standing(table: TrackedTable) -> Standing:
    """Of one that is not stopped."""
    if table.absence is not None:
        return Standing.ABSENT
    return Standing.ELSEWHERE if table.lease is None else Standing.READ
