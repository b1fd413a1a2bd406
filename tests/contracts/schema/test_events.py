"""Events of a real table: an ALTER within a capture instance, a hand-over between two, and what is not told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from common.clock import unix
from common.names import TableName
from dstream.emulators import Login
from ingester.schema.version import SchemaColumn, schema_version
from ingester.shape.table_shape import TableShape
from ingester.slices import Slice
from ingester.source import CaptureInstance, ProbeRequest
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.schema.store import SqlServerSchemas
from ingester.task.drain import Drain
from ingester.window import window
from tests.contracts.source.test_source import Place
from tests.fakes.ingester import FakeSender, encoder

GOODS = TableName("dbo", "Goods")
ID = SchemaColumn("ID", "int", 1)


class Shop(Place):
    """dbo.Goods under capture, an owner of its offset, and what drains it as an ingester would, with the catalog that it once read."""

    def __init__(self, login: Login) -> None:
        super().__init__(login)
        self.execute("CREATE TABLE dbo.Goods (ID INT PRIMARY KEY, Price DECIMAL(9,2) NULL)")
        self.capture("dbo_Goods")
        self.execute("EXEC sys.sp_cdc_stop_job")
        self.offsets = SqlServerOffsets(self.connection)
        self.offsets.ensure()
        self.offsets.claim(GOODS, 1)
        self.sender = FakeSender()
        self.drain = Drain(
            self.source, self.offsets, self.sender, encoder(), unix, schemas=SqlServerSchemas(self.connection)
        )

    def capture(self, name: str) -> None:
        self.enable(table="Goods", capture_instance=name)

    def known(self) -> tuple[CaptureInstance, ...]:
        return tuple(self.source.states([GOODS])[GOODS].instances)

    def drained(self, known: tuple[CaptureInstance, ...], shape: TableShape | None = None) -> list[str]:
        """What is sent of the window: of an event its columns, of a change its version."""
        self.scan()
        begin, upto = self.offsets.load(GOODS, 1), self.source.probe([ProbeRequest(known[0], None)]).upto
        part = window(known, begin, upto)
        assert part.upto is not None
        todo = Slice(GOODS, part.instance, begin or part.instance.start, part.upto, epoch=1, rows=100, seconds=60.0)
        self.sender.sent.clear()
        result = self.drain.run(replace(todo, shape=shape or TableShape(schema_events=True)))
        assert result.trouble is None, result.message
        return [_said(json.loads(message.body)["metadata"]) for message in self.sender.sent]


def _said(metadata: Any) -> str:
    if metadata["OperationType"] != "Schema":
        return str(metadata["SchemaVersion"])
    told = metadata["SchemaChange"]
    return ", ".join(f"{each['Name']} {each['Type']}" for each in told["Columns"])


@pytest.fixture
def shop(login: Login) -> Iterator[Shop]:
    with closing(Shop(login)) as made:
        yield made


OLD = schema_version([ID, SchemaColumn("Price", "decimal(9,2)")])
EXACT = schema_version([ID, SchemaColumn("Price", "decimal(9,4)")])
WITH_NAME = schema_version([ID, SchemaColumn("Price", "decimal(9,2)"), SchemaColumn("Name", "nvarchar(20)")])


def test_an_alter_within_an_instance_is_told_by_an_ingester_that_has_not_heard_of_it(shop: Shop) -> None:
    known = shop.known()
    shop.execute("INSERT INTO dbo.Goods VALUES (1, 1)")
    assert shop.drained(known) == [OLD]
    shop.execute("ALTER TABLE dbo.Goods ALTER COLUMN Price DECIMAL(9,4)")
    shop.execute("INSERT INTO dbo.Goods VALUES (2, 2)")
    assert shop.drained(known) == ["ID int, Price decimal(9,4)", EXACT]
    shop.execute("INSERT INTO dbo.Goods VALUES (3, 3)")
    assert shop.drained(shop.known()) == [EXACT]


def test_a_hand_over_to_an_instance_with_a_new_column_is_told_between_the_two(shop: Shop) -> None:
    shop.execute("INSERT INTO dbo.Goods VALUES (1, 1)")
    shop.scan()
    shop.execute("ALTER TABLE dbo.Goods ADD Name NVARCHAR(20) NULL")
    shop.capture("again")
    shop.execute("INSERT INTO dbo.Goods VALUES (2, 2, N'two')")
    known = shop.known()
    found = shop.drained(known)
    begin = shop.offsets.load(GOODS, 1)
    shop.offsets.commit(GOODS, 1, seen=begin, position=known[1].start)  # the driver moves it to the border
    assert found == [OLD]
    assert shop.drained(known) == ["ID int, Price decimal(9,2), Name nvarchar(20)", WITH_NAME]


def test_a_hand_over_to_an_instance_with_the_same_columns_is_not_told(shop: Shop) -> None:
    shop.execute("INSERT INTO dbo.Goods VALUES (1, 1)")
    shop.scan()
    shop.capture("again")
    shop.execute("INSERT INTO dbo.Goods VALUES (2, 2)")
    known = shop.known()
    assert shop.drained(known) == [OLD]
    shop.offsets.commit(GOODS, 1, seen=shop.offsets.load(GOODS, 1), position=known[1].start)
    assert shop.drained(known) == [OLD]


def test_a_shape_that_changes_is_told_and_without_events_no_table_is_made(shop: Shop) -> None:
    shop.execute("INSERT INTO dbo.Goods VALUES (1, 1)")
    assert shop.drained(shop.known(), TableShape()) == [OLD]
    assert shop.answers("SELECT CASE WHEN OBJECT_ID(N'dbo.cdc_schemas') IS NULL THEN 'none' ELSE 'made' END") == [
        "none"
    ]
    shop.execute("INSERT INTO dbo.Goods VALUES (2, 2)")
    assert shop.drained(shop.known()) == [OLD]
    shop.execute("INSERT INTO dbo.Goods VALUES (3, 3)")
    shaped = TableShape(excluded=("Price",), schema_events=True)
    assert shop.drained(shop.known(), shaped) == ["ID int", schema_version([ID])]
