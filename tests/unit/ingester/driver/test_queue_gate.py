"""A queue that refuses, whatever is sent: all tables wait and one tries, in the world of test_loop.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from common.clock import SteadyTime
from common.errors import ConnectionLost, EntityUnavailable, TransientError
from common.names import TableName
from ingester.driver.loop import Loop
from ingester.driver.queue_gate import QueueGate
from ingester.slices import SliceResult, Trouble
from ingester.watch.stats import IngesterStats
from tests.fakes.ingester import ORDERS, PERSONS, instance
from tests.unit.ingester.driver.test_loop import World

REFUSED = EntityUnavailable("sending to ingest-queue: unauthorized", hint="was the key renewed?")
ENDS, OPENS = "the queue refuses messages, all tables wait", "the queue accepts changes again"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop asks the clock instead of waiting."""
    monkeypatch.setattr(Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)


def told(logs: Sequence[Any]) -> list[str]:
    return [entry["event"] for entry in logs if entry["event"] in (ENDS, OPENS)]


def test_no_table_stops_and_all_go_on_when_the_queue_takes_changes_again() -> None:
    world = World()
    world.sender.fail = REFUSED
    world.at(3, lambda: world.commit(2))
    world.at(3, lambda: world.commit(2, name="sales_Orders"))
    world.at(300, lambda: world.snapshot.append((world.stats.ready(), world.stats.figures().queue)))
    world.at(301, lambda: setattr(world.sender, "fail", None))
    world.at(375, lambda: world.snapshot.append((len(world.sent()), len(world.sent("Orders")))))
    status, logs = world.run(400)
    [(why, available), sent] = world.snapshot
    assert (status, available, sent) == (0, False, (3, 3))
    assert "the queue refuses messages" in why
    assert "unauthorized" in why
    assert (world.stats.ready(), world.stats.figures().queue) == (None, True)
    [error] = [entry for entry in logs if entry["log_level"] in ("warning", "error")]
    assert (error["event"], error["log_level"], error["hint"]) == (ENDS, "error", "was the key renewed?")
    assert told(logs) == [ENDS, OPENS]


@pytest.mark.parametrize("count", [1, 100])
def test_the_queue_is_tried_by_one_table_at_a_growing_pace_however_many_wait(count: int) -> None:
    tables = [TableName("dbo", f"T{number}") for number in range(count)]
    world = World(tables=tables)
    world.at(5, lambda: setattr(world.sender, "fail", REFUSED))
    for name in [instance(table).name for table in tables]:
        world.at(6, lambda name=name: world.commit(2, name=name))  # type: ignore[misc]
    world.at(30, world.executor.bundles.clear)
    _, logs = world.run(630)
    tried = [len(bundle) for bundle in world.executor.bundles]
    assert set(tried) == {1}
    assert 9 <= len(tried) <= 13
    assert told(logs) == [ENDS]


def result(table: TableName, trouble: Trouble | None = None, changes: int = 0) -> SliceResult:
    return SliceResult(table, None, changes, trouble=trouble, message="unauthorized" if trouble else "")


def test_slices_that_were_begun_before_neither_open_the_gate_nor_lengthen_the_wait() -> None:
    clock = [0.0]
    gate = QueueGate(
        IngesterStats([PERSONS, ORDERS], clock=lambda: SteadyTime(clock[0])), lambda: SteadyTime(clock[0]), lambda: 0.0
    )
    assert gate.admits(PERSONS)
    assert not gate.settled(result(PERSONS, Trouble.QUEUE))
    for _ in range(10):
        assert not gate.settled(result(ORDERS, Trouble.QUEUE))
    assert not gate.settled(result(PERSONS, changes=5))
    assert gate.shut
    clock[0] = 4.9
    assert (gate.chosen(away=False), gate.admits(ORDERS)) == ([], False)
    clock[0] = 5.0
    assert gate.chosen(away=False) == [PERSONS]
    assert gate.admits(PERSONS)
    assert not gate.admits(ORDERS)
    assert gate.settled(result(PERSONS, changes=1))
    assert gate.admits(ORDERS)


def test_a_try_that_came_to_nothing_leaves_the_gate_shut_and_another_table_tries() -> None:
    clock = [0.0]
    gate = QueueGate(
        IngesterStats([PERSONS, ORDERS], clock=lambda: SteadyTime(clock[0])), lambda: SteadyTime(clock[0]), lambda: 0.0
    )
    for table in (PERSONS, ORDERS):
        gate.settled(result(table, Trouble.QUEUE))
    clock[0] = 5.0
    assert gate.chosen(away=False) == [PERSONS]
    clock[0] = 9.0
    assert gate.chosen(away=False) == []
    clock[0] = 10.0  # the first had nothing to send any more
    assert gate.chosen(away=False) == [ORDERS]
    assert gate.admits(ORDERS)
    assert not gate.settled(result(ORDERS, Trouble.TRANSIENT))
    assert gate.shut
    assert not gate.admits(PERSONS)


def test_a_gate_at_which_nobody_waits_any_more_opens() -> None:
    """The try finds nothing: another ingester had sent it."""
    clock = [0.0]
    stats = IngesterStats([PERSONS], clock=lambda: SteadyTime(clock[0]))
    stats.connected(True)
    gate = QueueGate(stats, lambda: SteadyTime(clock[0]), lambda: 0.0)
    gate.settled(result(PERSONS, Trouble.QUEUE))
    clock[0] = 5.0
    assert (gate.chosen(away=False), gate.admits(PERSONS)) == ([PERSONS], True)
    assert not gate.settled(result(PERSONS))
    clock[0] = 9.9
    assert (gate.chosen(away=False), gate.shut) == ([], True)
    assert "the queue refuses" in (stats.ready() or "")
    clock[0] = 10.0
    assert (gate.chosen(away=False), gate.shut, stats.ready()) == ([], False, None)


def test_a_gate_does_not_open_because_the_server_was_away_when_a_table_was_to_try() -> None:
    """That the queue is at hand was said although nothing had been sent."""
    clock = [0.0]
    stats = IngesterStats([PERSONS], clock=lambda: SteadyTime(clock[0]))
    gate = QueueGate(stats, lambda: SteadyTime(clock[0]), lambda: 0.0)
    gate.settled(result(PERSONS, Trouble.QUEUE))
    clock[0] = 5.0
    assert gate.chosen(away=False) == [PERSONS]
    gate.unread(PERSONS, away=True)
    for clock[0] in (10.0, 100.0):
        assert (gate.chosen(away=True), gate.shut) == ([], True)
    assert gate.chosen(away=False) == [PERSONS]
    gate.forget(PERSONS)
    gate.unread(PERSONS, away=True)
    clock[0] = 200.0
    assert (gate.chosen(away=False), gate.shut) == ([], False)


def test_an_outage_of_the_server_opens_no_gate_of_the_queue() -> None:
    world = World(tables=[PERSONS])
    world.sender.fail = REFUSED
    world.at(3, lambda: world.commit(2))
    world.at(20, lambda: setattr(world.source, "away", ConnectionLost("no route")))
    world.at(69, lambda: world.snapshot.append(world.stats.figures().queue))
    world.at(70, lambda: setattr(world.source, "away", None))
    world.at(150, lambda: setattr(world.sender, "fail", None))
    _, logs = world.run(500)
    assert world.snapshot == [False]
    assert told(logs) == [ENDS, OPENS]
    assert "no table waits for the queue any more" not in [entry["event"] for entry in logs]


def test_a_try_that_met_other_trouble_goes_on_waiting() -> None:
    clock = [0.0]
    gate = QueueGate(
        IngesterStats([PERSONS], clock=lambda: SteadyTime(clock[0])), lambda: SteadyTime(clock[0]), lambda: 0.0
    )
    gate.settled(result(PERSONS, Trouble.QUEUE))
    for _ in range(10):
        clock[0] += 61.0
        assert gate.chosen(away=False) == [PERSONS]
        assert gate.admits(PERSONS)
        assert not gate.settled(result(PERSONS, Trouble.TRANSIENT))
        assert gate.shut


@pytest.mark.parametrize("how", ["sent by another", "read by another"])
def test_an_ingester_whose_waiting_tables_others_took_care_of_is_ready_again(how: str) -> None:
    world = World(shared=True)
    world.sender.fail = REFUSED
    world.at(3, lambda: world.commit(2))
    world.at(3, lambda: world.commit(2, name="sales_Orders"))

    def healed() -> None:
        world.snapshot.append(world.stats.ready())
        for name, table in (("persons", PERSONS), ("orders", ORDERS)):
            if how == "read by another":
                world.service.held[name] = "another", float("inf")
            else:
                world.offsets.stored[table] = world.source.rows[instance(table).name][-1]

    world.at(100, healed)
    world.run(400)
    [before] = world.snapshot
    assert "the queue refuses messages" in before
    assert world.stats.ready() is None
    assert world.sent() == []


def test_what_one_table_alone_meets_shuts_no_gate() -> None:
    world = World()
    world.sender.fail = TransientError("the connection broke")
    world.at(3, lambda: world.commit(2))
    world.at(20, lambda: setattr(world.sender, "fail", None))
    _, logs = world.run(100)
    assert told(logs) == []
    assert len(world.sent()) == 3
