"""Where a worker's time goes: one slice after another through the product's own Drain, each of its ports timed. No Spark.

Also the ceilings it is compared with: the public driver and the public SDK doing nothing but their part of the same work. `fetch`
replays the very statements that the product sent, through pymssql's fetchall; `send` puts the same messages into the SDK's batches;
`encode` is orjson over dictionaries that stand ready; `commit` is a bare UPDATE a page. Ceilings are not of our code.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessageSizeExceededError

from bench.ingestion.ground import origin, sql_address
from common.clock import unix
from common.message import Message
from common.names import TableName
from common.servicebus.namespace import ServiceBus
from dstream.emulators import Login
from ingester.position import Position
from ingester.slices import Slice
from ingester.source import CaptureInstance, PageQuery, ProbeRequest
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.source import SqlServerSource
from ingester.sqlserver.sql import changes as queries
from ingester.task.drain import Drain
from ingester.task.encode import Encoder
from ingester.task.read_ahead import ReadAhead

STAGES: Final = ("fetch", "convert", "encode", "send", "commit")
CEILINGS: Final = ("fetch", "encode", "send", "commit")
"""Stages that somebody else's code has a part in; what is made of the rows in between is ours alone."""
PAGE_ROWS: Final = 2000
"""The setting's default."""
_EPOCH: Final = 1
_SENT_AGAIN: Final = 20_000
"""Messages that the SDK's ceiling is taken from; its speed does not depend on their number."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where both services are."""

    login: Login
    bus: str
    queue: str


@dataclass(slots=True)
class Watch:
    """Seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def during(self, stage: str) -> Any:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started


class _Connection(Connection):
    """Times what fetches a page and remembers its text."""

    def __init__(self, place: Place, watch: Watch) -> None:
        super().__init__(sql_address(place.login))
        self._watch = watch
        self.statements: list[str] = []

    def rows_until(
        self, sql: str, parameters: Sequence[object], enough: Callable[[tuple[Any, ...]], bool] | None
    ) -> Any:
        self.statements.append(with_literals(sql, parameters))
        with self._watch.during("fetch"):
            return super().rows_until(sql, parameters, enough)


class _Timed:
    """Another's methods, the time of one of them noted."""

    def __init__(self, inner: Any, method: str, stage: str, watch: Watch) -> None:
        self._inner, self._method, self._stage, self._watch = inner, method, stage, watch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name != self._method:
            return found

        def timed(*arguments: Any, **named: Any) -> Any:
            with self._watch.during(self._stage):
                return found(*arguments, **named)

        return timed


@dataclass(frozen=True, slots=True)
class Split:
    """`changes` through Drain in `seconds`; `stages`: seconds of each; `statements`: the pages' texts, for the ceilings."""

    changes: int
    pages: int
    seconds: float
    stages: dict[str, float]
    statements: list[str]


def split(place: Place, tables: Sequence[TableName], *, ahead: bool) -> Split:
    """Drain `tables` one after the other. `ahead`: as the product does, reading a page while the one before is sent; stages overlap then."""
    watch = Watch()
    connection = _Connection(place, watch)
    offsets = SqlServerOffsets(Connection(sql_address(place.login)))
    offsets.ensure()
    with place.login.connect() as client, client.cursor() as cursor:
        cursor.execute("DELETE FROM dbo.cdc_offsets")
    source = SqlServerSource(connection)
    bus = ServiceBus.from_connection_string(place.bus)
    changes = pages = 0
    with closing(source), closing(offsets), closing(bus), closing(bus.sender(place.queue)) as sender:
        sender.batch_bytes()  # opens the link
        encoder: Any = _Timed(Encoder(origin(), place.queue), "message", "encode", watch)
        timed: Any = _Timed(source, "page", "page", watch)
        parts: dict[str, Any] = {
            "source": ReadAhead(timed) if ahead else timed,
            "offsets": _Timed(offsets, "commit", "commit", watch),
            "sender": _Timed(sender, "send", "send", watch),
        }
        drain = Drain(**parts, encoder=encoder, now=unix)
        slices = [whole_slice(source, offsets, table) for table in tables]
        started = time.perf_counter()
        for todo in slices:
            result = drain.run(todo)
            if result.trouble is not None:
                raise SystemExit(f"draining {todo.table.key}: {result.message}")
            changes, pages = changes + result.changes, pages + result.pages
        seconds = time.perf_counter() - started
    spent = watch.seconds
    spent["convert"] = spent.pop("page") - spent["fetch"]
    return Split(changes, pages, seconds, {stage: spent[stage] for stage in STAGES}, connection.statements)


def whole_slice(source: SqlServerSource, offsets: SqlServerOffsets, table: TableName) -> Slice:
    """All that is captured of a table, which this claims."""
    instance = source.states([table])[table].instances[0]
    captured = source.probe([ProbeRequest(instance, None)]).upto
    assert captured is not None
    offsets.claim(table, _EPOCH)
    return Slice(table, instance, instance.start, captured, _EPOCH, rows=PAGE_ROWS, seconds=3600)


def whole_batch(cursor: Any, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a page's statement. All its result sets are read."""
    cursor.execute(statement)
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    while cursor.nextset():
        cursor.fetchall()
    return rows


def fetch_ceiling(place: Place, statements: Sequence[str]) -> float:
    """Rows/s of pymssql's fetchall over the pages' own statements."""
    with place.login.connect() as connection, connection.cursor() as cursor:
        rows, started = 0, time.perf_counter()
        for statement in statements:
            rows += len(whole_batch(cursor, statement))
        return rows / (time.perf_counter() - started)


def plain_ceiling(place: Place, table: TableName, page: int) -> float:
    """Rows/s of pymssql's fetchall over the same columns as they lie, page by page: nothing is converted for it."""
    instance = f"cdc.{table.schema}_{table.table}_CT"
    marks: tuple[object, ...] = (bytes(10), bytes(10))
    with place.login.connect() as connection, connection.cursor() as cursor:
        rows, started = 0, time.perf_counter()
        while True:
            lsn, seqval = (f"0x{bytes(mark).hex()}" for mark in marks)  # type: ignore[call-overload]
            cursor.execute(
                f"SELECT TOP ({page}) ct.* FROM {instance} AS ct WHERE ct.[__$start_lsn] > {lsn} OR (ct.[__$start_lsn] = {lsn} "
                f"AND ct.[__$seqval] > {seqval}) ORDER BY ct.[__$start_lsn], ct.[__$seqval]"
            )
            found = cursor.fetchall()
            if not found:
                return rows / (time.perf_counter() - started)
            rows += len(found)
            marks = (found[-1][0], found[-1][2])


def messages(place: Place, table: TableName, count: int = _SENT_AGAIN) -> list[Message]:
    """What the product sends for the first `count` changes of a table."""
    with closing(Connection(sql_address(place.login))) as connection:
        source = SqlServerSource(connection)
        instance = source.states([table])[table].instances[0]
        page = _pages(source, instance, count)
        encoder = Encoder(origin(), place.queue)
        return [encoder.message(change) for change in page]


def _pages(source: SqlServerSource, instance: CaptureInstance, count: int) -> list[Any]:
    captured = source.probe([ProbeRequest(instance, None)]).upto
    assert captured is not None
    found: list[Any] = []
    after: Position | None = instance.start
    while after is not None and len(found) < count:
        page = source.page(PageQuery(instance, after=after, upto=captured, rows=PAGE_ROWS))
        found += page.changes
        after = page.end
    return found[:count]


def encode_ceiling(sent: Sequence[Message]) -> float:
    """Messages/s of orjson over the bodies' own contents."""
    contents = [orjson.loads(message.body) for message in sent]
    started = time.perf_counter()
    for content in contents:
        orjson.dumps(content)
    return len(sent) / (time.perf_counter() - started)


def send_ceiling(place: Place, sent: Sequence[Message]) -> float:
    """Messages/s of the public SDK: create_message_batch, add_message, send_messages."""
    with (
        ServiceBusClient.from_connection_string(place.bus) as client,
        client.get_queue_sender(place.queue) as sender,
    ):
        started = time.perf_counter()
        batch = sender.create_message_batch()
        batch = sender.create_message_batch(batch.max_size_in_bytes - 2048)  # the SDK forgets its envelope
        limit = batch.max_size_in_bytes
        for message in sent:
            made = ServiceBusMessage(
                message.body,
                message_id=message.message_id,
                session_id=message.session_id,
                subject=message.subject,
                content_type=message.content_type,
                application_properties=dict(message.application_properties),
            )
            try:
                batch.add_message(made)
            except MessageSizeExceededError:
                sender.send_messages(batch)
                batch = sender.create_message_batch(limit)
                batch.add_message(made)
        sender.send_messages(batch)
        return len(sent) / (time.perf_counter() - started)


def commit_ceiling(place: Place, table: TableName, rounds: int = 300) -> float:
    """Round trips/s of an UPDATE of one offset."""
    with place.login.connect() as connection, connection.cursor() as cursor:
        started = time.perf_counter()
        for number in range(rounds):
            cursor.execute(
                f"UPDATE dbo.cdc_offsets SET updated_at = GETDATE() WHERE table_name = N'{table.key}' AND {number} >= 0\n"
                "SELECT @@ROWCOUNT"
            )
            cursor.fetchall()
        return rounds / (time.perf_counter() - started)


def with_literals(sql: str, parameters: Sequence[object]) -> str:
    """A statement as one text, which any driver can send."""
    parts = sql.split(queries.P)
    shown = [f"0x{value.hex()}" if isinstance(value, bytes) else _shown(value) for value in parameters]
    return parts[0] + "".join(value + part for value, part in zip(shown, parts[1:], strict=True))


def _shown(value: object) -> str:
    return str(value) if isinstance(value, int) else f"N'{value}'"
