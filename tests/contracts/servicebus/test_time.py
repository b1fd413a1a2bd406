"""What goes by the clock: time to live, schedules, duplicate detection; and looking without taking."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState, ServiceBusSubQueue
from azure.servicebus.exceptions import MessageNotFoundError, ServiceBusError

from emulators.servicebus.description import QueueDescription

from .conftest import LOCK, Bus

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the SDK forgets failed ones

SECOND = timedelta(seconds=1)


def test_an_expired_message_is_gone(bus: Bus) -> None:
    """Row 16. message-expiration."""
    bus.create("ttl")
    bus.send("ttl", "short", time_to_live=2 * SECOND)
    bus.send("ttl", "long")
    bus.clock.advance(3 * SECOND)
    assert bus.drain("ttl") == ["long"]
    assert bus.dead("ttl") == 0


def test_an_expired_message_is_dead_lettered_where_that_is_asked_for(bus: Bus) -> None:
    """Row 16, 17: the entity's default caps the message's own. message-expiration."""
    bus.create(
        "ttl-dlq",
        QueueDescription(
            lock_duration=LOCK, default_message_time_to_live=2 * SECOND, dead_lettering_on_message_expiration=True
        ),
    )
    bus.send("ttl-dlq", "capped", time_to_live=timedelta(hours=1))
    bus.clock.advance(3 * SECOND)
    receiver = bus.receiver("ttl-dlq", sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    (dead,) = receiver.receive_messages(1, max_wait_time=5)
    assert dead.dead_letter_reason == "TTLExpiredException"
    bus.clock.advance(timedelta(seconds=4))  # row 15: nothing expires in a dead-letter queue
    receiver.complete_message(dead)
    assert bus.dead("ttl-dlq") == 0


def test_a_locked_message_expires_only_when_it_is_unlocked(bus: Bus) -> None:
    """Row 16. message-expiration."""
    bus.create("ttl-locked")
    bus.send("ttl-locked", "a", "b", time_to_live=2 * SECOND)
    first, second = bus.receiver("ttl-locked").receive_messages(2, max_wait_time=5)
    bus.clock.advance(3 * SECOND)
    bus.receiver("ttl-locked").complete_message(first)
    bus.receiver("ttl-locked").abandon_message(second)
    assert bus.active("ttl-locked") == 0


def test_scheduled_messages_appear_when_due(bus: Bus) -> None:
    """Row 21: with a new sequence number. message-sequencing; SDK test_queue_schedule_message."""
    bus.create("scheduled")
    due = datetime.now(UTC) + timedelta(seconds=bus.clock.offset) + 30 * SECOND
    (number,) = bus.sender("scheduled").schedule_messages(ServiceBusMessage("later"), due)
    bus.sender("scheduled").send_messages(ServiceBusMessage("too", scheduled_enqueue_time_utc=due + SECOND))
    receiver = bus.receiver("scheduled")
    assert [m.state for m in receiver.peek_messages(2)] == [ServiceBusMessageState.SCHEDULED] * 2
    assert receiver.receive_messages(1, max_wait_time=0.2) == []
    bus.clock.advance(32 * SECOND)
    messages = receiver.receive_messages(2, max_wait_time=5)
    assert [str(m) for m in messages] == ["later", "too"]
    assert all((m.sequence_number or 0) > number for m in messages)
    for message in messages:
        receiver.complete_message(message)


def test_a_scheduled_message_can_be_cancelled_once(bus: Bus) -> None:
    """Row 21. message-sequencing."""
    bus.create("scheduled")
    due = datetime.now(UTC) + timedelta(seconds=bus.clock.offset) + timedelta(hours=1)
    numbers = bus.sender("scheduled").schedule_messages([ServiceBusMessage("a"), ServiceBusMessage("b")], due)
    bus.sender("scheduled").cancel_scheduled_messages(numbers)
    assert bus.emulator.admin.get("scheduled").counts.scheduled == 0
    with pytest.raises(MessageNotFoundError):
        bus.sender("scheduled").cancel_scheduled_messages(numbers)


def test_peeking_takes_nothing_and_moves_on_over_whatever_is_there(bus: Bus) -> None:
    """Row 22. message-browsing; SDK peek_auto_increment."""
    bus.create("peek")
    with bus.client.get_queue_receiver("peek") as receiver:
        assert receiver.peek_messages() == []
        bus.send("peek", "locked", "deferred", "ready")
        held, deferred = receiver.receive_messages(2, max_wait_time=5)
        receiver.defer_message(deferred)
        assert [str(m) for m in receiver.peek_messages(2, sequence_number=1)] == ["locked", "deferred"]
        (last,) = receiver.peek_messages(2)
        assert (str(last), last.lock_token) == ("ready", None)
        again = receiver.peek_messages(3, sequence_number=1)
        assert [m.state for m in again][1] == ServiceBusMessageState.DEFERRED
        receiver.complete_message(held)


def test_a_duplicate_is_accepted_and_dropped_within_the_window(bus: Bus) -> None:
    """Row 25, 26. duplicate-detection; SDK test_queue_message_duplicate_detection."""
    description = QueueDescription(
        requires_duplicate_detection=True, duplicate_detection_history_time_window=timedelta(seconds=60)
    )
    for name in ("dedup", "other"):
        bus.create(name, description)
    for body in ("first", "second"):
        bus.send("dedup", body, message_id="same")
    batch = [ServiceBusMessage("third", message_id="same"), ServiceBusMessage("new", message_id="new")]
    bus.sender("dedup").send_messages(batch)
    bus.send("other", "elsewhere", message_id="same")
    assert bus.drain("dedup") == ["first", "new"]
    assert bus.drain("other") == ["elsewhere"]
    bus.send("dedup", "still", message_id="same")
    assert bus.active("dedup") == 0
    bus.clock.advance(61 * SECOND)
    bus.send("dedup", "again", message_id="same")
    assert bus.drain("dedup") == ["again"]


def test_a_refused_batch_leaves_no_trace_in_duplicate_detection(bus: Bus) -> None:
    """Row 2, 25: atomic means atomic."""
    bus.create(
        "dedup-sessions", QueueDescription(lock_duration=LOCK, requires_duplicate_detection=True, requires_session=True)
    )
    good = ServiceBusMessage("a", session_id="s", message_id="id")
    with pytest.raises(ServiceBusError):
        bus.sender("dedup-sessions").send_messages([good, ServiceBusMessage("no session", message_id="other")])
    bus.sender("dedup-sessions").send_messages(ServiceBusMessage("a", session_id="s", message_id="id"))
    assert bus.active("dedup-sessions") == 1
