"""The asyncio client, which reads its frames by other code than the synchronous one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import MessagingEntityNotFoundError, SessionCannotBeLockedError

from emulators.servicebus.description import QueueDescription

from .conftest import LOCK, Bus

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # the SDK forgets failed connections


def run(bus: Bus, scenario: Callable[[ServiceBusClient], Awaitable[None]]) -> None:
    async def with_client() -> None:
        async with ServiceBusClient.from_connection_string(bus.emulator.connection_string, retry_total=0) as client:
            await scenario(client)

    asyncio.run(with_client())


def test_sending_receiving_and_settling_concurrently(bus: Bus) -> None:
    """Rows 2, 6, 8, 14: settlements of one receiver gathered."""
    bus.create("aio")

    async def scenario(client: ServiceBusClient) -> None:
        async with client.get_queue_sender("aio") as sender, client.get_queue_receiver("aio") as receiver:
            await sender.send_messages([ServiceBusMessage(str(n)) for n in range(20)])
            messages = await receiver.receive_messages(20, max_wait_time=5)
            assert [str(m) for m in messages] == [str(n) for n in range(20)]
            await asyncio.gather(*(receiver.complete_message(m) for m in messages[:-1]))
            await receiver.dead_letter_message(messages[-1], reason="last")

    run(bus, scenario)
    assert (bus.active("aio"), bus.dead("aio")) == (0, 1)


def test_sessions(bus: Bus) -> None:
    """Rows 29 to 33."""
    bus.create("aio-sessions", QueueDescription(lock_duration=LOCK, requires_session=True))

    async def scenario(client: ServiceBusClient) -> None:
        async with client.get_queue_sender("aio-sessions") as sender:
            await sender.send_messages([ServiceBusMessage("a", session_id="S")])
        async with client.get_queue_receiver("aio-sessions", session_id=NEXT_AVAILABLE_SESSION) as receiver:
            assert receiver.session.session_id == "S"
            await receiver.session.set_state(b"state")
            assert await receiver.session.get_state() == b"state"
            with pytest.raises(SessionCannotBeLockedError):
                async with client.get_queue_receiver("aio-sessions", session_id="S"):
                    pass
            (message,) = await receiver.receive_messages(1, max_wait_time=2)
            await receiver.complete_message(message)

    run(bus, scenario)
    assert bus.active("aio-sessions") == 0


def test_a_missing_entity_is_not_found(bus: Bus) -> None:
    """Row 45."""

    async def scenario(client: ServiceBusClient) -> None:
        with pytest.raises(MessagingEntityNotFoundError):
            async with client.get_queue_sender("nowhere"):
                pass

    run(bus, scenario)
