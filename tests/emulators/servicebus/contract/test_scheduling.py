"""Item 21: messages for later."""

from __future__ import annotations

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.exceptions import MessageNotFoundError, ServiceBusError

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import SECOND, Namespace
from tests.emulators.servicebus.contract.receiving import take

SOON = 20 * SECOND


@item(21, "documented")
@pytest.mark.parametrize("way", ["schedule", "send"])
def test_a_scheduled_message_comes_when_it_is_due(namespace: Namespace, way: str) -> None:
    """And not before, whether it was scheduled or sent with a time; it says the time it was meant for.

    Source: Microsoft, "Message sequencing and timestamps"; azure-servicebus, test_queue_schedule_message,
    test_queue_schedule_multiple_messages.
    """
    queue = namespace.queue()
    due = (namespace.now() + SOON).replace(microsecond=0)
    message = ServiceBusMessage("later", message_id="m", application_properties={"key": "value"})
    sender, receiver = namespace.sender(queue), namespace.receiver(queue)
    if way == "schedule":
        assert len(sender.schedule_messages(message, due)) == 1
    else:
        message.scheduled_enqueue_time_utc = due
        sender.send_messages(message)
    assert namespace.nothing(receiver)
    namespace.let_pass(SOON + SECOND)
    (got,) = take(receiver)
    assert (str(got), got.message_id, got.application_properties) == ("later", "m", {b"key": b"value"})
    assert (got.state, got.delivery_count) == (ServiceBusMessageState.ACTIVE, 0)
    assert got.scheduled_enqueue_time_utc == due
    assert got.enqueued_time_utc is not None
    assert got.enqueued_time_utc >= due


@item(21, "documented")
def test_scheduled_messages_are_seen_by_peeking(namespace: Namespace) -> None:
    """In that state, under the numbers that scheduling returned; they are counted apart.

    Source: Microsoft, "Message sequencing and timestamps", "Get message counters"; azure-servicebus, test_state_scheduled.
    """
    queue = namespace.queue()
    messages = [ServiceBusMessage("a"), ServiceBusMessage("b")]
    numbers = namespace.sender(queue).schedule_messages(messages, namespace.now() + 60 * SECOND)
    assert numbers == sorted(set(numbers))
    peeked = namespace.receiver(queue).peek_messages(5)
    assert [(str(m), m.sequence_number) for m in peeked] == list(zip("ab", numbers, strict=True))
    assert {message.state for message in peeked} == {ServiceBusMessageState.SCHEDULED}
    counts = namespace.counts(queue)
    assert (counts.active, counts.scheduled) == (0, 2)


@item(21, "documented")
def test_a_scheduled_message_can_be_cancelled(namespace: Namespace) -> None:
    """By its sequence number; then it never comes.

    Source: Microsoft, "Message sequencing and timestamps"; azure-servicebus, test_queue_cancel_scheduled_messages.
    """
    queue = namespace.queue()
    sender = namespace.sender(queue)
    bodies = [ServiceBusMessage(body) for body in "abc"]
    numbers = sender.schedule_messages(bodies, namespace.now() + SOON)
    sender.cancel_scheduled_messages(numbers[:2])
    assert namespace.counts(queue).scheduled == 1
    namespace.let_pass(SOON + SECOND)
    assert namespace.drain(queue, 1) == ["c"]
    assert namespace.counts(queue).active == 0


@item(21, "measured")
def test_only_what_is_scheduled_can_be_cancelled(namespace: Namespace) -> None:
    """A number that was cancelled already, or never given out, is not found.

    Source: Azure/azure-service-bus issue 239; MassTransit/MassTransit issue 926.
    """
    sender = namespace.sender(namespace.queue())
    numbers = sender.schedule_messages(ServiceBusMessage("x"), namespace.now() + timedelta(hours=1))
    sender.cancel_scheduled_messages(numbers)
    for number in (numbers[0], numbers[0] + 1000):
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(number)


@item(21, "unverified")
def test_cancelling_is_for_all_numbers_or_none(namespace: Namespace) -> None:
    """One that is unknown keeps the others scheduled.

    Source: nobody has written it down.
    """
    queue = namespace.queue()
    sender = namespace.sender(queue)
    numbers = sender.schedule_messages(ServiceBusMessage("x"), namespace.now() + timedelta(hours=1))
    with pytest.raises(ServiceBusError):
        sender.cancel_scheduled_messages([numbers[0], numbers[0] + 1000])
    assert namespace.counts(queue).scheduled == 1


@item(21, "documented")
def test_a_scheduled_message_gets_a_new_number_when_it_is_due(namespace: Namespace) -> None:
    """The old one meant it only while it was scheduled, and cancels nothing any more.

    Source: Microsoft, "Message sequencing and timestamps"; Azure/azure-service-bus-java issue 227.
    """
    queue = namespace.queue()
    sender = namespace.sender(queue)
    (number,) = sender.schedule_messages(ServiceBusMessage("x"), namespace.now() + SOON)
    namespace.send(queue, "sent meanwhile")
    namespace.let_pass(SOON + SECOND)
    before, message = take(namespace.receiver(queue), 2)
    assert (str(before), str(message)) == ("sent meanwhile", "x")
    assert number < (before.sequence_number or 0) < (message.sequence_number or 0)
    with pytest.raises(ServiceBusError):
        sender.cancel_scheduled_messages(number)


@item(21, "documented")
def test_scheduled_messages_come_in_the_order_of_their_times(namespace: Namespace) -> None:
    """Each is appended to the queue when it is due, whatever was scheduled first.

    Source: Microsoft, "Message sequencing and timestamps".
    """
    queue = namespace.queue()
    sender = namespace.sender(queue)
    now = namespace.now()
    sender.schedule_messages(ServiceBusMessage("third"), now + SOON + 4 * SECOND)
    sender.schedule_messages(ServiceBusMessage("second"), now + SOON)
    sender.send_messages(ServiceBusMessage("first"))
    namespace.let_pass(SOON + SECOND)
    assert namespace.drain(queue, 2) == ["first", "second"]
    namespace.let_pass(10 * SECOND)
    assert namespace.drain(queue, 1) == ["third"]


@item(21, "documented")
def test_the_time_to_live_begins_when_a_message_is_due(namespace: Namespace) -> None:
    """It becomes a moment when the message is enqueued.

    Source: Microsoft, "Azure Service Bus - Message expiration (Time to Live)", "Message sequencing and timestamps".
    """
    queue = namespace.queue()
    message = ServiceBusMessage("x", time_to_live=10 * SECOND)
    namespace.sender(queue).schedule_messages(message, namespace.now() + SOON)
    namespace.let_pass(SOON + SECOND)
    receiver = namespace.receiver(queue)
    (got,) = take(receiver)
    receiver.abandon_message(got)
    namespace.let_pass(10 * SECOND)
    assert namespace.nothing(receiver)


@item(21, "unverified")
def test_a_time_that_has_passed_means_now(namespace: Namespace) -> None:
    """There is no error.

    Source: nobody has written it down.
    """
    queue = namespace.queue()
    namespace.sender(queue).schedule_messages(ServiceBusMessage("x"), namespace.now() - timedelta(hours=1))
    assert namespace.drain(queue, 1) == ["x"]


@item(21, "documented")
def test_a_topic_hands_out_scheduled_messages_when_they_are_due(namespace: Namespace) -> None:
    """To its subscriptions.

    Source: Microsoft, "Message sequencing and timestamps".
    """
    topic = namespace.topic()
    namespace.subscription(topic)
    receiver = namespace.subscriber(topic)
    namespace.topic_sender(topic).schedule_messages(ServiceBusMessage("x"), namespace.now() + SOON)
    assert namespace.nothing(receiver)
    namespace.let_pass(SOON + SECOND)
    assert [str(message) for message in take(receiver)] == ["x"]
