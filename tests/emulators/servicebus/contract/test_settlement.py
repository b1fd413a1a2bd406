"""Items 7 to 12, 23 and 24: what completing, abandoning, renewing, closing and losing a lock do to a message."""

from __future__ import annotations

from typing import Any

import pytest
from azure.servicebus import ServiceBusReceiveMode
from azure.servicebus.exceptions import MessageAlreadySettled, MessageLockLostError

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import LOCK, SECOND, Namespace
from tests.emulators.servicebus.contract.receiving import take

DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE


@item(7, "documented")
def test_a_message_whose_lock_expires_is_delivered_again(namespace: Namespace) -> None:
    """Nobody else gets it before.

    Source: Microsoft, "Message transfers, locks, and settlement".
    """
    queue = namespace.queue()
    namespace.send(queue, "one")
    first, second = namespace.receiver(queue), namespace.receiver(queue)
    take(first)
    assert namespace.nothing(second)
    namespace.let_pass(LOCK + SECOND)
    (again,) = take(second)
    assert again.delivery_count == 1


@item(7, "documented")
def test_other_receivers_get_the_next_messages(namespace: Namespace) -> None:
    """Those that are not locked; what is completed meanwhile does not bring the locked ones back.

    Source: Microsoft, "Message transfers, locks, and settlement".
    """
    queue = namespace.queue()
    namespace.send(queue, "a", "b", "c")
    first, second = namespace.receiver(queue), namespace.receiver(queue)
    (held,) = take(first)
    others = take(second, 2)
    assert (str(held), [str(message) for message in others]) == ("a", ["b", "c"])
    second.complete_message(others[0])
    assert namespace.nothing(second)


@item(7, "documented")
def test_the_lock_lasts_as_long_as_the_queue_says(namespace: Namespace) -> None:
    """`locked_until_utc`.

    Source: Microsoft, "Message transfers, locks, and settlement".
    """
    queue = namespace.queue(lock_duration=60 * SECOND)
    namespace.send(queue, "x")
    (message,) = take(namespace.receiver(queue))
    assert message.locked_until_utc is not None
    assert abs(message.locked_until_utc - namespace.now() - 60 * SECOND) < 5 * SECOND


@item(8, "documented")
def test_complete_removes_for_good(namespace: Namespace) -> None:
    """The end of the lock does not bring the message back.

    Source: Microsoft, "Message transfers, locks, and settlement".
    """
    queue = namespace.queue()
    namespace.send(queue, "x")
    receiver = namespace.receiver(queue)
    receiver.complete_message(take(receiver)[0])
    assert namespace.counts(queue).active == 0
    namespace.let_pass(LOCK + SECOND)
    assert namespace.nothing(receiver)


@item(8, "documented")
@pytest.mark.parametrize("settlement", ["complete", "abandon", "defer", "dead_letter"])
def test_a_settled_message_cannot_be_settled_again(namespace: Namespace, settlement: str) -> None:
    """Nor can its lock be renewed: the client knows.

    Source: azure-servicebus, test_queue_by_servicebus_client_iter_messages_simple.
    """
    queue = namespace.queue()
    namespace.send(queue, "x")
    receiver: Any = namespace.receiver(queue)
    (message,) = take(receiver)
    getattr(receiver, f"{settlement}_message")(message)
    with pytest.raises(MessageAlreadySettled):
        receiver.complete_message(message)
    with pytest.raises(MessageAlreadySettled):
        receiver.renew_message_lock(message)


@item(9, "documented")
def test_an_abandoned_message_comes_again_at_once_and_counted(namespace: Namespace) -> None:
    """To whoever asks; there is no waiting for the end of the lock.

    Source: Microsoft, "Message transfers, locks, and settlement"; azure-servicebus,
    test_queue_by_servicebus_conn_str_client_iter_messages_with_abandon.
    """
    queue = namespace.queue(lock_duration=60 * SECOND)
    namespace.send(queue, "x")
    first, second = namespace.receiver(queue), namespace.receiver(queue)
    first.abandon_message(take(first)[0])
    (again,) = take(second)
    assert (str(again), again.delivery_count) == ("x", 1)


@item(9, "documented")
def test_an_abandoned_message_comes_before_those_behind_it(namespace: Namespace) -> None:
    """ "At or near the front of the retrieval order".

    Source: Microsoft, "Message transfers, locks, and settlement"; azure-sdk-for-python issue 7120.
    """
    queue = namespace.queue()
    namespace.send(queue, *(str(number) for number in range(10)))
    receiver = namespace.receiver(queue)
    receiver.abandon_message(take(receiver)[0])
    assert "0" in [str(message) for message in take(receiver, 5)]


@item(9, "unverified")
def test_abandoned_messages_come_again_in_the_order_of_their_numbers(namespace: Namespace) -> None:
    """Whatever the order they are abandoned in, and before anything younger.

    Source: Microsoft, "Message transfers, locks, and settlement" says "at or near the front"; the exact order nobody has written down.
    """
    queue = namespace.queue()
    namespace.send(queue, "a", "b", "c", "d")
    receiver = namespace.receiver(queue)
    first, second, third = take(receiver, 3)
    for message in (third, first, second):
        receiver.abandon_message(message)
    again = [(str(m), m.delivery_count) for m in take(receiver, 4)]
    assert again == [("a", 1), ("b", 1), ("c", 1), ("d", 0)]


@item(10, "documented")
def test_what_a_receiver_prefetched_is_released_when_it_closes(namespace: Namespace) -> None:
    """Other receivers get it at once, uncounted.

    Source: azure-servicebus changelog 7.15.0; azure-sdk-for-python pull request 47999, measured there on a live namespace.
    """
    queue = namespace.queue(lock_duration=60 * SECOND)
    namespace.send(queue, "a", "b", "c")
    with namespace.client.get_queue_receiver(queue, prefetch_count=10) as prefetching:
        prefetching.complete_message(take(prefetching)[0])
    again = take(namespace.receiver(queue), 2)
    assert [(str(m), m.delivery_count) for m in again] == [("b", 0), ("c", 0)]


@item(10, "measured")
def test_what_the_application_left_unsettled_counts_when_its_lock_expires(namespace: Namespace) -> None:
    """Closing the receiver does not settle it.

    Source: azure-sdk-for-js issue 15116, the sample without sessions.
    """
    queue = namespace.queue()
    namespace.send(queue, "x")
    with namespace.client.get_queue_receiver(queue) as receiver:
        take(receiver)
    namespace.let_pass(LOCK + SECOND)
    (again,) = take(namespace.receiver(queue))
    assert again.delivery_count == 1


@item(10, "unverified")
def test_what_the_application_left_unsettled_stays_locked(namespace: Namespace) -> None:
    """Until the lock expires.

    Source: nobody has written it down; Microsoft, "Message transfers, locks, and settlement" has locks dropped with a broken connection.
    """
    queue = namespace.queue()
    namespace.send(queue, "x")
    with namespace.client.get_queue_receiver(queue) as receiver:
        take(receiver)
    assert namespace.nothing(namespace.receiver(queue))


@item(11, "documented")
@pytest.mark.parametrize("settlement", ["complete", "abandon", "defer", "dead_letter"])
def test_whoever_lost_the_lock_cannot_settle(namespace: Namespace, settlement: str) -> None:
    """The message is still there, and comes again with one delivery more.

    Source: Microsoft, "Message transfers, locks, and settlement"; azure-servicebus, test_queue_message_expiry.
    """
    queue = namespace.queue()
    namespace.send(queue, "x")
    receiver: Any = namespace.receiver(queue)
    (late,) = take(receiver)
    namespace.let_pass(LOCK + SECOND)
    with pytest.raises(MessageLockLostError):
        getattr(receiver, f"{settlement}_message")(late)
    (again,) = take(receiver)
    assert (str(again), again.delivery_count) == ("x", 1)


@item(11, "documented")
def test_a_late_settlement_does_not_touch_the_next_holder(namespace: Namespace) -> None:
    """Whose lock is another.

    Source: Microsoft, "Message transfers, locks, and settlement".
    """
    queue = namespace.queue()
    namespace.send(queue, "x")
    first, second = namespace.receiver(queue), namespace.receiver(queue)
    (late,) = take(first)
    namespace.let_pass(LOCK + SECOND)
    (again,) = take(second)
    assert again.lock_token != late.lock_token
    with pytest.raises(MessageLockLostError):
        first.abandon_message(late)
    second.complete_message(again)
    assert namespace.counts(queue).active == 0


@item(11, "unverified")
def test_expired_messages_come_before_those_behind_them(namespace: Namespace) -> None:
    """In the order of their numbers.

    Source: Microsoft, "Message transfers, locks, and settlement" says "at or near the front"; the exact order nobody has written down.
    """
    queue = namespace.queue()
    namespace.send(queue, "a", "b", "c")
    receiver = namespace.receiver(queue)
    take(receiver, 2)
    namespace.let_pass(LOCK + SECOND)
    again = take(receiver, 3)
    assert [(str(m), m.delivery_count) for m in again] == [("a", 1), ("b", 1), ("c", 0)]


@item(12, "documented")
def test_renewing_extends_the_lock_from_now(namespace: Namespace) -> None:
    """By the queue's lock duration, and as often as one likes; nobody else gets the message, and nothing is counted.

    Source: Microsoft, "AMQP 1.0 in Microsoft Azure Service Bus: request-response-based operations"; azure-servicebus,
    test_queue_message_lock_renew, test_queue_by_servicebus_client_renew_message_locks.
    """
    queue = namespace.queue()
    namespace.send(queue, "x")
    receiver, other = namespace.receiver(queue), namespace.receiver(queue)
    (message,) = take(receiver)
    for _ in range(3):
        namespace.let_pass(LOCK - 2 * SECOND)
        until = receiver.renew_message_lock(message)
        assert abs(until - namespace.now() - LOCK) < 2 * SECOND
        assert message.locked_until_utc == until
    assert namespace.nothing(other)
    receiver.abandon_message(message)
    assert take(other)[0].delivery_count == 1


@item(12, "documented")
def test_a_lock_that_expired_cannot_be_renewed(namespace: Namespace) -> None:
    """The message has become anybody's.

    Source: Microsoft, "Message transfers, locks, and settlement"; azure-servicebus, test_queue_message_expiry.
    """
    queue = namespace.queue()
    namespace.send(queue, "x")
    receiver = namespace.receiver(queue)
    (message,) = take(receiver)
    namespace.let_pass(LOCK + SECOND)
    with pytest.raises(MessageLockLostError):
        receiver.renew_message_lock(message)


@item(23, "documented")
def test_receive_and_delete_leaves_nothing(namespace: Namespace) -> None:
    """Delivered at most once: there is nothing to settle, nothing to renew, and time brings nothing back.

    Source: Microsoft, "Message transfers, locks, and settlement"; azure-servicebus, test_queue_message_receive_and_delete.
    """
    queue = namespace.queue()
    namespace.send(queue, "x")
    receiver: Any = namespace.receiver(queue, receive_mode=DELETE)
    (message,) = take(receiver)
    assert namespace.counts(queue).active == 0
    for settlement in ("complete", "abandon", "defer", "dead_letter"):
        with pytest.raises(ValueError, match="not supported in"):
            getattr(receiver, f"{settlement}_message")(message)
    with pytest.raises(ValueError, match=r"RECEIVE_AND_DELETE|not supported"):
        receiver.renew_message_lock(message)
    namespace.let_pass(LOCK + SECOND)
    assert namespace.nothing(namespace.receiver(queue))


@item(23, "documented")
def test_what_was_prefetched_to_be_deleted_is_lost_with_its_receiver(namespace: Namespace) -> None:
    """It left the queue when it was sent to the buffer.

    Source: Microsoft, "Prefetch Azure Service Bus messages".
    """
    queue = namespace.queue()
    namespace.send(queue, "a", "b", "c")
    with namespace.client.get_queue_receiver(queue, receive_mode=DELETE, prefetch_count=10) as receiver:
        assert str(take(receiver)[0]) == "a"
    assert namespace.nothing(namespace.receiver(queue))
    assert namespace.counts(queue).active == 0


@item(24, "documented")
def test_the_lock_of_a_prefetched_message_runs_from_its_prefetching(namespace: Namespace) -> None:
    """One that waited too long in the buffer cannot be completed; it was abandoned by time, and comes once more.

    Source: Microsoft, "Prefetch Azure Service Bus messages".
    """
    queue = namespace.queue()
    namespace.send(queue, "a", "b")
    receiver = namespace.receiver(queue, prefetch_count=5)
    receiver.complete_message(take(receiver)[0])
    namespace.let_pass(LOCK + SECOND)
    (stale,) = take(receiver)
    assert (str(stale), stale.delivery_count) == ("b", 0)
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(stale)
    (again,) = take(receiver)
    assert (str(again), again.delivery_count) == ("b", 1)
    receiver.complete_message(again)


@item(24, "documented")
def test_a_prefetched_message_is_hidden_from_others(namespace: Namespace) -> None:
    """It is locked in the buffer.

    Source: Microsoft, "Prefetch Azure Service Bus messages".
    """
    queue = namespace.queue()
    namespace.send(queue, "a", "b")
    take(namespace.receiver(queue, prefetch_count=5))
    assert namespace.nothing(namespace.receiver(queue))


@item(24, "documented")
def test_messages_that_only_lie_in_the_buffer_are_dead_lettered_in_the_end(namespace: Namespace) -> None:
    """When the maximum delivery count is exceeded, though no application ever saw them.

    Source: Microsoft, "Prefetch Azure Service Bus messages".
    """
    queue = namespace.queue(max_delivery_count=1)
    namespace.send(queue, "a", "b")
    receiver = namespace.receiver(queue, prefetch_count=5)
    receiver.complete_message(take(receiver)[0])
    namespace.let_pass(LOCK + SECOND)
    (dead,) = take(namespace.dead_letters(queue))
    assert (str(dead), dead.dead_letter_reason) == ("b", "MaxDeliveryCountExceeded")
