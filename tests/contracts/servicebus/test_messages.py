"""A full entity, and receiving from a topic; what else there is to sending is in the contract."""

from __future__ import annotations

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError, ServiceBusQuotaExceededError

from emulators.servicebus.description import QueueDescription

from .conftest import LOCK, Bus

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the SDK forgets failed ones


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
