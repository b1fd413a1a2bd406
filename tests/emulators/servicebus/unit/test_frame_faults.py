"""Frames late, lost, merged or cut, frame by frame, on an event loop whose time the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.connection import Connection
from emulators.servicebus.amqp.frames import Frame, FrameReader, frame
from emulators.servicebus.amqp.values import AmqpError, UInt
from emulators.servicebus.faults import catalogue as faults
from emulators.servicebus.faults.injection import Fault, Faults

ACCEPTED, RELEASED = p.OUTCOMES[p.ACCEPTED], p.OUTCOMES[p.RELEASED]
REFUSED = p.rejected(AmqpError("com.microsoft:message-lock-lost", "gone"))
FLOW = p.perform(p.FLOW, UInt(0), UInt(0), UInt(0), UInt(0))


class Loop:
    """As much of an event loop as the faults need."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, Callable[..., Any], tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, function: Callable[..., Any], *arguments: Any) -> Any:
        self._timers.append((when, function, arguments))
        return self

    def call_later(self, delay: float, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.call_at(self.now + delay, function, *arguments)

    def cancel(self) -> None:
        self._timers.clear()

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self._timers if timer[0] <= self.now]
        self._timers = [timer for timer in self._timers if timer[0] > self.now]
        for _, function, arguments in due:
            function(*arguments)


class Line:
    """A connection that says what it is told to, with a fault in force."""

    def __init__(self, fault: Fault) -> None:
        self.loop = Loop()
        self.faults = Faults()
        self.fault = fault
        server: Any = self
        self.connection = Connection(lambda _: server, lambda: None, divert=self.faults.writing)
        self.faults.begin(fault, server)
        self._reader = FrameReader(1 << 16)
        self._reader._header_next = False

    def say(self, *bodies: bytes) -> None:
        for body in bodies:
            self.connection.write(frame(1, body))

    def end(self) -> None:
        asyncio.run(self.faults.end(self.fault))

    def heard(self) -> list[tuple[int, Any, Any]]:
        """Performative, and of a disposition first and last."""
        found = []
        for item in self._reader.feed(self.connection.output(0.0)):
            assert isinstance(item, Frame)
            code, fields, _ = p.parse(item.body)
            found.append((code, fields[1], fields[2]) if code == p.DISPOSITION else (code, None, None))
        return found


def answer(first: int, state: Any = ACCEPTED, last: int | None = None) -> bytes:
    return p.disposition(False, first, last, state)


def test_neighbouring_answers_of_one_outcome_are_merged_and_refusals_are_not() -> None:
    line = Line(faults.SettlementAnswersMerged(10))
    line.say(answer(3), answer(1), answer(2), answer(4, RELEASED), answer(5, REFUSED), answer(6, REFUSED), answer(9))
    assert line.heard() == []
    line.loop.advance(0.01)
    alone = [(p.DISPOSITION, n, None) for n in (4, 5, 6, 9)]
    assert line.heard() == [(p.DISPOSITION, 1, 3), *alone]


def test_merged_answers_do_not_outlast_their_session_nor_their_fault() -> None:
    line = Line(faults.SettlementAnswersMerged(10))
    line.say(answer(1), p.perform(p.END))
    assert [item[0] for item in line.heard()] == [p.DISPOSITION, p.END]
    line.say(answer(2))
    line.end()
    assert line.heard() == [(p.DISPOSITION, 2, None)]


def test_so_many_settlement_answers_are_lost_and_nothing_else() -> None:
    line = Line(faults.SettlementAnswersLost(2))
    line.say(p.disposition(True, 1, None, ACCEPTED), answer(1), FLOW, answer(2), answer(3))
    assert line.heard() == [(p.DISPOSITION, 1, None), (p.FLOW, None, None), (p.DISPOSITION, 3, None)]


def test_a_longer_way_keeps_the_order() -> None:
    line = Line(faults.RoundTripAdded(20))
    line.say(FLOW, answer(1))
    line.loop.advance(0.01)
    line.say(p.perform(p.TRANSFER, UInt(0)))
    assert line.heard() == []
    line.loop.advance(0.01)
    assert [item[0] for item in line.heard()] == [p.FLOW, p.DISPOSITION]
    line.loop.advance(0.01)
    assert [item[0] for item in line.heard()] == [p.TRANSFER]


def test_what_follows_a_late_delivery_waits_with_it_but_for_answers() -> None:
    line = Line(faults.DeliveriesDelayed(20))
    line.say(FLOW, p.perform(p.TRANSFER, UInt(0)), FLOW, answer(1))
    assert [item[0] for item in line.heard()] == [p.FLOW, p.DISPOSITION]
    line.loop.advance(0.02)
    assert [item[0] for item in line.heard()] == [p.TRANSFER, p.FLOW]


def test_late_answers_hold_nothing_up_but_the_end_of_their_session() -> None:
    line = Line(faults.AnswersDelayed(20))
    line.say(answer(1), p.perform(p.TRANSFER, UInt(0)), p.perform(p.END))
    assert [item[0] for item in line.heard()] == [p.TRANSFER]
    line.end()
    assert [item[0] for item in line.heard()] == [p.DISPOSITION, p.END]


def test_a_slow_entity_takes_one_send_after_the_other() -> None:
    line = Line(fault := faults.EntitySlow("/Orders", 1000, 500))
    for number in range(2):
        fault.taking("orders", 500)
        line.say(p.disposition(True, number, None, ACCEPTED))
    fault.taking("others", 500)
    line.say(p.disposition(True, 2, None, ACCEPTED), answer(3))
    assert line.heard() == [(p.DISPOSITION, 2, None), (p.DISPOSITION, 3, None)]
    line.loop.advance(1.0)
    assert line.heard() == [(p.DISPOSITION, 0, None)]
    line.say(p.perform(p.END))
    line.loop.advance(1.0)
    assert [item[0] for item in line.heard()] == [p.END]


@pytest.mark.parametrize("count", [0, 5, 8])
def test_a_cut_falls_where_it_was_asked_for(count: int) -> None:
    line = Line(faults.ConnectionCutAfter(len(frame(1, answer(1))) + count))
    line.say(answer(1), answer(2), answer(3))
    assert line.connection.output(0.0) == frame(1, answer(1)) + frame(1, answer(2))[:count]
    assert line.connection.closed


def test_random_cuts_are_the_same_for_the_same_seed() -> None:
    def cuts(seed: int) -> list[int]:
        fault = faults.ConnectionCutAtRandom(1000, 5, seed)
        return [fault._next_count() for _ in range(5)]

    assert cuts(1) == cuts(1) != cuts(2)
