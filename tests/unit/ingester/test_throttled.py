"""A slice whose namespace throttles: it waits, sends nothing again that was taken, and stores no offset before what it is of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from common.bus.ports import SendInterrupted, TimeLeft
from common.clock import SteadyTime, UnixTime
from common.message import Message
from common.names import Ordering, Origin
from common.servicebus.sender import by_session
from ingester.driver.loop import Loop
from ingester.position import Position
from ingester.slices import Slice, Trouble
from ingester.source import Part
from ingester.sqlserver.position import LogPosition, in_the_log
from ingester.task.drain import Drain
from ingester.task.encode import Encoder
from ingester.task.pack import PackingSender
from tests.fakes.ingester import PERSONS, FakeOffsets, FakeSource, instance, lsn, position
from tests.unit.ingester.driver import test_loop

COUNT = 2_000
ROWS = [position(number, seq=number % 7 + 1) for number in range(1, COUNT + 1)]
REFUSED = "the namespace is being throttled"


class Namespace:
    """So many credits a second, and the only clock there is; sessions of 100 messages a batch. `dry`: none come any more."""

    def __init__(self, credits: int) -> None:
        self.now = 1_000.0
        self.credits = credits
        self.dry = False
        self.sent: list[Message] = []
        self.refusals = 0
        self.waits: list[float] = []
        self._left, self._second = credits, int(self.now)

    def batch_bytes(self) -> int:
        return 262_144

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        accepted: list[int] = []
        for run in by_session(messages, range(len(messages))):
            for first in range(0, len(run), 100):
                if int(self.now) > self._second and not self.dry:
                    self._second, self._left = int(self.now), self.credits
                if self._left <= 0:
                    self.refusals += 1
                    raise SendInterrupted(REFUSED, accepted=accepted, throttled=True)
                batch = run[first : first + 100]
                accepted += batch
                self.sent += [messages[at] for at in batch]
                self._left -= len(batch)

    def close(self) -> None: ...

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


class World:
    def __init__(self, credits: int, *, pack: int = 1, ordering: Ordering = "table") -> None:
        self.namespace = Namespace(credits)
        self.offsets = FakeOffsets()
        self.offsets.claim(PERSONS, 7)
        self.drain = Drain(
            FakeSource(rows={"dbo_Persons": list(ROWS)}, max_lsn=lsn(COUNT)),
            self.offsets,
            self.namespace if pack == 1 else PackingSender(self.namespace, pack),
            Encoder(Origin("server", "database"), "ingest-queue", ordering),
            lambda: UnixTime(self.namespace.now),
            lambda: SteadyTime(self.namespace.now),
            wait=self.namespace.wait,
            chance=lambda: 0.9,
        )
        upto = LogPosition.end_of(lsn(COUNT))
        self.todo = Slice(PERSONS, instance(), LogPosition.before(lsn(1)), upto, epoch=7, rows=1_000, seconds=3_600)

    def stored(self) -> Position | None:
        return self.offsets.stored[PERSONS]


EXPECTED = [f"database.dbo.Persons:{p.lsn.hex}-{p.command_id}-{p.seqval.hex()}-{p.operation}" for p in ROWS]


def sent(world: World) -> list[str | None]:
    return [message.message_id for message in world.namespace.sent]


@pytest.mark.parametrize("credits", [60, 250, 999])
def test_all_is_sent_once_and_in_order_at_the_pace_of_the_credits(credits: int) -> None:
    world = World(credits)
    result = world.drain.run(world.todo)
    assert (result.trouble, result.changes, result.more) == (None, COUNT, False)
    assert sent(world) == EXPECTED
    seconds = world.namespace.now - 1_000
    assert seconds <= 2.1 * COUNT / max(credits, 100) + 2
    assert world.namespace.refusals <= 3 * seconds
    assert (result.refusals, result.throttled) == (world.namespace.refusals, REFUSED)
    assert world.offsets.commits == [ROWS[99], ROWS[1_099], ROWS[1_999]]  # its first page tells how large they may be


def test_waits_grow_while_nothing_is_taken() -> None:
    world = World(1_000)
    world.namespace.dry = True
    world.drain.run(world.todo)
    assert world.namespace.waits[:4] == pytest.approx([0.45, 0.9, 1.8, 1.8])


def test_a_slice_that_nothing_is_taken_of_for_half_a_minute_fails_and_its_offset_has_not_moved() -> None:
    world = World(0)
    result = world.drain.run(world.todo)
    assert (result.trouble, result.message, world.stored(), sent(world)) == (Trouble.TRANSIENT, REFUSED, None, [])
    assert 1_030 <= world.namespace.now < 1_032


def test_what_was_taken_before_nothing_more_was_is_stored_and_not_sent_again() -> None:
    world = World(300)
    world.namespace.dry = True
    first = world.drain.run(world.todo)
    assert (first.trouble, first.more, first.changes, world.stored()) == (None, True, 300, ROWS[299])
    world.namespace.dry = False
    world.drain.run(world.todo)
    assert sent(world) == EXPECTED


def test_a_slice_that_is_throttled_ends_with_its_time_and_the_next_goes_on_where_it_stood() -> None:
    world = World(100)
    todo = replace(world.todo, seconds=3.0)
    slices = [world.drain.run(todo)]
    while slices[-1].more:
        slices.append(world.drain.run(todo))
        assert world.namespace.now < 1_100
    assert sent(world) == EXPECTED
    assert all(each.trouble is None and each.changes >= 100 for each in slices)
    assert all(end - begin > 0 for begin, end in pairwise(map(ROWS.index, map(in_the_log, world.offsets.commits))))


def test_with_a_session_a_key_too_no_slice_ends_where_something_would_be_sent_again() -> None:
    world = World(100, ordering="key")
    todo = replace(world.todo, seconds=1.0)
    slices = [world.drain.run(todo)]
    while slices[-1].more:
        slices.append(world.drain.run(todo))
        assert world.namespace.now < 1_100
    assert sorted(map(str, sent(world))) == EXPECTED
    assert len(slices) > 3


def test_a_lease_that_ends_while_the_slice_waits_stops_it_and_what_was_taken_is_stored() -> None:
    world = World(100)
    todo = replace(world.todo, lease_seconds=4.0, send_before=UnixTime(1_004.0))
    result = world.drain.run(todo)
    assert (result.trouble, result.more) == (None, True)
    assert world.stored() == ROWS[len(world.namespace.sent) - 1]
    assert world.namespace.now < 1_006


def test_a_lease_that_ends_before_anything_was_taken_is_told() -> None:
    world = World(0)
    result = world.drain.run(replace(world.todo, lease_seconds=4.0))
    assert (result.trouble, world.stored()) == (Trouble.EXPIRED, None)


def test_a_part_is_sent_whole_whatever_time_it_takes() -> None:
    world = World(100)
    result = world.drain.run(replace(world.todo, seconds=1.0, part=Part(1, 0, 1, (), COUNT)))
    assert (result.trouble, result.changes, sent(world), world.stored()) == (None, COUNT, EXPECTED, None)


def test_a_refused_pack_is_not_known_for_taken() -> None:
    world = World(100, pack=10)
    result = world.drain.run(world.todo)
    assert (result.trouble, result.changes) == (None, COUNT)
    assert len(world.namespace.sent) == COUNT / 10
    assert len(set(sent(world))) == COUNT / 10


def test_a_stop_ends_a_slice_that_waits_and_what_was_taken_is_stored() -> None:
    world = World(300)
    world.namespace.dry = True
    world.drain = replace(world.drain, stopping=lambda: world.namespace.refusals > 1)
    result = world.drain.run(world.todo)
    assert (result.trouble, result.more, world.stored()) == (None, True, ROWS[299])
    assert len(world.namespace.waits) == 1


def test_the_loop_tells_of_a_spell_once_however_often_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)
    world, namespace = test_loop.World(), Namespace(2)
    world.executor.drain = replace(world.executor.drain, sender=namespace, wait=namespace.wait)
    world.at(3, lambda: world.commit(*range(2, 10)))
    world.at(13, lambda: world.commit(*range(10, 20)))
    _, logs = world.run(60)
    assert namespace.refusals > 2
    assert len(namespace.sent) == 54
    told = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert told == ["Service Bus throttles"]
