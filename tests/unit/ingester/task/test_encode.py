from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.names import Ordering, Origin, TableName
from ingester.change import Change, Operation
from ingester.oversize import Oversized
from ingester.position import Lsn, Position
from ingester.task.encode import Encoder, event_identity
from tests.fakes.ingester import position

GOLDEN = Path(__file__).parents[3] / "golden" / "messages"

AT = Position(Lsn(bytes.fromhex("0000003600000b200003")), 1, bytes.fromhex("0000003600000b200002"), 2)


def change(name: str) -> Change:
    table = TableName("dbo", "Persons")
    orders = TableName("sales", "Orders")
    moved = Position(AT.lsn, 2, AT.seqval, 4)
    return {
        "insert": Change(
            table,
            "dbo_Persons",
            AT,
            Operation.INSERT,
            {"FirstName": "Diana", "ID": 180, "LastName": "Williams"},
            commit_time="2026-11-21T10:23:45.457Z",
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
            key=(180,),
        ),
        "delete_in_another_schema": Change(
            orders,
            "sales_Orders",
            Position(AT.lsn, 3, AT.seqval, 1),
            Operation.DELETE,
            {"Order Id": 7, "Total": "6.3230", "Note": None},
            unavailable=("Scan",),
            commit_time="2026-11-21T10:23:45.457Z",
            key=(7,),
        ),
    }[name]


ENCODER = Encoder(Origin("server", "database"), "ingest-queue")


TOO_LARGE = Oversized(TableName("dbo", "Persons"), '{"ID":180}', AT, 300_000, 262_144)


@pytest.mark.parametrize("name", ["insert", "update", "update_with_before", "delete_in_another_schema", "stand_in"])
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
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


@given(NAMES, NAMES, NAMES, st.integers(0, 2**31 - 1))
def test_an_event_id_has_at_most_128_characters_and_depends_on_the_change_alone(
    database: str, schema: str, table: str, command: int
) -> None:
    where = Position(AT.lsn, command, AT.seqval, 2)
    event_id = event_identity(database, TableName(schema, table), where)
    assert len(event_id) <= 128
    assert event_id == event_identity(database, TableName(schema, table), where)


def test_each_part_of_a_position_makes_another_event_id() -> None:
    table = TableName("dbo", "T")
    ids = {
        event_identity("db", table, p)
        for p in (position(1), position(2), position(1, command=2), position(1, seq=2), position(1, operation=4))
    }
    assert len(ids) == 5


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
