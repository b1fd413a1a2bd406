"""The configuration edited while services run: the fourth of the demo's tables comes in without a restart, and a mistake changes nothing.

The transactions are sent as well, and a consumer finds each of them complete.
Then a pattern takes the place of the names, and finds a table that comes under Change Data Capture later.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.names import TRANSACTIONS, Origin, TableName
from dstream.demo.ledger import Ledger
from dstream.demo.processes import Service, environment, write_config
from dstream.demo.schema import CUSTOMERS, EVERYTHING, TABLES, create
from dstream.demo.subscriber import Subscriber
from dstream.demo.verdict import judge
from dstream.demo.workload import Pace, Workload
from dstream.emulators import Emulators
from tests.worlds.world import good, wait_until

DATABASE = "demo"
ALL = ", ".join(f'"{table.key}"' for table in TABLES)
LATE = TableName("dbo", "Late")
THREE = ", ".join(f'"{table.key}"' for table in TABLES if table != EVERYTHING)


class World:
    """The demo's pipeline, with a configuration in which a table is missing."""

    def __init__(self, folder: Path, emulators: Emulators) -> None:
        self.emulators = emulators
        create(emulators.login)
        variables = environment(emulators)
        self.config = write_config(
            folder, emulators, "200ms", tasks=2, routing="workers = 1", more="transactions = true"
        )
        self.edit(ALL, THREE)
        self.ingester = Service("ingester", self.config, variables, folder / "ingester.log")
        self.router = Service("router", self.config, variables, folder / "router.log")
        self.ledger = Ledger()
        self.workload = Workload(emulators.login, self.ledger, Pace(changes=400, seconds=1, large=100), seed=3)
        topics = {table: Origin("localhost", DATABASE).topic(table) for table in (*TABLES, TRANSACTIONS)}
        self.subscriber = Subscriber(emulators.bus_connection_string, topics)

    def edit(self, old: str, new: str) -> None:
        """As an editor does it: another file in the place of the first."""
        text = self.config.read_text()
        assert old in text
        beside = self.config.with_suffix(".new")
        beside.write_text(text.replace(old, new))
        beside.replace(self.config)

    def log(self) -> str:
        return self.ingester.log.read_text()

    def delivered(self, *but: object) -> bool:
        received = self.subscriber.counts()
        committed = {table: count for table, count in self.ledger.counts().items() if table not in but}
        return bool(committed) and all(received.get(table, 0) >= count for table, count in committed.items())


def transactions(world: World) -> tuple[dict[str, dict[str, int]], Counter[tuple[str, str]]]:
    """What the `End` of each transaction says of each table, and how many changes of each transaction and table have arrived."""
    ends: dict[str, dict[str, int]] = {}
    arrived: Counter[tuple[str, str]] = Counter()
    for table, messages in world.subscriber.received().items():
        for body in {message.message_id: message.body for message in messages}.values():
            said = json.loads(body)["metadata"]["Transaction"]
            if table != TRANSACTIONS:
                arrived[said["Id"], table.key] += 1
            elif said["Status"] == "END":
                assert said["Id"] not in ends
                ends[said["Id"]] = {one["Table"]: one["Count"] for one in said["Tables"]}
    return ends, arrived


def complete(ends: dict[str, dict[str, int]], arrived: Counter[tuple[str, str]]) -> bool:
    """Whether each transaction of the tables that were there from the beginning has its `End`, and all that this counts has arrived."""
    told = {(number, table): count for number, counts in ends.items() for table, count in counts.items()}
    there = {key: count for key, count in arrived.items() if key[1] != EVERYTHING.key or key in told}
    return bool(told) and told == there


def a_table_that_comes_under_capture_later_is_found(world: World) -> None:
    """In the world of the test above. Its first change is committed before anybody can have seen it."""
    world.edit(ALL, '"*.*", "!*.Ignored"')
    late = Subscriber(world.emulators.bus_connection_string, {LATE: Origin("localhost", DATABASE).topic(LATE)})
    late.start()
    with world.emulators.login.connect() as connection, connection.cursor() as cursor:
        for table in (LATE.table, "Ignored"):
            cursor.execute(f"CREATE TABLE dbo.{table} (ID int PRIMARY KEY)")
            cursor.execute(f"EXEC sys.sp_cdc_enable_table N'dbo', N'{table}', @role_name = NULL")
            cursor.execute(f"INSERT INTO dbo.{table} VALUES (1)")
    try:
        wait_until(lambda: late.counts()[LATE] == 1, "the first change of the new table arrived")
    finally:
        late.stop()
    assert world.log().count("table matched") == len(TABLES) + 1
    assert "dbo.Ignored" not in world.log()
    assert "table removed" not in world.log()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Emulators(database=DATABASE, capture_interval=0.3) as emulators:
        world = World(tmp_path, emulators)
        world.router.start()
        world.ingester.start()
        world.subscriber.start()
        try:
            yield world
        finally:
            world.workload.stop()
            world.subscriber.stop()
            for service in (world.ingester, world.router):
                service.stop()


def reshaped(world: World) -> None:
    """A shape is taken over at once; one that does not fit stops its table until it is corrected, and nothing is sent in the wrong shape."""
    shape = 'shape {\n        exclude_columns = ["Balance"]\n        mask { Email = "truncate:3" }\n    }\n    tables ='
    own = """\
tables_overrides {
        overrides {
            table_name = "Customers"
            mask { Nmae = "redact" }
        }
    }
    shape {"""
    world.edit("tables =", shape)
    world.edit("shape {", own)
    wait_until(lambda: "correct its shape in the configuration" in world.log(), "the mistake was told")
    told = world.log().replace("\\", "")
    assert 'mask names "Nmae", which is not a captured column of the table (did you mean "Name"?)' in told
    with world.emulators.login.connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO dbo.Customers VALUES (987654, N'Jana', 'jana@example.org', 4.5, 1)")
    world.edit("Nmae", "Name")
    wait_until(lambda: b"987654" in world.subscriber.received()[CUSTOMERS][-1].body, "the customer arrived")
    data = json.loads(world.subscriber.received()[CUSTOMERS][-1].body)["data"]
    assert data == {"CustomerId": 987654, "Name": "***", "Email": "jan", "Version": 1}
    assert "jana@" not in world.log()


@pytest.mark.timeout(300)
def test_a_table_that_is_added_to_the_configuration_arrives_without_a_restart(world: World) -> None:
    world.workload.start()
    world.workload.join()
    wait_until(lambda: world.delivered(EVERYTHING), "the three tables arrived")
    world.edit(THREE, f'{ALL}, "dbo.Everything"')
    wait_until(lambda: "cannot be used" in world.log(), "the mistake was told")
    assert "they would share a topic" in world.log()
    assert f"{world.config}:" in world.log()
    assert world.subscriber.counts().get(EVERYTHING, 0) == 0
    world.edit(f'{ALL}, "dbo.Everything"', ALL)
    wait_until(world.delivered, "the fourth table arrived")
    wait_until(lambda: complete(*transactions(world)), "all transactions are complete")
    assert good(judge(world.ledger, world.subscriber.received(), TABLES))
    reshaped(world)
    assert world.log().count("ingester started") == 1
    assert "topic added" in world.router.log.read_text()
    a_table_that_comes_under_capture_later_is_found(world)
    assert (world.ingester.stop(), world.router.stop()) == (0, 0)
