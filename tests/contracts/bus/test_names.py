"""Names as databases have them, from the change table to the topic: pymssql, the router and the Service Bus SDK, all unmodified."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from common.names import Origin, TableName, quote_name
from dstream.emulators import Login
from emulators.servicebus.server import ServiceBusEmulator
from ingester.task.encode import Encoder
from tests.contracts.bus.test_router import put, read, routed, routing, settings
from tests.contracts.source.test_catalog import ODD_NAMES
from tests.contracts.source.test_source import Place

ORIGIN = Origin("srv", "db")
TABLES = [*(TableName("odd " + name[:80], name) for name in ODD_NAMES), TableName("s" * 128, "t" * 128)]


@pytest.fixture
def place(login: Login) -> Iterator[Place]:
    """Each of TABLES under CDC, with a column of its own name and one change."""
    made = Place(login)
    for table in TABLES:
        literal = table.table.replace("'", "''")
        made.execute(f"CREATE SCHEMA {quote_name(table.schema)}")
        made.execute(f"CREATE TABLE {table.quoted} (ID INT PRIMARY KEY, {quote_name(table.table)} INT)")
        made.enable(table.schema.replace("'", "''"), literal, capture_instance=literal[:90])
        made.execute(f"INSERT INTO {table.quoted} VALUES (1, 7)")
    made.scan()
    yield made
    made.close()


def test_whatever_a_table_is_called_its_changes_arrive_on_its_topic_under_its_own_name(place: Place) -> None:
    encoder = Encoder(ORIGIN, "ingest-queue")
    changes = [change for table in TABLES for change in place.read(100, TableName.parse(table.quoted))]
    topics = {ORIGIN.topic(table): table for table in TABLES}
    assert len(topics) == len(changes) == len(TABLES)
    with ServiceBusEmulator() as emulator:
        put(emulator, [encoder.message(change) for change in changes])
        with routing(settings(emulator, topics=topics), routed(len(TABLES))) as tally:
            pass
        assert tally.dead_lettered == {}
        with ThreadPoolExecutor(len(topics)) as pool:  # opening and closing a link is waiting
            arrived = list(pool.map(lambda topic: read(emulator, topic, 1), topics))
    for (topic, table), [found], change in zip(topics.items(), arrived, changes, strict=True):
        content = json.loads(str(found))
        assert content["data"] == {"ID": 1, table.table: 7}
        told = content["metadata"]
        assert (told["Schema"], told["TableName"], told["Destination"]) == (table.schema, table.table, topic)
        assert found.session_id == encoder.message(change).session_id is not None
