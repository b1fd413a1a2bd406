"""Sending: what arrives is what was sent, whole batches in order, sizes within the limits."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusError, ServiceBusQuotaExceededError

from emulators.servicebus.description import QueueDescription

from .conftest import LOCK, Bus

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the SDK forgets failed ones


@pytest.fixture
def queue(bus: Bus, request: pytest.FixtureRequest) -> str:
    return bus.create(re.sub(r"\W", "-", request.node.name).strip("-"))


def test_properties_and_application_properties_arrive_with_their_types(bus: Bus, queue: str) -> None:
    """Row 1. service-bus-messages-payloads; SDK test_queue_message_properties."""
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    identifier = uuid.uuid4()
    properties_sent: Any = {
        "text": "t", "int": 7, "float": 1.5, "bool": True, "bytes": b"b", "uuid": identifier, "when": moment,
    }  # fmt: skip
    sent = ServiceBusMessage(
        b"\x00body\xff",
        message_id="m-1",
        subject="subject",
        content_type="application/json",
        correlation_id="c-1",
        to="to",
        reply_to="reply",
        reply_to_session_id="reply session",
        session_id="group",
        partition_key="group",
        time_to_live=timedelta(hours=1),
        application_properties=properties_sent,
    )
    bus.sender(queue).send_messages(sent)
    (got,) = bus.receiver(queue).receive_messages(1, max_wait_time=5)
    bus.receiver(queue).complete_message(got)
    assert b"".join(got.body) == b"\x00body\xff"
    for name in ("message_id", "subject", "content_type", "correlation_id", "to", "reply_to", "reply_to_session_id"):
        assert getattr(got, name) == getattr(sent, name)
    assert (got.session_id, got.partition_key, got.time_to_live) == ("group", "group", timedelta(hours=1))
    properties = got.application_properties
    assert properties is not None
    when = properties.pop(b"when")
    assert when in (moment, int(moment.timestamp() * 1000))
    assert properties == {
        b"text": b"t", b"int": 7, b"float": 1.5, b"bool": True, b"bytes": b"b", b"uuid": identifier,
    }  # fmt: skip


def test_value_and_sequence_bodies_arrive_unchanged(bus: Bus, queue: str) -> None:
    """Row 1. SDK test_queue_send_amqp_annotated_message."""
    value = {b"key": [1, 2, b"three"], b"none": None}
    bus.sender(queue).send_messages(AmqpAnnotatedMessage(value_body=value))
    bus.sender(queue).send_messages(AmqpAnnotatedMessage(sequence_body=[[1, b"a"], [2, b"b"]]))
    first, second = bus.receiver(queue).receive_messages(2, max_wait_time=5)
    assert first.raw_amqp_message.body == value
    assert list(second.raw_amqp_message.body) == [[1, b"a"], [2, b"b"]]
    for message in (first, second):
        bus.receiver(queue).complete_message(message)


def test_a_batch_goes_in_whole_and_its_messages_follow_each_other(bus: Bus, queue: str) -> None:
    """Row 2. service-bus-amqp-protocol-guide; SDK test_queue_message_batch."""
    batch = bus.sender(queue).create_message_batch()
    for number in range(20):
        batch.add_message(ServiceBusMessage(str(number), message_id=f"id{number}"))
    bus.sender(queue).send_messages(batch)
    got = bus.receiver(queue).receive_messages(20, max_wait_time=5)
    assert [(str(m), m.message_id) for m in got] == [(str(n), f"id{n}") for n in range(20)]
    first = got[0].sequence_number or 0
    assert [m.sequence_number for m in got] == list(range(first, first + 20))
    for message in got:
        bus.receiver(queue).complete_message(message)


def test_a_batch_above_the_limit_is_refused_where_it_is_built(bus: Bus, queue: str) -> None:
    """Row 3. service-bus-quotas; SDK test_batch_sizing."""
    batch = bus.sender(queue).create_message_batch()
    assert batch.max_size_in_bytes == 256 * 1024
    for _ in range(2):
        batch.add_message(ServiceBusMessage(b"x" * 100_000))
    with pytest.raises(MessageSizeExceededError):
        batch.add_message(ServiceBusMessage(b"x" * 100_000))


def test_a_message_above_the_limit_is_refused_and_the_link_lives_on(bus: Bus, queue: str) -> None:
    """Row 3. service-bus-quotas."""
    with pytest.raises(MessageSizeExceededError):
        bus.sender(queue).send_messages(ServiceBusMessage(b"x" * 300_000))
    assert bus.active(queue) == 0
    bus.send(queue, "small")
    assert bus.drain(queue) == ["small"]


def test_a_message_larger_than_a_frame_arrives_whole(bus: Bus, queue: str) -> None:
    """Row 4. SDK test_queue_send_large_message_receive."""
    body = bytes(range(256)) * 900
    bus.sender(queue).send_messages(ServiceBusMessage(body))
    (got,) = bus.receiver(queue).receive_messages(1, max_wait_time=5)
    bus.receiver(queue).complete_message(got)
    assert b"".join(got.body) == body


def test_sequence_numbers_rise_and_the_service_says_when_it_enqueued(bus: Bus, queue: str) -> None:
    """Row 5. message-sequencing."""
    bus.send(queue, "a", "b")
    bus.send(queue, "c")
    got = bus.receiver(queue).receive_messages(3, max_wait_time=5)
    numbers = [m.sequence_number or 0 for m in got]
    assert numbers == sorted(set(numbers))
    for message in got:
        assert message.enqueued_time_utc is not None
        assert abs(message.enqueued_time_utc.timestamp() - bus.clock()) < 5
        bus.receiver(queue).complete_message(message)


@pytest.mark.parametrize("mode", ["peeklock", "receiveanddelete"])
def test_one_consumer_receives_in_the_order_sent(bus: Bus, queue: str, mode: str) -> None:
    """Row 6. service-bus-queues-topics-subscriptions."""
    bodies = [str(n) for n in range(30)]
    bus.send(queue, *bodies)
    receiver = bus.receiver(queue, receive_mode=mode)
    got = []
    for _ in range(3):
        for message in receiver.receive_messages(10, max_wait_time=5):
            got.append(str(message))
            if mode == "peeklock":
                receiver.complete_message(message)
    assert got == bodies
    assert bus.active(queue) == 0


def test_a_full_entity_refuses_until_it_is_drained(bus: Bus) -> None:
    """Row 48. service-bus-messaging-exceptions."""
    bus.create(
        "tiny", QueueDescription(lock_duration=LOCK, max_size_in_megabytes=1, max_message_size_in_kilobytes=1024)
    )
    bus.sender("tiny").send_messages(ServiceBusMessage(b"x" * 900_000))
    with pytest.raises(ServiceBusQuotaExceededError):
        bus.sender("tiny").send_messages(ServiceBusMessage(b"x" * 200_000))
    bus.drain("tiny")
    bus.send("tiny", "room again")
    assert bus.drain("tiny") == ["room again"]


def test_a_receiver_of_a_topic_is_refused(bus: Bus) -> None:
    """Topics are received from through subscriptions; service-bus-queues-topics-subscriptions."""
    from emulators.servicebus.description import TopicDescription

    bus.create("only-topic", TopicDescription())
    with pytest.raises(ServiceBusError), bus.client.get_queue_receiver("only-topic") as receiver:
        receiver.receive_messages(1, max_wait_time=1)
