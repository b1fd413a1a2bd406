"""The loop of stage 1: find the tables that are due, probe them for changes, send out slices, take in the results.

One thread decides everything. Rows never pass through it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from types import MappingProxyType

import structlog

from common.clock import SteadyClock, UnixClock
from common.errors import ConnectionLost, DStreamError, PermanentError, TransientError
from common.names import TableName
from ingester.driver.catalog_news import CaptureHold, CatalogAge, note_held, note_shape, note_slips, take_in
from ingester.driver.dispatch import Dispatcher
from ingester.driver.executor_clocks import ExecutorClocks
from ingester.driver.history.parts import Stored, history
from ingester.driver.history.succession import Succession
from ingester.driver.lease_keeper import LeaseKeeper
from ingester.driver.loop_settings import LoopSettings
from ingester.driver.moves import Moves, Moving
from ingester.driver.outage import Outage
from ingester.driver.ownership import Ownership
from ingester.driver.pausing.look import Heard
from ingester.driver.pausing.pausing import Pausing
from ingester.driver.queue_gate import QueueGate
from ingester.driver.reload import Shapes, TableChanges
from ingester.driver.returns import Returns
from ingester.driver.roster import Roster
from ingester.driver.schedule import Schedule, TableOutcome
from ingester.driver.strides import Strides
from ingester.driver.tables import Act, Decision, TrackedTable, looked_at
from ingester.executor import Executor
from ingester.history.rules import SnapshotRules
from ingester.offsets import Offsets
from ingester.position import Position
from ingester.shape.in_force import ShapesInForce
from ingester.slices import Slice
from ingester.source import Source
from ingester.watch.figures import Standing
from ingester.watch.stats import IngesterStats

log = structlog.get_logger("ingester")

_TICK = 0.2
"""Seconds within which the loop notices a stop."""
_AS_THEY_ARE: Shapes = MappingProxyType({})
_KILL_SECONDS = 3.0
"""A cancelled Python task runs on for up to 2.5 s: Spark looks every 2 s, and waits spark.python.task.killTimeout."""


class Loop:
    """`source`, `offsets` and `stored` belong to the driver. The loop closes `leases`. `chance`: a random number in [0, 1).

    `clock`: the steady clock, which times everything here. `now`: Unix time, for what other machines read.
    """

    def __init__(
        self,
        settings: LoopSettings,
        *,
        source: Source,
        offsets: Offsets,
        stored: Stored,
        leases: LeaseKeeper,
        executor: Executor,
        stats: IngesterStats,
        stop: threading.Event,
        clock: SteadyClock,
        now: UnixClock,
        chance: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._source = source
        self._ownership = Ownership(leases, offsets, settings.lock_names)
        self._executor = executor
        self._dispatcher = Dispatcher(executor, self._stamped)
        self._strides = Strides(source, offsets, settings.ordering, most=settings.most_parts)
        self._stats = stats
        self._stop = stop
        self._clock, self._now = clock, now
        self._schedule = Schedule(chance)
        self._roster = Roster(schedule=self._schedule, ownership=self._ownership, stats=stats, clock=clock)
        self._gate = QueueGate(stats, clock, chance)
        self._asked: SimpleQueue[tuple[TableChanges, Mapping[TableName, str], SnapshotRules, Shapes]] = SimpleQueue()
        self._shapes = ShapesInForce(settings.shapes)
        self._catalog = CatalogAge(clock)
        self._capture = CaptureHold()
        self._outage = Outage(stats, clock)
        self._moves = Moves(offsets, self._ownership, self._roster, clock, chance)
        parts = self._dispatcher, self._ownership, self._roster
        self._history = history(stored, settings, *parts, stats, source.hints, clock, chance)
        self._succession = Succession(self._history.gaps, self._ownership, self._roster, clock)
        self._pausing = Pausing(self._roster)
        self._returns = Returns(
            self._roster,
            self._strides,
            self._history.snapshots,
            self._ownership,
            self._gate,
            self._outage,
            stats,
            ExecutorClocks(now, differs=stats.clock_differs),
            clock,
            self._pausing.holds,
        )
        self._wanted = False  # whether the lease keeper knows the tables of the present catalog

    @property
    def changes(self) -> int:
        """How many changes were sent."""
        return self._returns.changes

    @property
    def left_out(self) -> int:
        """How many changes, and rows of snapshots, were left out by shapes."""
        return self._returns.left_out

    def run(self) -> int:
        """Run until a stop (0) or until every table has stopped (1). Raises PermanentError if the executor is gone."""
        self._roster.begin(self._settings.tables)
        try:
            while not self._stop.is_set() and not self._roster.over:
                self._turn()
                self._stats.executor(self._executor.check() or self._dispatcher.late())
        finally:
            self._finish()
        return self._roster.status()

    def reconfigure(
        self,
        changes: TableChanges,
        lock_names: Mapping[TableName, str],
        snapshots: SnapshotRules,
        shapes: Shapes = _AS_THEY_ARE,
    ) -> None:
        """Take over other tables at the next turn. `lock_names`: of the added ones. From any thread."""
        self._asked.put((changes, lock_names, snapshots, shapes))

    def pauses(self, heard: Heard) -> None:
        """Take over which tables are paused at the next turn. From any thread."""
        self._pausing.heard(heard)

    def look(self) -> None:
        """Look at all tables now: the source has just captured changes, or may be away. From any thread."""
        self._roster.look_at_all()
        self._dispatcher.wake()

    def _turn(self) -> None:
        self._stats.turned()
        while not self._asked.empty():
            self._reconfigure(*self._asked.get())
        self._pausing.look()
        ready: list[TrackedTable] = []
        for result in self._dispatcher.results(self._wait_seconds()):
            if (table := self._returns.settle(result)) is not None:
                ready.append(table)
            self._stats.turned()  # settling the end of a stride commits, which may wait for the server
        self._roster.hurry([*self._ownership.news(), *self._gate.chosen(away=bool(self._outage))])
        if not self._outage:
            self._roster.hurry(self._pausing.due(self._history.snapshots.look(self._roster.tables)))
        ready += self._roster.take(ahead=self._settings.coalesce_seconds)
        if ready and not self._stop.is_set():
            with self._stats.passing(), self._roster.portion.of(len(ready)):
                self._pass(ready)
        self._dispatcher.start()
        self._stats.occupied(self._dispatcher.occupied, self._executor.slots)

    def _reconfigure(
        self, changes: TableChanges, locks: Mapping[TableName, str], snapshots: SnapshotRules, shapes: Shapes
    ) -> None:
        self._history.snapshots.rules = snapshots
        others = self._shapes.take(shapes)  # first, so that no slice of an added table begins without its masks
        self._roster.change(changes, locks)
        self._roster.reshaped(others)
        self._history.snapshots.reshaping.reshaped(others)
        if others:  # a shape may name a column that was added a moment ago
            self._catalog.outdated()
        if not self._roster.tables:  # no pass would notice the end of an outage
            self._outage.over()
        self._wanted = False
        if not self._outage.disconnected:
            self._want()

    def _wait_seconds(self) -> float:
        return self._schedule.wait(self._clock(), most=_TICK)

    def _pass(self, tables: list[TrackedTable]) -> None:
        waiting = {table.name for table in tables}
        moving: list[Moving] = []
        try:
            readable = self._readable(tables)
            self._stats.turned()
            for table, decision in self._probe(readable):
                self._stats.turned()
                move = self._act(table, decision)
                if move is None:
                    waiting.discard(table.name)
                else:
                    moving.append(move)
            self._moves.make(moving)
            waiting -= {move.table.name for move in moving}
            self._connection_works()
        except ConnectionLost as error:
            self._connection_lost(error, waiting)
        except (TransientError, PermanentError) as error:
            self._no_answer(error)
        unknown, away = bool(self._outage or self._catalog.refused), bool(self._outage)
        for name in (waiting - self._history.gaps.sent_off()) & self._roster.tables.keys():
            standing = self._pausing.standing(self._roster.tables[name], catalog_known=not unknown)
            self._roster.tables[name].rested = None
            if away or standing is not Standing.READ:
                self._gate.unread(name, away=away)
            self._stats.stands(name, standing)
            self._roster.put(name, self._roster.tables[name].unread(server_away=away))

    def _readable(self, tables: list[TrackedTable]) -> list[TrackedTable]:
        """Those of `tables` that exist, are under CDC, and whose locks this ingester has."""
        quiet = partial(self._schedule.quiet, [table.name for table in tables], self._clock())
        if self._catalog.due(missing=not all(table.instances for table in tables), quiet=quiet):
            self._refresh_catalog()
        refused = self._ownership.claim(table for table in tables if table.instances and table.lease is None)
        for table, error in refused:
            self._roster.failed(table, error)
        ours = [table for table in tables if table.instances and self._roster.ours(table)]
        if self._catalog.may_ask and any(table.unclear for table in ours):
            self._refresh_catalog()
        may = self._pausing.sift(self._history.snapshots.readable([table for table in ours if table.instances]))
        return [table for table in may if not table.unclear and not self._succession.lost(table)]

    def _refresh_catalog(self) -> None:
        """Read the catalog again. If the server refuses, go on with the known capture instances, if there are any."""
        try:
            self._load_catalog()
        except ConnectionLost:
            raise
        except (TransientError, PermanentError) as error:
            if not any(table.instances for table in self._roster.tables.values()):
                raise
            self._catalog.refuse(error)

    def _load_catalog(self) -> None:
        with self._catalog.reading():
            sources = {table.name: table.source for table in self._roster.tables.values() if table.source is not None}
            states = self._source.states(list(self._roster.tables), sources)
            for table in self._roster.tables.values():
                take_in(table, states[table.name], self._source.hints)
            note_slips(self._shapes.slips({table.name: table.instances for table in self._roster.configured}))
        self._wanted = False

    def _probe(self, tables: list[TrackedTable], *, fresh: bool = False) -> list[tuple[TrackedTable, Decision]]:
        """A decision for each of `tables`. If the probe fails for good, ask one by one and stop the table that fails.

        `fresh`: the catalog has just been read. A table whose instance was dropped since then is asked again later.
        """
        if not tables:
            return []
        requests = [table.request for table in tables]
        try:
            probe = self._source.probe(requests)
        except PermanentError as error:
            if not fresh:  # a change table may have been dropped since the catalog was read
                return self._probe_afresh(tables)
            if len(tables) > 1:
                return [found for table in tables for found in self._probe([table], fresh=True)]
            self._roster.stop(tables[0], error)
            return []
        if probe.stale and not fresh:
            return self._probe_afresh(tables)
        self._capture.note(held=probe.capture_holds, hint=self._source.hints.capture_holds)
        for table, request in zip(tables, requests, strict=True):
            note_held(table, probe.locked.get(request.instance.name), self._source.hints.locked)
        now = self._clock()
        return [
            (table, looked_at(table, request, answer, probe.upto, now))
            for table, request in zip(tables, requests, strict=True)
            if (answer := probe.answers.get(request.instance.name)) is not None
        ]

    def _probe_afresh(self, tables: list[TrackedTable]) -> list[tuple[TrackedTable, Decision]]:
        self._load_catalog()
        return self._probe(
            [table for table in tables if table.instances and not self._succession.lost(table)], fresh=True
        )

    def _act(self, table: TrackedTable, decision: Decision) -> Moving | None:
        """Do what was decided. Returns the move of an offset, which is made together with others."""
        if decision is table.rested and self._history.snapshots.rests(table):
            self._roster.put(table.name, TableOutcome.IDLE)
            return None
        lease, table.rested = table.lease, None
        assert lease is not None
        if (refused := self._shapes.refusal(table.name, decision.window.instance, table.instances)) is not None:
            self._roster.stop(table, refused)  # also while it is idle
            return None
        note_shape(table, self._shapes.of(table.name), decision.window.instance, lease.epoch)
        self._stats.stands(table.name, Standing.READ, behind=decision.act in (Act.READ, Act.GAP))
        if decision.act is not Act.READ:
            self._gate.forget(table.name)
        if self._history.turns.takes(table, decision, shut=self._gate.shut):
            return None
        if table.lease is None or not self._history.snapshots.streams(table):  # it has a newer owner, or must stand
            self._roster.put(table.name, TableOutcome.LOCKED)
        elif decision.act is Act.GAP and self._history.gaps.goes_on(table, decision):
            return Moving(table, lease, decision.start, TableOutcome.MORE)
        elif decision.act is Act.ADVANCE and decision.upto is not None:
            return Moving(
                table, lease, decision.upto, TableOutcome.MORE if decision.window.hands_over else TableOutcome.IDLE
            )
        elif decision.act is Act.READ and decision.upto is not None:
            announces = self._history.snapshots.rules.of(table.name).after_gap
            self._read(table, self._settings.slice(table, lease, decision, decision.upto, announces_gaps=announces))
        elif decision.act is Act.GO_OVER and decision.upto is not None:
            self._go_over(table, decision.upto)
        elif decision.act is not Act.GAP:
            self._roster.put(table.name, TableOutcome.IDLE)
            table.rested = decision
        return None

    def _read(self, table: TrackedTable, todo: Slice) -> None:
        if not self._gate.admits(table.name):
            self._roster.put(table.name, TableOutcome.FAILED)
            return
        room = 1 if self._gate.shut else self._dispatcher.room
        try:
            slices = self._strides.slices(todo, table, room=room)
        except ConnectionLost:
            raise
        except TransientError as error:
            self._roster.failed(table, error)
            self._roster.put(table.name, TableOutcome.FAILED)
            return
        for one in slices:
            self._dispatcher.add(one, backlog=table.backlog)

    def _go_over(self, table: TrackedTable, upto: Position) -> None:
        """Nothing of the former table is left up to `upto`: it ends there once capture has passed the change of name."""
        assert table.successor is not None
        over = self._source.passed(upto, table.successor.moment) and self._succession.gone_over(table)
        self._roster.put(table.name, TableOutcome.MORE if over else TableOutcome.CHANGED)

    def _stamped(self, todo: Slice) -> Slice:
        todo = replace(todo, shape=self._shapes.of(todo.table, todo.instance))
        if todo.chunk is not None:  # the fence bounds it, whatever becomes of the lease
            return self._pausing.held_back(replace(todo, sent_at=self._now()))
        self._stats.started(todo.table)
        stamped = self._ownership.stamped(todo, self._roster.tables.get(todo.table), self._now())
        return self._pausing.held_back(stamped)

    def _want(self) -> None:
        self._wanted = True
        self._ownership.want(table for table in self._roster.tables.values() if table.instances)

    def _connection_works(self) -> None:
        if not self._wanted:
            self._want()
        self._catalog.report()
        if self._outage.over():
            self._roster.hurry(self._roster.tables)

    def _no_answer(self, error: DStreamError) -> None:
        """The server can be reached but refused a query about all tables, so all of them wait."""
        self._catalog.outdated()
        if isinstance(error, PermanentError):  # CDC was disabled, for example: what was known is no longer true
            for table in self._roster.tables.values():
                table.instances = ()
        self._outage.refused(error)

    def _connection_lost(self, error: ConnectionLost, waiting: set[TableName]) -> None:
        """Another ingester may still reach the server. If this lasts, leave it every table that has no slice under way.

        `waiting`: tables that this pass took out of the schedule and does not read.
        """
        self._ownership.want(())
        self._catalog.outdated()
        self._wanted = False
        if self._outage.lost(error, stopping=self._stop.is_set()):
            self._ownership.give_back_all(self._roster.tables.values(), besides=self._roster.under_way(waiting))

    def _finish(self) -> None:
        deadline = self._clock() + self._settings.stop_seconds
        self._executor.finish()
        while self._dispatcher.begun and self._clock() < deadline:
            for result in self._dispatcher.results(_TICK):
                self._returns.settle(result)
        astray: frozenset[TableName] = frozenset()
        if self._dispatcher.running:
            reading = self._dispatcher.reading
            if not self._executor.cancel():
                astray = reading
            threading.Event().wait(_KILL_SECONDS)
        self._dispatcher.close()
        self._history.preparing.close()
        self._ownership.close(besides=astray)
