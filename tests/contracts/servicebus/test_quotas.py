"""Full entities, suspended entities: what is refused, with which error, and what goes on."""

from __future__ import annotations

from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    ServiceBusQuotaExceededError,
)

from emulators.servicebus.description import QueueDescription, SubscriptionDescription, TopicDescription

from .conftest import LOCK, Bus

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the SDK forgets failed ones

CHUNK = "x" * 200_000
FITTING = 5
"""Chunks that fit into a megabyte."""


def queue(**settings: Any) -> QueueDescription:
    return QueueDescription(lock_duration=LOCK, **settings)


def test_a_full_queue_takes_nothing_until_it_is_drained(bus: Bus) -> None:
    """Row 48. service-bus-messaging-exceptions, QuotaExceeded; service-bus-quotas."""
    bus.create("full", queue(max_size_in_megabytes=1))
    for _ in range(FITTING):
        bus.send("full", CHUNK)
    with pytest.raises(ServiceBusQuotaExceededError):
        bus.send("full", CHUNK)
    bus.send("full", "small ones still fit")
    assert len(bus.drain("full")) == FITTING + 1
    bus.send("full", CHUNK)
    assert bus.drain("full") == [CHUNK]


def test_dead_letters_and_scheduled_messages_fill_a_queue_too(bus: Bus) -> None:
    from datetime import UTC, datetime, timedelta

    bus.create("filling", queue(max_size_in_megabytes=1, max_delivery_count=1))
    bus.send("filling", CHUNK)
    (message,) = bus.receiver("filling").receive_messages(1, max_wait_time=5)
    bus.receiver("filling").dead_letter_message(message)
    due = datetime.now(UTC) + timedelta(seconds=bus.clock.offset) + timedelta(hours=1)
    numbers = [bus.sender("filling").schedule_messages(ServiceBusMessage(CHUNK), due)[0] for _ in range(FITTING - 1)]
    with pytest.raises(ServiceBusQuotaExceededError):
        bus.send("filling", CHUNK)
    bus.sender("filling").cancel_scheduled_messages(numbers[:1])
    bus.send("filling", CHUNK)


def test_a_topic_is_full_when_its_subscriptions_are(bus: Bus) -> None:
    """Row 48: the quota is the topic's. service-bus-quotas."""
    bus.create("full-topic", TopicDescription(max_size_in_megabytes=1))
    path = "full-topic/Subscriptions/s"
    bus.emulator.admin.create(path, SubscriptionDescription())
    with bus.client.get_topic_sender("full-topic") as sender:
        for _ in range(FITTING):
            sender.send_messages(ServiceBusMessage(CHUNK))
        with pytest.raises(ServiceBusQuotaExceededError):
            sender.send_messages(ServiceBusMessage(CHUNK))
        with bus.client.get_subscription_receiver("full-topic", "s", receive_mode="receiveanddelete") as receiver:
            receiver.receive_messages(1, max_wait_time=5)
        sender.send_messages(ServiceBusMessage(CHUNK))
    assert bus.active(path) == FITTING


def test_a_message_beyond_the_entitys_limit_is_refused(bus: Bus) -> None:
    """Row 3."""
    bus.create("small", queue(max_message_size_in_kilobytes=1))
    with pytest.raises(MessageSizeExceededError):
        bus.send("small", "x" * 1100)
    bus.send("small", "x" * 500)
    assert len(bus.drain("small")) == 1


def test_a_suspended_queue_refuses_on_links_of_before(bus: Bus) -> None:
    """Row 46: sends yield errors, receivers go, messages stay. entity-suspend."""
    bus.create("paused", queue())
    bus.send("paused", "kept")
    receiver = bus.client.get_queue_receiver("paused", prefetch_count=0)
    with receiver:
        bus.emulator.admin.update("paused", queue(status="Disabled"))
        with pytest.raises(MessagingEntityDisabledError):
            bus.send("paused", "refused")
        with pytest.raises(MessagingEntityDisabledError):
            receiver.receive_messages(1, max_wait_time=5)
    with (
        pytest.raises(MessagingEntityDisabledError),
        bus.client.get_queue_receiver("paused", sub_queue=ServiceBusSubQueue.DEAD_LETTER),
    ):
        pass
    bus.emulator.admin.update("paused", queue())
    assert bus.drain("paused") == ["kept"]


def test_each_direction_is_suspended_alone(bus: Bus) -> None:
    """Row 46. entity-suspend: states of queues."""
    bus.create("one-way", queue(status="ReceiveDisabled"))
    bus.send("one-way", "in")
    with pytest.raises(MessagingEntityDisabledError), bus.client.get_queue_receiver("one-way"):
        pass
    bus.emulator.admin.update("one-way", queue(status="SendDisabled"))
    with pytest.raises(MessagingEntityDisabledError), bus.client.get_queue_sender("one-way"):
        pass
    assert bus.drain("one-way") == ["in"]


def test_a_suspended_subscription_still_collects(bus: Bus) -> None:
    """Row 46. entity-suspend: topic active, subscription disabled."""
    bus.create("collected", TopicDescription())
    path = "collected/Subscriptions/s"
    bus.emulator.admin.create(path, SubscriptionDescription(status="ReceiveDisabled"))
    with bus.client.get_topic_sender("collected") as sender:
        sender.send_messages(ServiceBusMessage("m"))
    with pytest.raises(MessagingEntityDisabledError), bus.client.get_subscription_receiver("collected", "s"):
        pass
    bus.emulator.admin.update(path, SubscriptionDescription())
    with bus.client.get_subscription_receiver("collected", "s", receive_mode="receiveanddelete") as receiver:
        assert [str(m) for m in receiver.receive_messages(1, max_wait_time=5)] == ["m"]


def test_a_suspended_source_forwards_nothing(bus: Bus) -> None:
    """entity-suspend: messages cannot be removed."""
    bus.create("dam-end", queue())
    bus.create("dam", queue(forward_to="dam-end", status="ReceiveDisabled"))
    bus.send("dam", "held")
    assert (bus.active("dam"), bus.active("dam-end")) == (1, 0)
    bus.emulator.admin.update("dam", queue(forward_to="dam-end"))
    assert bus.drain("dam-end") == ["held"]
