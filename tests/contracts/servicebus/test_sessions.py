"""Sessions: exclusive, in order, with state, given back on close, death and expiry."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage, ServiceBusReceiver
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from emulators.servicebus.description import QueueDescription

from .conftest import LOCK, Bus

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the SDK forgets failed ones

AFTER_LOCK = LOCK + timedelta(seconds=1)
SESSIONS = QueueDescription(lock_duration=LOCK, requires_session=True)


@pytest.fixture
def queue(bus: Bus) -> Iterator[str]:
    yield bus.create("sessions", SESSIONS)
    while bus.active("sessions"):
        bus.clock.advance(AFTER_LOCK)
        with bus.client.get_queue_receiver(
            "sessions", session_id=NEXT_AVAILABLE_SESSION, receive_mode="receiveanddelete"
        ) as receiver:
            receiver.receive_messages(50, max_wait_time=1)


def accept(bus: Bus, queue: str, session: Any, **options: Any) -> ServiceBusReceiver:
    return bus.client.get_queue_receiver(queue, session_id=session, **options)


def bodies(receiver: ServiceBusReceiver, count: int) -> list[str]:
    messages = receiver.receive_messages(count, max_wait_time=2)
    for message in messages:
        receiver.complete_message(message)
    return [str(m) for m in messages]


def test_a_message_without_session_id_is_refused_and_so_is_its_whole_batch(bus: Bus, queue: str) -> None:
    """Row 27. message-sessions; SDK non_session_send_to_session_queue_should_fail."""
    with pytest.raises(ServiceBusError, match="SessionId"):
        bus.send(queue, "homeless")
    batch = [ServiceBusMessage("a", session_id="s"), ServiceBusMessage("b")]
    with pytest.raises(ServiceBusError, match="SessionId"):
        bus.sender(queue).send_messages(batch)
    assert bus.active(queue) == 0


def test_a_receiver_without_session_cannot_attach(bus: Bus, queue: str) -> None:
    """Row 28. message-sessions."""
    with pytest.raises(ServiceBusError, match="non-sessionful"), bus.client.get_queue_receiver(queue):
        pass


def test_a_session_receiver_cannot_attach_to_an_entity_without_sessions(bus: Bus) -> None:
    """Row 28. SDK test_queue_by_servicebus_client_session_fail."""
    bus.create("plain")
    with pytest.raises(ServiceBusError, match="sessionful"), accept(bus, "plain", "s"):
        pass


def test_a_session_has_one_owner_and_others_are_told(bus: Bus, queue: str) -> None:
    """Row 29, 31: other sessions go on in parallel. message-sessions."""
    bus.send(queue, "a0", "a1", session_id="A")
    bus.send(queue, "b0", session_id="B")
    with accept(bus, queue, "A") as first, accept(bus, queue, "B") as second:
        with pytest.raises(SessionCannotBeLockedError), accept(bus, queue, "A"):
            pass
        assert bodies(second, 1) == ["b0"]
        assert bodies(first, 2) == ["a0", "a1"]


def test_the_next_available_session_is_one_with_messages_nobody_holds(bus: Bus, queue: str) -> None:
    """Row 30. message-sessions."""
    bus.send(queue, "held", session_id="held")
    bus.send(queue, "free", session_id="free")
    with accept(bus, queue, "held") as holder:
        with accept(bus, queue, NEXT_AVAILABLE_SESSION) as receiver:
            assert receiver.session.session_id == "free"
            assert bodies(receiver, 1) == ["free"]
        assert bodies(holder, 1) == ["held"]


def test_waiting_for_a_session_ends_at_the_timeout_the_client_states(bus: Bus, queue: str) -> None:
    """Row 30. SDK test_next_available_session_timeout_value."""
    with pytest.raises(OperationTimeoutError), accept(bus, queue, NEXT_AVAILABLE_SESSION, max_wait_time=0.5):
        pass


def test_waiting_for_a_session_ends_when_one_gets_a_message(bus: Bus, queue: str) -> None:
    """Row 30. message-sessions."""
    import threading

    sender = bus.sender(queue)
    timer = threading.Timer(0.7, lambda: sender.send_messages(ServiceBusMessage("come", session_id="late")))
    timer.start()
    with accept(bus, queue, NEXT_AVAILABLE_SESSION, max_wait_time=5) as receiver:
        assert bodies(receiver, 1) == ["come"]
    timer.join()


def test_order_holds_across_abandon_close_expiry_and_a_new_owner(bus: Bus, queue: str) -> None:
    """Row 31, 32: expiry counts a delivery, closing does not. message-sessions."""
    bus.send(queue, "0", "1", "2", "3", session_id="S")
    with accept(bus, queue, "S") as receiver:
        messages = receiver.receive_messages(3, max_wait_time=2)
        receiver.abandon_message(messages[1])
        receiver.complete_message(messages[0])
    with accept(bus, queue, "S") as receiver:
        messages = receiver.receive_messages(3, max_wait_time=2)
        assert [(str(m), m.delivery_count) for m in messages] == [("1", 1), ("2", 0), ("3", 0)]
        bus.clock.advance(AFTER_LOCK)
        with accept(bus, queue, "S") as heir:
            again = heir.receive_messages(3, max_wait_time=2)
            assert [(str(m), m.delivery_count) for m in again] == [("1", 2), ("2", 1), ("3", 1)]
            for message in again:
                heir.complete_message(message)


def test_an_expired_session_cannot_settle_nor_renew(bus: Bus, queue: str) -> None:
    """Row 32. message-sessions."""
    bus.send(queue, "a", session_id="S")
    with accept(bus, queue, "S") as receiver:
        (message,) = receiver.receive_messages(1, max_wait_time=2)
        bus.clock.advance(AFTER_LOCK)
        with pytest.raises(SessionLockLostError):
            receiver.session.renew_lock()
        with pytest.raises(SessionLockLostError):
            receiver.complete_message(message)


def test_renewing_keeps_session_and_messages(bus: Bus, queue: str) -> None:
    """Row 32, 35. message-sessions."""
    bus.send(queue, "a", session_id="S")
    with accept(bus, queue, "S") as receiver:
        (message,) = receiver.receive_messages(1, max_wait_time=2)
        bus.clock.advance(LOCK - timedelta(seconds=1))
        until = receiver.session.renew_lock()
        assert abs(until.timestamp() - bus.clock() - LOCK.total_seconds()) < 1
        bus.clock.advance(LOCK - timedelta(seconds=1))
        receiver.complete_message(message)
    assert bus.active(queue) == 0


def test_state_is_kept_without_messages_and_can_be_cleared(bus: Bus, queue: str) -> None:
    """Row 33. message-sessions; SDK get_set_state."""
    with accept(bus, queue, "stateful") as receiver:
        assert receiver.session.get_state() is None
        receiver.session.set_state(b"\x00state")
    with accept(bus, queue, "stateful") as receiver:
        assert receiver.session.get_state() == b"\x00state"
        receiver.session.set_state(None)
        assert receiver.session.get_state() is None


def test_sessions_with_messages_or_state_are_listed(bus: Bus, queue: str) -> None:
    """Row 34. SDK test_list_sessions."""
    bus.send(queue, "x", session_id="with message")
    with accept(bus, queue, "with state") as receiver:
        receiver.session.set_state("s")
        assert list(bus.client.list_queue_sessions(queue)) == ["with message", "with state"]
        receiver.session.set_state(None)


def test_deferred_messages_belong_to_their_session(bus: Bus, queue: str) -> None:
    """Row 18 in a session. message-deferral."""
    bus.send(queue, "later", session_id="D")
    with accept(bus, queue, "D") as receiver:
        (message,) = receiver.receive_messages(1, max_wait_time=2)
        receiver.defer_message(message)
    with accept(bus, queue, "D") as receiver:
        (deferred,) = receiver.receive_deferred_messages(message.sequence_number or 0)
        receiver.complete_message(deferred)
    assert bus.active(queue) == 0


def test_an_expired_message_is_not_delivered_in_its_session(bus: Bus, queue: str) -> None:
    """Row 16 in a session. message-expiration."""
    bus.send(queue, "short-lived", session_id="T", time_to_live=timedelta(seconds=2))
    bus.send(queue, "kept", session_id="T")
    bus.clock.advance(timedelta(seconds=3))
    with accept(bus, queue, "T") as receiver:
        assert bodies(receiver, 1) == ["kept"]


def test_a_dead_connection_frees_its_session_without_counting_a_delivery(lonely_bus: Bus) -> None:
    """Row 35. message-sessions."""
    bus = lonely_bus
    bus.create("sessions", SESSIONS)
    bus.send("sessions", "a", session_id="S")
    doomed = bus.receiver("sessions", session_id="S")
    doomed.receive_messages(1, max_wait_time=2)
    bus.emulator.drop_connections()
    with (
        ServiceBusClient.from_connection_string(bus.emulator.connection_string) as client,
        client.get_queue_receiver("sessions", session_id="S") as heir,
    ):
        (message,) = heir.receive_messages(1, max_wait_time=2)
        assert (str(message), message.delivery_count) == ("a", 0)
        heir.complete_message(message)
