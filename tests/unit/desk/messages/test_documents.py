"""A message as a document: every envelope, packs, stand-ins, other senders' messages, and bodies that are no text."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from common.bus.browsing import Lying
from common.bus.packing import packed
from common.message import Message, Opaque
from desk.documents.messages import MessageFilter
from desk.messages.choosing import chooses
from desk.messages.documents import BODY_LIMIT, detail, document
from desk.messages.remedies import remedy
from router.envelopes.changes import Changes
from router.envelopes.cloudevents import Binary, Structured
from router.envelopes.debezium import Debezium
from router.envelopes.port import Converter
from router.routes import REASONS

LSN = "0000003600000b200003"


def change(number: int = 1, operation: str = "Insert", **more: Any) -> Message:
    event = f"shop.dbo.Persons:{LSN}-{number}-{LSN}-2"
    metadata = {
        "CaptureInstance": "dbo_Persons", "CommandID": number, "CommitTime": "2026-11-21T10:23:45.457Z", "Database": "shop",
        "Destination": "sql.shop.persons.events", "EventID": event, "IngestQueue": "ingest-queue", "LSN": LSN, "OperationID": 2,
        "OperationType": operation, "Schema": "dbo", "SchemaVersion": "ac89c386a7eb", "SeqVal": LSN, "Server": "sql", "TableName": "Persons", **more,
    }  # fmt: skip
    properties = {
        "table": "Persons", "schema": "dbo", "database": "shop", "operation": operation, "lsn": LSN,
        "destination": "sql.shop.persons.events", "schema_version": "ac89c386a7eb",
    }  # fmt: skip
    body = json.dumps({"data": {"ID": number}, "metadata": metadata}).encode()
    return Message(body, event, "sql.shop.persons.events", operation, application_properties=properties)


def lying(message: Message, **more: Any) -> Lying:
    return Lying(message, 7, datetime(2026, 11, 21, 10, 23, 46, tzinfo=UTC), **more)


@pytest.mark.parametrize("with_properties", [True, False], ids=["with properties", "body alone"])
@pytest.mark.parametrize(
    "converter", [None, Structured(), Binary(), Debezium(), Changes()], ids=lambda each: type(each).__name__
)
def test_every_envelope_says_of_which_change_it_is(converter: Converter | None, with_properties: bool) -> None:
    [message] = [change()] if converter is None else converter.converted(change())
    if not with_properties:
        message = replace(message, application_properties={})
    found = document("topic/t/s", lying(message), dead=False)
    assert (found.table, found.operation, found.lsn) == ("dbo.Persons", "Insert", LSN)
    assert found.event_id == change().message_id
    assert found.commit_time == "2026-11-21T10:23:45.457Z"
    assert found.enqueued_at == "2026-11-21T10:23:46.000Z"
    assert (found.sequence, found.changes, found.size, found.state) == (7, 1, len(message.body), "active")


def test_a_pack_says_what_its_changes_have_in_common_and_in_detail_each() -> None:
    [parcel] = packed([change(1), change(2, "Update"), change(3)], most=10, limit=100_000)
    shown = detail("queue", lying(parcel.message), dead=False)
    assert (shown.changes, shown.table, shown.operation, shown.event_id) == (3, "dbo.Persons", None, None)
    assert [each.event_id for each in shown.packed] == [change(n).message_id for n in (1, 2, 3)]
    assert [each.operation for each in shown.packed] == ["Insert", "Update", "Insert"]
    assert shown.body is not None
    for fits, chosen in (
        (True, {"event_id": change(2).message_id}),
        (True, {"message_id": change(2).message_id}),
        (True, {"operation": "update", "table": "persons"}),
        (False, {"operation": "delete"}),
        (False, {"operation": "update", "event_id": change(1).message_id}),
    ):
        assert chooses(MessageFilter(**chosen))(lying(parcel.message)) is fits
    broken = replace(parcel.message, body=b"[]")
    assert detail("queue", lying(broken), dead=False).packed == []


def test_messages_of_other_senders_say_what_they_can() -> None:
    foreign = Message(
        b"\xff\xfe",
        None,
        content_type=None,
        correlation_id="c",
        application_properties={"blob": b"\x01", "odd": Opaque(b"\xa1"), "nan": float("nan"), "half\ud800": "x\udfff", "long": "y" * 5_000},
        foreign={"user_id": Opaque(b"\xa0")},
    )  # fmt: skip
    shown = detail("queue", lying(foreign, fault="the body has \ud800"), dead=False)
    assert (shown.table, shown.event_id, shown.message_id, shown.body) == (None, None, None, None)
    assert shown.properties["blob"] == "0x01"
    assert shown.properties["odd"] == "0xa1"
    assert shown.properties["nan"] == "nan"
    assert shown.properties["half?"] == "x?"
    assert shown.properties["correlation_id"] == "c"
    assert shown.properties["user_id"] == "0xa0"
    assert len(shown.properties["long"]) < 4_200
    assert json.loads(shown.model_dump_json())["fault"] == "the body has ?"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"[1]", b'{"metadata":1,"data":2}', b'{"metadata":{"LSN":5,"Schema":"","TableName":"x"},"data":{}}',
     b'{"source":{"ts_ms":1e400},"op":"c"}', b'{"source":{"ts_ms":99999999999999999999},"op":1}', b'{"changes":[]}', b'{"changes":[{}]}',
     b'{"specversion":"1.0","id":{}}', b"[" * 100_000, b'{"metadata":{"EventID":"\\ud800"},"data":{}}'],
)  # fmt: skip
def test_no_body_is_too_odd_to_be_listed(body: bytes) -> None:
    shown = detail("queue", lying(Message(body, "id")), dead=True)
    assert json.loads(shown.model_dump_json())["size"] == len(body)


def test_a_body_beyond_the_limit_is_not_shown() -> None:
    shown = detail("queue", lying(Message(b"x" * (BODY_LIMIT + 1), "id")), dead=False)
    assert (shown.body, shown.body_limit, shown.size) == (None, BODY_LIMIT, BODY_LIMIT + 1)


def test_deferred_and_scheduled_messages_are_shown_as_such() -> None:
    assert document("queue", lying(change(), state="deferred"), dead=False).state == "deferred"
    assert document("queue", lying(change(), state="scheduled"), dead=False).state == "scheduled"


def test_a_dead_letter_says_why_and_what_to_do() -> None:
    shown = detail("queue", lying(change(), reason="Refused", description="too odd", delivery_count=3), dead=True)
    assert (shown.reason, shown.description, shown.delivery_count) == ("Refused", "too odd", 3)
    assert shown.remedy == remedy("refused")
    assert detail("queue", lying(change()), dead=False).remedy is None
    assert len({remedy(reason) for reason in REASONS}) == len(REASONS)
    assert remedy("whatever a receiver says") == remedy(None)


def test_a_replayed_message_is_the_change_that_it_was() -> None:
    told = {**change().application_properties, "dstream_replays": 2, "dstream_replay_of": change().message_id or ""}
    copy = replace(change(), message_id="new", application_properties=told)
    shown = document("queue", lying(copy), dead=False)
    assert (shown.event_id, shown.message_id, shown.replays) == (change().message_id, "new", 2)
