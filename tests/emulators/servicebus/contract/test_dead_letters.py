"""Items 13 to 15: how messages become dead letters, and what a dead-letter queue does with them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusError

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import LOCK, SECOND, Namespace
from tests.emulators.servicebus.contract.receiving import take


def buried(namespace: Namespace, queue: str, **properties: Any) -> None:
    """One message, dead-lettered by its receiver."""
    namespace.send(queue, "x", **properties)
    receiver = namespace.receiver(queue)
    receiver.dead_letter_message(take(receiver)[0], reason="why", error_description="because")


def abandon(namespace: Namespace, queue: str, times: int) -> None:
    """Take a message so many times; each time it says how often that was."""
    receiver = namespace.receiver(queue)
    for count in range(times):
        (message,) = take(receiver)
        assert message.delivery_count == count
        receiver.abandon_message(message)


def one_dead_letter(namespace: Namespace, queue: str) -> ServiceBusReceivedMessage:
    return take(namespace.dead_letters(queue))[0]


@item(13, "documented")
@pytest.mark.parametrize("most", [1, 2, 10])
def test_a_message_is_dead_lettered_at_its_last_delivery_that_fails(namespace: Namespace, most: int) -> None:
    """With a maximum of N at the N-th abandon, not one later.

    Source: Microsoft, "QueueDescription.MaxDeliveryCount Property"; azure-sdk-for-js, batchReceiver.spec.ts, "Multiple abandons until
    maxDeliveryCount"; Azure/azure-service-bus issue 375.
    """
    queue = namespace.queue(max_delivery_count=most)
    namespace.send(queue, "bad")
    abandon(namespace, queue, most)
    dead = one_dead_letter(namespace, queue)
    assert (str(dead), dead.dead_letter_reason) == ("bad", "MaxDeliveryCountExceeded")
    assert namespace.counts(queue).active == 0


@item(13, "documented")
def test_ten_deliveries_are_allowed_unless_said_otherwise(namespace: Namespace) -> None:
    """The default.

    Source: Microsoft, "Overview of Service Bus dead-letter queues".
    """
    queue = namespace.queue()
    namespace.send(queue, "bad")
    abandon(namespace, queue, 9)
    assert take(namespace.receiver(queue))[0].delivery_count == 9


@item(13, "documented")
def test_a_lock_that_expires_counts_as_a_delivery_that_failed(namespace: Namespace) -> None:
    """No receiver has to say so.

    Source: Microsoft, "Overview of Service Bus dead-letter queues", "Message transfers, locks, and settlement".
    """
    queue = namespace.queue(max_delivery_count=1)
    namespace.send(queue, "never settled")
    receiver = namespace.receiver(queue)
    take(receiver)
    namespace.let_pass(LOCK + SECOND)
    assert namespace.nothing(receiver)
    assert one_dead_letter(namespace, queue).dead_letter_reason == "MaxDeliveryCountExceeded"


@item(13, "measured")
def test_the_description_tells_how_often_it_was_tried(namespace: Namespace) -> None:
    """In a sentence of the service's.

    Source: azure-sdk-for-java issue 30837.
    """
    queue = namespace.queue(max_delivery_count=2)
    namespace.send(queue, "bad")
    abandon(namespace, queue, 2)
    description = one_dead_letter(namespace, queue).dead_letter_error_description
    assert description == "Message could not be consumed after 2 delivery attempts."


@item(13, "unverified")
def test_a_message_delivered_too_often_keeps_its_count(namespace: Namespace) -> None:
    """The dead letter has as many deliveries as were allowed.

    Source: nobody has written it down; azure-sdk-for-js, deferredMessage.spec.ts, has it of a message that its receiver dead-lettered.
    """
    queue = namespace.queue(max_delivery_count=2)
    namespace.send(queue, "bad")
    abandon(namespace, queue, 2)
    assert one_dead_letter(namespace, queue).delivery_count == 2


@item(14, "documented")
def test_reason_and_description_are_on_the_dead_letter(namespace: Namespace) -> None:
    """As properties of the message, and among its application properties.

    Source: Microsoft, "Overview of Service Bus dead-letter queues"; azure-servicebus,
    test_queue_by_servicebus_client_receive_batch_with_retrieve_deadletter.
    """
    queue = namespace.queue()
    buried(namespace, queue, application_properties={"kept": "yes"})
    dead = one_dead_letter(namespace, queue)
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("why", "because")
    assert dead.application_properties == {
        b"kept": b"yes", b"DeadLetterReason": b"why", b"DeadLetterErrorDescription": b"because",
    }  # fmt: skip


@item(14, "documented")
def test_a_dead_letter_is_the_message_it_was(namespace: Namespace) -> None:
    """Body, properties, and how often it was delivered.

    Source: azure-sdk-for-js, batchReceiver.spec.ts, "deadLetter() moves message to deadletter queue"; deferredMessage.spec.ts.
    """
    queue = namespace.queue()
    sent = ServiceBusMessage("x", message_id="m", subject="s", correlation_id="c", time_to_live=timedelta(hours=1))
    namespace.sender(queue).send_messages(sent)
    abandon(namespace, queue, 1)
    receiver = namespace.receiver(queue)
    receiver.dead_letter_message(take(receiver)[0], reason="why")
    dead = one_dead_letter(namespace, queue)
    assert (str(dead), dead.message_id, dead.subject, dead.correlation_id) == ("x", "m", "s", "c")
    assert (dead.time_to_live, dead.delivery_count) == (timedelta(hours=1), 1)


@item(14, "documented")
def test_the_queue_counts_its_dead_letters_apart(namespace: Namespace) -> None:
    """A dead letter is not active.

    Source: Microsoft, "Get message counters".
    """
    queue = namespace.queue()
    namespace.send(queue, "alive")
    counts = namespace.admin.get_queue_runtime_properties(queue)
    assert (counts.active_message_count, counts.dead_letter_message_count, counts.total_message_count) == (1, 0, 1)
    namespace.drain(queue, 1)
    buried(namespace, queue)
    counts = namespace.admin.get_queue_runtime_properties(queue)
    assert (counts.active_message_count, counts.dead_letter_message_count, counts.total_message_count) == (0, 1, 1)


@item(14, "unverified")
def test_a_dead_letter_may_have_no_reason(namespace: Namespace) -> None:
    """When its receiver gave none.

    Source: azure-sdk-for-js, batchReceiver.spec.ts, dead-letters without one; what the message then has nobody has written down.
    """
    queue = namespace.queue()
    namespace.send(queue, "x")
    receiver = namespace.receiver(queue)
    receiver.dead_letter_message(take(receiver)[0])
    dead = one_dead_letter(namespace, queue)
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == (None, None)


@item(14, "documented")
@pytest.mark.parametrize("path", ["$deadletterqueue", "$DeadLetterQueue"])
def test_dead_letters_have_a_path(namespace: Namespace, path: str) -> None:
    """Under the queue's, as the page writes it and as the clients do.

    Source: Microsoft, "Overview of Service Bus dead-letter queues"; azure-servicebus, ServiceBusSubQueue.
    """
    queue = namespace.queue()
    buried(namespace, queue)
    assert str(take(namespace.receiver(f"{queue}/{path}"))[0]) == "x"


@item(14, "unverified")
def test_the_path_of_dead_letters_is_found_in_any_case(namespace: Namespace) -> None:
    """As the names of entities are.

    Source: Microsoft, "Overview of Service Bus dead-letter queues", has one spelling, the clients have another.
    """
    queue = namespace.queue()
    buried(namespace, queue)
    assert str(take(namespace.receiver(f"{queue}/$deadLETTERqueue"))[0]) == "x"


@item(14, "documented")
def test_a_subscription_has_dead_letters_of_its_own(namespace: Namespace) -> None:
    """Other subscriptions of the topic keep their copy.

    Source: Microsoft, "Overview of Service Bus dead-letter queues".
    """
    topic = namespace.topic()
    for name in ("failing", "working"):
        namespace.subscription(topic, name)
    namespace.topic_sender(topic).send_messages(ServiceBusMessage("x"))
    receiver = namespace.subscriber(topic, "failing")
    receiver.dead_letter_message(take(receiver)[0], reason="why")
    dead = take(namespace.subscriber(topic, "failing", sub_queue=ServiceBusSubQueue.DEAD_LETTER))
    assert [(str(message), message.dead_letter_reason) for message in dead] == [("x", "why")]
    assert [str(message) for message in take(namespace.subscriber(topic, "working"))] == ["x"]


@item(14, "documented")
def test_nobody_can_send_to_a_dead_letter_queue(namespace: Namespace) -> None:
    """Messages come there by the dead-letter operation alone.

    Source: Microsoft, "Overview of Service Bus dead-letter queues".
    """
    queue = namespace.queue()
    with pytest.raises(ServiceBusError):
        namespace.sender(f"{queue}/$deadletterqueue").send_messages(ServiceBusMessage("x"))


@item(14, "documented")
def test_a_dead_letter_is_received_under_a_lock(namespace: Namespace) -> None:
    """Hidden from others, completed or given back.

    Source: Microsoft, "Overview of Service Bus dead-letter queues".
    """
    queue = namespace.queue()
    buried(namespace, queue)
    first, second = namespace.dead_letters(queue), namespace.dead_letters(queue)
    (dead,) = take(first)
    assert namespace.nothing(second)
    first.abandon_message(dead)
    second.complete_message(take(second)[0])
    assert namespace.counts(queue).dead == 0


@item(15, "documented")
def test_nothing_expires_in_a_dead_letter_queue(namespace: Namespace) -> None:
    """Neither by its own time to live nor by the queue's.

    Source: Microsoft, "Overview of Service Bus dead-letter queues".
    """
    queue = namespace.queue(default_message_time_to_live=8 * SECOND)
    buried(namespace, queue, time_to_live=6 * SECOND)
    namespace.let_pass(10 * SECOND)
    dead_letters = namespace.dead_letters(queue)
    (dead,) = take(dead_letters)
    dead_letters.abandon_message(dead)
    assert take(dead_letters)[0].dead_letter_reason == "why"


@item(15, "documented")
def test_a_dead_letter_cannot_be_dead_lettered(namespace: Namespace) -> None:
    """The receiver is told, and the message stays what it was.

    Source: Microsoft, "Overview of Service Bus dead-letter queues"; azure-sdk-for-js, batchReceiver.spec.ts, "Throws error when dead
    lettering a dead lettered message".
    """
    queue = namespace.queue()
    buried(namespace, queue)
    dead_letters = namespace.dead_letters(queue)
    (dead,) = take(dead_letters)
    with pytest.raises(ServiceBusError):
        dead_letters.dead_letter_message(dead, reason="again")
    namespace.let_pass((60 if namespace.real else 61) * SECOND)
    (dead,) = take(dead_letters)
    assert (dead.dead_letter_reason, dead.delivery_count) == ("why", 0)


@item(15, "documented")
def test_abandoning_a_dead_letter_is_not_counted(namespace: Namespace) -> None:
    """However often: it stays until somebody completes it.

    Source: azure-sdk-for-js, batchReceiver.spec.ts, "Abandon a message received from dead letter queue"; Microsoft, "Overview of Service
    Bus dead-letter queues".
    """
    queue = namespace.queue(max_delivery_count=1)
    buried(namespace, queue)
    dead_letters = namespace.dead_letters(queue)
    for _ in range(3):
        (dead,) = take(dead_letters)
        assert (dead.delivery_count, dead.dead_letter_reason) == (0, "why")
        dead_letters.abandon_message(dead)
    assert namespace.counts(queue).dead == 1


@item(15, "measured")
def test_the_lock_of_a_dead_letter_that_expires_is_not_counted(namespace: Namespace) -> None:
    """It comes again as if for the first time.

    Source: azure-sdk-for-net issue 53437.
    """
    queue = namespace.queue()
    buried(namespace, queue)
    dead_letters = namespace.dead_letters(queue)
    (dead,) = take(dead_letters)
    assert dead.locked_until_utc is not None
    namespace.let_pass(dead.locked_until_utc - namespace.now() + SECOND)
    assert take(dead_letters)[0].delivery_count == 0


@item(15, "documented")
def test_a_dead_letter_can_be_deferred(namespace: Namespace) -> None:
    """And is found by its number in the dead-letter queue, not in the queue.

    Source: azure-sdk-for-js, batchReceiver.spec.ts, "Defer a message received from dead letter queue".
    """
    queue = namespace.queue()
    buried(namespace, queue)
    dead_letters = namespace.dead_letters(queue)
    (dead,) = take(dead_letters)
    number = dead.sequence_number or 0
    dead_letters.defer_message(dead)
    with pytest.raises(ServiceBusError):
        namespace.receiver(queue).receive_deferred_messages(number)
    (again,) = dead_letters.receive_deferred_messages(number)
    dead_letters.complete_message(again)
    assert namespace.counts(queue).dead == 0
