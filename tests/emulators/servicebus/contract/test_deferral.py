"""Items 18 to 20: messages set aside, and found again by their sequence numbers."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessageState, ServiceBusReceiveMode, ServiceBusReceiver
from azure.servicebus.exceptions import MessageNotFoundError, ServiceBusError

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import LOCK, SECOND, Namespace
from tests.emulators.servicebus.contract.receiving import take


def deferred(namespace: Namespace, *bodies: str, **settings: Any) -> tuple[str, ServiceBusReceiver, list[int]]:
    """A queue with deferred messages, a receiver of it, and their sequence numbers."""
    time_to_live = settings.pop("time_to_live", None)
    queue = namespace.queue(**settings)
    namespace.send(queue, *bodies, time_to_live=time_to_live)
    receiver = namespace.receiver(queue)
    numbers = []
    for message in take(receiver, len(bodies)):
        numbers.append(message.sequence_number or 0)
        receiver.defer_message(message)
    return queue, receiver, numbers


@item(18, "documented")
def test_deferred_messages_are_received_by_number_alone(namespace: Namespace) -> None:
    """By any receiver that knows the numbers, all at once, and completed like others.

    Source: Microsoft, "Message deferral"; azure-servicebus,
    test_queue_by_servicebus_client_iter_messages_with_retrieve_deferred_receiver_complete.
    """
    queue, receiver, numbers = deferred(namespace, "a", "b", "c")
    assert namespace.nothing(receiver)
    other = namespace.receiver(queue)
    found = other.receive_deferred_messages(numbers)
    assert [(str(m), m.sequence_number) for m in found] == list(zip("abc", numbers, strict=True))
    for message in found:
        assert message.state is ServiceBusMessageState.DEFERRED
        assert message.lock_token is not None
        other.complete_message(message)
    assert namespace.counts(queue).active == 0
    with pytest.raises(MessageNotFoundError):
        other.receive_deferred_messages(numbers)


@item(18, "documented")
def test_deferred_messages_stay_in_the_queue(namespace: Namespace) -> None:
    """Peeking shows them, with their state, and they are found there when an application lost their numbers.

    Source: Microsoft, "Message deferral"; azure-servicebus, test_state_deferred.
    """
    queue, _, numbers = deferred(namespace, "a", "b")
    peeked = namespace.receiver(queue).peek_messages(5)
    assert [(str(m), m.sequence_number) for m in peeked] == list(zip("ab", numbers, strict=True))
    assert {message.state for message in peeked} == {ServiceBusMessageState.DEFERRED}


@item(18, "documented")
def test_a_deferred_message_can_be_dead_lettered(namespace: Namespace) -> None:
    """With reason and description, and with the one delivery it had.

    Source: azure-servicebus, test_queue_by_servicebus_client_iter_messages_with_retrieve_deferred_receiver_deadletter; azure-sdk-for-js,
    deferredMessage.spec.ts, "Deadlettering a deferred message moves it to dead letter queue".
    """
    queue, receiver, numbers = deferred(namespace, "a")
    (message,) = receiver.receive_deferred_messages(numbers)
    receiver.dead_letter_message(message, reason="why", error_description="because")
    (dead,) = take(namespace.dead_letters(queue))
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("why", "because")
    assert (str(dead), dead.delivery_count) == ("a", 1)


@item(18, "documented")
@pytest.mark.parametrize("settlement", ["abandon", "defer"])
def test_a_deferred_message_given_back_stays_deferred(namespace: Namespace, settlement: str) -> None:
    """Abandoned or deferred again, it counts one delivery more: deferring is one, too.

    Source: azure-sdk-for-js, deferredMessage.spec.ts, "Abandoning a deferred message puts it back to the deferred queue", "Deferring a
    deferred message puts it back to the deferred queue"; azure-sdk-for-go pull request 17682.
    """
    _, receiver, numbers = deferred(namespace, "a")
    (message,) = receiver.receive_deferred_messages(numbers)
    assert message.delivery_count == 1
    getattr(receiver, f"{settlement}_message")(message)
    assert namespace.nothing(receiver)
    (message,) = receiver.receive_deferred_messages(numbers)
    assert message.delivery_count == 2


@item(18, "measured")
def test_deferring_a_message_at_its_last_delivery_dead_letters_it(namespace: Namespace) -> None:
    """Deferring counts, and the count has reached the maximum.

    Source: Azure/azure-service-bus issue 375.
    """
    queue, receiver, numbers = deferred(namespace, "a", max_delivery_count=1)
    (dead,) = take(namespace.dead_letters(queue))
    assert (str(dead), dead.dead_letter_reason) == ("a", "MaxDeliveryCountExceeded")
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(numbers)


@item(18, "documented")
def test_the_lock_of_a_deferred_message_can_be_renewed(namespace: Namespace) -> None:
    """That counts nothing.

    Source: azure-sdk-for-js, deferredMessage.spec.ts, "renewLock on a deferred message"; azure-servicebus,
    test_queue_by_servicebus_client_iter_messages_with_retrieve_deferred_receiver_complete.
    """
    queue, receiver, numbers = deferred(namespace, "a")
    (message,) = receiver.receive_deferred_messages(numbers)
    before = message.locked_until_utc
    namespace.let_pass(LOCK - 2 * SECOND)
    assert before is not None
    assert receiver.renew_message_lock(message) > before
    namespace.let_pass(LOCK - 2 * SECOND)
    assert message.delivery_count == 1
    receiver.complete_message(message)
    assert namespace.counts(queue).active == 0


@item(18, "documented")
def test_a_deferred_message_can_be_received_and_deleted(namespace: Namespace) -> None:
    """And is gone.

    Source: azure-servicebus, test_queue_by_servicebus_client_iter_messages_with_retrieve_deferred_receiver_deletemode.
    """
    queue, _, numbers = deferred(namespace, "a", "b")
    receiver = namespace.receiver(queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE)
    assert [str(message) for message in receiver.receive_deferred_messages(numbers)] == ["a", "b"]
    assert namespace.counts(queue).active == 0
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(numbers)


@item(18, "unverified")
def test_a_deferred_message_is_not_found_while_it_is_locked(namespace: Namespace) -> None:
    """And found again when its lock has expired, counted, still deferred.

    Source: nobody has written it down.
    """
    queue, receiver, numbers = deferred(namespace, "a")
    receiver.receive_deferred_messages(numbers)
    other = namespace.receiver(queue)
    with pytest.raises(MessageNotFoundError):
        other.receive_deferred_messages(numbers)
    namespace.let_pass(LOCK + SECOND)
    assert namespace.nothing(other)
    (message,) = other.receive_deferred_messages(numbers)
    assert message.delivery_count == 2


@item(19, "documented")
def test_an_unknown_sequence_number_is_not_found(namespace: Namespace) -> None:
    """MessageNotFoundError.

    Source: Microsoft, "Service Bus messaging exceptions"; azure-servicebus,
    test_queue_by_servicebus_client_iter_messages_with_retrieve_deferred_not_found.
    """
    with pytest.raises(MessageNotFoundError):
        namespace.receiver(namespace.queue()).receive_deferred_messages([5, 6, 7])


@item(19, "documented")
def test_a_message_that_was_not_deferred_is_not_found(namespace: Namespace) -> None:
    """Neither an active one nor one that is locked.

    Source: Microsoft, "ServiceBusReceiver.ReceiveDeferredMessageAsync Method".
    """
    queue = namespace.queue()
    namespace.send(queue, "locked", "active")
    receiver = namespace.receiver(queue)
    (message,) = take(receiver)
    for number in (message.sequence_number or 0, (message.sequence_number or 0) + 1):
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(number)


@item(19, "documented")
def test_one_unknown_number_fails_the_whole_request(namespace: Namespace) -> None:
    """Though the others are known.

    Source: azure-servicebus, test_queue_by_servicebus_client_iter_messages_with_retrieve_deferred_not_found.
    """
    _, receiver, numbers = deferred(namespace, "a", "b", "c")
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages([numbers[2], numbers[2] + 1])


@item(19, "unverified")
def test_a_request_that_failed_locks_nothing(namespace: Namespace) -> None:
    """The numbers that are known can be asked for again at once.

    Source: nobody has written it down.
    """
    _, receiver, numbers = deferred(namespace, "a")
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages([numbers[0], numbers[0] + 1])
    assert [str(message) for message in receiver.receive_deferred_messages(numbers)] == ["a"]


@item(20, "documented")
def test_a_deferred_message_does_not_expire_by_itself(namespace: Namespace) -> None:
    """It is there, whoever receives meanwhile, and no dead letter.

    Source: Microsoft, "Message deferral", "Overview of Service Bus dead-letter queues".
    """
    queue, receiver, numbers = deferred(
        namespace, "a", time_to_live=4 * SECOND, dead_lettering_on_message_expiration=True
    )
    namespace.let_pass(LOCK + SECOND)
    assert namespace.nothing(receiver)
    assert [m.sequence_number for m in namespace.receiver(queue).peek_messages(5)] == numbers
    assert namespace.counts(queue).dead == 0


@item(20, "documented")
def test_a_deferred_message_that_expired_is_dead_lettered_when_asked_for(namespace: Namespace) -> None:
    """By design: it is held against its time only then.

    Source: Microsoft, "Message deferral"; azure-sdk-for-net issue 30252, answered by Microsoft.
    """
    queue, receiver, numbers = deferred(
        namespace, "a", time_to_live=4 * SECOND, dead_lettering_on_message_expiration=True
    )
    namespace.let_pass(LOCK + SECOND)
    with suppress(ServiceBusError):
        receiver.receive_deferred_messages(numbers)
    (dead,) = take(namespace.dead_letters(queue))
    assert (str(dead), dead.dead_letter_reason) == ("a", "TTLExpiredException")


@item(20, "unverified")
@pytest.mark.parametrize("dead_lettering", [True, False])
def test_a_deferred_message_that_expired_is_not_found(namespace: Namespace, dead_lettering: bool) -> None:
    """Nor is it in the queue any more.

    Source: Microsoft, "Message deferral", says where it goes, not what the client is told, nor what becomes of it without dead-lettering.
    """
    queue, receiver, numbers = deferred(
        namespace, "a", time_to_live=4 * SECOND, dead_lettering_on_message_expiration=dead_lettering
    )
    namespace.let_pass(LOCK + SECOND)
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(numbers)
    counts = namespace.counts(queue)
    assert (counts.active, counts.dead) == (0, int(dead_lettering))


@item(20, "documented")
def test_a_deferred_message_in_its_time_is_found(namespace: Namespace) -> None:
    """Long after its lock has expired.

    Source: Microsoft, "Message deferral".
    """
    _, receiver, numbers = deferred(namespace, "a", time_to_live=timedelta(hours=1))
    namespace.let_pass(2 * LOCK)
    assert [str(message) for message in receiver.receive_deferred_messages(numbers)] == ["a"]
