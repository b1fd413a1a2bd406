"""Item 22: looking without taking."""

from __future__ import annotations

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import SECOND, Namespace
from tests.emulators.servicebus.contract.receiving import take


@item(22, "documented")
def test_peeking_locks_nothing(namespace: Namespace) -> None:
    """The message can be received at once, uncounted; what was peeked has no lock and cannot be settled.

    Source: Microsoft, "Browse or peek messages"; azure-servicebus, test_queue_by_servicebus_client_browse_messages_client.
    """
    queue = namespace.queue()
    namespace.send(queue, "x", message_id="m", time_to_live=60 * SECOND)
    receiver = namespace.receiver(queue)
    (peeked,) = receiver.peek_messages(5)
    assert (str(peeked), peeked.message_id, peeked.time_to_live) == ("x", "m", 60 * SECOND)
    assert (peeked.state, peeked.lock_token) == (ServiceBusMessageState.ACTIVE, None)
    with pytest.raises(ValueError, match="peek"):
        receiver.complete_message(peeked)
    (message,) = take(receiver)
    assert (message.sequence_number, message.delivery_count) == (peeked.sequence_number, 0)


@item(22, "documented")
def test_peeking_goes_on_where_it_stopped(namespace: Namespace) -> None:
    """At most so many at a time, in the order of the sequence numbers, until there are none; another receiver begins anew.

    Source: Microsoft, "Browse or peek messages"; azure-servicebus, test_queue_by_servicebus_client_browse_messages_with_receiver.
    """
    queue = namespace.queue()
    namespace.send(queue, *"abcde")
    receiver = namespace.receiver(queue)
    found: list[str] = []
    while len(found) < 5:
        more = receiver.peek_messages(2)
        assert 1 <= len(more) <= 2
        found += [str(message) for message in more]
    assert found == list("abcde")
    assert receiver.peek_messages(2) == []
    namespace.send(queue, "f")
    assert [str(message) for message in receiver.peek_messages(2)] == ["f"]
    assert str(namespace.receiver(queue).peek_messages(1)[0]) == "a"


@item(22, "documented")
def test_peeking_begins_at_a_sequence_number(namespace: Namespace) -> None:
    """That one first, or the next there is.

    Source: Microsoft, "Browse or peek messages".
    """
    queue = namespace.queue()
    namespace.send(queue, *"abc")
    receiver = namespace.receiver(queue)
    numbers = [message.sequence_number or 0 for message in receiver.peek_messages(3)]
    assert str(receiver.peek_messages(1, sequence_number=numbers[1])[0]) == "b"
    assert str(receiver.peek_messages(1)[0]) == "c"
    receiver.complete_message(take(receiver)[0])
    assert str(receiver.peek_messages(1, sequence_number=numbers[0])[0]) == "b"


@item(22, "documented")
def test_peeking_sees_what_cannot_be_received(namespace: Namespace) -> None:
    """Locked, deferred and scheduled messages, among the others; that one is locked cannot be seen.

    Source: Microsoft, "Browse or peek messages".
    """
    queue = namespace.queue()
    sender = namespace.sender(queue)
    namespace.send(queue, "locked", "deferred", "active")
    sender.schedule_messages(ServiceBusMessage("scheduled"), namespace.now() + 60 * SECOND)
    receiver = namespace.receiver(queue)
    _, deferred = take(receiver, 2)
    receiver.defer_message(deferred)
    seen = namespace.receiver(queue).peek_messages(10)
    assert [(str(message), message.state) for message in seen] == [
        ("locked", ServiceBusMessageState.ACTIVE),
        ("deferred", ServiceBusMessageState.DEFERRED),
        ("active", ServiceBusMessageState.ACTIVE),
        ("scheduled", ServiceBusMessageState.SCHEDULED),
    ]
    assert [message.locked_until_utc for message in seen] == [None] * 4


@item(22, "documented")
def test_there_is_nothing_to_peek_in_an_empty_queue(namespace: Namespace) -> None:
    """An empty list.

    Source: Microsoft, "AMQP 1.0 in Microsoft Azure Service Bus: request-response-based operations"; azure-servicebus,
    test_queue_by_servicebus_client_browse_empty_messages.
    """
    assert namespace.receiver(namespace.queue()).peek_messages(10) == []


@item(22, "documented")
def test_dead_letters_are_peeked_where_they_are(namespace: Namespace) -> None:
    """Not in the queue they come from.

    Source: Microsoft, "Browse or peek messages".
    """
    queue = namespace.queue()
    namespace.send(queue, "dead", "alive")
    receiver = namespace.receiver(queue)
    receiver.dead_letter_message(take(receiver)[0], reason="why")
    assert [str(message) for message in namespace.receiver(queue).peek_messages(5)] == ["alive"]
    (dead,) = namespace.dead_letters(queue).peek_messages(5)
    assert (str(dead), dead.dead_letter_reason) == ("dead", "why")


@item(22, "documented")
def test_a_subscription_is_peeked_like_a_queue(namespace: Namespace) -> None:
    """But does not show what is scheduled: that is still in the topic.

    Source: Microsoft, "Browse or peek messages".
    """
    topic = namespace.topic()
    namespace.subscription(topic)
    sender = namespace.topic_sender(topic)
    sender.send_messages(ServiceBusMessage("here"))
    sender.schedule_messages(ServiceBusMessage("later"), namespace.now() + 60 * SECOND)
    assert [str(message) for message in namespace.subscriber(topic).peek_messages(5)] == ["here"]
