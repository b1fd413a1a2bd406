"""AMQP over WebSocket with Azure's own clients, in clear text and behind TLS, on the ports that AMQP as it is has too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websocket
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.exceptions import MessagingEntityNotFoundError, ServiceBusConnectionError, ServiceBusError

from emulators.certificates import TlsSettings
from emulators.servicebus.description import QueueDescription, TopicDescription
from emulators.servicebus.server import ServiceBusEmulator
from tests.emulators.servicebus.conftest import forget_sockets

pytestmark = pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning")  # as the SDK calls aiohttp
BODY = "x" * 150_000


@pytest.fixture(scope="module")
def emulator(tls: TlsSettings) -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator(tls=tls) as running:
        running.admin.create("q", QueueDescription())
        running.admin.create("s", QueueDescription(requires_session=True))
        running.admin.create("t", TopicDescription())
        yield running
    forget_sockets()


@pytest.fixture(params=["ws", "wss"])
def options(request: pytest.FixtureRequest, emulator: ServiceBusEmulator, ca: str) -> dict[str, Any]:
    common = {"transport_type": TransportType.AmqpOverWebsocket, "retry_total": 0, "keep_alive": 0}
    if request.param == "ws":
        address = f"sb://localhost:{emulator.port}"
        return {"conn_str": emulator.connection_string, "custom_endpoint_address": address, **common}
    return {
        "conn_str": emulator.secure_connection_string,
        "custom_endpoint_address": f"sb://localhost:{emulator.tls_port}",
        "connection_verify": ca,
        **common,
    }


def test_the_synchronous_client_sends_and_receives(emulator: ServiceBusEmulator, options: dict[str, Any]) -> None:
    with (
        ServiceBusClient.from_connection_string(**options) as client,
        client.get_queue_sender("q") as sender,
        client.get_queue_receiver("q") as receiver,
    ):
        sender.send_messages([ServiceBusMessage("first"), ServiceBusMessage(BODY)])
        received: list[str] = []
        while len(received) < 2:
            for message in receiver.receive_messages(2, max_wait_time=10):
                received.append(str(message))
                receiver.complete_message(message)
        assert received == ["first", BODY]
        receiver.peek_messages(1)
    assert emulator.admin.get("q").counts.active == 0


def test_the_asyncio_client_sends_and_receives(emulator: ServiceBusEmulator, options: dict[str, Any]) -> None:
    async def exchange() -> str:
        async with (
            AsyncServiceBusClient.from_connection_string(**options) as client,
            client.get_queue_sender("q") as sender,
            client.get_queue_receiver("q") as receiver,
        ):
            await sender.send_messages(ServiceBusMessage(BODY))
            (message,) = await receiver.receive_messages(1, max_wait_time=10)
            await receiver.complete_message(message)
            return str(message)

    assert asyncio.run(exchange()) == BODY
    assert emulator.admin.get("q").counts.active == 0


def test_sessions_are_held_as_on_any_connection(options: dict[str, Any]) -> None:
    with ServiceBusClient.from_connection_string(**options) as client:
        with client.get_queue_sender("s") as sender:
            sender.send_messages(ServiceBusMessage("in it", session_id="one"))
        with client.get_queue_receiver("s", session_id="one") as receiver:
            receiver.session.set_state(b"state")
            assert receiver.session.get_state() == b"state"
            (message,) = receiver.receive_messages(1, max_wait_time=10)
            receiver.complete_message(message)


def test_errors_are_those_of_amqp(options: dict[str, Any]) -> None:
    with (
        ServiceBusClient.from_connection_string(**options) as client,
        pytest.raises(MessagingEntityNotFoundError),
        client.get_subscription_receiver("t", "nobody"),
    ):
        pass
    # With a custom endpoint the SDK calls a refused token a failed connection, whatever it travels on.
    options["conn_str"] = options["conn_str"].replace("SAS_KEY_VALUE", "wrong")
    with (
        ServiceBusClient.from_connection_string(**options) as client,
        pytest.raises(ServiceBusConnectionError),
        client.get_queue_sender("q"),
    ):
        pass


def test_a_dropped_connection_is_opened_again(emulator: ServiceBusEmulator, options: dict[str, Any]) -> None:
    options |= {"retry_total": 3, "retry_backoff_factor": 0.01}
    with ServiceBusClient.from_connection_string(**options) as client, client.get_queue_sender("q") as sender:
        sender.send_messages(ServiceBusMessage("before"))
        emulator.drop_connections()
        sender.send_messages(ServiceBusMessage("after"))
    with ServiceBusClient.from_connection_string(**options) as client:
        receiver = client.get_queue_receiver("q", receive_mode="receiveanddelete")
        with receiver:
            received = {str(message) for message in receiver.receive_messages(2, max_wait_time=10)}
            received |= {str(message) for message in receiver.receive_messages(2, max_wait_time=1)}
    assert received == {"before", "after"}


def test_another_authority_convinces_nobody(emulator: ServiceBusEmulator, tmp_path: Path) -> None:
    (tmp_path / "wrong.pem").write_text(TlsSettings.self_made().authority)
    with (
        ServiceBusClient.from_connection_string(
            emulator.secure_connection_string,
            custom_endpoint_address=f"sb://localhost:{emulator.tls_port}",
            transport_type=TransportType.AmqpOverWebsocket,
            connection_verify=str(tmp_path / "wrong.pem"),
            retry_total=0,
        ) as client,
        pytest.raises(ServiceBusError, match="CERTIFICATE_VERIFY_FAILED"),
        client.get_queue_sender("q"),
    ):
        pass


def test_a_client_that_is_not_azures_is_heard_in_whatever_pieces_it_sends(emulator: ServiceBusEmulator) -> None:
    connection = websocket.create_connection(
        f"ws://localhost:{emulator.port}/$servicebus/websocket", subprotocols=["amqp"], timeout=30
    )
    try:
        assert connection.getsubprotocol() == "amqp"
        connection.ping("still there?")
        for octet in b"AMQP\x03\x01\x00\x00":
            connection.send_binary(bytes([octet]))
        opcode, answer = connection.recv_data()
        assert opcode == websocket.ABNF.OPCODE_BINARY
        assert answer.startswith(b"AMQP\x03\x01\x00\x00")
    finally:
        connection.close()


def test_stopping_hangs_up_on_websockets() -> None:
    with ServiceBusEmulator() as emulator:
        connection = websocket.create_connection(
            f"ws://localhost:{emulator.port}/$servicebus/websocket", subprotocols=["amqp"], timeout=30
        )
    with pytest.raises((websocket.WebSocketConnectionClosedException, ConnectionError)):
        connection.recv()
    connection.close()
