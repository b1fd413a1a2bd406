"""Random tables, rows and transactions through everything but Spark: what was committed is what arrives on the topics.

Real pymssql, the real Service Bus SDK, both emulators, the router in a thread; a slice is drained as a Spark task would drain it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from common.bus.ports import QueueNeed
from common.clock import unix
from common.names import Origin, TableName
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from common.servicebus.sender import BusSender
from common.servicebus.settings import ServiceBusSettings
from common.sqladdress import SqlAddress
from dstream.demo import types_table
from dstream.demo.ledger import DELETE, INSERT, UPDATE, Committed, Ledger
from dstream.demo.subscriber import Subscriber
from dstream.demo.verdict import Received, Verdict, judge
from dstream.emulators import Login
from emulators.servicebus.server import ServiceBusEmulator
from emulators.sqlserver.server import SqlServerEmulator
from ingester.driver.strides import Strides
from ingester.driver.tables import TrackedTable
from ingester.slices import Slice, SliceResult, Trouble
from ingester.source import ProbeRequest
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.source import SqlServerSource
from ingester.task.drain import Drain
from ingester.task.encode import Encoder
from ingester.window import window
from router import app as router_wiring
from router.outputs.azure_service_bus.settings import ServiceBusOutput
from router.settings import RouterSettings
from tests.conftest import PASSWORD, USER

TABLES = (TableName("dbo", "Plain"), TableName("odd", "Order Details"))
ORIGIN = Origin("props", "props")
QUEUE = "ingest-queue"
EPOCH = 1
BUCKETS = 1

_TYPES = {
    "ABit": "BIT",
    "ABigint": "BIGINT",
    "ADecimal": "DECIMAL(38,10)",
    "AMoney": "MONEY",
    "AFloat": "FLOAT",
    "AReal": "REAL",
    "ANvarchar": "NVARCHAR(50)",
    "AVarchar": "VARCHAR(50)",
    "ANvarcharMax": "NVARCHAR(MAX)",
    "ADatetime": "DATETIME",
    "ADatetime2": "DATETIME2(7)",
    "AnOffset": "DATETIMEOFFSET(3)",
    "AVarbinary": "VARBINARY(50)",
    "AGuid": "UNIQUEIDENTIFIER",
}

# Hypothesis asks whether the global source of random numbers moved while it drew an example; the router's threads move it.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the .random. module inside strategies")

Step = tuple[str, int, int]
"""(what is done, which table, a seed for which rows and values)"""

STEPS = st.tuples(
    st.sampled_from(["insert", "update", "delete", "move", "shift"]), st.sampled_from([0, 1]), st.integers(0, 2**16)
)
HISTORIES = st.lists(
    st.tuples(st.lists(STEPS, min_size=1, max_size=5), st.sampled_from([True, True, True, False])),
    min_size=1,
    max_size=8,
)
COLUMNS = st.lists(st.sampled_from(sorted(_TYPES)), min_size=0, max_size=9, unique=True)


@dataclass
class Model:
    """One table as an application knows it, and how it writes to it."""

    name: TableName
    columns: Sequence[str]
    rows: dict[int, dict[str, object]] = field(default_factory=dict)
    next_id: int = 1
    version: int = 0

    def create(self, cursor: Any) -> None:
        columns = "".join(f", [{c} of it] {_TYPES[c]} NULL" for c in self.columns)
        cursor.execute(f"CREATE TABLE {self.name.quoted} (Id INT NOT NULL PRIMARY KEY, Version INT NOT NULL{columns})")
        cursor.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = %s, @source_name = %s, @role_name = NULL",
            (self.name.schema, self.name.table),
        )

    def run(self, step: Step, cursor: Any) -> list[list[Committed]]:
        """Run one statement; its changes in groups."""
        kind, _, seed = step
        random = Random(seed)
        if kind == "insert" or not self.rows:
            return self._insert(cursor, random)
        chosen = random.choice(sorted(self.rows))
        return {"update": self._update, "delete": self._delete, "move": self._move, "shift": self._shift}[kind](
            cursor, random, chosen
        )

    def _change(self, operation: str, rows: Sequence[dict[str, object]]) -> list[Committed]:
        return [Committed(self.name, operation, dict(row)) for row in rows]

    def _row(self, random: Random) -> tuple[str, dict[str, object]]:
        pairs = {c: types_table.value(c, random) for c in self.columns}
        self.version += 1
        row: dict[str, object] = {"Id": self.next_id, "Version": self.version}
        self.next_id += 1
        row |= {f"{c} of it": json for c, (_, json) in pairs.items()}
        return f"({', '.join([str(row['Id']), str(self.version), *(literal for literal, _ in pairs.values())])})", row

    def _insert(self, cursor: Any, random: Random) -> list[list[Committed]]:
        made = [self._row(random) for _ in range(random.randint(1, 4))]
        cursor.execute(f"INSERT INTO {self.name.quoted} VALUES {', '.join(sql for sql, _ in made)}")
        rows = [row for _, row in made]
        self.rows |= {_id(row): row for row in rows}
        return [self._change(INSERT, rows)]

    def _update(self, cursor: Any, random: Random, chosen: int) -> list[list[Committed]]:
        self.version += 1
        changed = random.sample(list(self.columns), random.randint(0, len(self.columns)))
        pairs = {c: types_table.value(c, random) for c in changed}
        row = self.rows[chosen]
        row |= {"Version": self.version} | {f"{c} of it": json for c, (_, json) in pairs.items()}
        sets = "".join(f", [{c} of it] = {literal}" for c, (literal, _) in pairs.items())
        cursor.execute(f"UPDATE {self.name.quoted} SET Version = {self.version}{sets} WHERE Id = {chosen}")
        return [self._change(UPDATE, [row])]

    def _delete(self, cursor: Any, random: Random, chosen: int) -> list[list[Committed]]:
        cursor.execute(f"DELETE FROM {self.name.quoted} WHERE Id = {chosen}")
        return [self._change(DELETE, [self.rows.pop(chosen)])]

    def _move(self, cursor: Any, random: Random, chosen: int) -> list[list[Committed]]:
        self.version += 1
        old = self.rows.pop(chosen)
        new = old | {"Id": self.next_id, "Version": self.version}
        cursor.execute(
            f"UPDATE {self.name.quoted} SET Id = {self.next_id}, Version = {self.version} WHERE Id = {chosen}"
        )
        self.rows[self.next_id] = new
        self.next_id += 1
        return [self._change(DELETE, [old]), self._change(INSERT, [new])]

    def _shift(self, cursor: Any, random: Random, chosen: int) -> list[list[Committed]]:
        """Every key from `chosen` on moves up by one, over its neighbour."""
        old = [row for number, row in sorted(self.rows.items()) if number >= chosen]
        base, self.version = self.version + 1, self.version + self.next_id + 1
        new = [row | {"Id": _id(row) + 1, "Version": base + _id(row)} for row in old]
        cursor.execute(f"UPDATE {self.name.quoted} SET Id = Id + 1, Version = {base} + Id WHERE Id >= {chosen}")
        for row in old:
            del self.rows[_id(row)]
        self.rows |= {_id(row): row for row in new}
        self.next_id += 1
        return [self._change(DELETE, old), self._change(INSERT, new)]


def _id(row: dict[str, object]) -> int:
    number = row["Id"]
    assert isinstance(number, int)
    return number


class Line:
    """The line from change table to topic, kept open over all examples: links cost half a second each to open."""

    def __init__(self, login: Login, bus: ServiceBusEmulator) -> None:
        self.login = login
        self.connection = Connection(
            SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))
        )
        self.source = SqlServerSource(self.connection)
        self.offsets = SqlServerOffsets(self.connection)
        self.offsets.ensure()
        endpoint = f"http://127.0.0.1:{bus.http_port}"
        service = ServiceBus.from_connection_string(bus.connection_string)
        provision(service.address, [QueueNeed(QUEUE, sessions=True)], how="create", management_endpoint=endpoint)
        self.sender: BusSender = service.sender(QUEUE)
        topics = {table: ORIGIN.topic(table) for table in TABLES}
        reach = {"connection_string": SecretStr(bus.connection_string), "management_endpoint": endpoint}
        routing = RouterSettings(
            source=ServiceBusSettings.model_validate(reach),
            output=ServiceBusOutput.model_validate(reach),
            slots=2,
            queue_name=QUEUE,
            ordering="table",
            topics={topic: table for table, topic in topics.items()},
        )
        self._stop = threading.Event()
        self._router = threading.Thread(target=router_wiring.run, args=(routing, self._stop), name="router")
        self._router.start()
        self.subscriber = Subscriber(bus.connection_string, topics)
        self.subscriber.start()

    def drain(self, rows: int) -> None:
        """What the driver and a worker do, until nothing is pending."""
        drain = Drain(self.source, self.offsets, self.sender, Encoder(ORIGIN, QUEUE), unix)
        for todo in self._windows(rows):
            result = drain.run(todo)
            assert result.trouble is None, result

    def drain_by_parts(self, rows: int, room: int, dying: Random) -> None:
        """The same by strides of `room` parts, of which now and then one is never run: its worker died, and the others' sends stand."""
        drain = Drain(self.source, self.offsets, self.sender, Encoder(ORIGIN, QUEUE, "key", BUCKETS), unix)
        strides = Strides(self.source, self.offsets, "key")
        for todo in self._windows(rows):
            table = TrackedTable(todo.table, backlog=True, page_rows=rows)
            if self.offsets.load(todo.table, EPOCH) is None:
                self.offsets.commit(todo.table, EPOCH, seen=None, position=todo.start)
            more = True
            while more:
                table.offset = self.offsets.load(todo.table, EPOCH)
                parts = strides.slices(todo, table, room=room)
                dying.shuffle(parts)
                dead = dying.randrange(2 * len(parts))
                results = [
                    SliceResult(part.table, None, trouble=Trouble.TRANSIENT, part=part.part)
                    if at == dead
                    else drain.run(part)
                    for at, part in enumerate(parts)
                ]
                *_, result = [strides.settled(one) for one in results]
                assert result is not None
                assert result.trouble in (None, Trouble.TRANSIENT), result
                more = result.more or result.trouble is not None

    def _windows(self, rows: int) -> Iterator[Slice]:
        """What there is to read of each table, as one slice."""
        for table, state in self.source.states(TABLES).items():
            after = self.offsets.claim(table, EPOCH).position
            instance = state.instances[0]
            probe = self.source.probe([ProbeRequest(instance, after)])
            upto = window(state.instances, after, probe.upto).upto
            if upto is not None:
                start = instance.start
                yield Slice(table, instance, start, upto, EPOCH, rows, seconds=60)

    def arrived(self, counts: dict[TableName, int], since: dict[TableName, int]) -> dict[TableName, Sequence[Received]]:
        """What arrived beyond `since`, once there is as much as `counts` or nothing more comes."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            found = {table: messages[since[table] :] for table, messages in self.subscriber.received().items()}
            if all(len(found[table]) >= counts.get(table, 0) for table in TABLES):
                break
            time.sleep(0.005)
        return found

    def close(self) -> None:
        self.subscriber.stop()
        self._stop.set()
        self._router.join()
        self.sender.close()
        self.connection.close()


@pytest.fixture(scope="module")
def line(sqlserver: SqlServerEmulator) -> Iterator[Line]:
    master = Login("127.0.0.1", sqlserver.port, USER, PASSWORD, "master")
    with master.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE props")
    login = Login("127.0.0.1", sqlserver.port, USER, PASSWORD, "props")
    with login.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA odd")
        cursor.execute("EXEC sys.sp_cdc_enable_db")
    with ServiceBusEmulator() as bus:
        made = Line(login, bus)
        yield made
        made.close()


def check(
    line: Line,
    columns: Sequence[Sequence[str]],
    history: Sequence[tuple[Sequence[Step], bool]],
    rows: int,
    parts: tuple[int, int] | None = None,
) -> None:
    """Play `history`, some transactions rolled back, drain in pages of `rows`, and compare.

    `parts`: drain by so many tasks and judge the order of each key alone; which of them die follows from the other number.
    """
    ledger, models = Ledger(), [Model(name, chosen) for name, chosen in zip(TABLES, columns, strict=True)]
    since = line.subscriber.counts()
    with line.login.connect() as connection, connection.cursor() as cursor:
        for model in models:
            model.create(cursor)
        try:
            for steps, kept in history:
                play(ledger, models, steps, kept, cursor)
            cursor.execute("EXEC sys.sp_cdc_scan")
            if parts is None:
                line.drain(rows)
            else:
                line.drain_by_parts(rows, parts[0], Random(parts[1]))
            arrived = line.arrived(ledger.counts(), since)
            for verdict in [judge(ledger, arrived, TABLES)] if parts is None else judged_by_key(ledger, arrived):
                assert verdict.good, [example for table in verdict.tables.values() for example in table.examples]
        finally:
            for model in models:
                cursor.execute(f"DROP TABLE {model.name.quoted}")
            cursor.execute("DELETE FROM dbo.cdc_offsets")


def judged_by_key(ledger: Ledger, arrived: dict[TableName, Sequence[Received]]) -> list[Verdict]:
    """A verdict on the changes of each key, which are to be in order among themselves alone."""
    ledgers: dict[tuple[TableName, object], Ledger] = {}
    messages: dict[tuple[TableName, object], list[Received]] = {}
    for table in TABLES:
        for change, _, at in ledger.entries(table):
            ledgers.setdefault((table, change.row["Id"]), Ledger()).commit([[change]], at)
        for message in arrived[table]:
            messages.setdefault((table, json.loads(message.body)["data"]["Id"]), []).append(message)
    return [
        judge(ledgers.get(key, Ledger()), {key[0]: messages.get(key, [])}, [key[0]])
        for key in ledgers.keys() | messages.keys()
    ]


def play(ledger: Ledger, models: Sequence[Model], steps: Sequence[Step], kept: bool, cursor: Any) -> None:
    before = [{number: dict(row) for number, row in model.rows.items()} for model in models]
    cursor.execute("BEGIN TRANSACTION")
    groups = [group for step in steps for group in models[step[1]].run(step, cursor)]
    if kept:
        cursor.execute("COMMIT TRANSACTION")
        ledger.commit(groups, time.time())
        return
    cursor.execute("ROLLBACK TRANSACTION")
    for model, rows in zip(models, before, strict=True):
        model.rows = rows


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.tuples(COLUMNS, COLUMNS), HISTORIES, st.integers(2, 12))
def test_what_was_committed_is_what_arrives(
    line: Line, columns: tuple[list[str], list[str]], history: list[tuple[list[Step], bool]], rows: int
) -> None:
    check(line, columns, history, rows)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(COLUMNS, HISTORIES, st.integers(2, 6), st.tuples(st.integers(2, 4), st.integers(0, 2**16)))
def test_each_keys_changes_arrive_in_order_through_parts_whose_workers_die(
    line: Line, columns: list[str], history: list[tuple[list[Step], bool]], rows: int, parts: tuple[int, int]
) -> None:
    check(line, (columns, []), history, rows, parts)


@pytest.mark.soak
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.tuples(COLUMNS, COLUMNS), HISTORIES, st.integers(2, 12))
def test_a_thousand_histories_arrive(
    line: Line, columns: tuple[list[str], list[str]], history: list[tuple[list[Step], bool]], rows: int
) -> None:
    check(line, columns, history, rows)
