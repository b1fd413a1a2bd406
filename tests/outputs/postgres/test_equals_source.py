"""The table of PostgreSQL equals the table of SQL Server, row by row, after a random workload with updates of keys and other columns.

The ingester's own source, encoder and schema events make the messages; two routers deliver them, session by session, with copies of older chunks
in between, while connections are cut and the server is killed. Spark and the queue are left out: they keep a session's order, and nothing else here.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from common.clock import unix
from common.errors import DStreamError
from common.in_time import begun
from common.message import Message
from common.names import Origin, TableName
from dstream.emulators import Login
from ingester.shape.table_shape import TableShape
from ingester.slices import Slice
from ingester.source import CaptureInstance, ProbeRequest
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.schema.store import SqlServerSchemas
from ingester.task.drain import Drain
from ingester.task.encode import Encoder
from ingester.window import window
from router.outputs.port import Stream
from router.outputs.postgres.output import PostgresOutput
from tests.contracts.source.test_source import Place
from tests.fakes.ingester import FakeSender
from tests.outputs.postgres.world import PostgresWorld, settings

KEYS = 40
LONGEST = 300.0
EVENTS = TableShape(schema_events=True, initial_schema_events=True)
ORIGIN = Origin("server", "database")


class Shop(Place):
    """A table under capture, with a random workload, and the messages that the ingester makes of it."""

    def __init__(self, login: Login, random: Random) -> None:
        super().__init__(login)
        self.random = random
        self.table = TableName("dbo", f"Goods{random.getrandbits(40)}")
        self.columns = ["ID", "Name", "Price", "Sold", "Raw", "Bio"]
        self.execute(
            f"CREATE TABLE {self.table.quoted} (ID INT PRIMARY KEY, Name NVARCHAR(20) NULL, Price DECIMAL(9,2) NULL, Sold BIT NULL, "
            "Raw VARBINARY(20) NULL, Bio NVARCHAR(MAX) NULL)"
        )
        self.enable(table=self.table.table, capture_instance="first")
        self.execute("EXEC sys.sp_cdc_stop_job")
        self.offsets = SqlServerOffsets(self.connection)
        self.offsets.ensure()
        self.offsets.claim(self.table, 1)
        self.sender = FakeSender()
        encoder = Encoder(ORIGIN, "ingest-queue", "key", 4)
        schemas = SqlServerSchemas(self.connection)
        self.drain = Drain(self.source, self.offsets, self.sender, encoder, unix, before_images=True, schemas=schemas)

    def work(self, statements: int) -> None:
        for _ in range(statements):
            with suppress(Exception):  # a key that is taken already: the statement changes nothing
                self.execute(self._statement())

    def other_columns(self) -> None:
        """A column is added, and another capture instance has it."""
        self.scan()
        self.execute(f"ALTER TABLE {self.table.quoted} ADD Later NVARCHAR(20) NULL")
        self.columns.append("Later")
        self.enable(table=self.table.table, capture_instance="again")

    def messages(self) -> Sequence[Message]:
        """All that is captured and was not yet sent, of the first capture instance and then of the second."""
        self.scan()
        self.sender.sent.clear()
        known = tuple(self.source.states([self.table])[self.table].instances)
        self._drain(known)
        if len(known) > 1:
            seen = self.offsets.load(self.table, 1)
            if seen is None or seen < known[1].start:
                self.offsets.commit(
                    self.table, 1, seen=seen, position=known[1].start
                )  # the driver moves it to the border
            self._drain(known)
        return list(self.sender.sent)

    def rows(self) -> list[tuple[Any, ...]]:
        names = ", ".join(self.columns)
        self._cursor.execute(f"SELECT {names} FROM {self.table.quoted} ORDER BY ID")
        return [tuple(_plain(value) for value in row) for row in self._cursor.fetchall()]

    def _drain(self, known: tuple[CaptureInstance, ...]) -> None:
        begin = self.offsets.load(self.table, 1)
        part = window(known, begin, self.source.probe([ProbeRequest(known[0], None)]).upto)
        if part.upto is None:
            return
        start = begin or part.instance.start
        todo = Slice(self.table, part.instance, start, part.upto, epoch=1, rows=100, seconds=60.0)
        result = self.drain.run(replace(todo, shape=EVENTS))
        assert result.trouble is None, result.message

    def _statement(self) -> str:
        random, table = self.random, self.table.quoted
        key, other = random.randrange(KEYS), random.randrange(KEYS)
        later = random.choice(["", ", Later = N'l'"]) if "Later" in self.columns else ""
        bio = random.choice(["NULL", "REPLICATE(N'b', 200)"])
        values = (
            f"{self._name()}, {random.randrange(999)}.25, {random.randrange(2)}, 0x{random.randrange(256):02x}00, {bio}"
        )
        return random.choice(
            [
                f"INSERT INTO {table} (ID, Name, Price, Sold, Raw, Bio) VALUES ({key}, {values})",
                f"UPDATE {table} SET Name = {self._name()}{later} WHERE ID = {key}",
                f"UPDATE {table} SET Sold = 1 - Sold, Price = NULL{later} WHERE ID < {key}",
                f"UPDATE {table} SET Bio = NULL WHERE ID = {key}",
                f"UPDATE {table} SET ID = {other} WHERE ID = {key}",
                f"UPDATE {table} SET ID = ID + {KEYS} WHERE ID BETWEEN {min(key, other)} AND {min(key, other) + 3}",
                f"UPDATE {table} SET ID = ID - {KEYS} WHERE ID >= {KEYS}",
                f"DELETE FROM {table} WHERE ID = {key}",
                f"DELETE FROM {table} WHERE ID BETWEEN {key} AND {key + 2}",
            ]
        )

    def _name(self) -> str:
        return self.random.choice(["NULL", "N'žluť 🐎'", "N''", "N'a''b'", f"N'{self.random.randrange(1000)}'"])


class Router:
    """Sends its sessions in their order, in chunks, some of them again. What fails is sent once more."""

    def __init__(self, world: PostgresWorld, stream: Stream, random: Random) -> None:
        self._output = PostgresOutput(settings(world.relay.port, timeout=5.0))
        self._sender = self._output.sender(stream)
        self._random = random
        self.failures = 0

    def deliver(self, sessions: dict[str, list[Message]], stop: threading.Event) -> None:
        """In the end late copies of any chunk: whatever a network may still have held."""
        done, copies = dict.fromkeys(sessions, 0), 20
        while not stop.is_set() and sessions:
            open_ = [name for name in sessions if done[name] < len(sessions[name])]
            if not open_:
                copies -= 1
            if copies < 0:
                return
            name = self._random.choice(open_ or list(sessions))
            at, count = done[name], self._random.choice([1, 2, 8, 40])
            if at and (not open_ or self._random.random() < 0.3):
                at = self._random.randrange(at)  # from there on some come again
            chunk = sessions[name][at : at + count]
            try:
                self._sender.send(chunk)
            except DStreamError as error:
                self.failures += 1
                done[name] = max(done[name], at + _leading(getattr(error, "accepted", ()), len(chunk)))
                stop.wait(0.02)
            else:
                done[name] = max(done[name], at + len(chunk))

    def close(self) -> None:
        self._output.close()


def _leading(accepted: Any, count: int) -> int:
    return next((at for at in range(count) if at not in accepted), count)


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else value


def delivered(world: PostgresWorld, stream: Stream, messages: Sequence[Message], random: Random, kills: int) -> int:
    """By two routers, each with sessions of its own, and as many of the server's deaths. Returns how many sends failed."""
    sessions: dict[str, list[Message]] = defaultdict(list)
    for message in messages:
        sessions[str(message.session_id)].append(message)
    halves: list[dict[str, list[Message]]] = [{}, {}]
    for at, (name, each) in enumerate(sessions.items()):
        halves[at % 2][name] = each
    routers = [Router(world, stream, Random(random.random())) for _ in halves]
    stop, faults = threading.Event(), Random(random.random())
    calls = [
        begun(lambda router=router, half=half: router.deliver(half, stop), name="router")  # type: ignore[misc]
        for router, half in zip(routers, halves, strict=True)
    ]
    try:
        while not all(call.done() for call in calls):
            stop.wait(faults.uniform(0.02, 0.2))
            if kills and faults.random() < 0.3:
                kills -= 1
                world.stop()
                world.start()
            else:
                world.relay.drop()
            stop.wait(0.2)  # something must get through
        for call in calls:
            call.result(LONGEST)
    finally:
        stop.set()
        for router in routers:
            router.close()
    return sum(router.failures for router in routers)


@pytest.fixture
def shop(login: Login, seed: int) -> Iterator[Shop]:
    with closing(Shop(login, Random(seed))) as made:
        yield made


def equal_after(shop: Shop, world: PostgresWorld, *, rounds: int, statements: int, kills: int) -> None:
    topic = ORIGIN.topic(shop.table)
    stream = Stream(topic, shop.table, settings(1).place(ORIGIN, topic, shop.table))
    sent = 0
    for number in range(rounds):
        if number == 1:
            shop.other_columns()
        shop.work(statements)
        messages = shop.messages()
        sent += len(messages)
        delivered(world, stream, messages, shop.random, kills)
        names = ", ".join(f'"{name.lower()}"' for name in shop.columns)
        if sent:
            found = world.server.rows(f"SELECT {names} FROM {stream.destination} ORDER BY id")
            assert [tuple(_plain(value) for value in row) for row in found] == shop.rows(), f"round {number}"
    assert sent > statements


@pytest.mark.parametrize("seed", [1, 2])
def test_the_table_equals_its_source(shop: Shop, postgres: PostgresWorld, seed: int) -> None:
    equal_after(shop, postgres, rounds=3, statements=60, kills=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 130))
def test_the_table_equals_its_source_again_and_again(shop: Shop, postgres: PostgresWorld, seed: int) -> None:
    equal_after(shop, postgres, rounds=6, statements=300, kills=5)
