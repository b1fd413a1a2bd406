"""A queue that cannot be reached or does not answer: logged once, shown by health, over with the first accepted batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from common.bus.ports import SendInterrupted, TimeLeft
from common.clock import SteadyTime
from common.errors import TransientError
from common.message import Message
from ingester.driver.loop import Loop
from ingester.driver.queue_silence import PATIENCE_SECONDS, QueueSilence
from ingester.slices import SliceResult, Trouble
from ingester.watch.figures import Standing
from ingester.watch.stats import IngesterStats
from tests.fakes.ingester import ORDERS, PERSONS, FakeSender
from tests.unit.ingester.driver.test_loop import World
from tests.unit.ingester.task.test_drain import ROWS, Bench

BEGINS, ENDS = "nothing can be sent to the queue, retrying", "changes can be sent to the queue again"
MUTE = SliceResult(
    PERSONS, None, more=True, trouble=Trouble.TRANSIENT, message="sending to q: no answer within 15 s", unsent=15.0
)


@dataclass
class Mute(FakeSender):
    """Takes nothing for `seconds` of its clock, and then gives up."""

    bench: Bench | None = None
    seconds: float = 15.0
    opening: bool = False

    def batch_bytes(self) -> int:
        if self.opening:
            self._break()
        return super().batch_bytes()

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        self._break()

    def _break(self) -> None:
        assert self.bench is not None
        self.bench.steady += self.seconds
        raise SendInterrupted("no answer") if not self.opening else TransientError("opening: no answer")


class Silence:
    """Beside a loop over two tables that are read, and have something to send."""

    def __init__(self) -> None:
        self.clock = 100.0
        self.stats = IngesterStats([PERSONS, ORDERS], clock=lambda: SteadyTime(self.clock))
        self.stats.connected(True)
        for table in (PERSONS, ORDERS):
            self.stats.stands(table, Standing.READ, behind=True)
        self.silence = QueueSilence(self.stats, lambda: SteadyTime(self.clock))

    def look(self, result: SliceResult) -> None:
        self.silence.look(result)

    @property
    def health(self) -> tuple[bool, bool]:
        return self.stats.ready() is None, self.stats.figures().queue


def events(logs: Sequence[Any]) -> list[tuple[str, str]]:
    return [(entry["log_level"], entry["event"]) for entry in logs]


@pytest.mark.parametrize("opening", [False, True])
def test_a_slice_says_for_how_long_the_queue_took_nothing(opening: bool) -> None:
    bench = Bench()
    drain = replace(bench.drain, sender=Mute(bench=bench, opening=opening))
    result = drain.run(bench.todo)
    assert (result.trouble, result.unsent) == (Trouble.TRANSIENT, 15.0)


def test_a_slice_that_failed_at_sql_server_or_was_throttled_says_nothing_of_the_queue() -> None:
    bench = Bench()
    bench.source.fail = TransientError("a deadlock")
    assert bench.drain.run(bench.todo).unsent is None
    bench = Bench()
    bench.sender.fail = SendInterrupted("no credits", throttled=True)
    result = replace(bench.drain, wait=lambda seconds: setattr(bench, "steady", bench.steady + 10)).run(bench.todo)
    assert (result.trouble, result.unsent) == (Trouble.TRANSIENT, None)


def test_a_slice_of_which_a_part_was_taken_does_not_count_the_time_before() -> None:
    bench = Bench()
    bench.sender.fail = SendInterrupted("broken", accepted=[0])
    assert bench.drain.run(bench.todo).unsent == 0.0


def test_a_mute_queue_is_told_once_and_makes_unready_until_something_is_taken() -> None:
    world = Silence()
    with capture_logs() as logs:
        for _ in range(3):
            world.look(MUTE)
            world.clock += 16
        why = world.stats.ready() or ""
        assert world.health == (False, False)
        assert ("nothing can be sent to the queue" in why, "no answer within 15 s" in why) == (True, True)
        world.look(SliceResult(ORDERS, ROWS[0], changes=1))
        world.look(SliceResult(PERSONS, ROWS[0], changes=1))
    assert world.health == (True, True)
    assert events(logs) == [("error", BEGINS), ("info", ENDS)]
    assert logs[0]["hint"]


def test_a_slice_that_ends_without_trouble_is_the_end_too() -> None:
    world = Silence()
    world.look(MUTE)
    assert world.health == (False, False)
    world.look(SliceResult(ORDERS, None))
    assert world.health == (True, True)


def test_refused_connections_are_told_when_they_have_lasted() -> None:
    world = Silence()
    refused = replace(MUTE, unsent=0.1)
    for seconds in (1.0, 2.0, 4.0):
        world.look(refused)
        world.clock += seconds
        assert world.health == (True, True)
    world.clock += PATIENCE_SECONDS
    world.look(refused)
    assert world.health == (False, False)


def test_one_table_that_fails_while_another_is_sent_says_nothing_of_the_queue() -> None:
    world = Silence()
    for _ in range(20):
        world.clock += 8
        world.look(SliceResult(ORDERS, ROWS[0], changes=1))
        world.clock += 8
        world.look(MUTE)
        assert world.health == (True, True)


def test_trouble_with_sql_server_is_not_the_queues() -> None:
    world = Silence()
    for _ in range(5):
        world.clock += 60
        world.look(replace(MUTE, unsent=None))
    assert world.health == (True, True)


@pytest.mark.parametrize("standing", [Standing.ELSEWHERE, Standing.READ])
def test_nothing_is_wrong_once_others_have_sent_what_waited(standing: Standing) -> None:
    world = Silence()
    world.look(MUTE)
    for table in (PERSONS, ORDERS):
        world.stats.stands(table, standing, behind=False if standing is Standing.READ else None)
    assert world.health == (True, True)


def test_the_loop_tells_it_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)
    world = World()
    world.at(3, lambda: setattr(world.sender, "fail", SendInterrupted("sending to q: the connection broke")))
    world.at(4, lambda: world.commit(2))
    world.at(4, lambda: world.commit(2, name="sales_Orders"))
    world.at(150, lambda: world.snapshot.append((world.stats.ready(), world.stats.figures().queue)))
    world.at(151, lambda: setattr(world.sender, "fail", None))
    _, logs = world.run(300)
    [(why, available)] = world.snapshot
    assert "nothing can be sent to the queue: sending to q: the connection broke" in (why or "")
    assert not available
    assert [entry["event"] for entry in logs if entry["event"] in (BEGINS, ENDS)] == [BEGINS, ENDS]
    assert (world.stats.ready(), world.stats.figures().queue) == (None, True)
    assert (len(world.sent()), len(world.sent("Orders"))) == (3, 3)


def test_a_cause_that_shows_later_is_logged_too_and_each_once() -> None:
    it = Silence()
    with capture_logs() as logs:
        for hint in (None, "check the network", None, "check the network"):
            it.clock += 15.0
            it.look(replace(MUTE, hint=hint))
        it.look(SliceResult(PERSONS, None, more=False, changes=3))
    assert [line["event"] for line in logs] == [BEGINS, BEGINS, ENDS]
    assert logs[1]["hint"] == "check the network"
