"""Packs on an emulated namespace, from the ingester's sender through the whole router: subscribers cannot tell that there were any."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusSubQueue

from common.bus.packing import is_pack
from common.bus.ports import QueueNeed
from common.message import Message
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from common.servicebus.wire.messages import from_sdk
from emulators.servicebus.description import SubscriptionDescription, TopicDescription
from emulators.servicebus.server import ServiceBusEmulator
from ingester.task.pack import PackingSender
from tests.contracts.bus.test_router import PERSONS, read, routed, routing, settings

QUEUE = "ingest-queue"


def change(number: int, topic: str = PERSONS, session: str = "persons") -> Message:
    metadata = {"Destination": topic, "LSN": f"{number // 3:020x}", "EventID": f"e{number}"}
    return Message(
        json.dumps({"data": {"ID": number, "Name": "Zoë"}, "metadata": metadata}, ensure_ascii=False).encode(),
        f"e{number}",
        session,
        ("insert", "update", "delete")[number % 3],
        application_properties={"table": "Persons", "lsn": f"{number // 3:020x}", "destination": topic},
    )


def send(emulator: ServiceBusEmulator, pages: Sequence[Sequence[Message]], most: int) -> None:
    """Each page as an ingester hands it over, with a sender that packs; into a queue that looks for duplicates, as DStream makes it."""
    bus = ServiceBus.from_connection_string(emulator.connection_string)
    endpoint = f"http://127.0.0.1:{emulator.http_port}"
    provision(bus.address, [QueueNeed(QUEUE, sessions=True)], how="create", management_endpoint=endpoint)
    with closing(bus), closing(PackingSender(bus.sender(QUEUE), most)) as sender:
        for page in pages:
            sender.send(page)


def queued(emulator: ServiceBusEmulator) -> int:
    return emulator.admin.get(QUEUE).counts.active


def as_message(received: ServiceBusReceivedMessage) -> Message:
    message, fault = from_sdk(received)
    assert fault is None
    return message


def test_subscribers_see_the_messages_that_they_see_without_packs(emulator: ServiceBusEmulator) -> None:
    sent = [change(number) for number in range(300)] + [change(number, session="others") for number in range(300, 420)]
    send(emulator, [sent], most=100)
    assert queued(emulator) == 5
    with routing(settings(emulator), until=routed(420)):
        pass
    found = [as_message(received) for received in read(emulator, PERSONS, 420)]
    for session in ("persons", "others"):
        assert [each for each in found if each.session_id == session] == [
            each for each in sent if each.session_id == session
        ]
    assert queued(emulator) == 0


def test_pages_of_other_bounds_after_a_crash_bring_no_change_twice(emulator: ServiceBusEmulator) -> None:
    """The queue removes packs that are the same; of the others, the topic removes the changes."""
    changes = [change(number) for number in range(20)]
    send(emulator, [changes[:10], changes[10:18]], most=4)
    send(emulator, [changes[:14], changes[14:20]], most=4)
    assert queued(emulator) < 2 * 6
    with routing(settings(emulator), until=lambda tally: tally.routed.total() >= 20 and queued(emulator) == 0):
        pass
    assert [as_message(received) for received in read(emulator, PERSONS, 20)] == changes


def test_a_poison_change_ends_in_the_dead_letter_queue_alone_and_once(emulator: ServiceBusEmulator) -> None:
    changes = [change(0), change(1, topic="srv.db.nobody.events"), change(2)]
    send(emulator, [changes], most=10)
    assert queued(emulator) == 1
    with routing(settings(emulator), until=lambda tally: bool(dead(emulator)) and queued(emulator) == 0):
        pass
    send(emulator, [[changes[1]]], most=10)  # what was set aside has used its id, so the queue removes a copy
    assert queued(emulator) == 0
    assert [as_message(received) for received in read(emulator, PERSONS, 2)] == [changes[0], changes[2]]
    with (
        ServiceBusClient.from_connection_string(emulator.connection_string) as client,
        client.get_queue_receiver(QUEUE, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver,
    ):
        (found,) = receiver.receive_messages(5, max_wait_time=3)
    message = as_message(found)
    assert (found.dead_letter_reason, message.message_id, message.body) == ("UnknownDestination", "e1", changes[1].body)
    assert "belongs to no configured table" in str(found.dead_letter_error_description)
    assert not is_pack(message)


def dead(emulator: ServiceBusEmulator) -> int:
    counts: Any = emulator.admin.get(QUEUE).counts
    return int(counts.dead_letter)


@pytest.mark.parametrize("proven", [False, True], ids=["first start", "started again"])
def test_a_router_that_may_only_listen_delivers_the_others_and_dead_letters_the_pack(proven: bool) -> None:
    rights = {"root": ["Manage", "Send", "Listen"], "reader": ["Listen"]}
    with ServiceBusEmulator(keys=dict.fromkeys(rights, "a2V5"), rights=rights) as emulator:
        everything = settings(emulator)
        send(emulator, [[change(0), change(1, "srv.db.unknown.events"), change(2)], [change(3)]], most=3)
        for topic in everything.topics:
            emulator.admin.create(topic, TopicDescription())
            emulator.admin.create(f"{topic}/Subscriptions/sub1", SubscriptionDescription())
        reader = emulator.connection_string.replace("SharedAccessKeyName=root", "SharedAccessKeyName=reader")
        assert reader != emulator.connection_string
        source = {**everything.source.model_dump(), "connection_string": reader}
        chosen = settings(emulator, source=source, provision="none", unknown_grace="1ms")
        with routing(chosen, until=routed(4), proven=proven) as tally:
            pass
        assert dict(tally.dead_lettered) == {"UnknownDestination": 1}
        assert [each.message_id for each in read(emulator, PERSONS, 3)] == ["e0", "e2", "e3"]
        assert (queued(emulator), emulator.admin.get(QUEUE).counts.dead_letter) == (0, 1)
