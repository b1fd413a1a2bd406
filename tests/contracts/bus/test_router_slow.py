"""The router in front of topics that are slow: everything arrives, nothing is sent in vain, and no good message is dead-lettered.

The queue's locks last five seconds, the shortest that Service Bus has, so that what takes minutes in production takes seconds here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import timedelta

import pytest

from common.message import Message
from emulators.servicebus.amqp.values import AmqpError, Value
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.faults.catalogue import EntitySlow
from emulators.servicebus.faults.injection import Fault
from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.bus.test_router import ORDERS, PERSONS, change, left, put, read, routed, routing, settings

LOCK = timedelta(seconds=5)


class Sends(Fault):
    """No fault: counts how often each message is sent to a topic."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.times: Counter[Value] = Counter()

    def sending(self, path: str, ids: Collection[Value] = ()) -> AmqpError | None:
        if path == self._topic:
            self.times.update(ids)
        return None


@pytest.fixture
def emulator() -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator() as running:
        running.admin.create("ingest-queue", QueueDescription(requires_session=True, lock_duration=LOCK))
        yield running


def wide(topic: str, number: int, size: int) -> Message:
    return Message(
        b'{"x": "%s"}' % (b"x" * size), f"{topic}-{number}", topic, application_properties={"destination": topic}
    )


def test_a_batch_that_takes_longer_than_its_lock_is_sent_once(emulator: ServiceBusEmulator) -> None:
    put(emulator, [wide(PERSONS, number, 200_000) for number in range(12)])
    with (
        emulator.inject(sends := Sends(PERSONS)),
        emulator.inject(EntitySlow(PERSONS, 1e9, 1_000)),
        routing(settings(emulator), routed(12), seconds=90) as tally,
    ):
        pass
    assert [found.message_id for found in read(emulator, PERSONS, 12)] == [f"{PERSONS}-{n}" for n in range(12)]
    assert sends.times == {f"{PERSONS}-{n}": 1 for n in range(12)}
    assert tally.dead_lettered.total() == 0
    assert left(emulator) == (0, 0)


def test_sessions_that_wait_for_one_slow_topic_keep_their_locks(emulator: ServiceBusEmulator) -> None:
    put(emulator, [change(PERSONS, number, f"{PERSONS}#{number % 16}") for number in range(64)])
    put(emulator, [change(ORDERS, 1, ORDERS)])
    with (
        emulator.inject(sends := Sends(PERSONS)),
        emulator.inject(EntitySlow(PERSONS, 1e9, 800)),
        routing(settings(emulator, ordering="key", slots=16), routed(65), seconds=90),
    ):
        pass
    lanes: dict[str | None, list[str | None]] = {}
    for found in read(emulator, PERSONS, 64):
        lanes.setdefault(found.session_id, []).append(found.message_id)
    assert lanes == {f"{PERSONS}#{lane}": [f"{PERSONS}-{n}" for n in range(lane, 64, 16)] for lane in range(16)}
    assert sends.times == {f"{PERSONS}-{n}": 1 for n in range(64)}
    assert left(emulator) == (0, 0)
