"""Items 27 to 35: sessions, their locks, their order and their state."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusReceiver,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from emulators.servicebus.faults import catalogue as faults
from emulators.servicebus.server import ServiceBusEmulator
from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import LOCK, Namespace
from tests.emulators.servicebus.contract.receiving import complete, completed, take, take_one

ALMOST = LOCK - timedelta(seconds=1)
AFTER = LOCK + timedelta(seconds=1)
PATIENCE = 1.0
"""Seconds that a client waits for any session, when there is none."""


def sessions(namespace: Namespace, **settings: Any) -> str:
    return namespace.queue(requires_session=True, **settings)


def accept(namespace: Namespace, queue: str, session: Any = NEXT_AVAILABLE_SESSION) -> ServiceBusReceiver:
    return namespace.receiver(queue, session_id=session, max_wait_time=PATIENCE)


# -- 27, 28: with and without sessions


@item(27, "documented")
def test_a_message_without_a_session_is_refused(namespace: Namespace) -> None:
    """Sessions enabled, clients send no regular messages any more.

    Source: Microsoft, "Message sessions"; SDK test_session_non_session_send_to_session_queue_should_fail.
    """
    queue = sessions(namespace)
    with pytest.raises(ServiceBusError):
        namespace.send(queue, "homeless")
    assert namespace.counts(queue).active == 0


@item(27, "documented")
def test_a_session_id_may_be_empty_and_must_not_be_missing(namespace: Namespace) -> None:
    """The empty string is a session like any other.

    Source: SDK test_session_by_session_client_conn_str_receive_handler_peeklock.
    """
    queue = sessions(namespace)
    namespace.send(queue, "a", session_id="")
    receiver = accept(namespace, queue, "")
    (message,) = completed(receiver)
    assert (str(message), message.session_id) == ("a", "")


@item(27, "unverified")
def test_one_message_without_a_session_refuses_its_batch(namespace: Namespace) -> None:
    """Nothing of it is there.

    Source: nobody says it; a batch is accepted as a whole.
    """
    queue = sessions(namespace)
    sender = namespace.sender(queue)
    with pytest.raises(ServiceBusError):
        sender.send_messages([ServiceBusMessage("a", session_id="s"), ServiceBusMessage("b")])
    assert namespace.counts(queue).active == 0


@item(27, "documented")
def test_a_message_with_a_session_may_go_to_an_entity_without(namespace: Namespace) -> None:
    """There the session id is a property like others, and comes back.

    Source: Microsoft, "Message sessions": sessions are a feature of the queue or subscription that requires them.
    """
    queue = namespace.queue()
    namespace.send(queue, "a", session_id="s")
    (message,) = completed(namespace.receiver(queue))
    assert (str(message), message.session_id) == ("a", "s")


@item(28, "documented")
def test_a_receiver_without_a_session_cannot_be_made_where_sessions_are_required(namespace: Namespace) -> None:
    """Messages are received by accepting sessions only.

    Source: Microsoft, "Message sessions"; the text: Azure/azure-service-bus issue 326.
    """
    queue = sessions(namespace)
    text = "It is not possible for an entity that requires sessions to create a non-sessionful message receiver"
    with pytest.raises(ServiceBusError, match=text):
        namespace.receiver(queue)


@item(28, "documented")
def test_a_session_receiver_cannot_be_made_where_none_are_required(namespace: Namespace) -> None:
    """Of a named session, and of any.

    Source: SDK test_queue_by_servicebus_client_session_fail; the text: danielgerlag/workflow-core issue 1217.
    """
    queue = namespace.queue()
    for session in ("s", NEXT_AVAILABLE_SESSION):
        with pytest.raises(ServiceBusError, match="sessionful message receiver cannot be created on an entity"):
            accept(namespace, queue, session)


@item(28, "documented")
def test_dead_letters_of_sessions_are_received_without_a_session(namespace: Namespace) -> None:
    """A dead-letter queue has no sessions; the messages keep their session ids.

    Source: SDK test_session_by_servicebus_client_receive_with_retrieve_deadletter.
    """
    queue = sessions(namespace)
    namespace.send(queue, "bad", session_id="s")
    receiver = accept(namespace, queue, "s")
    receiver.dead_letter_message(take_one(receiver), reason="Testing reason", error_description="Testing description")
    (dead,) = completed(namespace.receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER))
    assert (str(dead), dead.session_id) == ("bad", "s")
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("Testing reason", "Testing description")


# -- 29: exclusive


@item(29, "documented")
def test_a_session_has_one_holder_and_others_are_told(namespace: Namespace) -> None:
    """Only one receiver can have a lock on a session.

    Source: Microsoft, "Message sessions", "Service Bus messaging exceptions", SessionCannotBeLockedException.
    """
    queue = sessions(namespace)
    holder = accept(namespace, queue, "s")
    with pytest.raises(SessionCannotBeLockedError):
        accept(namespace, queue, "s")
    namespace.send(queue, "a", session_id="s")
    assert complete(holder) == ["a"]


@item(29, "documented")
def test_the_holder_gets_messages_that_arrive_later(namespace: Namespace) -> None:
    """The lock is on all messages of the session, also those to come, and on no other session's.

    Source: Microsoft, "Message sessions", Session features.
    """
    queue = sessions(namespace)
    holder = accept(namespace, queue, "mine")
    assert holder.session.session_id == "mine"
    namespace.send(queue, "other", session_id="other")
    namespace.send(queue, "a", session_id="mine")
    assert complete(holder) == ["a"]
    namespace.send(queue, "b", session_id="mine")
    assert complete(holder) == ["b"]
    assert holder.receive_messages(1, max_wait_time=0.3) == []


@item(29, "documented")
def test_session_ids_differ_by_case(namespace: Namespace) -> None:
    """Two sessions, two holders.

    Source: Microsoft, "Message sessions": an application-defined identifier that is unique to the session.
    """
    queue = sessions(namespace)
    namespace.send(queue, "lower", session_id="s")
    namespace.send(queue, "upper", session_id="S")
    lower, upper = accept(namespace, queue, "s"), accept(namespace, queue, "S")
    assert (complete(lower), complete(upper)) == (["lower"], ["upper"])


# -- 30: any session


@item(30, "documented")
def test_the_next_available_session_has_messages_and_no_holder(namespace: Namespace) -> None:
    """Each of two receivers gets another session; a session without messages is none.

    Source: Microsoft, "Message sessions"; SDK test_session_by_servicebus_client_session_pool.
    """
    queue = sessions(namespace)
    namespace.send(queue, "a", session_id="A")
    namespace.send(queue, "b", session_id="B")
    holder = accept(namespace, queue, "A")
    receiver = accept(namespace, queue)
    assert receiver.session.session_id == "B"
    assert complete(receiver) == ["b"]
    assert complete(holder) == ["a"]


@item(30, "documented")
def test_no_available_session_is_told_after_the_time_the_client_states(namespace: Namespace) -> None:
    """com.microsoft:timeout, in milliseconds; with a session that is held, and without any.

    Source: SDK test_next_available_session_timeout_value, test_session_by_session_client_conn_str_receive_handler_with_no_session.
    """
    queue = sessions(namespace)
    namespace.send(queue, "held", session_id="held")
    accept(namespace, queue, "held")
    began = datetime.now(UTC)
    with pytest.raises(OperationTimeoutError):
        accept(namespace, queue)
    assert datetime.now(UTC) - began >= timedelta(seconds=PATIENCE)


@item(30, "documented")
def test_a_waiting_client_gets_the_session_that_comes(namespace: Namespace) -> None:
    """It waits at the service, and is granted the first session with a message.

    Source: Microsoft, "Message sessions"; ServiceBusClient.get_queue_receiver, NEXT_AVAILABLE_SESSION and max_wait_time.
    """
    queue = sessions(namespace)
    sender = namespace.sender(queue)
    timer = threading.Timer(0.3, lambda: sender.send_messages(ServiceBusMessage("come", session_id="late")))
    timer.start()
    receiver = namespace.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=10)
    timer.join()
    assert receiver.session.session_id == "late"
    assert complete(receiver) == ["come"]


@item(30, "documented")
def test_a_waiting_client_gets_the_session_that_is_freed(namespace: Namespace) -> None:
    """Closed with messages left.

    Source: Microsoft, "Message sessions": the lock is released when the receiver is closed.
    """
    queue = sessions(namespace)
    namespace.send(queue, "left", session_id="s")
    holder = accept(namespace, queue, "s")
    timer = threading.Timer(0.3, holder.close)
    timer.start()
    receiver = namespace.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=10)
    timer.join()
    assert complete(receiver) == ["left"]


# -- 31: order


@item(31, "documented")
def test_messages_of_a_session_come_in_order_from_interleaved_streams(namespace: Namespace) -> None:
    """Each to the holder of its session, who may have several in flight.

    Source: Microsoft, "Message sessions", Session features.
    """
    queue = sessions(namespace)
    sender = namespace.sender(queue)
    for number in range(4):
        sender.send_messages([ServiceBusMessage(f"{name}{number}", session_id=name) for name in "AB"])
    receivers = [accept(namespace, queue, name) for name in "AB"]
    with ThreadPoolExecutor(2) as pool:
        a, b = pool.map(lambda receiver: complete(receiver, 4), receivers)
    assert (a, b) == (["A0", "A1", "A2", "A3"], ["B0", "B1", "B2", "B3"])


@item(31, "documented")
def test_an_abandoned_message_of_a_session_comes_next(namespace: Namespace) -> None:
    """It is served again with the next receive, before those behind it.

    Source: Microsoft, "Message sessions": "Abandoning a message causes the same message to be served again with the next receive operation".
    """
    queue = sessions(namespace)
    namespace.send(queue, "0", "1", "2", session_id="s")
    receiver = accept(namespace, queue, "s")
    receiver.abandon_message(take_one(receiver))
    messages = completed(receiver, 3)
    assert [(str(m), m.delivery_count) for m in messages] == [("0", 1), ("1", 0), ("2", 0)]


@item(31, "documented")
def test_a_new_holder_goes_on_where_the_old_one_stopped(namespace: Namespace) -> None:
    """In order, after a close.

    Source: Microsoft, "Message sessions", Session features.
    """
    queue = sessions(namespace)
    namespace.send(queue, "0", "1", "2", "3", session_id="s")
    first = accept(namespace, queue, "s")
    messages = take(first, 3)
    first.complete_message(messages[0])
    first.close()
    assert complete(accept(namespace, queue, "s"), 3) == ["1", "2", "3"]


@item(31, "documented")
def test_order_survives_the_expiry_of_the_session_lock(namespace: Namespace) -> None:
    """The next holder gets what was in flight, first and in order.

    Source: Microsoft, "Message sessions", Session features.
    """
    queue = sessions(namespace)
    namespace.send(queue, "0", "1", "2", session_id="s")
    take(accept(namespace, queue, "s"), 2)
    namespace.let_pass(AFTER)
    assert complete(accept(namespace, queue, "s"), 3) == ["0", "1", "2"]


@item(31, "documented")
def test_a_deferred_message_stays_with_its_session(namespace: Namespace) -> None:
    """The next holder retrieves it by its number and settles it; the rest goes on meanwhile.

    Source: SDK test_session_by_servicebus_client_iter_messages_with_retrieve_deferred_receiver_complete.
    """
    queue = sessions(namespace)
    namespace.send(queue, "later", "now", session_id="s")
    first = accept(namespace, queue, "s")
    deferred = take_one(first)
    first.defer_message(deferred)
    assert complete(first) == ["now"]
    first.close()
    second = accept(namespace, queue, "s")
    assert deferred.sequence_number is not None
    (again,) = second.receive_deferred_messages(deferred.sequence_number)
    second.complete_message(again)
    assert (str(again), namespace.counts(queue).active) == ("later", 0)


@item(31, "documented")
def test_an_expired_message_is_left_out_of_its_session(namespace: Namespace) -> None:
    """The others keep their order.

    Source: Microsoft, "Message expiration".
    """
    queue = sessions(namespace)
    namespace.send(queue, "short", session_id="s", time_to_live=timedelta(seconds=2))
    namespace.send(queue, "long", session_id="s")
    namespace.let_pass(timedelta(seconds=3))
    assert complete(accept(namespace, queue, "s")) == ["long"]


@item(31, "documented")
def test_peeking_with_a_session_shows_that_session_only(namespace: Namespace) -> None:
    """Its messages, and none of another.

    Source: Microsoft, "AMQP 1.0 in Azure Service Bus: request-response-based operations", Peek Session Message;
    SDK test_session_by_servicebus_client_browse_messages_client.
    """
    queue = sessions(namespace)
    namespace.send(queue, "a0", "a1", session_id="A")
    namespace.send(queue, "b0", session_id="B")
    assert [str(m) for m in accept(namespace, queue, "A").peek_messages(5)] == ["a0", "a1"]
    assert [str(m) for m in accept(namespace, queue, "B").peek_messages(5)] == ["b0"]


# -- 32: the lock


@item(32, "documented")
def test_renewing_a_session_lock_extends_it_from_now(namespace: Namespace) -> None:
    """By the lock duration of the entity; its messages stay locked along with it.

    Source: Microsoft, "AMQP 1.0 in Azure Service Bus: request-response-based operations", Session Renew Lock;
    SDK test_session_by_servicebus_client_renew_client_locks.
    """
    queue = sessions(namespace)
    namespace.send(queue, "a", session_id="s")
    receiver = accept(namespace, queue, "s")
    before = receiver.session.locked_until_utc
    message = take_one(receiver)
    namespace.let_pass(ALMOST)
    until = receiver.session.renew_lock()
    assert before is not None
    assert timedelta(seconds=3) <= until - before <= timedelta(seconds=7)
    assert receiver.session.locked_until_utc == until
    namespace.let_pass(ALMOST)
    receiver.complete_message(message)
    assert namespace.counts(queue).active == 0


@item(32, "documented")
def test_a_session_lock_that_expired_is_told(namespace: Namespace) -> None:
    """Neither settled nor renewed; the message counts a delivery, and the next holder gets it.

    Source: SDK test_session_message_expiry; Microsoft, "Message sessions", Impact of delivery count.
    """
    queue = sessions(namespace)
    namespace.send(queue, "a", session_id="s")
    loser = accept(namespace, queue, "s")
    message = take_one(loser)
    namespace.let_pass(AFTER)
    with pytest.raises(SessionLockLostError):
        loser.complete_message(message)
    with pytest.raises(SessionLockLostError):
        loser.session.renew_lock()
    (again,) = completed(accept(namespace, queue, "s"))
    assert (str(again), again.delivery_count) == ("a", 1)


@item(32, "documented")
def test_closing_a_session_counts_no_delivery(namespace: Namespace) -> None:
    """Even of messages that were locked.

    Source: Microsoft, "Message sessions", Impact of delivery count.
    """
    queue = sessions(namespace)
    namespace.send(queue, "a", session_id="s")
    first = accept(namespace, queue, "s")
    take_one(first)
    first.close()
    (again,) = completed(accept(namespace, queue, "s"))
    assert again.delivery_count == 0


@item(32, "unverified")
def test_expiry_counts_for_the_messages_in_flight_only(namespace: Namespace) -> None:
    """One that was not delivered yet counts nothing.

    Source: nobody says it; the table of "Message sessions", Impact of delivery count, names no case.
    """
    queue = sessions(namespace)
    namespace.send(queue, "in flight", "untouched", session_id="s")
    take_one(accept(namespace, queue, "s"))
    namespace.let_pass(AFTER)
    messages = completed(accept(namespace, queue, "s"), 2)
    assert [(str(m), m.delivery_count) for m in messages] == [("in flight", 1), ("untouched", 0)]


@item(32, "documented")
def test_messages_of_a_session_have_no_locks_of_their_own(namespace: Namespace) -> None:
    """The session lock is the umbrella: no time at the message, no renewing it.

    Source: Microsoft, "Message sessions", Session features; SDK test_session_message_expiry.
    """
    queue = sessions(namespace)
    namespace.send(queue, "a", session_id="s")
    receiver = accept(namespace, queue, "s")
    message = take_one(receiver)
    assert (message.locked_until_utc, message.lock_token is not None) == (None, True)
    with pytest.raises(TypeError):
        receiver.renew_message_lock(message)


# -- 33: state


@item(33, "documented")
def test_session_state_is_set_got_and_cleared(namespace: Namespace) -> None:
    """None where there was none; opaque octets; clearing is setting None.

    Source: Microsoft, "Message sessions", Message session state; SDK test_session_get_set_state_with_receiver.
    """
    session = accept(namespace, sessions(namespace), "s").session
    assert session.get_state() is None
    session.set_state(b"\x00\xffstate")
    assert session.get_state() == b"\x00\xffstate"
    session.set_state("text")
    assert session.get_state() == b"text"
    session.set_state(None)
    assert session.get_state() is None


@item(33, "documented")
def test_session_state_goes_to_the_next_holder(namespace: Namespace) -> None:
    """It remains when all messages are consumed and nobody holds the session.

    Source: Microsoft, "Message sessions": "Session state remains as long as it isn't cleared up".
    """
    queue = sessions(namespace)
    namespace.send(queue, "a", session_id="s")
    first = accept(namespace, queue, "s")
    first.session.set_state(b"done with a")
    complete(first)
    first.close()
    assert accept(namespace, queue, "s").session.get_state() == b"done with a"
    assert accept(namespace, queue, "t").session.get_state() is None


@item(33, "documented")
def test_empty_state_is_not_no_state(namespace: Namespace) -> None:
    """Only null clears.

    Source: Microsoft, "Message sessions", Message session state: cleared by passing null.
    """
    session = accept(namespace, sessions(namespace), "s").session
    session.set_state(b"")
    assert session.get_state() == b""


@item(33, "documented")
def test_only_the_holder_has_the_state(namespace: Namespace) -> None:
    """A session lock that is gone gives none, and sets none.

    Source: Microsoft, "Message sessions": state is available when the session is acquired.
    """
    queue = sessions(namespace)
    loser = accept(namespace, queue, "s")
    loser.session.set_state(b"kept")
    namespace.let_pass(AFTER)
    with pytest.raises(SessionLockLostError):
        loser.session.get_state()
    with pytest.raises(SessionLockLostError):
        loser.session.set_state(b"late")
    assert accept(namespace, queue, "s").session.get_state() == b"kept"


@item(33, "documented")
def test_state_counts_towards_the_size_of_the_entity(namespace: Namespace) -> None:
    """It is stored, and there is a quota of that.

    Source: Microsoft, "Message sessions": state counts towards the entity's storage quota.
    """
    queue = sessions(namespace)
    accept(namespace, queue, "s").session.set_state(b"x" * 10_000)
    assert namespace.counts(queue).size >= 10_000


# -- 34: the list


@item(34, "documented")
def test_sessions_with_messages_are_listed(namespace: Namespace) -> None:
    """Held or not; those without messages and state are not, nor is anything else.

    Source: SDK test_list_queue_sessions_with_active_messages, test_list_queue_sessions_empty.
    """
    queue = sessions(namespace)
    assert list(namespace.client.list_queue_sessions(queue)) == []
    for name in ("a", "b", "c"):
        namespace.send(queue, name, session_id=name)
    accept(namespace, queue, "b")
    accept(namespace, queue, "empty")
    assert sorted(namespace.client.list_queue_sessions(queue)) == ["a", "b", "c"]


@item(34, "documented")
def test_sessions_with_state_are_listed(namespace: Namespace) -> None:
    """Without any message, until the state is cleared.

    Source: ServiceBusClient.list_queue_sessions, "with active messages or stored session state".
    """
    queue = sessions(namespace)
    session = accept(namespace, queue, "s").session
    session.set_state(b"x")
    assert list(namespace.client.list_queue_sessions(queue)) == ["s"]
    session.set_state(None)
    assert list(namespace.client.list_queue_sessions(queue)) == []


@item(34, "documented")
def test_sessions_are_listed_by_the_time_their_state_changed(namespace: Namespace) -> None:
    """After the time asked for; sessions with nothing but messages are left out.

    Source: ServiceBusClient.list_queue_sessions, state_updated_after.
    """
    queue = sessions(namespace)
    namespace.send(queue, "a", session_id="message")
    accept(namespace, queue, "state").session.set_state(b"x")
    now = namespace.now()
    found = namespace.client.list_queue_sessions(queue, state_updated_after=now - timedelta(minutes=5))
    assert list(found) == ["state"]
    found = namespace.client.list_queue_sessions(queue, state_updated_after=now + timedelta(days=1))
    assert list(found) == []


@item(34, "documented")
def test_sessions_are_listed_page_by_page(namespace: Namespace) -> None:
    """More than the SDK's page of a hundred.

    Source: Microsoft, "AMQP 1.0 in Azure Service Bus: request-response-based operations", Enumerate Sessions (skip, top).
    """
    queue = sessions(namespace)
    names = [f"s{number:03d}" for number in range(205)]
    namespace.sender(queue).send_messages([ServiceBusMessage("x", session_id=name) for name in names])
    assert sorted(namespace.client.list_queue_sessions(queue)) == names


@item(34, "documented")
def test_sessions_of_a_subscription_are_listed(namespace: Namespace) -> None:
    """Its own.

    Source: SDK test_list_subscription_sessions_with_active_messages.
    """
    topic = namespace.topic()
    namespace.subscription(topic, requires_session=True)
    namespace.topic_sender(topic).send_messages([ServiceBusMessage("x", session_id=name) for name in "ab"])
    assert sorted(namespace.client.list_subscription_sessions(topic, "subscription")) == ["a", "b"]


# -- 35: kept and freed


@item(35, "documented")
def test_an_idle_holder_loses_its_session(namespace: Namespace) -> None:
    """Without renewing, though its link is open: another may accept it.

    Source: Microsoft, "Message sessions": the lock is released when it expires.
    """
    queue = sessions(namespace)
    idle = accept(namespace, queue, "s")
    namespace.let_pass(AFTER)
    namespace.send(queue, "a", session_id="s")
    assert complete(accept(namespace, queue, "s")) == ["a"]
    with pytest.raises(SessionLockLostError):
        idle.receive_messages(1, max_wait_time=5)


@item(35, "documented")
def test_renewing_keeps_a_session_beyond_its_lock_duration(namespace: Namespace) -> None:
    """Again and again; nobody else gets it.

    Source: Microsoft, "Message sessions", Session features.
    """
    queue = sessions(namespace)
    holder = accept(namespace, queue, "s")
    for _ in range(3):
        namespace.let_pass(ALMOST)
        holder.session.renew_lock()
    with pytest.raises(SessionCannotBeLockedError):
        accept(namespace, queue, "s")
    namespace.send(queue, "a", session_id="s")
    assert complete(holder) == ["a"]


@item(35, "documented")
def test_a_closed_session_is_free_at_once(namespace: Namespace) -> None:
    """Within the lock duration.

    Source: Microsoft, "Message sessions": the lock is released when the receiver is closed.
    """
    queue = sessions(namespace, lock_duration=timedelta(minutes=5))
    accept(namespace, queue, "s").close()
    assert accept(namespace, queue, "s").session.session_id == "s"


@item(35, "unverified")
@pytest.mark.emulator_only("its connections can be cut")
def test_a_session_is_free_when_its_connection_dies(namespace: Namespace, emulator: ServiceBusEmulator) -> None:
    """Its message counts no delivery.

    Source: nobody says it of the connection; Azure/azure-service-bus issue 694 saw the lock released when it was severed.
    """
    queue = sessions(namespace, lock_duration=timedelta(minutes=5))
    namespace.send(queue, "a", session_id="s")
    take_one(accept(namespace, queue, "s"))
    with emulator.inject(faults.ConnectionsCut()):
        pass
    (again,) = completed(accept(namespace, queue, "s"))
    assert (str(again), again.delivery_count) == ("a", 0)
