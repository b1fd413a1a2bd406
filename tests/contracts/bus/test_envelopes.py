"""A router that writes envelopes, on an emulated namespace: read with an ordinary client and the consumers of the page about envelopes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusSubQueue

from common.message import Message, weight
from common.names import TableName
from emulators.servicebus.server import ServiceBusEmulator
from router.settings import RouterSettings
from tests.contracts.bus.test_router import put, read, routed, routing, settings
from tests.unit.dstream.test_envelopes_page import snippet
from tests.unit.router.envelopes.golden import native

PERSONS, ORDERS = "server.database.persons.events", "server.database.sales.orders.events"
NAMES = ("insert", "update_with_before", "delete_in_another_schema")
LIMIT = 262_144


def enveloped(emulator: ServiceBusEmulator, **chosen: object) -> RouterSettings:
    topics = {PERSONS: TableName("dbo", "Persons"), ORDERS: TableName("sales", "Orders")}
    plain = settings(emulator, topics=topics)
    return RouterSettings.model_validate({**dict(plain), "output": plain.output.model_copy(update=chosen)})


def large() -> Message:
    """Fits the queue, and no topic as CloudEvents."""
    whole = native("insert")
    content = json.loads(whole.body)
    content["data"]["LastName"] = ""
    room = LIMIT - 300 - weight(replace(whole, body=json.dumps(content).encode()))
    content["data"]["LastName"] = "x" * room
    return replace(whole, body=json.dumps(content).encode(), message_id="large")


def dead(emulator: ServiceBusEmulator, count: int) -> dict[str, tuple[str, str]]:
    """Reason and description of each dead letter of the ingest queue, by the message's id."""
    with (
        ServiceBusClient.from_connection_string(emulator.connection_string) as client,
        client.get_queue_receiver("ingest-queue", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver,
    ):
        found: list[ServiceBusReceivedMessage] = []
        while len(found) < count:
            came = receiver.receive_messages(max_message_count=count, max_wait_time=10)
            assert came
            found += came
    return {
        str(each.message_id): (str(each.dead_letter_reason), str(each.dead_letter_error_description)) for each in found
    }


def test_cloudevents_arrive_and_what_cannot_be_one_is_set_aside(emulator: ServiceBusEmulator) -> None:
    foreign = Message(b"{}", "foreign", PERSONS, application_properties={"destination": PERSONS})
    put(emulator, [foreign, large(), *map(native, NAMES)])
    with routing(enveloped(emulator, envelope="cloudevents"), routed(5)):
        pass
    event_of = snippet("event_of")
    events = [event_of(message) for message in (*read(emulator, PERSONS, 2), *read(emulator, ORDERS, 1))]
    assert [event.get_data() for event in events] == [json.loads(native(name).body) for name in NAMES]
    assert [event.get_id() for event in events] == [native(name).message_id for name in NAMES]
    found = dead(emulator, 2)
    assert found["foreign"][0] == "MalformedMessage"
    assert "cannot be written in the envelope cloudevents" in found["foreign"][1]
    assert found["large"][0] == "MessageTooLarge"
    assert f"its body in the queue has {len(large().body)} bytes" in found["large"][1]


def test_binary_cloudevents_have_their_attributes_as_properties(emulator: ServiceBusEmulator) -> None:
    put(emulator, [native("insert")])
    with routing(enveloped(emulator, envelope="cloudevents", cloudevents_mode="binary"), routed(1)):
        pass
    [message] = read(emulator, PERSONS, 1)
    assert message.content_type == "application/json"
    assert b"".join(message.body) == native("insert").body
    event = snippet("event_of")(message)
    assert (event.get_type(), event.get_source()) == ("dstream.dbo.Persons.Insert", "/server/database")
    assert event.get_data() == json.loads(native("insert").body)


def test_a_tombstone_follows_its_delete(emulator: ServiceBusEmulator) -> None:
    put(emulator, [native("delete_in_another_schema")])
    with routing(enveloped(emulator, envelope="debezium", tombstones=True), routed(1)):
        pass
    delete, tombstone = read(emulator, ORDERS, 2)
    assert json.loads(b"".join(delete.body))["op"] == "d"
    assert b"".join(tombstone.body) == b""
    assert tombstone.message_id == f"{delete.message_id}:tombstone"
    assert _named(tombstone) == _named(delete)


def _named(message: ServiceBusReceivedMessage) -> Sequence[tuple[object, object]]:
    return sorted((message.application_properties or {}).items(), key=str)
