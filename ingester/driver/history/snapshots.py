"""The snapshots of this ingester's tables: begins rounds, takes in their results, and says when a table's stream may go on.

A table's stream and its snapshot take turns: a round begins when the stream has had its turn or has nothing to read, and after a round the
stream comes first. While a chunk may still be sent, however it ended, the stream stands (ingester/history/store.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from common.clock import SteadyClock, SteadyTime
from common.errors import ConnectionLost, DStreamError, LeaseLost, PermanentError, TransientError
from common.names import TableName
from ingester.driver.history.pace import Pace
from ingester.driver.history.preparing import Preparing, Request, again
from ingester.driver.history.reports import Reports
from ingester.driver.history.reshaping import Reshaping
from ingester.driver.history.rounds import chunks, deadly, ended, over
from ingester.driver.history.state import NEVER, Known, RoundOut, Unrecorded
from ingester.driver.tables import TrackedTable
from ingester.history.rows import BaseTable
from ingester.history.rules import SnapshotRules
from ingester.history.snapshot import Chunk, Reason, Snapshot, SnapshotState
from ingester.history.store import FENCE_SECONDS, SnapshotStore
from ingester.history.store import StoredSnapshots as Stored
from ingester.slices import SliceResult, Trouble
from ingester.source import CaptureInstance
from ingester.watch.stats import IngesterStats

log = structlog.get_logger("ingester")

LOOK_SECONDS = 10.0
"""How often the store is asked for snapshots that somebody has asked for: a small query for all tables."""
DEATHS = 3
"""After so many dead workers in a row that read one chunk alone, its rows are the cause."""
_OWES_SECONDS = 120.0
"""For how long a stream waits for that: a table that cannot be read must not hold its changes for ever."""


class Snapshots:
    """`store` belongs to the driver. Only the loop calls it. `superseded`: called for a table that has a newer owner."""

    def __init__(
        self,
        rules: SnapshotRules,
        *,
        preparing: Preparing,
        store: SnapshotStore,
        superseded: Callable[[TrackedTable, str], None],
        failed: Callable[[TrackedTable, DStreamError], None],
        stats: IngesterStats,
        clock: SteadyClock,
        chance: Callable[[], float],
    ) -> None:
        self.rules = rules
        self._preparing = preparing
        self._store = store
        self._superseded = superseded
        self._failed = failed
        self._stats = stats
        self._clock = clock
        self._chance = chance
        self._tables: dict[TableName, Known] = {}
        self._awake: dict[TableName, Known] = {}
        """Those that are not at rest: the loop asks at each turn, and most tables have no snapshot."""
        self.reshaping = Reshaping(self._awake, store, clock)
        self._looked_at = NEVER
        self._throttled_at = NEVER
        self._reports = Reports(clock)
        self._ensured = False
        self._why: DStreamError | None = None
        """Why the store did not answer the last time."""

    # which tables the stream may read

    def readable(self, tables: Sequence[TrackedTable]) -> list[TrackedTable]:
        """Those of `tables`, which are owned, whose streams need not stand. Raises ConnectionLost."""
        for table in tables:
            if table.name in self._awake and (known := self._known(table)) is not None:
                known.hurried = False
                if known.unrecorded is not None:
                    self._record(table, known)
        owned = [table for table in tables if table.lease is not None]
        if unknown := [table for table in owned if self._known(table) is None]:
            self._take_over(unknown)
        return [table for table in owned if self.rests(table) or self.streams(table) or self._owes(table)]

    def rests(self, table: TrackedTable) -> bool:
        """Whether there is nothing to do about snapshots of `table`."""
        known = self._known(table)
        return known is not None and known.at_rest

    def _known(self, table: TrackedTable) -> Known | None:
        """What is known of `table`; None if it was claimed since."""
        known = self._tables.get(table.name)
        return known if known is not None and table.lease is not None and known.epoch == table.lease.epoch else None

    def _take_over(self, tables: Sequence[TrackedTable]) -> None:
        """What the store has for tables that were claimed just now. None becomes known if it cannot say. Raises ConnectionLost."""
        stored = self._standings([table.name for table in tables])
        if stored is None:
            self._reports.waits([table.name for table in tables], self._why)
            return
        self._reports.waits([], None)
        for table in tables:
            assert table.lease is not None
            known = self._tables[table.name] = Known(table.lease.epoch, Pace(self._chance))
            self._take_in(table, known, stored.get(table.name, Stored()))
            if self._reports.is_refused:  # a right was lost, and a chunk of another owner may still be sent
                known.fenced = SteadyTime(self._clock() + FENCE_SECONDS)
            self._stats.turned()
            if table.offset is None and self.rules.of(table.name).initial:
                self.add(table, Reason.INITIAL)

    def _take_in(self, table: TrackedTable, known: Known, stored: Stored) -> None:
        known.snapshot, self._awake[table.name] = stored.snapshot, known
        if stored.fence_seconds > 0:
            known.fenced = SteadyTime(self._clock() + stored.fence_seconds)
            owes = self._clock() < known.owes_until
            if not owes and stored.snapshot is not None and stored.snapshot.attempt > 0:
                known.owes_until = SteadyTime(self._clock() + _OWES_SECONDS)

    def _standings(self, tables: Sequence[TableName]) -> dict[TableName, Stored] | None:
        """None if the store did not answer; nothing if this login may no longer use it."""
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

    def streams(self, table: TrackedTable) -> bool:
        """Whether the stream of `table` need not stand."""
        known = self._known(table)
        return (
            known is not None and known.unrecorded is None and self._clock() >= known.fenced and not self._owes(table)
        )

    def _owes(self, table: TrackedTable) -> bool:
        """Whether a chunk that may have been on its way is to be read again, after the fence and before the stream goes on: what comes later
        still is then a copy of a message that was sent, by its id, and duplicate detection removes it."""
        known = self._known(table)
        if known is None or known.unrecorded is not None or known.snapshot is None:
            return False
        return known.fenced <= self._clock() < known.owes_until

    # orders

    def add(self, table: TrackedTable, reason: Reason) -> bool:
        """Take a snapshot of `table`. False if that could not be stored: the table has failed, or has a newer owner. Raises ConnectionLost."""
        assert table.lease is not None
        known = self._tables[table.name]
        try:
            if not self._ensured:
                self._store.ensure()
                self._ensured = True
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
            self._take_in(table, known, stored.get(table.name, Stored()))
        return True

    def look(self, tables: Mapping[TableName, TrackedTable]) -> list[TableName]:
        """Ask, now and then, for what somebody has asked for. Returns those of `tables` that have something to do now."""
        if tables and self._clock() - self._looked_at >= LOOK_SECONDS:
            self._ask_again(tables.values())
        answers = dict(self._preparing.answers())
        if not self._awake:
            return []
        self.reshaping.look()
        due = []
        for name, known in [*self._awake.items()]:
            if known.at_rest or self._tables.get(name) is not known:
                self._awake.pop(name).hurried = False  # a pass resets it only of those that are awake
                continue
            table = tables.get(name)
            if table is None or self._known(table) is not known:
                continue
            known.prepared = answers.get(name, known.prepared)
            if not known.hurried and (self._lowered(known) or (self._due(known) and not self._preparing.asks(name))):
                known.hurried = True
                due.append(name)
        return due

    def _ask_again(self, tables: Iterable[TrackedTable]) -> None:
        owned = {table.name: known for table in tables if (known := self._known(table)) is not None}
        self._looked_at = self._clock()
        try:
            stored = (self._standings(list(owned)) if owned else None) or {}
        except ConnectionLost:  # the next pass meets it too, and reports it
            return
        for name, found in stored.items():
            if owned[name].round is None and owned[name].unrecorded is None:
                owned[name].snapshot, self._awake[name] = found.snapshot, owned[name]

    def _lowered(self, known: Known) -> bool:
        """Whether the stream may go on that stood because of the fence. Once."""
        if known.fenced == NEVER or self._clock() < known.fenced:
            return False
        known.fenced = NEVER
        return True

    def _due(self, known: Known) -> bool:
        if known.round is not None or self._clock() < known.fenced:
            return False
        if known.unrecorded is not None:
            return known.pace.may_begin(self._clock(), NEVER)
        return known.snapshot is not None and known.pace.may_begin(self._clock(), self._throttled_at)

    def throttled(self) -> None:
        """The namespace has refused messages: live changes come first."""
        self._throttled_at = self._clock()

    # rounds

    @property
    def rounds_out(self) -> int:
        """How many tables have chunks out."""
        return sum(known.round is not None for known in self._awake.values())

    def turn(self, table: TrackedTable, instance: CaptureInstance, *, pending: bool, room: int) -> bool:
        """Whether a round of `table` is next rather than its stream, which has something to read if `pending`. `room`: for how many tasks."""
        known = self._known(table)
        if known is None or known.snapshot is None or not self._due(known):
            return False
        if not self._prepared(table, known, known.snapshot, instance, room):
            return False
        if pending and known.streams and not self._owes(table):
            known.streams = False
            return False
        return True

    def _prepared(
        self, table: TrackedTable, known: Known, snapshot: Snapshot, instance: CaptureInstance, room: int
    ) -> bool:
        """Whether the next round was prepared; if not, it is now under way."""
        found = known.prepared
        if found is not None and found.fits(snapshot, instance) and not isinstance(found.error, TransientError):
            return True
        known.prepared = None
        if found is not None and found.fits(snapshot, instance) and found.error is not None:
            known.plain = True  # the next look is for one chunk, in case it took too long to find where several end
            self._fails(table, known, found.error.message, found.error.hint, self._clock())
            return False
        self._prepare(table, known, snapshot, instance, room)
        return False

    def _prepare(
        self, table: TrackedTable, known: Known, snapshot: Snapshot, instance: CaptureInstance, room: int
    ) -> None:
        rules = self.rules
        alone = known.plain or known.deaths > 1 or known.pace.one_task(self._clock(), self._throttled_at)
        bounds = not known.plain and (not alone or snapshot.where is not None)
        request = Request(
            snapshot, instance, rules.chunk_rows, rules.rate, 1 if alone else room, known.row_bytes, bounds
        )
        self._preparing.ask(table.name, request)

    def wait_for_capture(self, table: TrackedTable) -> None:
        """`table` has no offset yet."""
        known = self._known(table)
        if known is not None and known.snapshot is not None and known.announced is None:
            known.announced = ""
            self._reports.waits_for_capture(table.name, known.snapshot)

    def postpone(self, table: TrackedTable) -> None:
        """No round of `table` can begin just now."""
        if (known := self._known(table)) is not None:
            known.pace.postpone(self._clock())

    def round(self, table: TrackedTable, instance: CaptureInstance, *, room: int) -> list[Chunk]:
        """The chunks of the next round, which was prepared, for at most `room` tasks; none if it cannot begin now. Raises ConnectionLost."""
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
            self._looked_at = NEVER
            return []
        found, known.prepared = known.prepared, None
        assert found is not None
        if found.table is None:
            assert found.error is not None
            known.unrecorded = Unrecorded(snapshot, known.epoch, ended(snapshot, found.error))
            self._record(table, known)
            return []
        known.plain = False
        self._announce(table, known, snapshot, found.table)
        exact = self.rules.of(table.name).exact
        most = len(found.bounds) if self._owes(table) else 1 if known.deaths > 1 else room
        out = chunks(snapshot, found.table, found.bounds[:most], found.rows, exact=exact, rate=self.rules.rate)
        known.round = RoundOut(snapshot, known.epoch, out, begun)
        following = replace(snapshot, done=out[-1].upto or snapshot.done)
        self._prepare(table, known, following, instance, room)
        return out

    def _announce(self, table: TrackedTable, known: Known, snapshot: Snapshot, base: BaseTable) -> None:
        if known.announced != snapshot.id:
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
        if found.trouble is not None and found.trouble.trouble is Trouble.WORKER_LOST:
            known.deaths += 1
            if known.deaths > DEATHS and len(out.chunks) == 1:
                found = deadly(found)
        else:
            known.deaths = 0
        known.round, known.unrecorded, known.streams = None, Unrecorded(out.snapshot, out.epoch, found), True
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

    def _record(self, table: TrackedTable, known: Known) -> None:
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
            known.pace.round_over(self._clock(), begun=self._clock(), sent=0, rate=None, failed=True)
            self._reports.unrecorded(table.name, error)
            return
        known.unrecorded = None
        self._take_in(table, known, stored.get(table.name, Stored()))
        if found.trouble is None and found.progress.lowers:
            known.owes_until = NEVER
        elif found.rest and self._clock() < known.owes_until and known.deaths < 2:
            known.prepared = again(known.snapshot, found)
        self._reports.over(table.name, state, snapshot, found)
        self._stats.snapshot(table.name, running=known.snapshot is not None, failed=state is SnapshotState.FAILED)

    def _lose(self, table: TrackedTable, error: LeaseLost) -> None:
        del self._tables[table.name]
        self._superseded(table, error.message)

    def _fails(self, table: TrackedTable, known: Known, why: str, hint: str | None, begun: SteadyTime) -> None:
        known.pace.round_over(self._clock(), begun=begun, sent=0, rate=None, failed=True)
        self._reports.fails(table.name, why, hint)
