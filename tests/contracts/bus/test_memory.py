"""What a receiver fetches ahead and hands over at once, in bytes, as the emulated service counts them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from common.bus.fetch_ahead import FetchAhead
from common.bus.ports import Delivery, Receiver
from common.message import Message, weight
from common.servicebus.namespace import ServiceBus
from emulators.servicebus.amqp.connection import Connection
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.faults.injection import Fault
from emulators.servicebus.server import ServiceBusEmulator

LARGE, SMALL = 200_000, 1_000
SHARE = 2_000_000


class Octets(Fault):
    """No fault: counts what the service says."""

    def __init__(self) -> None:
        self.said = 0
        self._changed = threading.Condition()

    def writing(self, connection: Connection, frame: bytes) -> bool:
        with self._changed:
            self.said += len(frame)
            self._changed.notify_all()
        return False

    def reach(self, count: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.said >= count, timeout=60)


@pytest.fixture
def emulator() -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator() as running:
        running.admin.create("lanes", QueueDescription(requires_session=True))
        running.admin.create("plain", QueueDescription())
        yield running


def filled(emulator: ServiceBusEmulator, queue: str, size: int, count: int) -> ServiceBus:
    bus = ServiceBus.from_connection_string(emulator.connection_string)
    with closing(bus.sender(queue)) as sender:
        sender.send([Message(b"x" * size, f"{size}-{number}", "s") for number in range(count)])
    return bus


def opened(bus: ServiceBus, queue: str, ahead: FetchAhead | None) -> Receiver:
    receiver = bus.receivers(queue, sessions=queue == "lanes", prefetch=200, ahead=ahead).open(max_wait=10)
    assert receiver is not None
    return receiver


def received(receiver: Receiver) -> list[Delivery]:
    return list(receiver.receive(max_count=200, max_wait=10))


@pytest.mark.parametrize("queue", ["lanes", "plain"])
def test_large_messages_are_fetched_and_handed_over_a_few_at_a_time(emulator: ServiceBusEmulator, queue: str) -> None:
    """Forty megabytes wait."""
    bus = filled(emulator, queue, LARGE, 200)
    with emulator.inject(octets := Octets()), closing(opened(bus, queue, FetchAhead(200, SHARE))) as receiver:
        found = 0
        while found < 200:
            before = octets.said
            deliveries = received(receiver)
            assert sum(weight(delivery.message) for delivery in deliveries) <= SHARE
            assert octets.said - before <= 3 * SHARE
            assert octets.said <= found * (LARGE + 1_000) + 4 * SHARE  # nothing much beyond what was settled
            assert receiver.settle_many(deliveries) == []
            found += len(deliveries)
    assert found == 200


def test_large_messages_behind_small_ones_are_handed_over_a_few_at_a_time(emulator: ServiceBusEmulator) -> None:
    """The small ones have raised the number that is fetched ahead, so all large ones have arrived."""
    bus = filled(emulator, "lanes", SMALL, 5)
    filled(emulator, "lanes", LARGE, 20)
    found = 0
    with emulator.inject(octets := Octets()), closing(opened(bus, "lanes", FetchAhead(200, SHARE))) as receiver:
        while found < 25:
            deliveries = receiver.receive(max_count=5 if found < 5 else 200, max_wait=10)
            assert sum(weight(delivery.message) for delivery in deliveries) <= SHARE
            found += len(deliveries)
            if found == 5:
                assert octets.reach(20 * LARGE)


def test_small_messages_are_fetched_as_many_as_asked_for_from_the_second_batch_on(
    emulator: ServiceBusEmulator,
) -> None:
    bus = filled(emulator, "lanes", SMALL, 600)
    batches: list[int] = []
    with closing(opened(bus, "lanes", FetchAhead(200, SHARE))) as receiver:
        while sum(batches) < 600:
            batches.append(len(deliveries := received(receiver)))
            assert receiver.settle_many(deliveries) == []
    assert batches[0] <= 8
    assert max(batches) > 100


def test_a_message_larger_than_all_memory_comes_alone(emulator: ServiceBusEmulator) -> None:
    bus = filled(emulator, "lanes", LARGE, 5)
    with closing(opened(bus, "lanes", FetchAhead(200, 1_000))) as receiver:
        for _ in range(5):
            (delivery,) = received(receiver)
            assert receiver.settle_many([delivery]) == []
