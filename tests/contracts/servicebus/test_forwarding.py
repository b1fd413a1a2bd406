"""Auto-forwarding: chains, their ends, and what cannot be delivered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusError

from emulators.servicebus.description import (
    InvalidEntity,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)

from .conftest import LOCK, Bus

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the SDK forgets failed ones


def queue(bus: Bus, path: str, **settings: Any) -> str:
    return bus.create(path, QueueDescription(lock_duration=LOCK, **settings))


def take(bus: Bus, path: str, **options: Any) -> ServiceBusReceivedMessage:
    """The one message that is there."""
    receiver = bus.receiver(path, **options)
    (message,) = receiver.receive_messages(1, max_wait_time=5)
    receiver.complete_message(message)
    return message


def test_a_queue_forwards_to_a_queue_in_order(bus: Bus) -> None:
    """Row 42. service-bus-auto-forwarding; EnqueuedSequenceNumber: of the original point of submission."""
    queue(bus, "in-order-end")
    queue(bus, "in-order", forward_to="in-order-end")
    bus.send("in-order-end", "here before")
    bus.send("in-order", "a", "b", "c", application_properties={"kind": "x"})
    receiver = bus.receiver("in-order-end")
    messages = receiver.receive_messages(4, max_wait_time=5)
    assert [str(m) for m in messages] == ["here before", "a", "b", "c"]
    assert [m.sequence_number for m in messages] == [1, 2, 3, 4]
    assert [m.enqueued_sequence_number for m in messages[1:]] == [1, 2, 3]
    assert (messages[1].delivery_count, messages[1].dead_letter_source) == (0, None)
    assert messages[1].application_properties == {b"kind": b"x"}
    for message in messages:
        receiver.complete_message(message)
    assert bus.active("in-order") == bus.active("in-order-end") == 0


def test_subscriptions_forward_to_queues_and_topics(bus: Bus) -> None:
    """Row 42: a second level of topics. service-bus-auto-forwarding."""
    queue(bus, "level-end")
    admin = bus.emulator.admin
    for name in ("level-1", "level-2"):
        bus.create(name, TopicDescription())
    admin.create("level-2/Subscriptions/s", SubscriptionDescription(forward_to="level-end"))
    admin.create("level-1/Subscriptions/s", SubscriptionDescription(forward_to="sb://localhost/Level-2"))
    with bus.client.get_topic_sender("level-1") as sender:
        sender.send_messages(ServiceBusMessage("down"))
    assert str(take(bus, "level-end")) == "down"


def test_four_hops_are_made_and_the_fifth_makes_a_dead_letter(bus: Bus) -> None:
    """Row 42: MaxTransferHopCountExceeded, in the dead-letter queue of the fifth (azure-service-bus issue 33)."""
    queue(bus, "hop5")
    for number in reversed(range(5)):
        queue(bus, f"hop{number}", forward_to=f"hop{number + 1}")
    bus.send("hop1", "four")
    assert str(take(bus, "hop5")) == "four"
    bus.send("hop0", "five")
    assert (bus.active("hop5"), bus.dead("hop4")) == (0, 1)
    dead = take(bus, "hop4", sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    assert (str(dead), dead.dead_letter_reason) == ("five", "MaxTransferHopCountExceeded")


def undelivered(bus: Bus, path: str) -> int:
    return bus.emulator.admin.get(path).counts.transfer_dead_letter


@pytest.mark.parametrize(("what", "reason"), [
    ("disabled", "com.microsoft:entity-disabled"),
    ("full", "amqp:resource-limit-exceeded"),
    ("small", "amqp:link:message-size-exceeded"),
    ("ordered", "Session ID is null"),
    ("gone", "amqp:not-found"),
])  # fmt: skip
def test_what_the_destination_does_not_take_is_a_transfer_dead_letter_of_the_source(
    bus: Bus, what: str, reason: str
) -> None:
    """Row 42. service-bus-dead-letter-queues, "Path to the transfer dead-letter queue"; the reasons are not documented."""
    admin = bus.emulator.admin
    target = bus.create(f"{what}-end", QueueDescription(requires_session=what == "ordered"))
    queue(bus, what, forward_to=target)
    if what == "disabled":
        admin.update(target, QueueDescription(status="SendDisabled"))
    elif what == "full":
        fill(bus, target)
    elif what == "small":
        admin.update(target, QueueDescription(max_message_size_in_kilobytes=1))
    elif what == "gone":
        admin.delete(target)
    bus.send(what, "x" * 2000)
    assert (bus.active(what), bus.dead(what), undelivered(bus, what)) == (0, 0, 1)
    message = take(bus, what, sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER)
    assert (str(message), message.dead_letter_reason) == ("x" * 2000, reason)
    assert undelivered(bus, what) == 0


def fill(bus: Bus, path: str) -> None:
    bus.emulator.admin.update(path, QueueDescription(max_size_in_megabytes=1))
    while bus.emulator.admin.get(path).counts.size_in_bytes + 100_000 < 1 << 20:
        bus.send(path, "x" * 100_000)
    bus.send(path, "x" * ((1 << 20) - bus.emulator.admin.get(path).counts.size_in_bytes - 1000))


def test_messages_of_before_are_forwarded_when_forwarding_begins(bus: Bus) -> None:
    queue(bus, "later-end")
    queue(bus, "later")
    bus.send("later", "waiting")
    bus.emulator.admin.update("later", QueueDescription(lock_duration=LOCK, forward_to="later-end"))
    assert str(take(bus, "later-end")) == "waiting"


def test_what_forwards_cannot_be_received_from(bus: Bus) -> None:
    """Row 44. service-bus-auto-forwarding; QueueProperties.ForwardDeadLetteredMessagesTo."""
    queue(bus, "closed-end")
    queue(bus, "closed", forward_to="closed-end", forward_dead_lettered_messages_to="closed-end")
    for options in ({}, {"sub_queue": ServiceBusSubQueue.DEAD_LETTER}):
        with (
            pytest.raises(ServiceBusError, match="auto-forwarding enabled"),
            bus.client.get_queue_receiver("closed", **options),  # type: ignore[arg-type]
        ):
            pass
    with bus.client.get_queue_receiver("closed", sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER):
        pass


def test_a_receiver_is_detached_when_forwarding_begins(bus: Bus) -> None:
    queue(bus, "closing-end")
    queue(bus, "closing")
    with bus.client.get_queue_receiver("closing") as receiver:
        bus.emulator.admin.update("closing", QueueDescription(lock_duration=LOCK, forward_to="closing-end"))
        with pytest.raises(ServiceBusError, match="auto-forwarding enabled"):
            receiver.receive_messages(1, max_wait_time=5)


def test_dead_letters_are_forwarded_with_their_source(bus: Bus) -> None:
    """Row 43. service-bus-dead-letter-queues; SDK dead_letter_source."""
    queue(bus, "morgue")
    queue(bus, "mortal", forward_dead_lettered_messages_to="morgue")
    bus.send("mortal", "poison")
    (message,) = bus.receiver("mortal").receive_messages(1, max_wait_time=5)
    bus.receiver("mortal").dead_letter_message(message, reason="bad", error_description="very")
    dead = take(bus, "morgue")
    assert (str(dead), dead.dead_letter_source, dead.dead_letter_reason) == ("poison", "mortal", "bad")
    assert bus.dead("mortal") == 0


def test_dead_letters_wait_for_a_destination_that_is_full(bus: Bus) -> None:
    """They stay where they are, and are forwarded when there is room (azure-service-bus issue 666)."""
    queue(bus, "full-morgue")
    queue(bus, "patient", forward_dead_lettered_messages_to="full-morgue")
    fill(bus, "full-morgue")
    bus.send("patient", "x" * 2000)
    (message,) = bus.receiver("patient").receive_messages(1, max_wait_time=5)
    bus.receiver("patient").dead_letter_message(message)
    assert bus.dead("patient") == 1
    bus.emulator.admin.update("full-morgue", QueueDescription(lock_duration=LOCK))
    bus.clock.advance(timedelta(seconds=2))
    assert bus.receiver("patient").peek_messages() == []  # whoever looks finds done what was due
    assert bus.dead("patient") == 0
    assert bus.drain("full-morgue")[-1] == "x" * 2000


def test_a_chain_must_lead_somewhere_else(bus: Bus) -> None:
    """The destination must exist when the source is created. service-bus-auto-forwarding."""
    admin = bus.emulator.admin
    bus.create("ring-topic", TopicDescription())
    queue(bus, "ring-2")
    queue(bus, "ring-1", forward_to="ring-2")
    refused: list[tuple[str, QueueDescription | SubscriptionDescription]] = [
        ("new", QueueDescription(forward_to="nowhere")),
        ("new", QueueDescription(forward_dead_lettered_messages_to="nowhere")),
        ("new", QueueDescription(forward_to="new")),
        ("new", QueueDescription(forward_to="ring-2", requires_session=True)),
        ("ring-topic/Subscriptions/new", SubscriptionDescription(forward_to="ring-topic")),
    ]
    for path, description in refused:
        with pytest.raises(InvalidEntity, match="forward"):
            admin.create(path, description)
    for description in (
        QueueDescription(forward_to="ring-1"),
        QueueDescription(forward_to="RING-2"),
        QueueDescription(forward_dead_lettered_messages_to="ring-2"),
    ):
        with pytest.raises(InvalidEntity, match="forward"):
            admin.update("ring-2", description)
    admin.create("ring-topic/Subscriptions/on", SubscriptionDescription(forward_to="ring-1"))
    with pytest.raises(InvalidEntity, match="leads back"):
        admin.update("ring-2", QueueDescription(lock_duration=LOCK, forward_to="ring-topic"))
