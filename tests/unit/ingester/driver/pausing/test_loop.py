"""A paused table in the loop: nothing of it is read, its lock stays, the others go on, and it goes on from its offset."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from ingester.driver.loop import Loop
from ingester.driver.pausing.look import Heard
from ingester.operating.pauses import Pause
from ingester.watch.capture_watch import CaptureFigures
from ingester.watch.figures import Standing
from ingester.watch.metrics import LAG, LOCK, STATE, samples
from tests.fakes.ingester import ORDERS, PERSONS, instance, lsn
from tests.unit.ingester.driver.test_loop import World

PAUSE = Pause("2026-11-23T08:00:00Z", "sa on desk-1", "an import")
PAUSED = Heard({"dbo.persons": PAUSE})
RESUMED = Heard({}, {"dbo.persons": Pause("2026-11-23T09:00:00Z", "eve on desk-2")})
ORDERS_INSTANCE = instance(ORDERS).name
WARNINGS = ("warning", "error", "critical")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop asks the clock instead of waiting."""
    monkeypatch.setattr(Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)


def _ids(*numbers: int) -> list[str]:
    return [f"database.dbo.Persons:{lsn(n).hex}-1-{s:020x}-2" for n in numbers for s in (1, 2, 3)]


def _said(logs: list[Any], event: str) -> list[Any]:
    return [entry for entry in logs if entry["event"] == event]


def test_a_paused_table_stands_the_others_go_on_and_a_resume_goes_on_at_the_offset() -> None:
    world = World(shared=True)
    world.at(3, lambda: world.commit(2))
    world.at(20, lambda: world.loop.pauses(PAUSED))
    world.at(30, lambda: world.commit(3))
    world.at(31, lambda: world.commit(4, name=ORDERS_INSTANCE))
    world.at(300, lambda: world.snapshot.extend([len(world.sent()), len(world.sent("Orders")), *world.tables_held()]))
    world.at(301, lambda: world.loop.pauses(RESUMED))
    world.at(303, lambda: world.snapshot.append(len(world.sent())))
    status, logs = world.run(400)
    assert status == 0
    assert world.snapshot == [3, 3, "persons", "orders", 6]
    assert world.sent() == _ids(2, 3)
    [paused], [resumed] = _said(logs, "table paused"), _said(logs, "table resumed")
    assert (paused["table"], paused["by"], paused["reason"]) == ("dbo.Persons", "sa on desk-1", "an import")
    assert (resumed["table"], resumed["by"]) == ("dbo.Persons", "eve on desk-2")
    assert [entry for entry in logs if entry["log_level"] in WARNINGS] == []


def test_a_table_that_is_paused_before_the_start_is_never_read() -> None:
    world = World()
    world.commit(2)
    world.loop.pauses(PAUSED)
    _, logs = world.run(120)
    assert world.sent() == []
    assert len(_said(logs, "table paused")) == 1


def test_metrics_say_that_it_is_paused_and_owned_and_readiness_does_not_mind() -> None:
    world = World()
    world.loop.pauses(PAUSED)
    found: dict[Any, Any] = {}

    def look() -> None:
        found.update({(each.metric, *each.labels): each.value for each in samples(world.stats, CaptureFigures())})
        found["ready"] = world.stats.ready()

    world.at(50, look)
    world.run(60)
    assert found[STATE, "dbo.Persons", "paused"] == 1
    assert found[STATE, ORDERS.key, "read"] == 1
    assert found[LOCK, "dbo.Persons"] == 1
    assert (LAG, "dbo.Persons") in found
    assert found["ready"] is None


def test_another_owner_of_the_lock_is_what_counts_while_a_table_is_paused() -> None:
    world = World(shared=True)
    world.service.held["persons"] = ("another", 1e9)
    world.loop.pauses(PAUSED)
    world.run(60)
    assert world.stats.figures().tables[PERSONS].standing is Standing.ELSEWHERE
    assert world.stats.figures().tables[ORDERS].standing is Standing.READ


def test_a_slice_that_waits_for_a_slot_sends_nothing_once_it_gets_one() -> None:
    world = World()
    world.commit(2)
    loop = world.loop
    world.at(3, lambda: world.commit(3))
    submitted = loop._dispatcher.start
    held = [True]

    def start() -> None:
        if not held[0]:
            submitted()

    loop._dispatcher.start = start  # type: ignore[method-assign]
    world.at(10, lambda: loop.pauses(PAUSED))
    world.at(20, lambda: held.__setitem__(0, False))
    world.at(60, lambda: world.snapshot.append(len(world.sent())))
    world.at(61, lambda: loop.pauses(RESUMED))
    _, logs = world.run(120)
    assert world.snapshot == [0]
    assert world.sent() == _ids(2, 3)
    assert [entry for entry in logs if entry["log_level"] in WARNINGS] == []


def test_a_slice_that_a_worker_begins_after_the_pause_sends_nothing_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.at(3, lambda: world.commit(2))
    stamped = world.loop._stamped

    def late(todo: Any) -> Any:
        world.loop._pausing._paused = PAUSED.paused
        return stamped(todo)

    world.loop._dispatcher._stamped = late
    _, logs = world.run(60)
    assert world.sent() == []
    assert [entry for entry in logs if entry["log_level"] in WARNINGS] == []


def test_a_chunk_that_waits_for_a_slot_sends_nothing_and_is_sent_after_the_resume() -> None:
    world = World()
    world.rows.ids = list(range(30))
    world.at(3, lambda: world.commit(2))
    stamped, paused = world.loop._stamped, list[bool]()

    def late(todo: Any) -> Any:
        if (
            todo.chunk is not None and not paused
        ):  # a round was made, and a person pauses the table before a worker begins it
            paused.append(True)
            world.loop.pauses(PAUSED)
            world.loop._pausing.look()
        return stamped(todo)

    world.loop._dispatcher._stamped = late
    world.at(30, lambda: world.snapshots.ask(PERSONS))
    world.at(100, lambda: world.snapshot.append(len(world.sent())))
    world.at(101, lambda: world.loop.pauses(RESUMED))
    _, logs = world.run(300)
    assert paused
    assert world.snapshot == [3]
    assert [entry["event"] for entry in logs if entry["event"] == "snapshot done"] == ["snapshot done"]
    assert [entry for entry in logs if entry["log_level"] in WARNINGS] == []


def test_no_round_of_a_snapshot_begins_and_the_loop_does_not_spin() -> None:
    world = World()
    world.rows.ids = list(range(30))
    world.at(3, lambda: world.commit(2))
    world.at(20, lambda: world.loop.pauses(PAUSED))
    world.at(30, lambda: world.snapshots.ask(PERSONS))
    passes = list[int]()
    world.at(40, lambda: passes.append(sum(world.stats.figures().passes.counts)))
    world.at(140, lambda: passes.append(sum(world.stats.figures().passes.counts)))
    world.run(150)
    assert len(world.sent()) == 3
    assert passes[1] - passes[0] < 60


@pytest.mark.parametrize("seed", range(12))
def test_pauses_at_any_moment_lose_nothing_and_keep_the_order(seed: int) -> None:
    chance = random.Random(seed)
    world = World(rows=2, ordering=chance.choice(["table", "key"]))
    numbers = list(range(2, 40))
    for number in numbers:
        world.at(2 * number, partial(world.commit, number))
    for second in sorted(chance.uniform(1, 90) for _ in range(10)):
        world.at(second, partial(world.loop.pauses, chance.choice([PAUSED, RESUMED])))
    world.at(100, lambda: world.loop.pauses(RESUMED))
    _, logs = world.run(300)
    assert list(dict.fromkeys(world.sent())) == _ids(*numbers) or world.loop._strides._ordering == "key"
    assert sorted(set(world.sent())) == sorted(_ids(*numbers))
    assert [entry for entry in logs if entry["log_level"] in WARNINGS] == []
