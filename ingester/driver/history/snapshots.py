"""The snapshots of this ingester's tables: begins rounds, takes in their results, and says when a table's stream may go on.

A table's stream and its snapshot take turns: a round begins when the stream has had its turn or has nothing to read, and after a round the
stream comes first. While a chunk may still be sent, however it ended, the stream stands (ingester/history/store.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from common.clock import SteadyClock, SteadyTime
from common.errors import ConnectionLost, DStreamError, LeaseLost, PermanentError
from common.names import TableName
from ingester.driver.history.pace import Pace
from ingester.driver.history.reports import Reports
from ingester.driver.history.rounds import RoundOver, chunk_rows, chunks, ended, over, tasks
from ingester.driver.tables import TrackedTable
from ingester.history.rows import BaseTable, RowKey, Rows, RowsQuery
from ingester.history.rules import SnapshotRules
from ingester.history.snapshot import Chunk, Reason, Snapshot, SnapshotState
from ingester.history.store import FENCE_SECONDS, SnapshotStore
from ingester.history.store import Standing as Stored
from ingester.slices import SliceResult
from ingester.source import CaptureInstance
from ingester.watch.stats import IngesterStats

log = structlog.get_logger("ingester")

LOOK_SECONDS = 10.0
"""How often the store is asked for snapshots that somebody has asked for: a small query for all tables."""
_NEVER = SteadyTime(float("-inf"))


@dataclass(slots=True)
class _Round:
    """A round whose chunks are out."""

    snapshot: Snapshot
    epoch: int
    chunks: list[Chunk]
    begun: SteadyTime
    results: list[SliceResult] = field(default_factory=list)


@dataclass(slots=True)
class _Unrecorded:
    """A round that is over and must be recorded before anything else happens with its table."""

    snapshot: Snapshot
    epoch: int
    over: RoundOver


@dataclass(slots=True)
class _Table:
    """What is known of a table under one ownership. `snapshot`: the one to go on with. `fenced`: the stream stands until then."""

    epoch: int
    pace: Pace
    snapshot: Snapshot | None = None
    fenced: SteadyTime = _NEVER
    streams: bool = True
    """Whether the stream comes first."""
    round: _Round | None = None
    unrecorded: _Unrecorded | None = None
    row_bytes: float | None = None
    hurried: bool = False
    """Whether it was made due, and no pass has looked at it since: to hurry it again would only delay it."""
    announced: str | None = None
    """The snapshot whose beginning was logged."""


class Snapshots:
    """`rows` and `store` belong to the driver. Only the loop calls it. `superseded`: called for a table that has a newer owner."""

    def __init__(
        self,
        rules: SnapshotRules,
        *,
        rows: Rows,
        store: SnapshotStore,
        superseded: Callable[[TrackedTable, str], None],
        failed: Callable[[TrackedTable, DStreamError], None],
        stats: IngesterStats,
        clock: SteadyClock,
        chance: Callable[[], float],
    ) -> None:
        self.rules = rules
        self._rows = rows
        self._store = store
        self._superseded = superseded
        self._failed = failed
        self._stats = stats
        self._clock = clock
        self._chance = chance
        self._tables: dict[TableName, _Table] = {}
        self._looked_at = _NEVER
        self._throttled_at = _NEVER
        self._reports = Reports(clock)
        self._why: DStreamError | None = None
        """Why the store did not answer the last time."""

    # which tables the stream may read

    def readable(self, tables: Sequence[TrackedTable]) -> list[TrackedTable]:
        """Those of `tables`, which are owned, whose streams need not stand. Raises ConnectionLost."""
        for table in tables:
            if (known := self._known(table)) is not None:
                known.hurried = False
                if known.unrecorded is not None:
                    self._record(table, known)
        owned = [table for table in tables if table.lease is not None]
        unknown = [table for table in owned if self._known(table) is None]
        if unknown and not self._take_over(unknown):
            owned = [table for table in owned if table not in unknown]
        return [table for table in owned if table.lease is not None and self._stream_may(table)]

    def _known(self, table: TrackedTable) -> _Table | None:
        """What is known of `table`; None if it was claimed since."""
        known = self._tables.get(table.name)
        return known if known is not None and table.lease is not None and known.epoch == table.lease.epoch else None

    def _take_over(self, tables: Sequence[TrackedTable]) -> bool:
        """What the store has for tables that were claimed just now. False: it cannot be known yet. Raises ConnectionLost."""
        stored = self._standings([table.name for table in tables])
        if stored is None:
            self._reports.waits([table.name for table in tables], self._why)
            return False
        self._reports.waits([], None)
        for table in tables:
            assert table.lease is not None
            known = self._tables[table.name] = _Table(table.lease.epoch, Pace(self._chance))
            self._take_in(known, stored.get(table.name, Stored()))
            if table.offset is None and self.rules.of(table.name).initial:
                self.add(table, Reason.INITIAL)
        return True

    def _take_in(self, known: _Table, stored: Stored) -> None:
        known.snapshot = stored.snapshot
        if stored.fence_seconds > 0:
            known.fenced = SteadyTime(self._clock() + stored.fence_seconds)

    def _standings(self, tables: Sequence[TableName]) -> dict[TableName, Stored] | None:
        """None if the store did not answer. One that this login may not use has nothing: nothing can have been sent either."""
        self._looked_at = self._clock()
        try:
            found = dict(self._store.standings(tables))
        except ConnectionLost:
            raise
        except PermanentError as error:
            self._reports.refused(error)
            return {}
        except DStreamError as error:
            self._why = error
            return None
        self._reports.refused(None)
        return found

    def _stream_may(self, table: TrackedTable) -> bool:
        known = self._known(table)
        return known is not None and known.unrecorded is None and self._clock() >= known.fenced

    # orders

    def add(self, table: TrackedTable, reason: Reason) -> bool:
        """Take a snapshot of `table`. False if that could not be stored: the table has failed, or has a newer owner. Raises ConnectionLost."""
        assert table.lease is not None
        known = self._tables[table.name]
        try:
            self._store.ensure()
            self._store.add(table.name, table.lease.epoch, reason)
        except ConnectionLost:
            del self._tables[table.name]  # so that it is taken over again
            raise
        except LeaseLost as error:
            self._superseded(table, error.message)
            return False
        except DStreamError as error:
            del self._tables[table.name]
            self._failed(table, error)
            return False
        stored = self._standings([table.name])
        if stored is not None:
            self._take_in(known, stored.get(table.name, Stored()))
        return True

    def look(self, tables: Iterable[TrackedTable]) -> list[TableName]:
        """Ask, now and then, for what somebody has asked for. Returns the tables that have something to do now."""
        owned = {table.name: known for table in tables if (known := self._known(table)) is not None}
        if owned and self._clock() - self._looked_at >= LOOK_SECONDS:
            try:
                stored = self._standings(list(owned))
            except ConnectionLost:  # the next pass meets it too, and reports it
                stored = None
            for name, found in (stored or {}).items():
                if owned[name].round is None and owned[name].unrecorded is None:
                    owned[name].snapshot = found.snapshot
        due = [
            name for name, known in owned.items() if not known.hurried and (self._lowered(known) or self._due(known))
        ]
        for name in due:
            owned[name].hurried = True
        return due

    def _lowered(self, known: _Table) -> bool:
        """Whether the stream may go on that stood because of the fence. Once."""
        if known.fenced == _NEVER or self._clock() < known.fenced:
            return False
        known.fenced = _NEVER
        return True

    def _due(self, known: _Table) -> bool:
        if known.round is not None or self._clock() < known.fenced:
            return False
        if known.unrecorded is not None:
            return known.pace.may_begin(self._clock(), _NEVER)
        return known.snapshot is not None and known.pace.may_begin(self._clock(), self._throttled_at)

    def throttled(self) -> None:
        """The namespace has refused messages: live changes come first."""
        self._throttled_at = self._clock()

    # rounds

    @property
    def rounds_out(self) -> int:
        """How many tables have chunks out."""
        return sum(known.round is not None for known in self._tables.values())

    def turn(self, table: TrackedTable, *, pending: bool) -> bool:
        """Whether a round of `table` is next rather than its stream, which has something to read if `pending`."""
        known = self._known(table)
        if known is None or known.snapshot is None or not self._due(known):
            return False
        if pending and known.streams:
            known.streams = False
            return False
        return True

    def postpone(self, table: TrackedTable) -> None:
        """No round of `table` can begin just now."""
        if (known := self._known(table)) is not None:
            known.pace.postpone(self._clock())

    def round(self, table: TrackedTable, instance: CaptureInstance, *, room: int) -> list[Chunk]:
        """The chunks of the next round, for at most `room` tasks; none if it cannot begin now. Raises ConnectionLost."""
        known = self._tables[table.name]
        assert known.snapshot is not None
        begun = self._clock()
        known.pace.postpone(begun)
        try:
            snapshot = self._store.begin(known.snapshot.id, table.name, known.epoch)
        except ConnectionLost:
            raise
        except LeaseLost as error:
            self._lose(table, error)
            return []
        except DStreamError as error:
            self._fails(table, known, error.message, error.hint, begun)
            return []
        known.snapshot = snapshot
        if snapshot is None:
            self._looked_at = _NEVER
            return []
        try:
            out = self._chunks(table, known, snapshot, instance, room)
        except ConnectionLost:
            raise
        except PermanentError as error:
            known.unrecorded = _Unrecorded(snapshot, known.epoch, ended(snapshot, error))
            self._record(table, known)
            return []
        except DStreamError as error:
            self._fails(table, known, error.message, error.hint, begun)
            return []
        known.round = _Round(snapshot, known.epoch, out, begun)
        return out

    def _chunks(
        self, table: TrackedTable, known: _Table, snapshot: Snapshot, instance: CaptureInstance, room: int
    ) -> list[Chunk]:
        base = self._rows.table(instance)
        self._announce(table, known, snapshot, base)
        rules = self.rules
        rows = chunk_rows(rules.chunk_rows, known.row_bytes or base.row_bytes, rules.rate)
        wanted = tasks(room, rows, rules.rate)
        if known.pace.one_task(self._clock(), self._throttled_at):
            wanted = 1
        bounds: Sequence[RowKey] = ()
        if base.order and (wanted > 1 or snapshot.where is not None):  # a condition may choose few of many rows
            bounds = self._rows.bounds(RowsQuery(base, rows, after=snapshot.done, where=snapshot.where), wanted)
        return chunks(snapshot, base, bounds, rows, exact=rules.of(table.name).exact)

    def _announce(self, table: TrackedTable, known: _Table, snapshot: Snapshot, base: BaseTable) -> None:
        if known.announced == snapshot.id:
            return
        if snapshot.where is not None:
            self._rows.check(base, snapshot.where)
        known.announced = snapshot.id
        self._stats.snapshot(table.name, running=True)
        self._reports.begins(table.name, snapshot, base)

    def settled(self, result: SliceResult) -> bool:
        """Take in the result of a chunk. Whether its round is over; `record` it then."""
        known = self._tables.get(result.table)
        if known is None or known.round is None:
            return False
        out = known.round
        out.results.append(result)
        known.row_bytes = result.row_bytes or known.row_bytes
        if len(out.results) < len(out.chunks):
            return False
        found = over(out.snapshot, out.chunks, out.results)
        known.round, known.unrecorded, known.streams = None, _Unrecorded(out.snapshot, out.epoch, found), True
        failed = found.trouble is not None
        known.pace.round_over(self._clock(), begun=out.begun, sent=found.sent, rate=self.rules.rate, failed=failed)
        self._stats.read_rows(result.table, found.sent)
        return True

    def record(self, table: TrackedTable) -> None:
        """Record a round that is over. What cannot be recorded now is recorded before the table is read again."""
        if (known := self._known(table)) is not None and known.unrecorded is not None:
            try:
                self._record(table, known)
            except ConnectionLost as error:  # the next pass meets it too, and reports it
                log.debug("snapshot not recorded yet", table=table.name.key, error=error.message)

    def _record(self, table: TrackedTable, known: _Table) -> None:
        assert known.unrecorded is not None
        snapshot, found = known.unrecorded.snapshot, known.unrecorded.over
        try:
            state = self._store.record(snapshot.id, table.name, known.epoch, snapshot.done, found.progress)
            stored = self._store.standings([table.name])
        except ConnectionLost:
            raise
        except LeaseLost as error:
            self._lose(table, error)
            return
        except PermanentError as error:  # the store is gone, or closed to this login: no chunk can hold the fence again
            self._reports.refused(error)
            known.unrecorded = known.snapshot = None
            known.fenced = SteadyTime(self._clock() + FENCE_SECONDS)
            return
        except DStreamError as error:
            self._fails(table, known, error.message, error.hint, self._clock())
            return
        known.unrecorded = None
        self._take_in(known, stored.get(table.name, Stored()))
        self._reports.over(table.name, state, snapshot, found)
        self._stats.snapshot(table.name, running=known.snapshot is not None, failed=state is SnapshotState.FAILED)

    def _lose(self, table: TrackedTable, error: LeaseLost) -> None:
        del self._tables[table.name]
        self._superseded(table, error.message)

    def _fails(self, table: TrackedTable, known: _Table, why: str, hint: str | None, begun: SteadyTime) -> None:
        known.pace.round_over(self._clock(), begun=begun, sent=0, rate=None, failed=True)
        self._reports.fails(table.name, why, hint)
