"""Starting and stopping, at any moment: nothing hangs, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from emulators.certificates import TlsSettings
from emulators.servicebus.amqp_server import AmqpServer
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.server import ServiceBusEmulator
from tests.worlds.ports import free_port

from .leaks import leaks

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
PORTS = ["port", "http_port", "tls_port", "https_port"]


def test_starting_and_stopping_leaves_nothing_behind(tls: TlsSettings) -> None:
    def live() -> None:
        with ServiceBusEmulator(tls=tls) as emulator:
            for name in PORTS:
                socket.create_connection(("127.0.0.1", getattr(emulator, name)), timeout=10).close()

    assert leaks(live) == []


def test_stopping_what_never_started_leaves_nothing_behind(tls: TlsSettings) -> None:
    assert leaks(lambda: ServiceBusEmulator(tls=tls).stop()) == []


@pytest.mark.parametrize("taken", PORTS)
def test_a_port_in_use_is_told_and_frees_the_others(tls: TlsSettings, taken: str) -> None:
    with ServiceBusEmulator(tls=tls) as first:
        free: dict[str, Any] = {name: free_port() for name in PORTS}

        def start_second() -> None:
            with pytest.raises(OSError, match="in use"):
                ServiceBusEmulator(tls=tls, **(free | {taken: getattr(first, taken)})).start()

        assert leaks(start_second) == []
    with ServiceBusEmulator(tls=tls, **free) as third:
        assert {name: getattr(third, name) for name in PORTS} == free


def test_a_stop_does_not_cut_the_hanging_up_short(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = AmqpServer.close
    closed = []

    async def long(server: AmqpServer) -> None:
        await whole(server)
        await asyncio.sleep(0.1)  # what a stop comes into
        closed.append(server)

    monkeypatch.setattr(AmqpServer, "close", long)
    with ServiceBusEmulator() as first, pytest.raises(OSError, match="in use"):
        ServiceBusEmulator(port=first.port).start()

    assert len(closed) == 2


@pytest.mark.parametrize("name", PORTS)
def test_a_port_that_is_none_is_told_and_nobody_waits_for_it(tls: TlsSettings, name: str) -> None:
    impossible: dict[str, Any] = {name: 70_000}

    def start() -> None:
        with pytest.raises(OverflowError, match="0-65535"):
            ServiceBusEmulator(tls=tls, **impossible).start()

    assert leaks(start) == []


def test_an_emulator_starts_once() -> None:
    emulator = ServiceBusEmulator()
    with emulator:
        pass
    with pytest.raises(RuntimeError, match="once"):
        emulator.start()


def test_everybody_may_stop_it() -> None:
    emulator = ServiceBusEmulator()
    emulator.start()
    stoppers = [threading.Thread(target=emulator.stop) for _ in range(8)]
    for stopper in stoppers:
        stopper.start()
    for stopper in stoppers:
        stopper.join(30)
        assert not stopper.is_alive()
    emulator.stop()


def test_stopping_while_clients_connect(tls: TlsSettings) -> None:
    """Some are still in the kernel's queue, some in a handshake, some at SASL when it ends."""

    def live() -> None:
        emulator = ServiceBusEmulator(tls=tls)
        emulator.start()
        addresses = [("127.0.0.1", getattr(emulator, name)) for name in PORTS]
        connected = threading.Semaphore(0)

        def connect(address: tuple[str, int]) -> None:
            clients: list[socket.socket] = []
            try:
                while True:
                    clients.append(socket.create_connection(address, timeout=10))
                    clients[-1].sendall(SASL_HEADER)
                    connected.release()
                    if len(clients) > 50:
                        clients.pop(0).close()
            except OSError:
                pass  # it is stopped
            for client in clients:
                client.close()

        guests = [threading.Thread(target=connect, args=(address,)) for address in addresses]
        for guest in guests:
            guest.start()
        for _ in range(40):
            assert connected.acquire(timeout=30)
        emulator.stop()
        for guest in guests:
            guest.join(30)
            assert not guest.is_alive()

    assert leaks(live) == []


def test_stopping_under_load() -> None:
    emulator = ServiceBusEmulator()
    emulator.start()
    emulator.admin.create("q", QueueDescription())
    busy = [threading.Event(), threading.Event()]

    def until_it_stops(step: Callable[[ServiceBusClient], None]) -> None:
        with (
            ServiceBusClient.from_connection_string(emulator.connection_string, retry_total=0, keep_alive=0) as client,
            pytest.raises(ServiceBusError),
        ):
            step(client)

    def send(client: ServiceBusClient) -> None:
        with client.get_queue_sender("q") as sender:
            while True:
                sender.send_messages([ServiceBusMessage("x" * 1000) for _ in range(20)])
                busy[0].set()

    def receive(client: ServiceBusClient) -> None:
        with client.get_queue_receiver("q", prefetch_count=50, max_wait_time=30) as receiver:
            while True:
                for message in receiver.receive_messages(20):
                    receiver.complete_message(message)
                busy[1].set()

    clients = [threading.Thread(target=until_it_stops, args=(step,)) for step in (send, receive)]
    for client in clients:
        client.start()
    assert all(event.wait(30) for event in busy)
    started = time.monotonic()
    emulator.stop()
    assert time.monotonic() - started < 60
    for client in clients:
        client.join(60)
        assert not client.is_alive()
    with warnings.catch_warnings():  # the SDK leaves a socket that it could not connect again to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
