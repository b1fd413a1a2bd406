"""The loop when tables are added, removed and paced while it runs; the world of driver/test_loop.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from common.errors import ConnectionLost, PermanentError
from common.names import TableName
from ingester.driver.loop import Loop
from ingester.driver.reload import TableChanges
from ingester.driver.schedule import Rhythm
from ingester.history.rules import NO_SNAPSHOTS
from tests.fakes.ingester import ORDERS, PERSONS, instance, lsn, position
from tests.fakes.locks import FakeLocks
from tests.unit.ingester.driver.test_loop import World

ITEMS = TableName("dbo", "Items")
RHYTHM = Rhythm(5.0, 60.0)
LOCKS = {PERSONS: "persons", ORDERS: "orders", ITEMS: "items"}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop asks the clock instead of waiting."""
    monkeypatch.setattr(Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)


def change(
    world: World,
    *removed: TableName,
    add: Mapping[TableName, Rhythm] | None = None,
    pace: Mapping[TableName, Rhythm] | None = None,
) -> Callable[[], None]:
    """What another thread would say to the loop."""
    changes = TableChanges(add or {}, frozenset(removed), pace or {})
    return lambda: world.loop.reconfigure(changes, {name: LOCKS[name] for name in changes.added}, NO_SNAPSHOTS)


def with_items(*, shared: bool = False) -> World:
    """A world whose database has a third table, which is not configured, with a transaction in it."""
    world = World(shared=shared)
    world.source.instances[ITEMS] = (instance(ITEMS),)
    world.source.rows["dbo_Items"] = []
    world.commit(2, name="dbo_Items")
    return world


def events(logs: list[Any], table: TableName) -> list[str]:
    return [entry["event"] for entry in logs if entry.get("table") == table.key]


def during_the_first_page(world: World, what: Callable[[], None]) -> None:
    """`what` happens while the first slice is under way."""

    def once() -> None:
        world.source.after_page = None
        what()

    world.source.after_page = once


def acquisitions(world: World) -> list[str]:
    """The locks that the ingester asks for from now on, in turn."""
    assert isinstance(world.locks, FakeLocks)
    asked, acquire = list[str](), world.locks.acquire

    def noting(name: str) -> Any:
        asked.append(name)
        return acquire(name)

    world.locks.acquire = noting  # type: ignore[method-assign]
    return asked


def test_an_added_table_is_locked_and_read_from_its_beginning() -> None:
    world = with_items()
    world.at(10, change(world, add={ITEMS: RHYTHM}))
    world.at(9.9, lambda: world.snapshot.append(len(world.sent("Items"))))
    status, logs = world.run(30)
    assert (status, world.snapshot) == (0, [0])
    assert len(world.sent("Items")) == 3
    assert events(logs, ITEMS) == ["table added", "lock taken"]


def test_a_removed_table_is_read_no_more_and_its_lock_is_free_while_its_offset_stays() -> None:
    world = World(shared=True)
    world.at(3, lambda: world.commit(2))
    world.at(30, change(world, PERSONS))
    world.at(31, lambda: world.commit(3))
    world.at(60, lambda: world.snapshot.extend(world.tables_held()))
    taken = acquisitions(world)
    status, logs = world.run(100)
    assert (status, world.snapshot) == (0, ["orders"])
    assert taken.count("persons") == 1
    assert len(world.sent()) == 3
    assert world.offsets.stored[PERSONS] is not None
    assert events(logs, PERSONS) == ["lock taken", "table removed"]


def test_a_removed_table_finishes_its_running_slice_before_its_lock_is_given_back() -> None:
    world = World(shared=True)
    world.commit(2, 3)

    def remove() -> None:
        change(world, PERSONS)()
        world.snapshot.extend(world.tables_held())

    during_the_first_page(world, remove)
    _, logs = world.run(60)
    assert "persons" in world.snapshot
    assert "persons" not in world.held_at_the_end
    assert len(world.sent()) == 6
    assert events(logs, PERSONS) == ["lock taken", "table removed"]


def test_a_table_that_comes_back_while_its_slice_runs_goes_on_with_its_lock() -> None:
    world = World(shared=True)
    world.commit(2)

    def twice() -> None:
        change(world, PERSONS)()
        change(world, add={PERSONS: RHYTHM})()

    during_the_first_page(world, twice)
    world.at(20, lambda: world.commit(3))
    _, logs = world.run(60)
    assert len(world.sent()) == 6
    assert events(logs, PERSONS) == ["lock taken", "table added"]


def test_a_table_that_had_stopped_starts_again_when_it_is_removed_and_added() -> None:
    world = World()
    world.offsets.stored[PERSONS] = position(2)
    world.source.low["dbo_Persons"] = lsn(5)
    world.commit(6)
    world.at(20, world.source.low.clear)
    world.at(40, change(world, PERSONS))
    world.at(45, change(world, add={PERSONS: RHYTHM}))
    world.at(44, lambda: world.snapshot.append(len(world.sent())))
    _, logs = world.run(60)
    assert world.snapshot == [0]
    assert len(world.sent()) == 3
    told = [event for event in events(logs, PERSONS) if not event.startswith("table stopped")]
    assert told == ["lock taken", "table removed", "table added", "lock taken"]
    assert world.stats.ready() is None


def test_another_interval_holds_from_the_next_turn_on() -> None:
    world = World()
    world.at(150, change(world, pace={PERSONS: Rhythm(1.0, 1.0)}))
    world.at(161, lambda: world.commit(2))
    world.at(163, lambda: world.snapshot.append(len(world.sent())))
    world.run(170)
    assert world.snapshot == [3]


@pytest.mark.parametrize("removed", [False, True], ids=["polled otherwise", "removed and added again"])
def test_a_table_whose_slice_is_under_way_returns_to_its_new_interval(removed: bool) -> None:
    world = World()
    world.commit(2)
    often = {PERSONS: Rhythm(1.0, 1.0)}

    def reload() -> None:
        if removed:
            change(world, PERSONS)()
        change(world, **({"add": often} if removed else {"pace": often}))()

    during_the_first_page(world, reload)
    world.at(161, lambda: world.commit(3))
    world.at(163, lambda: world.snapshot.append(len(world.sent())))
    world.run(170)
    assert world.snapshot == [6]


def test_a_lock_that_was_being_taken_while_its_table_was_removed_is_given_back() -> None:
    world = World(shared=True)
    assert isinstance(world.locks, FakeLocks)
    other = FakeLocks(world.service)
    assert other.acquire("persons") is not None
    acquire = world.locks.acquire

    def slow(name: str) -> Any:
        if name == "persons":
            change(world, PERSONS)()
            world.loop._reconfigure(*world.loop._asked.get())
        return acquire(name)

    world.locks.acquire = slow  # type: ignore[method-assign]
    world.run(200)
    assert world.held_at_the_end == ["orders"]


def test_a_lock_that_was_taken_and_not_claimed_is_free_once_its_table_is_removed() -> None:
    """At once: not only after the ingester's patience with an unavailable database."""
    world = World(shared=True)
    world.offsets.refused = {PERSONS: ConnectionLost("SQL Server is away")}
    world.at(5, change(world, ORDERS))
    world.at(4, lambda: world.snapshot.extend(world.tables_held()))
    world.run(20)
    assert "orders" in world.snapshot
    assert "orders" not in world.held_at_the_end


def test_a_loop_that_is_left_without_tables_waits_for_one() -> None:
    world = with_items()
    world.at(3, change(world, PERSONS, ORDERS))
    world.at(20, change(world, add={ITEMS: RHYTHM}))
    status, logs = world.run(60)
    assert status == 0
    assert [line["table"] for line in logs if line["event"] == "table added"] == ["dbo.Items"]
    assert len(world.sent("Items")) == 3


def test_a_loop_whose_tables_have_stopped_or_left_ends() -> None:
    world = World()
    world.commit(2)
    world.sender.fail = PermanentError("sending: refused")
    world.at(30, change(world, ORDERS))
    status, logs = world.run(60)
    assert (status, logs[-1].get("stopped")) == (1, ["dbo.Persons"])
