"""Stand-ins for the ingester's ports, for loop logic alone: a change table, an offset store and a queue in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from common.bus.ports import MessageTooLarge, TimeLeft
from common.errors import ConnectionLost, DStreamError, LeaseLost, PermanentError, TransientError
from common.message import Message
from common.names import Ordering, Origin, TableName
from ingester.change import Change, Operation
from ingester.executor import Begins, Early
from ingester.offsets import Claim, Claimed, Move
from ingester.position import Position
from ingester.slices import Slice, SliceResult
from ingester.source import (
    CapturedColumn,
    CaptureInstance,
    Hints,
    Page,
    PageQuery,
    Probe,
    ProbeAnswer,
    ProbeRequest,
    Stride,
    TableState,
)
from ingester.sqlserver.hints import HINTS
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.sqlserver.sharing import shared_by
from ingester.task.drain import Drain
from ingester.task.encode import Encoder


def lsn(number: int) -> Lsn:
    """The `number`th LSN."""
    return Lsn(number.to_bytes(10, "big"))


def position(number: int, command: int = 1, seq: int = 1, operation: int = 2) -> LogPosition:
    """A position in transaction `number`."""
    return LogPosition(lsn(number), command, seq.to_bytes(10, "big"), operation)


PERSONS = TableName("dbo", "Persons")
ORDERS = TableName("sales", "Orders")


def instance(table: TableName = PERSONS, start: int = 1, name: str | None = None, source: str = "") -> CaptureInstance:
    """A capture instance with the columns ID (the key) and Name."""
    name = name or f"{table.schema}_{table.table}"
    columns = (CapturedColumn("ID", "int", 1, key_ordinal=1), CapturedColumn("Name", "nvarchar", 2))
    return CaptureInstance(name, table, LogPosition.before(lsn(start)), columns, source)


@dataclass
class FakeSource:
    """Change tables by capture instance: positions in order. `wide`: rows with so many bytes.

    `fail`: raised by the next call, once. `away`: raised by every call while it is set; `catalog_away`: by those for the catalog alone.
    """

    instances: dict[TableName, tuple[CaptureInstance, ...]] = field(default_factory=dict)
    rows: dict[str, list[LogPosition]] = field(default_factory=dict)
    low: dict[str, Lsn] = field(default_factory=dict)
    max_lsn: Lsn | None = None
    former: dict[str, tuple[CaptureInstance, ...]] = field(default_factory=dict)
    captured_all: bool = True
    stale: bool = False
    locked: set[str] = field(default_factory=set)
    capture_holds: bool = False
    fail: Exception | None = None
    away: Exception | None = None
    catalog_away: Exception | None = None
    catalog_asked: int = 0
    after_page: Callable[[], None] | None = None
    pages: int = 0
    asked: list[int] = field(default_factory=list)
    wide: dict[LogPosition, int] = field(default_factory=dict)
    answered: dict[str, ProbeAnswer] = field(default_factory=dict)

    def states(
        self, tables: Sequence[TableName], sources: Mapping[TableName, str] | None = None
    ) -> Mapping[TableName, TableState]:
        self._raise()
        self.catalog_asked += 1
        if self.catalog_away is not None:
            raise self.catalog_away
        self.stale = False
        return {table: self._state(table, (sources or {}).get(table)) for table in tables}

    def _state(self, table: TableName, source: str | None) -> TableState:
        found = self.instances.get(table, ())
        former = self.former.get(source, ()) if source and found and found[0].source != source else ()
        return TableState(table in self.instances, found, former=former, moment="noon")

    @property
    def hints(self) -> Hints:
        return HINTS

    def shared_by(self, instance: CaptureInstance, ordering: Ordering) -> tuple[str, ...]:
        return shared_by(instance, ordering)

    def passed(self, position: Position, moment: str) -> bool:
        return self.captured_all

    def probe(self, requests: Sequence[ProbeRequest]) -> Probe:
        self._raise()
        present = [*self.instances.values(), *self.former.values()]
        known = {instance.name for instances in present for instance in instances}
        answers = {r.instance.name: self._answer(r) for r in requests if r.instance.name in known - self.locked}
        upto = None if self.max_lsn is None else LogPosition.end_of(self.max_lsn)
        return Probe(upto, answers, self.stale, {name: f"cdc.{name}_CT" for name in self.locked}, self.capture_holds)

    def _answer(self, request: ProbeRequest) -> ProbeAnswer:
        name = request.instance.name
        after = request.after or request.instance.start
        pending = self.max_lsn is not None and any(
            after < found <= LogPosition.end_of(self.max_lsn) and (request.before is None or found < request.before)
            for found in self.rows.get(name, ())
        )
        answer = ProbeAnswer(self._low(request.instance), pending)
        if self.answered.get(name) != answer:
            self.answered[name] = answer
        return self.answered[name]  # the same object while nothing changes, as of the real one

    def stride(self, instance: CaptureInstance, *, after: Position, upto: Position, rows: int) -> Stride | None:
        self._raise()
        found = [p for p in self.rows.get(instance.name, ()) if after < p <= upto][:rows]
        return Stride(len(found), found[-1]) if found else None

    def page(self, query: PageQuery) -> Page:
        instance, after, upto, rows, part = query.instance, query.after, query.upto, query.rows, query.part
        self._raise()
        self.pages += 1
        self.asked.append(rows)
        low = self._low(instance)
        found = [p for p in self.rows.get(instance.name, ()) if after < p <= upto and p > low]
        found = [p for p in found if part is None or p.seqval[-1] % part.of == part.number][:rows]
        if self.after_page is not None:
            self.after_page()
        changes = [
            Change(instance.table, instance.name, p, Operation(p.operation), self._data(p), key=(p.seqval[-1],))
            for p in found
        ]
        end = found[-1] if found else None
        return Page(changes, end, len(found) == rows, self._low(instance), instance.columns)

    def _low(self, instance: CaptureInstance) -> Position:
        low = self.low.get(instance.name)
        return instance.start if low is None else LogPosition.before(low)

    def _data(self, at: LogPosition) -> dict[str, object]:
        data: dict[str, object] = {"ID": int.from_bytes(at.lsn.value, "big")}
        return {**data, "Name": "x" * self.wide[at]} if at in self.wide else data

    def close(self) -> None:
        pass

    def _raise(self) -> None:
        if self.away is not None:
            raise self.away
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error


@dataclass
class FakeOffsets:
    """The promises of `ingester/offsets.py` in a dictionary.

    `refused`: raised by whatever is done with the table. `batches`: how many tables each question for many was about.
    """

    stored: dict[TableName, Position | None] = field(default_factory=dict)
    epochs: dict[TableName, int] = field(default_factory=dict)
    sources: dict[TableName, str] = field(default_factory=dict)
    refused: dict[TableName, Exception] = field(default_factory=dict)
    kept: dict[tuple[TableName, str], Position | None] = field(default_factory=dict)
    fail: Exception | None = None
    commits: list[Position] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    def ensure(self) -> None:
        pass

    def claim(self, table: TableName, epoch: int, source: str | None = None) -> Claimed:
        self._raise(table)
        self.epochs[table] = max(epoch, self.epochs.get(table, 0))
        self.stored.setdefault(table, None)
        position = self.load(table, epoch)
        if source is not None:
            self.sources.setdefault(table, source)
        return Claimed(position, self.sources.get(table))

    def claim_many(self, claims: Sequence[Claim]) -> Sequence[Claimed | DStreamError]:
        self.batches.append(len(claims))
        return [_outcome(partial(self.claim, one.table, one.epoch, one.source)) for one in claims]

    def move_many(self, moves: Sequence[Move]) -> Sequence[Position | DStreamError]:
        self.batches.append(len(moves))
        return [_outcome(partial(self._move, one)) for one in moves]

    def _move(self, one: Move) -> Position:
        try:
            self.commit(one.table, one.epoch, seen=one.seen, position=one.position)
        except LeaseLost:
            stands = self.load(one.table, one.epoch)
            if stands is None:
                raise
            return stands
        return one.position

    def load(self, table: TableName, epoch: int, source: str | None = None) -> Position | None:
        if self.epochs.get(table, 0) > epoch or source not in (None, self.sources.get(table, source)):
            raise LeaseLost("a newer owner")
        return self.stored.get(table)

    def commit(self, table: TableName, epoch: int, *, seen: Position | None, position: Position) -> None:
        self._raise(table)
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error
        if self.epochs.get(table, 0) > epoch or self.stored.get(table) != seen:
            raise LeaseLost("a newer owner")
        self.stored[table] = position
        self.commits.append(position)

    def _raise(self, table: TableName) -> None:
        if (error := self.refused.get(table)) is not None:
            raise error

    def go_over(
        self, table: TableName, epoch: int, *, seen: Position | None, left: str, source: str, start: Position
    ) -> Position:
        if self.epochs.get(table, 0) > epoch or self.stored.get(table) != seen or self.sources.get(table) != left:
            raise LeaseLost("a newer owner")
        self.kept[table, left] = seen
        self.sources[table] = source
        begin = self.kept.get((table, source)) or start
        self.stored[table] = begin
        return begin

    def close(self) -> None:
        pass


_Found = TypeVar("_Found")


def _outcome(asked: Callable[[], _Found]) -> _Found | DStreamError:
    try:
        return asked()
    except ConnectionLost:
        raise
    except DStreamError as error:
        return error


@dataclass
class FakeSender:
    """What was accepted. `fail_after`: accept so many messages of the next send, then break; `fail`: what every send raises.
    `limit`: bytes a body may have.
    """

    sent: list[Message] = field(default_factory=list)
    fail_after: int | None = None
    fail: Exception | None = None
    limit: int = 262_144

    def batch_bytes(self) -> int:
        return self.limit

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        if self.fail is not None:
            raise self.fail
        if self.fail_after is not None:
            self.sent += messages[: self.fail_after]
            self.fail_after = None
            raise TransientError("sending: the connection broke")
        groups: dict[str | None, list[int]] = {}
        for at, message in enumerate(messages):
            groups.setdefault(message.session_id, []).append(at)
        accepted: list[int] = []
        for at in (at for group in groups.values() for at in group):
            message = messages[at]
            if len(message.body) > self.limit:
                raise MessageTooLarge("ingest-queue", message, at=at, limit=self.limit, accepted=accepted)
            accepted.append(at)
            self.sent.append(message)

    def close(self) -> None:
        pass


@dataclass
class ThreadExecutor:
    """Drains in the calling thread, as a Spark task would in its worker."""

    drain: Drain
    slots: int = 2
    fail: Exception | None = None
    gone: bool = False
    trouble: str | None = None
    bundles: list[list[Slice]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    cancelled: threading.Event = field(default_factory=threading.Event)
    near: bool = True
    """Whether what is cancelled surely ends."""
    chunks: Callable[[Slice], SliceResult] | None = None
    """Reads chunks of snapshots."""

    def waits(self, number: int) -> bool:
        return False

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early, begins: Begins) -> Sequence[SliceResult]:
        self.bundles.append(list(bundle))
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error
        return [self.drain.run(todo) if todo.chunk is None else self._chunk(todo) for todo in bundle]

    def _chunk(self, todo: Slice) -> SliceResult:
        assert self.chunks is not None
        return self.chunks(todo)

    def aside(self, number: int) -> bool:
        return False

    def give_up(self, number: int) -> None:
        self.asked.append(f"give up {number}")

    def check(self) -> str | None:
        if self.gone:
            raise PermanentError("the executor is gone")
        return self.trouble

    def finish(self) -> None:
        self.asked.append("finish")

    def cancel(self) -> bool:
        self.asked.append("cancel")
        self.cancelled.set()
        return self.near

    def close(self) -> None:
        pass


def encoder() -> Encoder:
    """An encoder of the example names in docs/messages.md."""
    return Encoder(Origin("server", "database"), "ingest-queue")
