"""Settling over broken links, on other receivers and in ranges; what else there is to settlement is in the contract."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver

from .conftest import LOCK, Bus

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the SDK forgets failed ones

AFTER_LOCK = LOCK + timedelta(seconds=1)


@pytest.fixture
def queue(bus: Bus, request: pytest.FixtureRequest) -> str:
    """A queue of the test's own: a receiver that waited in vain keeps its credit, and would take another test's messages."""
    return bus.create(request.node.name)


@pytest.fixture
def receiver(bus: Bus, queue: str) -> ServiceBusReceiver:
    return bus.receiver(queue)


def take(receiver: ServiceBusReceiver, count: int = 1) -> list[ServiceBusReceivedMessage]:
    messages = receiver.receive_messages(count, max_wait_time=5)
    assert len(messages) == count
    return messages


def test_after_a_lost_connection_settlement_goes_through_management(bus: Bus, queue: str) -> None:
    """Row 50. SDK settle_through_mgmt_link_due_to_broken_receiver_link."""
    bus.send(queue, "a", "b")
    with bus.client.get_queue_receiver(queue) as receiver:
        first, _ = take(receiver, 2)
        handler: Any = receiver._handler
        handler._link.detach()  # the break the SDK's own test makes
        receiver.complete_message(first)
    bus.clock.advance(AFTER_LOCK)
    assert bus.drain(queue) == ["b"]


def test_unsettled_messages_come_back_after_the_connection_died(lonely_bus: Bus) -> None:
    """Row 50. message-transfers-locks-settlement."""
    bus = lonely_bus
    bus.create("dropped")
    bus.send("dropped", "kept")
    take(bus.receiver("dropped"))
    bus.emulator.drop_connections()
    bus.clock.advance(AFTER_LOCK)
    with bus.client.get_queue_receiver("dropped") as receiver:
        (message,) = take(receiver)
        assert (str(message), message.delivery_count) == ("kept", 1)
        receiver.complete_message(message)


def test_another_receiver_can_settle_with_the_lock_token(bus: Bus, queue: str, receiver: ServiceBusReceiver) -> None:
    """Row 51. SDK test_queue_complete_message_on_different_receiver."""
    bus.send(queue, "a")
    (message,) = take(receiver)
    with bus.client.get_queue_receiver(queue) as other:
        assert message.lock_token is not None
        other._settle_message_via_mgmt_link("completed", [message.lock_token])
    assert bus.active(queue) == 0


def settle_range(receiver: Any, messages: list[Any], timeout: float = 5) -> None:
    """One disposition for a run of deliveries, as the protocol guide's multi-message receive shows."""
    receiver._handler.settle_messages(
        (messages[0]._delivery_id, messages[-1]._delivery_id),
        messages[0].lock_token.bytes_le,
        "accepted",
        await_outcome=True,
        outcome_timeout=timeout,
    )


def test_a_ranged_disposition_settles_exactly_its_range(bus: Bus, queue: str) -> None:
    """Row 52. service-bus-amqp-protocol-guide, "Multi-message receive"."""
    bus.send(queue, *"abcdef")
    with bus.client.get_queue_receiver(queue) as receiver:
        messages = take(receiver, 6)
        settle_range(receiver, messages[1:5])
        assert bus.active(queue) == 2
    bus.clock.advance(AFTER_LOCK)
    assert bus.drain(queue) == ["a", "f"]


def test_a_lost_lock_inside_a_range_is_told_of_that_delivery_alone(bus: Bus, queue: str) -> None:
    """Row 52. Azure/azure-amqp OnReceiveDisposition."""
    bus.send(queue, "a", "b", "c")
    with bus.client.get_queue_receiver(queue) as receiver:
        messages = take(receiver, 3)
        bus.clock.advance(LOCK - timedelta(seconds=1))
        receiver.renew_message_lock(messages[0])
        receiver.renew_message_lock(messages[2])
        bus.clock.advance(timedelta(seconds=2))
        with pytest.raises(Exception, match="lock supplied is invalid"):
            settle_range(receiver, messages)
    assert bus.drain(queue) == ["b"]


def test_iterating_with_prefetch_and_settling_in_ranges(bus: Bus, queue: str) -> None:
    """Reference of the router: iterator, prefetch, one disposition per group."""
    bodies = [str(n) for n in range(250)]
    bus.send(queue, *bodies)
    got: list[str] = []
    with bus.client.get_queue_receiver(queue, prefetch_count=100) as receiver:
        group: list[Any] = []
        for message in receiver:
            group.append(message)
            got.append(str(message))
            if len(group) == 50:
                settle_range(receiver, group)
                group = []
            if len(got) == 250:
                break
    assert got == bodies
    assert bus.active(queue) == 0
