"""The hostile-input campaign: whatever comes, the server answers or closes; it never hangs, dies, or keeps what a client left.

The cases are the same in every run. `make test-emulators` runs some of them and `make soak` all. A good client works beside them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage

from emulators.servicebus.description import QueueDescription
from emulators.servicebus.server import ServiceBusEmulator
from tests.emulators.servicebus.conftest import forget_sockets

from .hostile_cases import Pieces, by_hand, case, receiving, recorded

SHORT, FULL = 1500, 10_000
KEY = b"SAS_KEY_VALUE"
_PATIENCE = 20.0
_ROUND = 100


@pytest.fixture(scope="module")
def emulator() -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator() as running:
        running.admin.create("q", QueueDescription(max_delivery_count=100))
        running.admin.create("sessions", QueueDescription(requires_session=True))
        running.admin.create("good", QueueDescription())
        yield running
    forget_sockets()


@pytest.fixture(scope="module")
def conversations(emulator: ServiceBusEmulator) -> list[Pieces]:
    """What Azure's client says on its connections, and what it never does."""

    def talk(port: int) -> None:
        address = emulator.connection_string.replace(f":{emulator.port};", f":{port};")
        with ServiceBusClient.from_connection_string(address, retry_total=0, keep_alive=0) as client:
            with client.get_queue_sender("q") as sender:
                sender.send_messages([ServiceBusMessage(f"text {n}", subject="s") for n in range(4)])
                (number,) = sender.schedule_messages(ServiceBusMessage("late"), datetime.now(UTC) + timedelta(hours=1))
                sender.cancel_scheduled_messages(number)
            with client.get_queue_receiver("q") as receiver:
                receiver.peek_messages(2)
                first, second, third, fourth = receiver.receive_messages(4, max_wait_time=5)
                receiver.renew_message_lock(first)
                receiver.abandon_message(second)
                receiver.dead_letter_message(third, reason="why")
                receiver.complete_message(first)
                receiver.complete_message(fourth)
            with client.get_queue_sender("sessions") as sender:
                sender.send_messages(ServiceBusMessage("in a session", session_id="s"))
            with client.get_queue_receiver("sessions", session_id=NEXT_AVAILABLE_SESSION) as receiver:
                receiver.session.set_state("state")
                (message,) = receiver.receive_messages(1, max_wait_time=5)
                receiver.complete_message(message)

    said = recorded(emulator.port, talk, 4)
    assert all(len(pieces) > 10 for pieces in said)
    return [*said, by_hand(KEY)]


def attack(port: int, data: bytes, *, patient: bool) -> None:
    """Send, look what comes, hang up, and wait for the server to do the same; TimeoutError when it does not."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(_PATIENCE)
        with contextlib.suppress(ConnectionError):
            client.sendall(data)
        if patient:
            client.settimeout(0.02)
            with contextlib.suppress(TimeoutError, ConnectionError):
                while client.recv(65536):
                    pass
        client.settimeout(_PATIENCE)
        with contextlib.suppress(OSError):  # the server has closed, and it is known here already
            client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while client.recv(65536):
                pass


def assert_nothing_left(emulator: ServiceBusEmulator, connections: int) -> None:
    """Of the earlier clients no connection, no task, and no link that an entity or its receivers still know."""
    server = emulator._amqp
    end = time.monotonic() + _PATIENCE
    while len(server.transports) > connections or server._arriving:
        assert time.monotonic() < end, (server.transports, server._arriving)
        time.sleep(0.005)
    assert len(asyncio.all_tasks(server.loop)) == 0
    links = {path: len(entry.links) for path, entry in emulator._namespace._entries.items()}
    assert links == {"q": 0, "sessions": 0, "good": connections}


def run(cases: Sequence[int], emulator: ServiceBusEmulator, conversations: list[Pieces]) -> None:
    with (
        ServiceBusClient.from_connection_string(emulator.connection_string, retry_total=0, keep_alive=0) as client,
        client.get_queue_sender("good") as sender,
        client.get_queue_receiver("good") as receiver,
    ):
        for place, number in enumerate(cases):
            try:
                attack(emulator.port, case(number, conversations), patient=number % 10 == 0)
            except TimeoutError:
                pytest.fail(f"case {number}: neither an answer nor an end within {_PATIENCE} s")
            if place % _ROUND == _ROUND - 1 or place == len(cases) - 1:
                assert_nothing_left(emulator, 2)
                sender.send_messages(ServiceBusMessage(str(number)))
                (message,) = receiver.receive_messages(1, max_wait_time=5)
                assert str(message) == str(number)
                receiver.complete_message(message)
    assert emulator.admin.get("good").counts.active == 0


@pytest.mark.parametrize(
    "cases", [pytest.param(range(SHORT), id="short"), pytest.param(range(FULL), id="full", marks=pytest.mark.soak)]
)
def test_bent_conversations_neither_hang_nor_kill_nor_leak(
    cases: Sequence[int],
    emulator: ServiceBusEmulator,
    conversations: list[Pieces],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "emulators"):
        run(cases, emulator, conversations)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("emulators")] == []
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_a_client_that_never_reads_costs_little_memory_and_nobody_else_anything(emulator: ServiceBusEmulator) -> None:
    """It is given what buffers hold; the rest goes to who reads."""
    emulator.admin.create("large", QueueDescription())
    with (
        ServiceBusClient.from_connection_string(emulator.connection_string, retry_total=0, keep_alive=0) as client,
        client.get_queue_sender("large") as sender,
        socket.socket() as deaf,
    ):
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", emulator.port))
        deaf.sendall(b"".join(receiving(KEY, "large", 5000)))
        for _ in range(300):
            sender.send_messages(ServiceBusMessage(b"x" * 100_000))
        given = 5000 - min(
            link.granted for t in emulator._amqp.transports for link in t.connection.links() if link.granted > 2000
        )
        assert 0 < given < 200
        with client.get_queue_receiver("large", receive_mode="receiveanddelete", prefetch_count=50) as receiver:
            rest = 0
            while rest < 300 - given:
                rest += len(receiver.receive_messages(50, max_wait_time=5))
        assert emulator.admin.get("large").counts.active == given
    emulator.admin.delete("large")
