"""Links and connections that end by themselves, as Azure's client meets it (service-bus-amqp-troubleshoot; row 54)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from emulators.servicebus.amqp.connection import LINK_IDLE, LINKLESS
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.server import ServiceBusEmulator
from tests.emulators.servicebus.conftest import forget_sockets

_STEP = 100.0
"""Seconds that pass at once: less than the silence that ends a connection."""


class Monotonic:
    """Time for the idle, moved forward at will."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.offset


@pytest.fixture
def monotonic() -> Monotonic:
    return Monotonic()


@pytest.fixture
def emulator(monotonic: Monotonic) -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator(monotonic=monotonic) as running:
        running.admin.create("q", QueueDescription())
        yield running
    forget_sockets()


def client_of(emulator: ServiceBusEmulator, retries: int) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(
        emulator.connection_string, retry_total=retries, retry_backoff_factor=0.01, keep_alive=0
    )


def wait(emulator: ServiceBusEmulator, monotonic: Monotonic, seconds: float) -> None:
    """Time passes while the connections are kept alive, as a client's empty frames would."""
    end = monotonic.offset + seconds
    while monotonic.offset < end:
        for transport in list(emulator._amqp.transports):
            transport.connection._last_heard = monotonic() + _STEP
        monotonic.offset = min(monotonic.offset + _STEP, end)
        settle(emulator)


def settle(emulator: ServiceBusEmulator) -> None:
    """Let the server look at what is idle: it does so every second of its time."""
    before = [t.connection for t in emulator._amqp.transports]
    end = time.monotonic() + 10
    while any(c.now < emulator._amqp._monotonic() - 1 for c in before if not c.closed) and time.monotonic() < end:
        time.sleep(0.01)


def test_a_connection_whose_links_are_all_gone_is_closed(emulator: ServiceBusEmulator, monotonic: Monotonic) -> None:
    with client_of(emulator, 3) as client, client.get_queue_sender("q") as sender:
        sender.send_messages(ServiceBusMessage("a"))
        wait(emulator, monotonic, LINK_IDLE + 2)
        assert len(emulator._amqp.transports) == 1
        wait(emulator, monotonic, LINKLESS + 5)
        end = time.monotonic() + 10
        while emulator._amqp.transports and time.monotonic() < end:
            time.sleep(0.01)
        assert not emulator._amqp.transports
        sender.send_messages(ServiceBusMessage("b"))
    assert emulator.admin.get("q").counts.active == 2
