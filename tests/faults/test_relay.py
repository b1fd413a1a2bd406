"""The relay of the kill tests: it knows what was sent to the queue, and cuts a send where it is told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import ServiceBusClient

from common.errors import TransientError
from common.message import Message
from common.servicebus.namespace import ServiceBus
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.server import ServiceBusEmulator
from tests.worlds.relay import Relay
from tests.worlds.tcp_relay import Silence, Way
from tests.worlds.world import wait_until

QUEUE = "ingest-queue"


@pytest.fixture
def emulator() -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator() as running:
        running.admin.create(QUEUE, QueueDescription())
        yield running


def send(port: int, emulator: ServiceBusEmulator, *numbers: int) -> None:
    """A batch of messages of 200 KB in all: more than a frame holds."""
    led = emulator.connection_string.replace(f":{emulator.port};", f":{port};")
    sender = ServiceBus.from_connection_string(led).sender(QUEUE)
    try:
        body = b"x" * (200_000 // len(numbers))
        sender.send([Message(body, message_id=str(number)) for number in numbers])
    finally:
        sender.close()


def waiting(emulator: ServiceBusEmulator) -> list[str | None]:
    with (
        ServiceBusClient.from_connection_string(emulator.connection_string) as client,
        client.get_queue_receiver(QUEUE) as receiver,
    ):
        return [message.message_id for message in receiver.peek_messages(10)]


def test_what_passes_is_known_by_its_ids(emulator: ServiceBusEmulator) -> None:
    arrived: list[list[str]] = []
    with Relay(emulator.port, QUEUE, sending=lambda ids, octets: None, arrived=arrived.append) as relay:
        send(relay.port, emulator, 1, 2, 3)
        send(relay.port, emulator, 4)
        wait_until(lambda: len(arrived) == 2, "the sender has its answer before the relay has said so", 30)
    assert arrived == [["1", "2", "3"], ["4"]]
    assert waiting(emulator) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_a_send_ends_where_it_is_cut_and_gets_no_answer(emulator: ServiceBusEmulator, share: float) -> None:
    arrived: list[list[str]] = []
    came = [["1", "2", "3"]] if share == 1 else []
    with Relay(emulator.port, QUEUE, sending=lambda ids, octets: int(octets * share), arrived=arrived.append) as relay:
        with pytest.raises(TransientError):
            send(relay.port, emulator, 1, 2, 3)
        wait_until(lambda: arrived == came, "the client's side ends first, what passes comes behind", 30)
    assert waiting(emulator) == (["1", "2", "3"] if share == 1 else [])


def test_a_send_whose_answer_never_comes_was_carried_out_and_its_connection_stays_open(
    emulator: ServiceBusEmulator,
) -> None:
    arrived = threading.Event()
    with (
        Relay(
            emulator.port, QUEUE, sending=lambda ids, octets: Silence(Way.BACK), arrived=lambda ids: arrived.set()
        ) as relay,
        ThreadPoolExecutor() as pool,
    ):
        sent = pool.submit(send, relay.port, emulator, 1, 2, 3)
        assert arrived.wait(30)
        wait_until(lambda: relay.fell_mute == 1, "the answer is withheld", 30)
        assert not sent.done()
        relay.drop()
        with pytest.raises(TransientError):
            sent.result(30)
    assert waiting(emulator) == ["1", "2", "3"]
