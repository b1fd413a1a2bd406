"""A sender on a namespace without credits, through the unmodified SDK: the refusal is told as one, and neither link nor order suffers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from common.bus.ports import SendInterrupted
from common.message import Message
from common.servicebus.namespace import ServiceBus
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.server import ServiceBusEmulator
from ingester.task.pack import PackingSender


class Clock:
    """Stands still until it is moved, so that a second ends when the test says so."""

    def __init__(self) -> None:
        self.now = float(int(datetime.now(UTC).timestamp()))

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def emulator(clock: Clock) -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator(credits_per_second=10, clock=clock) as throttled:
        throttled.admin.create("queue", QueueDescription())
        yield throttled


def some(count: int, session: str) -> list[Message]:
    return [Message(b"{}", f"{session}-{number}", session) for number in range(count)]


def active(emulator: ServiceBusEmulator) -> int:
    return emulator.admin.get("queue").counts.active


def test_a_refused_send_tells_what_was_taken_and_goes_on_over_the_same_link(
    emulator: ServiceBusEmulator, clock: Clock
) -> None:
    bus = ServiceBus.from_connection_string(emulator.connection_string)
    sent = [*some(6, "a"), *some(6, "b"), *some(6, "c")]
    with closing(bus), closing(bus.sender("queue")) as sender:
        with pytest.raises(SendInterrupted, match="throttled") as refused:
            sender.send(sent)
        link = sender._sender
        assert (refused.value.throttled, refused.value.accepted) == (True, frozenset(range(12)))
        assert active(emulator) == 12
        clock.now += 1
        sender.send(sent[12:])
        assert sender._sender is link
    assert active(emulator) == 18
    assert emulator.refusals == 1


def test_packs_that_were_taken_are_told_as_the_changes_in_them(emulator: ServiceBusEmulator) -> None:
    bus = ServiceBus.from_connection_string(emulator.connection_string)
    sent = [message for session in "abc" for message in some(50, session)]
    with closing(bus), closing(PackingSender(bus.sender("queue"), 10)) as sender:
        with pytest.raises(SendInterrupted) as refused:
            sender.send(sent)
        assert refused.value.accepted == set(range(100))
    assert active(emulator) == 10


def test_a_fault_of_the_link_is_no_throttling(emulator: ServiceBusEmulator) -> None:
    bus = ServiceBus.from_connection_string(emulator.connection_string)
    with closing(bus), closing(bus.sender("queue")) as sender:
        sender.send(some(1, "a"))
        emulator.drop_connections()
        with pytest.raises(SendInterrupted) as broken:
            sender.send(some(2, "b"))
        assert (broken.value.throttled, broken.value.accepted) == (False, frozenset())
        sender.send(some(2, "b"))
    assert active(emulator) == 3
