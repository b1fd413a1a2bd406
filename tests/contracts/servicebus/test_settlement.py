"""Peek-lock: what completing, abandoning, deferring, dead-lettering, releasing and losing a lock do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessageNotFoundError,
)

from emulators.servicebus.description import QueueDescription

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


def nothing(receiver: ServiceBusReceiver) -> bool:
    return receiver.receive_messages(1, max_wait_time=0.2) == []


def test_a_locked_message_is_hidden_from_other_receivers(bus: Bus, queue: str, receiver: ServiceBusReceiver) -> None:
    """Row 7. message-transfers-locks-settlement."""
    bus.send(queue, "mine")
    (message,) = take(receiver)
    other = bus.receiver(queue, receive_mode="receiveanddelete")
    assert nothing(other)
    receiver.abandon_message(message)
    assert [str(m) for m in take(other)] == ["mine"]


def test_complete_removes_and_cannot_be_done_twice(bus: Bus, queue: str, receiver: ServiceBusReceiver) -> None:
    """Row 8. SDK _check_message_alive."""
    bus.send(queue, "once")
    (message,) = take(receiver)
    receiver.complete_message(message)
    assert bus.active(queue) == 0
    with pytest.raises(MessageAlreadySettled):
        receiver.complete_message(message)


def test_abandoned_messages_return_to_their_place_with_one_delivery_more(
    bus: Bus, queue: str, receiver: ServiceBusReceiver
) -> None:
    """Row 9. message-transfers-locks-settlement; SDK iter_messages_with_abandon."""
    bus.send(queue, "a", "b", "c", "d")
    first, second, third = take(receiver, 3)
    for message in (third, first, second):
        receiver.abandon_message(message)
    again = take(receiver, 4)
    assert [(str(m), m.delivery_count) for m in again] == [("a", 1), ("b", 1), ("c", 1), ("d", 0)]
    for message in again:
        receiver.complete_message(message)


def test_messages_released_when_a_receiver_closes_count_no_delivery(bus: Bus, queue: str) -> None:
    """Row 10. SDK changelog 7.15 (#42917)."""
    bus.send(queue, "a", "b", "c")
    with bus.client.get_queue_receiver(queue, prefetch_count=10) as prefetching:
        (message,) = take(prefetching)
        prefetching.complete_message(message)
    again = take(bus.receiver(queue), 2)
    assert [(str(m), m.delivery_count) for m in again] == [("b", 0), ("c", 0)]
    for message in again:
        bus.receiver(queue).complete_message(message)


def test_an_expired_lock_brings_the_message_back_and_the_service_refuses_to_settle_late(
    bus: Bus, queue: str, receiver: ServiceBusReceiver
) -> None:
    """Row 11. message-transfers-locks-settlement; SDK test_queue_message_expiry."""
    bus.send(queue, "a", "b")
    (late,) = take(receiver)
    bus.clock.advance(AFTER_LOCK)
    again = take(receiver, 2)
    assert [(str(m), m.delivery_count) for m in again] == [("a", 1), ("b", 0)]
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(late)
    for message in again:
        receiver.complete_message(message)


def test_renewing_extends_the_lock_from_now(bus: Bus, queue: str, receiver: ServiceBusReceiver) -> None:
    """Row 12. service-bus-amqp-request-response; SDK test_queue_message_lock_renew."""
    bus.send(queue, "kept")
    (message,) = take(receiver)
    bus.clock.advance(LOCK - timedelta(seconds=1))
    until = receiver.renew_message_lock(message)
    assert abs(until.timestamp() - bus.clock() - LOCK.total_seconds()) < 1
    bus.clock.advance(LOCK - timedelta(seconds=1))
    receiver.complete_message(message)
    assert bus.active(queue) == 0


def test_an_expired_lock_cannot_be_renewed(bus: Bus, queue: str, receiver: ServiceBusReceiver) -> None:
    """Row 12. service-bus-amqp-request-response."""
    bus.send(queue, "lost")
    (message,) = take(receiver)
    bus.clock.advance(AFTER_LOCK)
    with pytest.raises(MessageLockLostError):
        receiver.renew_message_lock(message)


def test_a_message_delivered_too_often_is_dead_lettered(bus: Bus) -> None:
    """Row 13: at the N-th failed delivery, not one later. service-bus-dead-letter-queues."""
    bus.create("poison", QueueDescription(lock_duration=LOCK, max_delivery_count=2))
    bus.send("poison", "bad")
    receiver = bus.receiver("poison")
    receiver.abandon_message(take(receiver)[0])
    (message,) = take(receiver)
    assert message.delivery_count == 1
    receiver.abandon_message(message)
    assert (bus.active("poison"), bus.dead("poison")) == (0, 1)
    (dead,) = take(bus.receiver("poison", sub_queue=ServiceBusSubQueue.DEAD_LETTER))
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert dead.delivery_count == 2
    bus.receiver("poison", sub_queue=ServiceBusSubQueue.DEAD_LETTER).complete_message(dead)


def test_lock_expiry_counts_towards_the_delivery_limit(bus: Bus) -> None:
    """Row 13. service-bus-dead-letter-queues."""
    bus.create("slow", QueueDescription(lock_duration=LOCK, max_delivery_count=1))
    bus.send("slow", "never settled")
    take(bus.receiver("slow"))
    bus.clock.advance(AFTER_LOCK)
    assert nothing(bus.receiver("slow"))
    assert bus.dead("slow") == 1


def test_dead_lettering_keeps_reason_description_and_properties(
    bus: Bus, queue: str, receiver: ServiceBusReceiver
) -> None:
    """Row 14, 15. service-bus-dead-letter-queues; azure-docs issue 97032; SDK receive_batch_with_retrieve_deadletter."""
    bus.send(queue, "bad", message_id="m", application_properties={"kept": "yes"}, time_to_live=timedelta(hours=1))
    (message,) = take(receiver)
    receiver.dead_letter_message(message, reason="why", error_description="because")
    bus.clock.advance(timedelta(seconds=2))
    with bus.client.get_queue_receiver(f"{queue}/$deadLETTERqueue") as dead_letters:
        (dead,) = take(dead_letters)
        assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("why", "because")
        assert (str(dead), dead.message_id) == ("bad", "m")
        assert (dead.sequence_number, dead.enqueued_time_utc) == (message.sequence_number, message.enqueued_time_utc)
        assert (dead.application_properties or {})[b"kept"] == b"yes"
        dead_letters.dead_letter_message(dead, reason="again")
        (dead,) = take(dead_letters)
        assert dead.dead_letter_reason == "again"
        dead_letters.complete_message(dead)
    assert bus.dead(queue) == 0


def test_deferred_messages_wait_for_their_sequence_number(bus: Bus, queue: str, receiver: ServiceBusReceiver) -> None:
    """Row 18. message-deferral; SDK #42454."""
    bus.send(queue, "later", "other", "third")
    messages = take(receiver, 3)
    numbers = [m.sequence_number or 0 for m in messages]
    for message in messages:
        receiver.defer_message(message)
    assert nothing(receiver)
    for number, settle in zip(numbers, ("complete", "abandon", "dead_letter"), strict=True):
        (deferred,) = receiver.receive_deferred_messages(number)
        getattr(receiver, f"{settle}_message")(deferred)
    assert (bus.active(queue), bus.dead(queue)) == (1, 1)
    (deferred,) = receiver.receive_deferred_messages(numbers[1])
    assert str(deferred) == "other"
    receiver.complete_message(deferred)
    with bus.client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters:
        dead_letters.complete_message(take(dead_letters)[0])


def test_an_unknown_sequence_number_is_not_found(bus: Bus, queue: str, receiver: ServiceBusReceiver) -> None:
    """Row 19. SDK retrieve_deferred_not_found."""
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages([987_654])


def test_an_unsettled_deferred_message_stays_deferred_when_its_lock_expires(
    bus: Bus, queue: str, receiver: ServiceBusReceiver
) -> None:
    """Row 18, 20. message-deferral; service-bus-dead-letter-queues (no expiry of deferred messages)."""
    bus.send(queue, "later", time_to_live=timedelta(seconds=2))
    (message,) = take(receiver)
    receiver.defer_message(message)
    receiver.receive_deferred_messages(message.sequence_number or 0)
    bus.clock.advance(AFTER_LOCK)
    assert nothing(receiver)
    (again,) = receiver.receive_deferred_messages(message.sequence_number or 0)
    receiver.complete_message(again)
    assert (bus.active(queue), bus.dead(queue)) == (0, 0)


def test_receive_and_delete_forgets_on_sending(bus: Bus, queue: str) -> None:
    """Row 23. message-transfers-locks-settlement."""
    bus.send(queue, "gone")
    receiver = bus.receiver(queue, receive_mode="receiveanddelete")
    (message,) = take(receiver)
    assert bus.active(queue) == 0
    with pytest.raises(ValueError, match="not supported in"):
        receiver.complete_message(message)


def test_prefetched_messages_hold_their_locks_from_the_moment_of_sending(bus: Bus, queue: str) -> None:
    """Row 24. service-bus-prefetch."""
    bus.send(queue, "a", "b")
    with bus.client.get_queue_receiver(queue, prefetch_count=5) as prefetching:
        take(prefetching)
        bus.clock.advance(AFTER_LOCK)
        (stale,) = take(prefetching)
        with pytest.raises(MessageLockLostError):
            prefetching.complete_message(stale)


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
