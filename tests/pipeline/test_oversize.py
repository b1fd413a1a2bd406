"""A row that fits no message, between rows that do, on both services as processes: its table stops and says so, or it leaves a dead letter.
Beside it a filter that leaves one row out and fails on another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusSubQueue

from common.names import Origin, TableName
from dstream.demo.processes import Service, environment
from dstream.demo.subscriber import Subscriber
from dstream.emulators import Emulators
from tests.worlds.world import wait_until

DATABASE = "paper"
DOCUMENTS, OTHERS = TableName("dbo", "Documents"), TableName("dbo", "Others")
TOO_LARGE = 300_000

CONFIG = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "{{{{ env("DSTREAM_DB_CONNECTION_STRING") }}}}"
    poll_interval_defaults {{
        poll_interval     = "200ms"
        max_poll_interval = "500ms"
    }}
    queue {{
        type                = "servicebus"
        name                = "ingest-queue"
        connection_string   = "{{{{ env("DSTREAM_INGEST_CONNECTION_STRING") }}}}"
        management_endpoint = "{management}"
    }}
    locks {{
        type = "local"
    }}
    tables      = ["Documents", "Others"]
    on_oversize = "{on_oversize}"
    tables_overrides {{
        overrides {{
            table_name      = "Others"
            filter          = "data.ID != 5 && 10 / (data.ID - 7) != 100"
            on_filter_error = "dead_letter"
        }}
    }}
    spark {{
        master = "local[2]"
    }}
}}

router {{
    workers = 1
    source {{
        connection_string   = "{{{{ env("DSTREAM_PUBLISHER_CONNECTION_STRING") }}}}"
        management_endpoint = "{management}"
    }}
    output {{
        connection_string   = "{{{{ env("DSTREAM_PUBLISHER_CONNECTION_STRING") }}}}"
        management_endpoint = "{management}"
    }}
}}
"""


class World:
    """The emulators with two tables, a router, and a subscriber of both topics."""

    def __init__(self, folder: Path, emulators: Emulators) -> None:
        self._folder, self._emulators = folder, emulators
        self._execute("CREATE TABLE dbo.Documents (ID INT NOT NULL PRIMARY KEY, Title NVARCHAR(50), Body VARCHAR(MAX))")
        self._execute("CREATE TABLE dbo.Others (ID INT NOT NULL PRIMARY KEY)")
        self._execute("EXEC sp_configure 'max text repl size (B)', -1")  # 64 KB by default
        self._execute("RECONFIGURE")
        self._execute("EXEC sys.sp_cdc_enable_db")
        for table in (DOCUMENTS, OTHERS):
            self._execute(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = %s, @role_name = NULL",
                table.table,
            )
        self.router = self.service("router", "fail")
        self.router.start()
        origin = Origin("localhost", DATABASE)
        self.subscriber = Subscriber(
            emulators.bus_connection_string, {table: origin.topic(table) for table in (DOCUMENTS, OTHERS)}
        )
        self.subscriber.start()

    def service(self, stage: str, on_oversize: str) -> Service:
        config = self._folder / f"{on_oversize}.hcl"
        config.write_text(CONFIG.format(on_oversize=on_oversize, management=self._emulators.management_endpoint))
        return Service(stage, config, environment(self._emulators), self._folder / f"{stage}-{on_oversize}.log")

    def insert_documents(self, *numbers: int, size: int = 10) -> None:
        for number in numbers:
            self._execute("INSERT INTO dbo.Documents VALUES (%d, N'hidden', %s)", number, "x" * size)

    def insert_others(self, *numbers: int) -> None:
        for number in numbers:
            self._execute("INSERT INTO dbo.Others VALUES (%d)", number)

    def arrived(self, table: TableName) -> list[int]:
        """The keys, in the order of arrival."""
        return [json.loads(found.body)["data"]["ID"] for found in self.subscriber.received()[table]]

    def dead_letters(self) -> list[tuple[str | None, str, dict[str, Any]]]:
        """(reason, description, body) of what is in the ingest queue's dead-letter queue; it stays there."""
        with (
            ServiceBusClient.from_connection_string(self._emulators.bus_connection_string) as client,
            client.get_queue_receiver("ingest-queue", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver,
        ):
            return [
                (found.dead_letter_reason, found.dead_letter_error_description or "", json.loads(b"".join(found.body)))
                for found in receiver.peek_messages(10)
            ]

    def offset(self) -> tuple[Any, ...]:
        """Where the table of documents stands."""
        [row] = self._execute(
            "SELECT last_lsn, last_command_id, last_seq, last_operation FROM dbo.cdc_offsets WHERE table_name = N'dbo.Documents'"
        )
        return tuple(row)

    def _execute(self, sql: str, *values: Any) -> Sequence[Sequence[Any]]:
        with self._emulators.login.connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall()) if cursor.description else []


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Emulators(database=DATABASE, capture_interval=0.3) as emulators:
        made = World(tmp_path, emulators)
        yield made
        made.subscriber.stop()
        made.router.stop()


@pytest.mark.timeout(300)
def test_a_row_that_fits_no_message_stops_its_table_alone_or_leaves_one_dead_letter(world: World) -> None:
    world.insert_documents(1, 2)
    world.insert_documents(3, size=TOO_LARGE)
    world.insert_documents(4, 5)
    world.insert_others(1, 2)
    failing = world.service("ingester", "fail")
    failing.start()
    try:
        wait_until(lambda: "table stopped" in failing.log.read_text(), "the table has stopped")
        world.insert_others(3)
        wait_until(lambda: world.arrived(OTHERS) == [1, 2, 3], "the other table goes on")
    finally:
        assert failing.stop() == 0
    [line] = [line for line in failing.log.read_text().splitlines() if "table stopped" in line]
    before = world.offset()
    for fact in ("dbo.Documents", '{"ID":3}', "at LSN 0x", "seqval 0x", "262144", "on_oversize"):
        assert fact in line
    assert "hidden" not in line
    wait_until(lambda: world.arrived(DOCUMENTS) == [1, 2], "what came before it is delivered")

    going_on = world.service("ingester", "dead_letter")
    going_on.start()
    try:
        wait_until(lambda: world.arrived(DOCUMENTS) == [1, 2, 4, 5], "the small ones are delivered in order")
        wait_until(lambda: len(world.dead_letters()) == 1, "the large one is a dead letter")
        wait_until(lambda: "sent to be dead-lettered" in going_on.log.read_text(), "the log tells it")
        world.insert_documents(6)
        wait_until(lambda: 6 in world.arrived(DOCUMENTS), "and the table goes on")
        world.insert_others(4, 5, 7, 8)
        wait_until(lambda: 8 in world.arrived(OTHERS), "a filter that fails does not stop its table either")
        wait_until(lambda: len(world.dead_letters()) == 2, "the change on which it fails is a dead letter")
    finally:
        going_on.stop()
    assert world.arrived(DOCUMENTS) == [1, 2, 4, 5, 6]
    assert world.arrived(OTHERS) == [1, 2, 3, 4, 8]
    (reason, description, body), filtered = sorted(world.dead_letters(), key=lambda found: found[0] == "FilterFailed")
    assert reason == "Oversize"
    assert 'dbo.Documents with key {"ID": 3}' in description
    assert before[0].hex() < body["metadata"]["LSN"]
    assert f"0x{body['metadata']['LSN']}" in description
    assert body["data"] == {"ID": 3}
    assert body["metadata"]["Oversize"]["Bytes"] > TOO_LARGE
    assert body["metadata"]["Oversize"]["Limit"] == 262_144
    assert filtered[0] == "FilterFailed"
    assert "dbo.Others" in filtered[1]
    assert "division by zero (data.ID is an int)" in filtered[1]
    assert (filtered[2]["data"], filtered[2]["metadata"]["OperationType"]) == ({"ID": 7}, "Insert")
    [line] = [line for line in going_on.log.read_text().splitlines() if "filter failed on changes" in line]
    assert "dbo.Others" in line
