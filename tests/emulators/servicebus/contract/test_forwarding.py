"""Items 42 to 44: auto-forwarding, where it ends, and what it does to its source."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusError
from azure.servicebus.management import SqlRuleFilter

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import Namespace
from tests.emulators.servicebus.contract.publishing import DEFAULT_RULE, message, user_properties
from tests.emulators.servicebus.contract.receiving import complete, completed, take_one


def dead_letter(namespace: Namespace, queue: str) -> ServiceBusReceivedMessage:
    """The one dead letter of a queue, taken out."""
    (message,) = completed(namespace.receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER))
    return message


def changed(namespace: Namespace, queue: str, **settings: Any) -> None:
    description = namespace.admin.get_queue(queue)
    for name, value in settings.items():
        setattr(description, name, value)
    namespace.admin.update_queue(description)


# -- 42


@item(42, "documented")
def test_a_queue_forwards_to_a_queue(namespace: Namespace) -> None:
    """Messages are removed from the source, and put into the destination in their order; that takes messages of its own as well.

    Source: Microsoft, "Chaining Service Bus entities with autoforwarding".
    """
    end = namespace.queue()
    source = namespace.queue(forward_to=end)
    namespace.send(end, "direct")
    namespace.send(source, "a", "b", "c")
    assert complete(namespace.receiver(end), 4) == ["direct", "a", "b", "c"]
    assert namespace.counts(source)[:2] == (0, 0)


@item(42, "documented")
def test_a_forwarded_message_is_numbered_anew(namespace: Namespace) -> None:
    """EnqueuedSequenceNumber is that of the place where it was sent first; its properties stay.

    Source: Microsoft, "Messages, payloads, and serialization", EnqueuedSequenceNumber.
    """
    end = namespace.queue()
    source = namespace.queue(forward_to=end)
    namespace.send(end, "direct")
    namespace.sender(source).send_messages(
        ServiceBusMessage("a", subject="label", message_id="id", application_properties={"kind": "x"})
    )
    direct, forwarded = completed(namespace.receiver(end), 2)
    assert (direct.sequence_number or 0) < (forwarded.sequence_number or 0)
    assert forwarded.enqueued_sequence_number == 1
    assert (forwarded.subject, forwarded.message_id, forwarded.delivery_count) == ("label", "id", 0)
    assert user_properties(forwarded) == {"kind": "x"}
    assert forwarded.dead_letter_source is None


@item(42, "documented")
def test_subscriptions_forward_to_topics_and_queues(namespace: Namespace) -> None:
    """A second level of topics, and a queue that gathers.

    Source: Microsoft, "Chaining Service Bus entities with autoforwarding", Scenarios.
    """
    end = namespace.queue()
    second, first = namespace.topic(), namespace.topic()
    namespace.subscription(second, forward_to=end)
    namespace.subscription(first, forward_to=second)
    namespace.topic_sender(first).send_messages(ServiceBusMessage("down"))
    assert complete(namespace.receiver(end)) == ["down"]


@item(42, "documented")
def test_rules_decide_what_a_subscription_forwards(namespace: Namespace) -> None:
    """Routing, with filters and forwarding.

    Source: Microsoft, "Topic filters and actions", Usage patterns: Routing.
    """
    end, topic = namespace.queue(), namespace.topic()
    namespace.subscription(topic, forward_to=end)
    namespace.admin.create_rule(topic, "subscription", "red", filter=SqlRuleFilter("colour = 'red'"))
    namespace.admin.delete_rule(topic, "subscription", DEFAULT_RULE)
    namespace.topic_sender(topic).send_messages([message("blue", colour="blue"), message("red", colour="red")])
    assert complete(namespace.receiver(end)) == ["red"]
    assert namespace.counts(end).active == 0


@item(42, "documented")
def test_four_hops_are_made_and_a_fifth_makes_a_dead_letter(namespace: Namespace) -> None:
    """MaxTransferHopCountExceeded, in the dead-letter queue of the entity that would have made the fifth.

    Source: Microsoft, "Chaining Service Bus entities with autoforwarding": "Don't create a chain that exceeds four hops";
    "Overview of Service Bus dead-letter queues"; Azure/azure-service-bus issue 33.
    """
    chain = [namespace.queue()]
    for _ in range(5):
        chain.append(namespace.queue(forward_to=chain[-1]))
    end, last, fourth, fifth = chain[0], chain[1], chain[4], chain[5]
    namespace.send(fourth, "four")
    assert complete(namespace.receiver(end)) == ["four"]
    namespace.send(fifth, "five")
    dead = dead_letter(namespace, last)
    assert (str(dead), dead.dead_letter_reason) == ("five", "MaxTransferHopCountExceeded")
    assert namespace.counts(end).active == 0


@item(42, "documented")
@pytest.mark.parametrize("what", ["disabled", "deleted", "full"])
def test_what_the_destination_does_not_take_is_a_dead_letter_of_the_source(namespace: Namespace, what: str) -> None:
    """In its dead-letter queue, from which it must be received; the destination gets nothing.

    Source: Microsoft, "Overview of Service Bus dead-letter queues", Dead-lettering in auto forward scenarios; "Chaining Service Bus
    entities with autoforwarding", considerations; the count seen in MicrosoftDocs/azure-docs issue 111251.
    """
    end = namespace.queue()
    source = namespace.queue(forward_to=end)
    if what == "disabled":
        changed(namespace, end, status="SendDisabled")
    elif what == "deleted":
        namespace.admin.delete_queue(end)
    else:
        fill(namespace, end)
    namespace.send(source, "x" * 200_000)
    assert namespace.counts(source)[:2] == (0, 1)
    dead = dead_letter(namespace, source)
    assert str(dead) == "x" * 200_000
    assert dead.dead_letter_reason
    told = namespace.admin.get_queue_runtime_properties(source)
    assert (told.transfer_message_count, told.transfer_dead_letter_message_count) == (0, 0)


def fill(namespace: Namespace, queue: str) -> int:
    """The smallest queue there is, on the emulator; elsewhere a gigabyte in messages. How many."""
    smallest = 1024 if namespace.real else 1
    changed(namespace, queue, max_size_in_megabytes=smallest)
    sender = namespace.sender(queue)
    sent = (smallest << 20) // 200_000
    for _ in range(sent):
        sender.send_messages(ServiceBusMessage("x" * 190_000))
    return sent


@item(42, "documented")
def test_a_message_without_a_session_is_not_forwarded_into_sessions(namespace: Namespace) -> None:
    """It is a dead letter of the source.

    Source: Microsoft, "Overview of Service Bus dead-letter queues": "Session ID is null".
    """
    end = namespace.queue(requires_session=True)
    source = namespace.queue(forward_to=end)
    namespace.sender(source).send_messages([ServiceBusMessage("loose"), ServiceBusMessage("bound", session_id="s")])
    assert complete(namespace.receiver(end, session_id="s")) == ["bound"]
    dead = dead_letter(namespace, source)
    assert (str(dead), (dead.dead_letter_reason or "")[:18]) == ("loose", "Session ID is null")


@item(42, "documented")
def test_a_destination_must_exist_when_the_source_is_created(namespace: Namespace) -> None:
    """For messages and for dead letters.

    Source: Microsoft, "Chaining Service Bus entities with autoforwarding".
    """
    for setting in ("forward_to", "forward_dead_lettered_messages_to"):
        settings: dict[str, Any] = {setting: namespace.new_name()}
        with pytest.raises(HttpResponseError):
            namespace.queue(**settings)


@item(42, "documented")
def test_a_source_that_requires_sessions_cannot_forward(namespace: Namespace) -> None:
    """Not supported.

    Source: Microsoft, "Chaining Service Bus entities with autoforwarding": "isn't supported for session-enabled queues or subscriptions".
    """
    end = namespace.queue()
    with pytest.raises(HttpResponseError):
        namespace.queue(requires_session=True, forward_to=end)


@item(42, "documented")
def test_a_source_that_forwards_is_never_idle(namespace: Namespace) -> None:
    """AutoDeleteOnIdle becomes the largest there is.

    Source: Microsoft, "Chaining Service Bus entities with autoforwarding", note on AutoDeleteOnIdle.
    """
    end = namespace.queue()
    source = namespace.queue(forward_to=end, auto_delete_on_idle=timedelta(minutes=10))
    kept = namespace.admin.get_queue(source).auto_delete_on_idle
    assert isinstance(kept, timedelta)
    assert kept > timedelta(days=100_000)


@item(42, "unverified")
def test_messages_of_before_are_forwarded_when_forwarding_begins(namespace: Namespace) -> None:
    """In their order.

    Source: nobody says it; messages that are placed in the source are removed.
    """
    end, source = namespace.queue(), namespace.queue()
    namespace.send(source, "a", "b")
    changed(namespace, source, forward_to=end)
    assert complete(namespace.receiver(end), 2) == ["a", "b"]


# -- 43


@item(43, "documented")
def test_dead_letters_are_forwarded_with_their_source(namespace: Namespace) -> None:
    """The entity in which the message was dead-lettered, with reason and description.

    Source: Microsoft, ServiceBusReceivedMessage.DeadLetterSource Property.
    """
    morgue = namespace.queue()
    source = namespace.queue(forward_dead_lettered_messages_to=morgue)
    namespace.send(source, "poison")
    receiver = namespace.receiver(source)
    receiver.dead_letter_message(take_one(receiver), reason="bad", error_description="very")
    (dead,) = completed(namespace.receiver(morgue))
    assert (str(dead), dead.dead_letter_source) == ("poison", source)
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("bad", "very")
    assert namespace.counts(source).dead == 0


@item(43, "documented")
def test_what_the_service_dead_letters_is_forwarded_too(namespace: Namespace) -> None:
    """Expired, or delivered too often.

    Source: Microsoft, QueueProperties.ForwardDeadLetteredMessagesTo Property: all the dead-lettered messages.
    """
    morgue = namespace.queue()
    source = namespace.queue(
        forward_dead_lettered_messages_to=morgue, dead_lettering_on_message_expiration=True, max_delivery_count=1
    )
    namespace.send(source, "often")
    receiver = namespace.receiver(source)
    receiver.abandon_message(take_one(receiver))
    namespace.send(source, "old", time_to_live=timedelta(seconds=1))
    namespace.let_pass(timedelta(seconds=2))
    dead = completed(namespace.receiver(morgue), 2)
    assert [m.dead_letter_reason for m in dead] == ["MaxDeliveryCountExceeded", "TTLExpiredException"]
    assert {m.dead_letter_source for m in dead} == {source}


@item(43, "documented")
def test_dead_letters_of_a_subscription_name_it(namespace: Namespace) -> None:
    """The name of the queue or subscription.

    Source: Microsoft, ServiceBusReceivedMessage.DeadLetterSource Property.
    """
    morgue, topic = namespace.queue(), namespace.topic()
    namespace.subscription(topic, "mortal", forward_dead_lettered_messages_to=morgue)
    namespace.topic_sender(topic).send_messages(ServiceBusMessage("poison"))
    receiver = namespace.subscriber(topic, "mortal")
    receiver.dead_letter_message(take_one(receiver))
    (dead,) = completed(namespace.receiver(morgue))
    assert (dead.dead_letter_source or "").lower().endswith("mortal")


@item(43, "measured")
def test_dead_letters_wait_for_a_destination_that_is_full(namespace: Namespace) -> None:
    """They stay, and are forwarded when there is room.

    Source: Azure/azure-service-bus issue 666.
    """
    morgue = namespace.queue()
    source = namespace.queue(forward_dead_lettered_messages_to=morgue)
    filling = fill(namespace, morgue)
    namespace.send(source, "x" * 200_000)
    receiver = namespace.receiver(source)
    receiver.dead_letter_message(take_one(receiver))
    assert namespace.counts(source).dead == 1
    changed(namespace, morgue, max_size_in_megabytes=2048)
    namespace.let_pass(timedelta(seconds=2))
    assert complete(namespace.receiver(morgue), filling + 1)[-1] == "x" * 200_000
    assert namespace.counts(source).dead == 0


# -- 44


@item(44, "documented")
def test_what_forwards_cannot_be_received_from(namespace: Namespace) -> None:
    """Attaching is refused.

    Source: Microsoft, QueueProperties.ForwardTo Property: "If this property has a value, users can't receive messages from this queue".
    """
    end, topic = namespace.queue(), namespace.topic()
    source = namespace.queue(forward_to=end)
    namespace.subscription(topic, forward_to=end)
    with pytest.raises(ServiceBusError):
        namespace.receiver(source)
    with pytest.raises(ServiceBusError):
        namespace.subscriber(topic)


@item(44, "documented")
def test_dead_letters_that_are_forwarded_cannot_be_received(namespace: Namespace) -> None:
    """The entity itself still can.

    Source: Microsoft, QueueProperties.ForwardDeadLetteredMessagesTo Property: "user cannot manually receive dead-lettered messages".
    """
    source = namespace.queue(forward_dead_lettered_messages_to=namespace.queue())
    with pytest.raises(ServiceBusError):
        namespace.receiver(source, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    namespace.send(source, "a")
    assert complete(namespace.receiver(source)) == ["a"]


@item(44, "documented")
def test_dead_letters_of_what_forwards_can_be_received(namespace: Namespace) -> None:
    """They live there until they are received.

    Source: Microsoft, "Chaining Service Bus entities with autoforwarding", considerations.
    """
    source = namespace.queue(forward_to=namespace.queue())
    assert namespace.receiver(source, sub_queue=ServiceBusSubQueue.DEAD_LETTER).peek_messages() == []


@item(44, "unverified")
def test_a_receiver_ends_when_forwarding_begins(namespace: Namespace) -> None:
    """It is detached.

    Source: nobody says it.
    """
    end, source = namespace.queue(), namespace.queue()
    receiver = namespace.receiver(source)
    changed(namespace, source, forward_to=end)
    with pytest.raises(ServiceBusError):
        receiver.receive_messages(1, max_wait_time=5)
