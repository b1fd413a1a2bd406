"""The ingester's ports over the model of a database. Each call takes time, and can be where somebody dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from common.errors import LeaseLost
from common.names import Ordering, TableName
from ingester.change import Change
from ingester.history.rows import BaseTable, Row, RowKey, RowPage, RowPages, RowsQuery
from ingester.history.snapshot import ChunkId, Reason, Snapshot, SnapshotState
from ingester.history.store import Progress, StoredSnapshots
from ingester.position import Position
from ingester.source import (
    CaptureInstance,
    Page,
    PageQuery,
    Probe,
    ProbeAnswer,
    ProbeRequest,
    Stride,
    TableState,
)
from ingester.sqlserver.position import LogPosition, in_the_log
from tests.fakes.ingester import FakeOffsets, FakeSource, lsn
from tests.worlds.virtual.database import Database, Key, Stored
from tests.worlds.virtual.simulation import Simulation

Point = Callable[[str], None]
"""Called where somebody may die: `chunk read` and so on."""


class ModelSource(FakeSource):
    """Changes of the model."""

    def __init__(self, database: Database, point: Point) -> None:
        super().__init__()
        self._database, self._world, self._point = database, database.world, point

    def states(
        self, tables: Sequence[TableName], sources: Mapping[TableName, str] | None = None
    ) -> Mapping[TableName, TableState]:
        _wait(self._world)
        return {table: TableState(True, (self._database.instance(table),)) for table in tables}

    def probe(self, requests: Sequence[ProbeRequest]) -> Probe:
        _wait(self._world)
        upto = LogPosition.end_of(lsn(len(self._database.captured) + 1))
        answers = {
            request.instance.name: ProbeAnswer(
                self._database.low_watermark(request.instance.table),
                bool(self._found(request.instance, request.after or request.instance.start, upto)),
            )
            for request in requests
        }
        return Probe(upto, answers)

    def _found(self, instance: CaptureInstance, after: Position, upto: Position) -> list[tuple[LogPosition, Change]]:
        low = self._database.low_watermark(instance.table)
        changes = self._database.changes(instance.table)
        placed = [(in_the_log(change.position), change) for change in changes]
        return [(at, change) for at, change in placed if after < at <= upto and at > low]

    def stride(self, instance: CaptureInstance, *, after: Position, upto: Position, rows: int) -> Stride | None:
        _wait(self._world)
        found = self._found(instance, after, upto)[:rows]
        return Stride(len(found), found[-1][0]) if found else None

    def shared_by(self, instance: CaptureInstance, ordering: Ordering) -> tuple[str, ...]:
        keys = tuple(column.name for column in instance.columns if column.key_ordinal is not None)
        return keys if ordering == "key" else ()

    def page(self, query: PageQuery) -> Page:
        _wait(self._world)
        found = self._found(query.instance, query.after, query.upto)
        part = query.part
        if part is not None:
            found = [(at, change) for at, change in found if sum(map(hash, change.key)) % part.of == part.number]
        found = found[: query.rows]
        low = self._database.low_watermark(query.instance.table)
        self._point("page read")
        changes = [change for _, change in found]
        return Page(changes, found[-1][0] if found else None, len(found) == query.rows, low)


class ModelOffsets(FakeOffsets):
    """What all ingesters share. `moved_back`: offsets that no person has moved."""

    def __init__(self, world: Simulation) -> None:
        super().__init__()
        self._world = world
        self.moved_back: list[str] = []

    def commit(self, table: TableName, epoch: int, *, seen: Position | None, position: Position) -> None:
        _wait(self._world)
        super().commit(table, epoch, seen=seen, position=position)
        if seen is not None and position < seen:
            self.moved_back.append(f"{table.key}: {seen} to {position}")
        _wait(self._world)

    def load(self, table: TableName, epoch: int, source: str | None = None) -> Position | None:
        _wait(self._world)
        return super().load(table, epoch, source)

    def set(self, table: TableName, position: Position) -> None:
        """As a person does: no owner moves it on from elsewhere."""
        self.epochs[table] = self.epochs.get(table, 0) + 1
        self.stored[table] = position


class ModelRows:
    """The rows of the tables, in the order of their keys."""

    def __init__(self, database: Database, point: Point) -> None:
        self._database, self._world, self._point = database, database.world, point

    def table(self, instance: CaptureInstance) -> BaseTable:
        _wait(self._world)
        order = ("ID", "Sub") if instance.table in self._database.keyed else ()
        return BaseTable(instance, order, len(self._database.tables[instance.table]))

    def check(self, table: BaseTable, where: str) -> None:
        _wait(self._world)

    def bounds(self, query: RowsQuery, most: int) -> Sequence[RowKey]:
        _wait(self._world)
        rows = self._rows(query)
        found = [_text(row) for row in rows[query.rows - 1 : -1 : query.rows]][:most]
        self._point("boundary computed")
        return found

    def page(self, query: RowsQuery) -> RowPage:
        """READ COMMITTED: its rows need not be of one moment."""
        _wait(self._world)
        size = self._size(query)
        found = self._rows(query)[: self._world.random.randint(0, size)]
        if found and self._world.random.random() < 0.3:
            self._world.sleep(self._world.random.choice((0.01, 3.0)))
        else:
            found = []
        behind = replace(query, after=_text(found[-1])) if found else query
        rest = self._rows(behind)
        found, full = found + rest[: size - len(found)], len(rest) > size - len(found)
        moment = repr(self._world.now)
        self._point("chunk read")
        return RowPage([_row(row, keyed=True) for row in found], full, moment=moment)

    def _size(self, query: RowsQuery) -> int:
        """Wide rows make a page shorter."""
        return query.rows if self._world.random.random() < 0.8 else self._world.random.randint(1, query.rows)

    @contextmanager
    def in_one_pass(self, query: RowsQuery) -> Iterator[RowPages]:
        _wait(self._world)
        yield _Pass(self, query)

    def heap(self, query: RowsQuery, after: int) -> list[Stored]:
        rows = sorted(self._all(query), key=lambda row: row.place)
        self._point("chunk read")
        return [row for row in rows if row.place > after]

    def changed_since(self, table: BaseTable, position: Position, moment: str) -> frozenset[tuple[object, ...]] | None:
        _wait(self._world)
        self._point("capture asked")
        if not self._database.has_captured(float(moment)):
            return None
        changes = self._database.changes(table.instance.table)
        return frozenset(change.key for change in changes if change.position > position)

    def _all(self, query: RowsQuery) -> list[Stored]:
        held = self._database.tables[query.table.instance.table].values()
        return [row for row in held if matches(query.where, row)]

    def _rows(self, query: RowsQuery) -> list[Stored]:
        after, upto = _key(query.after), _key(query.upto)
        found = sorted(self._all(query), key=lambda row: row.key)
        return [row for row in found if (after is None or row.key > after) and (upto is None or row.key <= upto)]

    def close(self) -> None:
        pass


@dataclass
class _Pass:
    rows: ModelRows
    query: RowsQuery
    after: int = 0

    def next(self) -> RowPage:
        _wait(self.rows._world)
        found = self.rows.heap(self.query, self.after)
        some = found[: self.query.rows]
        self.after = some[-1].place if some else self.after
        return RowPage([_row(row, keyed=False) for row in some], len(found) > len(some))


def matches(where: str | None, row: Stored) -> bool:
    """`where`: "G < 3"."""
    return where is None or row.group < int(where.split()[-1])


def _row(row: Stored, *, keyed: bool) -> Row:
    return Row(_text(row), row.data(), row.key) if keyed else Row((), row.data())


def _text(row: Stored) -> RowKey:
    return tuple(str(part) for part in row.key)


def _key(at: RowKey | None) -> Key | None:
    return None if at is None else tuple(int(part) for part in at)


_OPEN = (SnapshotState.RUNNING, SnapshotState.WAITING)


@dataclass
class ModelSnapshots:
    """The promises of `ingester/history/store.py`, kept as the T-SQL keeps them. `finished`: ids, once for each time that one was done."""

    world: Simulation
    offsets: FakeOffsets
    point: Point
    stored: dict[str, Snapshot] = field(default_factory=dict)
    fences: dict[str, float] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)
    rounds: dict[tuple[int, str], int] = field(default_factory=dict)

    def ask(self, table: TableName, reason: Reason, where: str | None = None, topic: str | None = None) -> str:
        name = f"s{len(self.stored) + 1}"
        self.stored[name] = Snapshot(name, table.key, reason, SnapshotState.WAITING, where, topic)
        return name

    def set(self, snapshot: str, state: SnapshotState) -> None:
        """What a person does."""
        possible = {
            SnapshotState.PAUSED: _OPEN,
            SnapshotState.STOPPED: (*_OPEN, SnapshotState.PAUSED, SnapshotState.FAILED),
            SnapshotState.WAITING: (SnapshotState.PAUSED, SnapshotState.FAILED),
        }
        if self.stored[snapshot].state in possible[state]:
            self.stored[snapshot] = replace(self.stored[snapshot], state=state)

    def ensure(self) -> None:
        _wait(self.world)

    def standings(self, tables: Sequence[TableName]) -> Mapping[TableName, StoredSnapshots]:
        _wait(self.world)
        found = {table: self._standing(table.key) for table in tables}
        _wait(self.world)
        return found

    def _standing(self, key: str) -> StoredSnapshots:
        ours = [snapshot for snapshot in self.stored.values() if snapshot.table == key]
        open_ones = sorted((one for one in ours if one.state in _OPEN), key=lambda one: _OPEN.index(one.state))
        fence = max((self.fences.get(one.id, 0.0) - self.world.now for one in ours), default=0.0)
        return StoredSnapshots(open_ones[0] if open_ones else None, max(0.0, fence))

    def fenced(self) -> bool:
        return any(until > self.world.now for until in self.fences.values())

    def add(self, table: TableName, epoch: int, reason: Reason) -> None:
        _wait(self.world)
        self._ours(table, epoch)
        states = SnapshotState.WAITING, SnapshotState.PAUSED
        for one in self.stored.values():
            if one.table == table.key and one.reason is reason and one.state in states and not one.attempt:
                return
        self.ask(table, reason)
        self.point("snapshot stored")
        _wait(self.world)

    def begin(self, snapshot: str, table: TableName, epoch: int) -> Snapshot | None:
        _wait(self.world)
        self._ours(table, epoch)
        found = self.stored[snapshot]
        others = [one for one in self.stored.values() if one.table == found.table and one.id != snapshot]
        if found.state not in _OPEN or any(one.state is SnapshotState.RUNNING for one in others):
            return None
        attempt = found.attempt + (found.done is None)
        found = replace(found, state=SnapshotState.RUNNING, attempt=attempt, round=found.round + 1)
        self.stored[snapshot], self.owners[snapshot] = found, epoch
        self.rounds[self.world.current.life, snapshot] = found.round
        self.point("between rounds")
        _wait(self.world)
        return found

    def record(
        self, snapshot: str, table: TableName, epoch: int, seen: RowKey | None, progress: Progress
    ) -> SnapshotState:
        _wait(self.world)
        found = self.stored[snapshot]
        round = self.rounds.get((self.world.current.life, snapshot), found.round)
        states = (*_OPEN, SnapshotState.PAUSED, SnapshotState.STOPPED)
        mine = self.owners[snapshot] == epoch and self._owned(table, epoch)
        if mine and found.round == round and found.state in states and found.done == seen:
            self._recorded(found, progress)
            self.point("chunk recorded")
        found = self.stored[snapshot]
        after = (round + 1, progress.done, progress.chunks, progress.rows)
        if self.owners[snapshot] != epoch or (found.round, found.done, found.chunks, found.rows) != after:
            raise LeaseLost("recording: a newer owner")
        self.point("record's answer lost")
        _wait(self.world)
        return found.state

    def _recorded(self, found: Snapshot, progress: Progress) -> None:
        ends = progress.state is SnapshotState.FAILED and found.state is SnapshotState.STOPPED
        held = found.state is not SnapshotState.RUNNING and (progress.state is SnapshotState.RUNNING or ends)
        state = found.state if held else progress.state
        self.stored[found.id] = replace(
            found, done=progress.done, chunks=progress.chunks, rows=progress.rows, state=state, round=found.round + 1
        )
        if progress.lowers:
            self.fences.pop(found.id, None)
        if state is SnapshotState.DONE:
            self.finished.append(found.id)

    def hold(self, chunk: ChunkId, table: TableName, epoch: int, *, round: int, seconds: float) -> None:
        _wait(self.world)
        self._ours(table, epoch)
        found = self.stored[chunk[0]]
        if found.state is not SnapshotState.RUNNING or found.round != round or self.owners[chunk[0]] != epoch:
            raise LeaseLost("holding the fence: the round is over")
        self.fences[chunk[0]] = max(self.fences.get(chunk[0], 0.0), self.world.now + seconds)
        self.point("fence raised")
        _wait(self.world)

    def _ours(self, table: TableName, epoch: int) -> None:
        if not self._owned(table, epoch):
            raise LeaseLost("a newer owner has claimed the table")

    def _owned(self, table: TableName, epoch: int) -> bool:
        return self.offsets.epochs.get(table, 0) <= epoch

    def close(self) -> None:
        pass


def _wait(world: Simulation) -> None:
    """One way of a round trip."""
    world.sleep(world.random.choice((0.001, 0.002, 0.005, 0.05)))
