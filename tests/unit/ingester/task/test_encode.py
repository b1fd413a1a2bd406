from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from common.names import Ordering, Origin, TableName
from ingester.change import Change, Operation
from ingester.history.rows import BaseTable, Row, RowPage
from ingester.history.snapshot import Chunk
from ingester.oversize import Oversized
from ingester.schema.store import KeptSchema
from ingester.schema.version import SchemaColumn, schema_version
from ingester.shape.versions import schema_of, version_of
from ingester.slices import Slice
from ingester.source import CapturedColumn
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.sqlserver.transactions.events import begin_and_end
from ingester.task.encode import Encoder
from ingester.task.events import RowChanges, gap_event, schema_event
from tests.fakes.ingester import instance, position

GOLDEN = Path(__file__).parents[3] / "golden" / "messages"

AT = LogPosition(Lsn(bytes.fromhex("0000003600000b200003")), 1, bytes.fromhex("0000003600000b200002"), 2)

ID = CapturedColumn("ID", "int", 1, key_ordinal=1)
NAMES = (CapturedColumn("FirstName", "nvarchar(50)", 2), CapturedColumn("LastName", "nvarchar(50)", 3))
BIOGRAPHY = CapturedColumn("Biography", "nvarchar(max)", 4)
VERSION = version_of((ID, *NAMES))
WITH_BIOGRAPHY = version_of((ID, *NAMES, BIOGRAPHY))
OF_ORDERS = schema_version(
    (
        SchemaColumn("Order Id", "int", 1),
        SchemaColumn("Total", "decimal(9,4)"),
        SchemaColumn("Note", "nvarchar(200)"),
        SchemaColumn("Scan", "image"),
    )
)


def read_row(table: TableName) -> Change:
    """A row as a chunk of a snapshot makes it a change."""
    chunk = Chunk("a1b2c3d4e5f6", BaseTable(instance(table), ("ID",), 1), number=4, rows=100)
    data = {"FirstName": "Diana", "ID": 180, "LastName": "Prince"}
    [row] = RowChanges(chunk, LogPosition.end_of(AT.lsn)).of(
        RowPage([Row(("180",), data, (180,))], full=False, columns=(ID, *NAMES))
    )
    return row


def lost(table: TableName) -> Change:
    upto = LogPosition.before(Lsn(bytes.fromhex("0000003900000c400001")))
    known = replace(instance(table), columns=(ID, *NAMES))
    return gap_event(Slice(table, known, AT, upto, epoch=1, rows=1, seconds=1.0, gap=True))


def other_columns(table: TableName) -> Change:
    kept = KeptSchema(2, WITH_BIOGRAPHY, schema_of((ID, *NAMES, BIOGRAPHY)))
    return schema_event(instance(table), kept, VERSION, AT)


def change(name: str) -> Change:
    table = TableName("dbo", "Persons")
    orders = TableName("sales", "Orders")
    begin, end = begin_and_end(AT.lsn, "2026-11-21T10:23:45.457Z", {orders: 1, table: 2})
    moved = LogPosition(AT.lsn, 2, AT.seqval, 4)
    return {
        "insert": Change(
            table,
            "dbo_Persons",
            AT,
            Operation.INSERT,
            {"FirstName": "Diana", "ID": 180, "LastName": "Williams"},
            commit_time="2026-11-21T10:23:45.457Z",
            schema_version=VERSION,
            key=(180,),
        ),
        "update": Change(
            table,
            "dbo_Persons",
            moved,
            Operation.UPDATE,
            {"FirstName": "Diana", "ID": 180, "LastName": "Prince"},
            changed_columns=("LastName",),
            commit_time="2026-11-21T10:23:45.457Z",
            schema_version=VERSION,
            key=(180,),
        ),
        "update_with_before": Change(
            table,
            "dbo_Persons",
            moved,
            Operation.UPDATE,
            {"ID": 180, "LastName": "Prince", "Biography": "a long text"},
            before={"ID": 180, "LastName": "Williams"},
            changed_columns=("LastName",),
            unavailable=("Biography",),
            commit_time="2026-11-21T10:23:45.457Z",
            schema_version=WITH_BIOGRAPHY,
            key=(180,),
        ),
        "delete_in_another_schema": Change(
            orders,
            "sales_Orders",
            LogPosition(AT.lsn, 3, AT.seqval, 1),
            Operation.DELETE,
            {"Order Id": 7, "Total": "6.3230", "Note": None},
            unavailable=("Scan",),
            commit_time="2026-11-21T10:23:45.457Z",
            schema_version=OF_ORDERS,
            key=(7,),
        ),
        "read": read_row(table),
        "gap": lost(table),
        "schema": other_columns(table),
        "in_a_transaction": Change(
            table,
            "dbo_Persons",
            AT,
            Operation.INSERT,
            {"FirstName": "Diana", "ID": 180, "LastName": "Williams"},
            commit_time="2026-11-21T10:23:45.457Z",
            schema_version=VERSION,
            key=(180,),
            transaction={"Id": AT.lsn.hex, "TableOrder": 1},
        ),
        "transaction_begin": begin,
        "transaction_end": end,
    }[name]


ORIGIN = Origin("server", "database")
ENCODER = Encoder(ORIGIN, "ingest-queue")


TOO_LARGE = Oversized(TableName("dbo", "Persons"), '{"ID":180}', AT, 300_000, 262_144)


@pytest.mark.parametrize("name", [path.stem for path in sorted(GOLDEN.glob("*.txt"))])
def test_golden_messages(name: str) -> None:
    """Each file holds the body's bytes on its first line and the properties, as JSON, below it."""
    stand_in = name == "stand_in"
    message = ENCODER.stand_in(change("insert"), TOO_LARGE) if stand_in else ENCODER.message(change(name))
    body, properties = (GOLDEN / f"{name}.txt").read_bytes().split(b"\n", 1)
    assert message.body == body
    assert {
        "message_id": message.message_id,
        "session_id": message.session_id,
        "subject": message.subject,
        "content_type": message.content_type,
        "application_properties": dict(message.application_properties),
    } == json.loads(properties)


def test_the_six_metadata_keys_of_the_contract_are_spelled_so() -> None:
    metadata = json.loads(ENCODER.message(change("insert")).body)["metadata"]
    assert {
        k: metadata[k] for k in ("Destination", "IngestQueue", "LSN", "OperationID", "OperationType", "TableName")
    } == {
        "Destination": "server.database.persons.events",
        "IngestQueue": "ingest-queue",
        "LSN": "0000003600000b200003",
        "OperationID": 2,
        "OperationType": "Insert",
        "TableName": "Persons",
    }


ORDERED: tuple[Ordering, ...] = ("key", "table")


def test_ordering_by_table_gives_one_session_a_table() -> None:
    assert ENCODER.message(change("insert")).session_id == ENCODER.message(change("update")).session_id
    assert (
        ENCODER.message(change("insert")).session_id != ENCODER.message(change("delete_in_another_schema")).session_id
    )


def test_ordering_by_key_keeps_the_changes_of_one_row_in_one_session() -> None:
    by_key = Encoder(Origin("server", "database"), "q", "key", 8)
    assert by_key.message(change("insert")).session_id == by_key.message(change("update")).session_id
    sessions = {
        by_key.message(Change(TableName("dbo", "T"), "dbo_T", AT, Operation.INSERT, {"ID": n}, key=(n,))).session_id
        for n in range(100)
    }
    assert len(sessions) == 8


def test_the_changes_of_a_table_without_a_key_are_in_its_one_session_where_ordering_is_by_key() -> None:
    by_key, by_table = (Encoder(Origin("server", "database"), "q", ordering, 8) for ordering in ORDERED)
    for number in range(20):
        keyless = Change(TableName("dbo", "Heap"), "dbo_Heap", position(number), Operation.INSERT, {"A": number})
        assert by_key.message(keyless).session_id == by_table.message(keyless).session_id is not None


def test_ordering_none_has_no_sessions_and_is_the_same_message_otherwise() -> None:
    unordered = Encoder(Origin("server", "database"), "q", "none")
    by_table = Encoder(Origin("server", "database"), "q", "table")
    for name in ("insert", "update", "delete_in_another_schema"):
        found = unordered.message(change(name))
        assert found.session_id is None
        assert found == replace(by_table.message(change(name)), session_id=None)


def test_the_context_that_an_application_gave_is_a_property_and_changes_nothing_else() -> None:
    given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    encoder = Encoder(Origin("sql", "Shop"), "ingest-queue")
    plain, traced = encoder.message(change("insert")), encoder.message(replace(change("insert"), traceparent=given))
    assert traced.application_properties == {**plain.application_properties, "traceparent": given}
    assert replace(traced, application_properties=plain.application_properties) == plain
