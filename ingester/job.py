"""The loop of stage 1: which tables are due, which of them hold anything new, and what becomes of the results.

One thread decides everything; rows never pass through here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from common.errors import DStreamError, LeaseLost, PermanentError, TransientError
from common.names import TableName
from ingester.dispatch import Dispatcher
from ingester.drain import Slice, SliceResult, Trouble, gap_error
from ingester.executor import Executor
from ingester.locks import Lease, Locks
from ingester.lsn import Position
from ingester.offsets import Offsets
from ingester.schedule import Outcome, Rhythm, Schedule
from ingester.source import ProbeRequest, Source
from ingester.table_state import Act, Decision, TrackedTable, absence, decide
from ingester.window import choose_instance

log = structlog.get_logger("ingester")

_TICK = 0.2
"""Seconds after which a stop is noticed at the latest."""
_CATALOG_SECONDS = 30.0
"""How old the list of capture instances may be: a new one is filled beside the old for far longer."""
_FIRST_LOOK_SECONDS = 1.0
"""How long a table that is not known to have a backlog may hold a slot that it shares."""
_KILL_SECONDS = 3.0
"""A cancelled Python task runs on for up to 2 seconds (spark.python.task.killTimeout)."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What the loop needs of the configuration. Times in seconds; `stop_seconds`: how long a stop waits for running slices."""

    tables: dict[TableName, Rhythm]
    lock_names: dict[TableName, str]
    page_rows: int
    slice_seconds: float
    coalesce_seconds: float
    skip_gaps: bool
    stop_seconds: float = 15.0


class Job:
    """`source` and `offsets` are the driver's own; `now` is Unix time, `chance` a random number in [0, 1)."""

    def __init__(
        self,
        settings: JobSettings,
        *,
        source: Source,
        offsets: Offsets,
        locks: Locks,
        executor: Executor,
        stop: threading.Event,
        now: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._source = source
        self._offsets = offsets
        self._locks = locks
        self._executor = executor
        self._dispatcher = Dispatcher(executor)
        self._stop = stop
        self._now = now
        self._schedule = Schedule(chance)
        self._tables = {name: TrackedTable(name, rhythm) for name, rhythm in settings.tables.items()}
        self._catalog_at = float("-inf")
        self._disconnected = False
        self.changes = 0

    def run(self) -> int:
        """Until stopped: 0. Until every table has stopped for good: 1. Raises PermanentError when the executor is gone for good."""
        for table in self._tables.values():
            self._schedule.add(table.name, table.rhythm, self._now())
        try:
            while not self._stop.is_set() and self._tables:
                self._turn()
                self._executor.check()
        finally:
            self._finish()
        return 0 if self._tables else 1

    def _turn(self) -> None:
        again = [self._settle(result) for result in self._dispatcher.results(self._wait_seconds())]
        ready = [table for table in again if table is not None]
        due_at = self._schedule.next_due()
        if due_at is not None and due_at + self._settings.coalesce_seconds <= self._now():
            ready += [self._tables[name] for name in self._schedule.take(self._now()) if name in self._tables]
        if ready and not self._stop.is_set():
            self._pass(ready)
        self._dispatcher.start()

    def _wait_seconds(self) -> float:
        due_at = self._schedule.next_due()
        if due_at is None:
            return _TICK
        return min(_TICK, max(0.0, due_at + self._settings.coalesce_seconds - self._now()))

    # a pass: catalog, locks, one probe for all

    def _pass(self, tables: list[TrackedTable]) -> None:
        waiting = {table.name for table in tables}
        try:
            for table, decision in self._probe(self._readable(tables)):
                self._act(table, decision)
                waiting.discard(table.name)
            if self._disconnected:
                self._disconnected = False
                log.info("reconnected to SQL Server")
            outcome = Outcome.IDLE
        except TransientError as error:
            self._connection_lost(error)
            outcome = Outcome.FAILED
        for name in waiting & self._tables.keys():
            self._schedule.put(name, outcome, self._now())

    def _readable(self, tables: list[TrackedTable]) -> list[TrackedTable]:
        """Those of `tables` that exist, are under CDC and locked by us."""
        if self._now() - self._catalog_at >= _CATALOG_SECONDS or not all(table.instances for table in tables):
            self._load_catalog()
        return [table for table in tables if table.instances and self._take_lock(table)]

    def _load_catalog(self) -> None:
        states = self._source.states(list(self._tables))
        for table in self._tables.values():
            table.instances = states[table.name].instances
            reason = absence(table.name, states[table.name])
            if reason != table.absence:
                if reason:
                    log.warning(reason)
                else:
                    log.info("table found", table=table.name.key)
            table.absence = reason
        self._catalog_at = self._now()

    def _take_lock(self, table: TrackedTable) -> bool:
        if table.lease is not None:
            return True
        lease = self._locks.acquire(self._settings.lock_names[table.name])
        if lease is None:
            return False
        try:
            table.offset = self._offsets.claim(table.name, lease.epoch)
        except LeaseLost as error:
            self._lease_lost(table, lease, error.message)
            return False
        except PermanentError as error:
            self._locks.release(lease)
            self._stop_table(table, error)
            return False
        except DStreamError:
            self._locks.release(lease)
            raise
        table.lease = lease
        log.info("lock taken", table=table.name.key, epoch=lease.epoch)
        return True

    def _probe(self, tables: list[TrackedTable]) -> list[tuple[TrackedTable, Decision]]:
        """A decision for each of `tables`; one whose probe fails for good is stopped, the others are asked one by one."""
        requests = [ProbeRequest(choose_instance(t.instances, t.offset)[0], t.offset) for t in tables]
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
        return [
            (table, decide(table, probe.answers[request.instance.name], probe.max_lsn, self._now()))
            for table, request in zip(tables, requests, strict=True)
        ]

    def _act(self, table: TrackedTable, decision: Decision) -> None:
        lease = table.lease
        assert lease is not None
        if decision.act is Act.GAP and decision.found is not None:
            error = gap_error(decision.window.instance, decision.found.offset, decision.found.low_watermark.hex)
            if not self._settings.skip_gaps:
                self._stop_table(table, error)
                return
            log.warning("skipping lost changes", table=table.name.key, what=error.message)
            self._move(table, lease, decision.start, Outcome.MORE)
        elif decision.act is Act.ADVANCE and decision.upto is not None:
            self._move(table, lease, decision.upto, Outcome.MORE if decision.window.hands_over else Outcome.IDLE)
        elif decision.act is Act.READ and decision.upto is not None:
            self._dispatcher.add(self._slice(table, lease, decision, decision.upto), backlog=table.backlog)
        else:
            self._schedule.put(table.name, Outcome.IDLE, self._now())

    def _slice(self, table: TrackedTable, lease: Lease, decision: Decision, upto: Position) -> Slice:
        return Slice(
            table=table.name,
            instance=decision.window.instance,
            start=decision.start,
            upto=upto,
            epoch=lease.epoch,
            rows=self._settings.page_rows,
            seconds=self._settings.slice_seconds if table.backlog else _FIRST_LOOK_SECONDS,
            not_after=lease.not_after,
            skip_gaps=self._settings.skip_gaps,
        )

    def _move(self, table: TrackedTable, lease: Lease, position: Position, outcome: Outcome) -> None:
        """Move the offset of a table that has nothing to read before `position`."""
        try:
            self._offsets.commit(table.name, lease.epoch, seen=table.offset, position=position)
        except LeaseLost as error:
            self._lease_lost(table, lease, error.message)
        except PermanentError as error:
            self._stop_table(table, error)
            return
        else:
            table.offset, table.stored_at = position, self._now()
        self._schedule.put(table.name, outcome, self._now())

    # results

    def _settle(self, result: SliceResult) -> TrackedTable | None:
        """Take in what a slice came to; the table, if it is to be looked at again at once."""
        table = self._tables.get(result.table)
        if table is None:
            return None
        self.changes += result.changes
        if result.position is not None:
            table.offset, table.stored_at = result.position, self._now()
        if result.trouble is not None:
            self._in_trouble(table, result)
            return None
        if table.failing:
            table.failing = False
            log.info("recovered", table=table.name.key)
        table.backlog = result.more
        if result.more:
            return table
        self._schedule.put(table.name, Outcome.CHANGED, self._now())
        return None

    def _in_trouble(self, table: TrackedTable, result: SliceResult) -> None:
        if result.trouble is Trouble.PERMANENT:
            self._stop_table(table, PermanentError(result.message, hint=result.hint))
            return
        if result.trouble is Trouble.LEASE_LOST and table.lease is not None:
            self._lease_lost(table, table.lease, result.message)
        elif not table.failing:
            table.failing = True
            log.warning("will try again", table=table.name.key, error=result.message, hint=result.hint)
        self._schedule.put(table.name, Outcome.FAILED, self._now())

    def _lease_lost(self, table: TrackedTable, lease: Lease, why: str) -> None:
        self._locks.lost(lease)
        table.lease = None
        log.warning("lock lost", table=table.name.key, why=why)

    def _stop_table(self, table: TrackedTable, error: DStreamError) -> None:
        del self._tables[table.name]
        if table.lease is not None:
            self._locks.release(table.lease)
        log.error("table stopped; restart the ingester once it is mended", table=table.name.key, error=str(error))

    def _connection_lost(self, error: TransientError) -> None:
        if not self._disconnected:
            self._disconnected = True
            log.warning("connection lost, will try again", error=error.message, hint=error.hint)

    # the end

    def _finish(self) -> None:
        deadline = self._now() + self._settings.stop_seconds
        while self._dispatcher.running and self._now() < deadline:
            for result in self._dispatcher.results(_TICK):
                self._settle(result)
        if self._dispatcher.running:
            self._executor.cancel()
            threading.Event().wait(_KILL_SECONDS)
        self._dispatcher.close()
        for table in self._tables.values():
            if table.lease is not None:
                self._locks.release(table.lease)
