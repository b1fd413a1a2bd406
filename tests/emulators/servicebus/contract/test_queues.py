"""Items 1 to 6: what is sent to a queue arrives as it was sent, whole, numbered and in order."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusError

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import LOCK, SECOND, Namespace
from tests.emulators.servicebus.contract.receiving import take

STANDARD = 256 * 1024
"""Octets that a message and a batch may have in the Standard tier; Premium allows more."""


def sent_and_received(namespace: Namespace, message: ServiceBusMessage | AmqpAnnotatedMessage) -> Any:
    """The message as it comes out of a queue of its own."""
    queue = namespace.queue()
    namespace.sender(queue).send_messages(message)
    return take(namespace.receiver(queue))[0]


@item(1, "documented")
def test_body_and_properties_arrive_unchanged(namespace: Namespace) -> None:
    """Octets for octets; without sessions and partitions, session id and partition key are only carried.

    Source: Microsoft, "Messages, payloads, and serialization"; azure-servicebus, test_queue_by_queue_client_conn_str_receive_handler_peeklock.
    """
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
    )
    got = sent_and_received(namespace, sent)
    assert b"".join(got.body) == b"\x00body\xff"
    names = ("message_id", "subject", "content_type", "correlation_id", "to", "reply_to", "reply_to_session_id")
    assert [getattr(got, name) for name in names] == [getattr(sent, name) for name in names]
    assert (got.session_id, got.partition_key, got.time_to_live) == ("group", "group", timedelta(hours=1))


@item(1, "documented")
def test_what_was_not_set_is_not_set(namespace: Namespace) -> None:
    """Nothing is made up but what the broker owns.

    Source: azure-servicebus, test_queue_by_queue_client_send_multiple_messages.
    """
    got = sent_and_received(namespace, ServiceBusMessage("x"))
    names = (
        "subject", "content_type", "correlation_id", "to", "reply_to", "reply_to_session_id", "session_id",
        "scheduled_enqueue_time_utc", "time_to_live", "application_properties",
    )  # fmt: skip
    assert [getattr(got, name) or None for name in names] == [None] * len(names)
    assert got.delivery_count == 0


@item(1, "documented")
@pytest.mark.parametrize(
    ("value", "arrived"),
    [
        ("text", b"text"), ("\u00e4\u20ac\U0001f600", "\u00e4\u20ac\U0001f600".encode()), (b"octets", b"octets"),
        (7, 7), (-(1 << 31), -(1 << 31)), ((1 << 31) - 1, (1 << 31) - 1), (1.5, 1.5), (True, True), (False, False),
        (uuid.UUID(int=1 << 100), uuid.UUID(int=1 << 100)), (None, None),
    ],
)  # fmt: skip
def test_application_properties_keep_their_types(namespace: Namespace, value: Any, arrived: object) -> None:
    """Simple types of AMQP; the client shows strings as octets.

    Source: Microsoft, "AMQP 1.0 in Azure Service Bus and Event Hubs protocol guide"; azure-servicebus, test_queue_message_batch.
    """
    got = sent_and_received(namespace, ServiceBusMessage("x", application_properties={"key": value}))
    assert got.application_properties == {b"key": arrived}
    assert type(got.application_properties[b"key"]) is type(arrived)


@item(1, "documented")
def test_a_moment_among_the_application_properties_arrives(namespace: Namespace) -> None:
    """To the millisecond, as an AMQP timestamp.

    Source: Microsoft, "AMQP 1.0 in Azure Service Bus and Event Hubs protocol guide".
    """
    moment: Any = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    got = sent_and_received(namespace, ServiceBusMessage("x", application_properties={"when": moment}))
    assert got.application_properties[b"when"] in (moment, int(moment.timestamp() * 1000))


@item(1, "documented")
def test_a_message_id_may_be_a_uuid(namespace: Namespace) -> None:
    """And stays one.

    Source: azure-servicebus, test_queue_message_duplicate_detection.
    """
    identifier: Any = uuid.uuid4()
    assert sent_and_received(namespace, ServiceBusMessage("x", message_id=identifier)).message_id == identifier


@item(1, "documented")
def test_a_message_may_have_no_body(namespace: Namespace) -> None:
    """As a value body of null.

    Source: azure-servicebus, test_send_message_no_body.
    """
    assert sent_and_received(namespace, ServiceBusMessage(None)).body is None


@item(1, "documented")
@pytest.mark.parametrize(
    ("body_type", "body", "arrived"),
    [
        ("data", [b"aa", b"bb", b"cc"], [b"aa", b"bb", b"cc"]),
        ("sequence", [b"message", 123.456, True], [[b"message", 123.456, True]]),
        ("value", {b"key": [-123, b"data", False]}, {b"key": [-123, b"data", False]}),
    ],
)
def test_every_kind_of_body_arrives_in_its_sections(
    namespace: Namespace, body_type: str, body: Any, arrived: object
) -> None:
    """Several data sections, sequences and values, with footer, annotations and priority.

    Source: azure-servicebus, test_queue_send_amqp_annotated_message.
    """
    message = AmqpAnnotatedMessage(
        **{f"{body_type}_body": body},
        header={"priority": 10},
        annotations={"ann_key": "ann_value"},
        properties={"subject": "kind"},
        application_properties={"body_type": body_type},
        footer={"footer_key": "footer_value"},
    )
    raw = sent_and_received(namespace, message).raw_amqp_message
    assert raw.body_type is AmqpMessageBodyType[body_type.upper()]
    assert (raw.body if body_type == "value" else list(raw.body)) == arrived
    assert (raw.header.priority, raw.annotations[b"ann_key"]) == (10, b"ann_value")
    assert (raw.properties.subject, raw.application_properties) == (b"kind", {b"body_type": body_type.encode()})
    assert raw.footer == {b"footer_key": b"footer_value"}


@item(1, "documented")
def test_delivery_annotations_arrive(namespace: Namespace) -> None:
    """Though AMQP has them for one hop.

    Source: azure-servicebus, test_queue_send_amqp_annotated_message, test_message_inner_amqp_properties.
    """
    message = AmqpAnnotatedMessage(data_body=b"x", delivery_annotations={"delann_key": "delann_value"})
    raw = sent_and_received(namespace, message).raw_amqp_message
    assert raw.delivery_annotations[b"delann_key"] == b"delann_value"


@item(2, "documented")
def test_a_batch_arrives_whole_and_its_messages_follow_each_other(namespace: Namespace) -> None:
    """Each with its own properties and a sequence number without a gap to the one before.

    Source: Microsoft, "Message sequencing and timestamps"; azure-servicebus, test_queue_message_batch.
    """
    queue = namespace.queue()
    sender = namespace.sender(queue)
    batch = sender.create_message_batch()
    for number in range(20):
        batch.add_message(ServiceBusMessage(str(number), message_id=f"id{number}"))
    sender.send_messages(batch)
    got = take(namespace.receiver(queue), 20)
    assert [(str(m), m.message_id) for m in got] == [(str(n), f"id{n}") for n in range(20)]
    first = got[0].sequence_number or 0
    assert [m.sequence_number for m in got] == list(range(first, first + 20))


@item(2, "documented")
def test_a_batch_can_be_sent_twice(namespace: Namespace) -> None:
    """And its messages are as many again.

    Source: azure-servicebus, test_queue_send_twice.
    """
    queue = namespace.queue()
    sender = namespace.sender(queue)
    batch = sender.create_message_batch()
    batch.add_message(ServiceBusMessage("a"))
    batch.add_message(ServiceBusMessage("b"))
    sender.send_messages(batch)
    sender.send_messages(batch)
    assert namespace.drain(queue, 4) == ["a", "b", "a", "b"]


@item(2, "unverified")
def test_a_batch_with_a_message_that_is_refused_leaves_nothing_behind(namespace: Namespace) -> None:
    """Neither messages nor known message ids.

    Source: Microsoft, "AMQP 1.0 in Azure Service Bus and Event Hubs protocol guide" has one outcome for a transfer; that it covers all
    messages of a batch nobody has written down.
    """
    queue = namespace.queue(requires_session=True, requires_duplicate_detection=True)
    sender = namespace.sender(queue)
    good = ServiceBusMessage("a", session_id="s", message_id="id")
    with pytest.raises(ServiceBusError):
        sender.send_messages([good, ServiceBusMessage("without a session", message_id="other")])
    assert namespace.counts(queue).active == 0
    sender.send_messages(ServiceBusMessage("a", session_id="s", message_id="id"))
    assert namespace.counts(queue).active == 1


@item(3, "documented")
def test_a_batch_has_room_for_as_much_as_the_tier_allows(namespace: Namespace) -> None:
    """Standard: 256 KB; the client learns it from the link.

    Source: Microsoft, "Service Bus quotas"; azure-servicebus, test_batch_sizing.py.
    """
    batch = namespace.sender(namespace.queue()).create_message_batch()
    assert batch.max_size_in_bytes >= STANDARD
    chunk = b"x" * 50_000
    for _ in range(batch.max_size_in_bytes // 51_000):
        batch.add_message(ServiceBusMessage(chunk))
    with pytest.raises(MessageSizeExceededError):
        batch.add_message(ServiceBusMessage(chunk))


@item(3, "documented")
def test_a_list_that_does_not_fit_a_batch_is_refused(namespace: Namespace) -> None:
    """Before anything is sent.

    Source: azure-servicebus, test_queue_by_servicebus_client_fail_send_messages.
    """
    queue = namespace.queue()
    sender = namespace.sender(queue)
    half = ServiceBusMessage(b"x" * (sender.create_message_batch().max_size_in_bytes // 2))
    with pytest.raises(MessageSizeExceededError):
        sender.send_messages([half, half])
    assert namespace.counts(queue).active == 0


@item(3, "documented")
def test_a_message_above_the_limit_is_refused_by_the_service(namespace: Namespace) -> None:
    """And the sender can go on.

    Source: Microsoft, "Service Bus quotas"; azure-servicebus, test_queue_by_servicebus_client_fail_send_messages.
    """
    queue = namespace.queue()
    sender = namespace.sender(queue)
    too_large = b"x" * sender.create_message_batch().max_size_in_bytes
    with pytest.raises(MessageSizeExceededError):
        sender.send_messages(ServiceBusMessage(too_large))
    sender.send_messages(ServiceBusMessage("small"))
    assert namespace.drain(queue, 1) == ["small"]


@item(4, "documented")
def test_a_message_of_many_frames_arrives_whole(namespace: Namespace) -> None:
    """250 KB, where a frame has 64.

    Source: azure-servicebus, test_queue_send_large_message_receive.
    """
    body = bytes(range(250)) * 1024
    assert b"".join(sent_and_received(namespace, ServiceBusMessage(body)).body) == body


@item(4, "documented")
def test_large_messages_do_not_mix_with_their_neighbours(namespace: Namespace) -> None:
    """Small and large ones in turn.

    Source: Microsoft, "AMQP 1.0 in Azure Service Bus and Event Hubs protocol guide", on transfers of several frames.
    """
    queue = namespace.queue()
    bodies = [letter * size for letter, size in zip("abcde", (1, 200_000, 2, 150_000, 3), strict=True)]
    for body in bodies:
        namespace.send(queue, body)
    assert namespace.drain(queue, 5) == bodies


@item(5, "documented")
def test_sequence_numbers_strictly_increase(namespace: Namespace) -> None:
    """Message after message of one entity, without gaps, whatever other entities get meanwhile.

    Source: Microsoft, "Message sequencing and timestamps".
    """
    queue, other = namespace.queue(), namespace.queue()
    for body in "abc":
        namespace.send(queue, body)
        namespace.send(other, "x", "y")
    received = take(namespace.receiver(queue), 3)
    first = received[0].sequence_number or 0
    assert [str(message) for message in received] == ["a", "b", "c"]
    assert [message.sequence_number for message in received] == [first, first + 1, first + 2]


@item(5, "documented")
def test_the_service_says_when_it_enqueued(namespace: Namespace) -> None:
    """By its own clock, in the order of the sequence numbers.

    Source: Microsoft, "Message sequencing and timestamps".
    """
    queue = namespace.queue()
    before = namespace.now()
    namespace.send(queue, "a")
    namespace.let_pass(2 * SECOND)
    namespace.send(queue, "b")
    after = namespace.now()
    first, second = (m.enqueued_time_utc for m in take(namespace.receiver(queue), 2))
    assert first is not None
    assert second is not None
    skew = 30 * SECOND if namespace.real else SECOND
    assert before - skew < first < second < after + skew
    assert second - first >= SECOND


@item(5, "measured")
def test_a_message_keeps_its_number_and_time_whatever_becomes_of_it(namespace: Namespace) -> None:
    """Abandoned, unlocked by time, deferred, dead-lettered: only a schedule that comes due changes the number.

    Source: MicrosoftDocs/azure-docs issue 97032, answered by Microsoft.
    """
    queue = namespace.queue()
    namespace.send(queue, "x")
    receiver = namespace.receiver(queue)
    (message,) = take(receiver)
    birth = (message.sequence_number, message.enqueued_time_utc)
    receiver.abandon_message(message)
    take(receiver)
    namespace.let_pass(LOCK + SECOND)
    (message,) = take(receiver)
    assert (message.sequence_number, message.enqueued_time_utc) == birth
    receiver.defer_message(message)
    (message,) = receiver.receive_deferred_messages(birth[0] or 0)
    assert (message.sequence_number, message.enqueued_time_utc) == birth
    receiver.dead_letter_message(message)
    (dead,) = take(namespace.dead_letters(queue))
    assert (dead.sequence_number, dead.enqueued_time_utc) == birth


@item(6, "documented")
@pytest.mark.parametrize("mode", list(ServiceBusReceiveMode), ids=str)
def test_one_consumer_receives_in_the_order_sent(namespace: Namespace, mode: ServiceBusReceiveMode) -> None:
    """In both receive modes.

    Source: Microsoft, "Service Bus queues, topics, and subscriptions", "Message sequencing and timestamps".
    """
    queue = namespace.queue()
    bodies = [str(number) for number in range(30)]
    namespace.send(queue, *bodies[:20])
    for body in bodies[20:]:
        namespace.send(queue, body)
    receiver = namespace.receiver(queue, receive_mode=mode)
    got = []
    for _ in range(3):
        for message in take(receiver, 10):
            got.append(str(message))
            if mode is ServiceBusReceiveMode.PEEK_LOCK:
                receiver.complete_message(message)
    assert got == bodies
    assert namespace.counts(queue).active == 0


@item(6, "documented")
def test_iterating_with_prefetch_keeps_the_order(namespace: Namespace) -> None:
    """More messages than are fetched ahead.

    Source: Microsoft, "Prefetch Azure Service Bus messages", "Service Bus queues, topics, and subscriptions".
    """
    queue = namespace.queue()
    bodies = [str(number) for number in range(150)]
    namespace.send(queue, *bodies)
    receiver = namespace.receiver(queue, prefetch_count=40, max_wait_time=5)
    got = []
    for message in receiver:
        got.append(str(message))
        receiver.complete_message(message)
        if len(got) == len(bodies):
            break
    assert got == bodies
