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
