"""Items of others once more with the asyncio client, which reads its frames by other code than the synchronous one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessageNotFoundError,
    ServiceBusAuthenticationError,
    SessionCannotBeLockedError,
)

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import LOCK, SECOND, Namespace
from tests.emulators.servicebus.contract.receiving import take

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # the SDK forgets transports, too


def run(namespace: Namespace, scenario: Callable[[ServiceBusClient], Awaitable[None]]) -> None:
    """With a client of its own."""

    async def with_client() -> None:
        options: dict[str, Any] = {"retry_total": 0, "keep_alive": 0}
        async with ServiceBusClient.from_connection_string(namespace.connection_string, **options) as client:
            await scenario(client)

    asyncio.run(with_client())


async def one(receiver: ServiceBusReceiver) -> str:
    """Take one message and complete it; its body."""
    (message,) = await receiver.receive_messages(1, max_wait_time=30)
    await receiver.complete_message(message)
    return str(message)


@item(6, "documented")
def test_asyncio_receives_in_order_and_settles_side_by_side(namespace: Namespace) -> None:
    """Completing all at once, each settlement is answered for itself.

    Source: Microsoft, "Service Bus queues, topics, and subscriptions"; azure-servicebus changelog 7.15.0, on settling with asyncio.gather.
    """
    queue = namespace.queue()

    async def scenario(client: ServiceBusClient) -> None:
        async with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
            await sender.send_messages([ServiceBusMessage(str(number)) for number in range(20)])
            messages = await receiver.receive_messages(20, max_wait_time=30)
            assert [str(message) for message in messages] == [str(number) for number in range(len(messages))]
            await asyncio.gather(*(receiver.complete_message(message) for message in messages[:-1]))
            with pytest.raises(MessageAlreadySettled):
                await receiver.complete_message(messages[0])
            await receiver.dead_letter_message(messages[-1], reason="last")

    run(namespace, scenario)
    assert namespace.counts(queue).active == 0
    assert take(namespace.dead_letters(queue))[0].dead_letter_reason == "last"


@item(10, "documented")
def test_asyncio_releases_what_it_prefetched(namespace: Namespace) -> None:
    """When the receiver closes.

    Source: azure-servicebus changelog 7.15.0; azure-sdk-for-python pull request 47999, measured there on a live namespace.
    """
    queue = namespace.queue(lock_duration=60 * SECOND)
    namespace.send(queue, "a", "b", "c")

    async def scenario(client: ServiceBusClient) -> None:
        async with client.get_queue_receiver(queue, prefetch_count=10) as receiver:
            assert await one(receiver) == "a"

    run(namespace, scenario)
    again = take(namespace.receiver(queue), 2)
    assert [(str(m), m.delivery_count) for m in again] == [("b", 0), ("c", 0)]


@item(11, "documented")
def test_asyncio_is_told_of_a_lost_lock(namespace: Namespace) -> None:
    """Settling late and renewing late.

    Source: azure-servicebus, test_async_queue_message_expiry.
    """
    queue = namespace.queue()
    namespace.send(queue, "x")

    async def scenario(client: ServiceBusClient) -> None:
        async with client.get_queue_receiver(queue) as receiver:
            (message,) = await receiver.receive_messages(1, max_wait_time=30)
            namespace.let_pass(LOCK + SECOND)
            with pytest.raises(MessageLockLostError):
                await receiver.renew_message_lock(message)
            with pytest.raises(MessageLockLostError):
                await receiver.complete_message(message)

    run(namespace, scenario)


@item(18, "documented")
def test_asyncio_finds_deferred_messages(namespace: Namespace) -> None:
    """By their numbers; an unknown one is not found.

    Source: azure-servicebus, test_async_queue_by_servicebus_client_iter_messages_with_retrieve_deferred_client.
    """
    queue = namespace.queue()
    namespace.send(queue, "x")

    async def scenario(client: ServiceBusClient) -> None:
        async with client.get_queue_receiver(queue) as receiver:
            (message,) = await receiver.receive_messages(1, max_wait_time=30)
            number = message.sequence_number or 0
            await receiver.defer_message(message)
            (deferred,) = await receiver.receive_deferred_messages(number)
            assert (str(deferred), deferred.state) == ("x", ServiceBusMessageState.DEFERRED)
            await receiver.complete_message(deferred)
            with pytest.raises(MessageNotFoundError):
                await receiver.receive_deferred_messages(number)

    run(namespace, scenario)


@item(21, "documented")
def test_asyncio_schedules_cancels_and_peeks(namespace: Namespace) -> None:
    """Two are scheduled, one is cancelled.

    Source: azure-servicebus, test_async_queue_schedule_multiple_messages; Microsoft, "Browse or peek messages".
    """
    queue = namespace.queue()
    due = namespace.now() + 20 * SECOND

    async def scenario(client: ServiceBusClient) -> None:
        async with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
            numbers = await sender.schedule_messages([ServiceBusMessage("a"), ServiceBusMessage("b")], due)
            peeked = await receiver.peek_messages(5)
            assert [(str(m), m.sequence_number) for m in peeked] == list(zip("ab", numbers, strict=True))
            await sender.cancel_scheduled_messages(numbers[0])
            namespace.let_pass(21 * SECOND)
            assert await one(receiver) == "b"

    run(namespace, scenario)


@item(33, "documented")
def test_asyncio_holds_a_session_alone_with_its_state(namespace: Namespace) -> None:
    """The next available one; whoever asks for it by name is told that it is held.

    Source: Microsoft, "Message sessions", Message session state; "Service Bus messaging exceptions", SessionCannotBeLockedException.
    """
    queue = namespace.queue(requires_session=True)
    namespace.send(queue, "a", session_id="S")

    async def scenario(client: ServiceBusClient) -> None:
        async with client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION) as receiver:
            assert receiver.session.session_id == "S"
            await receiver.session.set_state(b"state")
            assert await receiver.session.get_state() == b"state"
            with pytest.raises(SessionCannotBeLockedError):
                async with client.get_queue_receiver(queue, session_id="S"):
                    pass
            assert await one(receiver) == "a"

    run(namespace, scenario)
    assert namespace.counts(queue).active == 0


@item(45, "documented")
def test_asyncio_is_told_of_a_missing_entity(namespace: Namespace) -> None:
    """When it puts its token.

    Source: azure-servicebus, test_sb_client_bad_entity_async.
    """

    async def scenario(client: ServiceBusClient) -> None:
        with pytest.raises(ServiceBusAuthenticationError):
            async with client.get_queue_sender(namespace.new_name()):
                pass

    run(namespace, scenario)
