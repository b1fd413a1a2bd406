"""The loop when the shapes of tables change while it runs; the world of driver/test_loop.py."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from common.cel.filters import FilterFailed
from common.names import TableName
from ingester.change import Change
from ingester.driver.loop import Loop
from ingester.driver.reload import TableChanges
from ingester.driver.schedule import Rhythm
from ingester.history.rules import NO_SNAPSHOTS
from ingester.shape.columns import ShapeRefused
from ingester.shape.mask import Mask, mask_of
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from tests.fakes.ingester import ORDERS, PERSONS, instance
from tests.unit.ingester.driver.test_loop import World
from tests.unit.ingester.driver.test_reconfigure import ITEMS, LOCKS, RHYTHM, during_the_first_page, events, with_items

HASHED = TableShape(masks=(("id", mask_of("hash:SHA-256:salt")),))
WRONG = TableShape(masks=(("Phone", Mask("redact")),))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop asks the clock instead of waiting."""
    monkeypatch.setattr(Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)


def reshape(world: World, shape: TableShape, table: TableName = PERSONS, *, add: bool = False) -> None:
    """What another thread would say to the loop."""
    changes = TableChanges({table: RHYTHM} if add else {}, frozenset(), {})
    world.loop.reconfigure(changes, {table: LOCKS[table]} if add else {}, NO_SNAPSHOTS, {table: shape})


def ids(world: World, table: str = "Persons") -> list[Any]:
    sent = [message for message in world.sender.sent if message.application_properties["table"] == table]
    return [json.loads(bytes(message.body))["data"]["ID"] for message in sent]


def test_another_shape_holds_from_the_next_slice_on_and_a_running_one_keeps_its_own() -> None:
    world = World()
    world.commit(2, 3)
    during_the_first_page(world, lambda: reshape(world, HASHED))
    world.at(20, lambda: world.commit(4))
    world.run(60)
    found = ids(world)
    assert found[:6] == [2, 2, 2, 3, 3, 3]
    assert [len(str(one)) for one in found[6:]] == [64, 64, 64]


def test_no_change_of_an_added_table_is_sent_without_its_mask() -> None:
    world = with_items()
    world.at(10, lambda: reshape(world, HASHED, ITEMS, add=True))
    world.run(30)
    assert [len(str(one)) for one in ids(world, "Items")] == [64, 64, 64]


def test_a_table_whose_shape_does_not_fit_stops_before_any_change_and_goes_on_when_it_is_corrected() -> None:
    world = World()
    world.at(3, lambda: reshape(world, WRONG))
    world.at(40, lambda: world.commit(2))
    world.at(90, lambda: world.snapshot.append(len(world.sent())))
    world.at(95, lambda: reshape(world, HASHED))
    _, logs = world.run(200)
    assert world.snapshot == [0]
    assert [len(str(one)) for one in ids(world)] == [64, 64, 64]
    told = events(logs, PERSONS)
    assert told == [
        "lock taken",
        "table stopped; correct its shape in the configuration",
        "table goes on, its shape was changed",
        "lock taken",
        "shape in force",
    ]
    [line] = [entry for entry in logs if str(entry["event"]).startswith("table stopped")]
    assert 'mask names "Phone", which is not a captured column of the table' in line["error"]
    assert world.stats.ready() is None


@dataclass(frozen=True)
class FailsOnce:
    """A filter that fails on the first change that it sees."""

    failed: list[Change]
    name: str = "filter"

    def __call__(self, change: Change) -> Change | None:
        if not self.failed:
            self.failed.append(change)
            raise FilterFailed("the filter fails: no reason")
        return change


@pytest.mark.parametrize("by", ["a type", "a filter"])
def test_a_table_that_a_task_stops_because_of_its_shape_goes_on_when_that_is_corrected(by: str) -> None:
    """The catalog of the last look may not show the type yet, and only a change shows what the filter makes of it."""
    world = World(transforms=(FailsOnce([]),) if by == "a filter" else ())

    def refuse() -> None:
        world.source.after_page = None
        raise ShapeRefused('the shape of dbo.Persons: mask "truncate" of "Name" needs text')

    world.source.after_page = refuse if by == "a type" else None
    world.at(3, lambda: world.commit(2))
    world.at(95, lambda: reshape(world, HASHED))
    _, logs = world.run(200)
    assert [len(str(one)) for one in ids(world)] == [64, 64, 64]
    told = events(logs, PERSONS)
    assert told == [
        "lock taken",
        "table stopped; correct its shape in the configuration",
        "table goes on, its shape was changed",
        "lock taken",
        "shape in force",
    ]


def test_a_table_that_stopped_goes_on_at_the_interval_that_was_set_meanwhile() -> None:
    world = World()
    world.at(3, lambda: reshape(world, WRONG))
    paced = TableChanges({}, frozenset(), {PERSONS: Rhythm(1.0, 1.0)})
    world.at(90, lambda: world.loop.reconfigure(paced, {}, NO_SNAPSHOTS))
    world.at(100, lambda: reshape(world, AS_CAPTURED))
    world.at(161, lambda: world.commit(2))
    world.at(163, lambda: world.snapshot.append(len(world.sent())))
    world.run(170)
    assert world.snapshot == [3]


def test_a_table_that_runs_or_whose_shape_stays_does_not_begin_again() -> None:
    world = World()
    world.at(20, lambda: reshape(world, HASHED))
    world.at(30, lambda: reshape(world, HASHED))
    world.at(40, lambda: reshape(world, AS_CAPTURED, ORDERS))
    _, logs = world.run(100)
    assert events(logs, PERSONS) == ["lock taken", "shape in force"]
    assert events(logs, ORDERS) == ["lock taken"]


def test_a_column_that_was_added_a_moment_ago_may_be_masked_before_a_newer_instance_has_it() -> None:
    world = World()
    added = (replace(instance(), added=("Phone",)),)
    world.at(3, lambda: world.source.instances.update({PERSONS: added}))  # since the last look at the catalog
    world.at(3, lambda: reshape(world, WRONG))
    world.at(40, lambda: world.commit(2))
    _, logs = world.run(120)
    assert ids(world) == [2, 2, 2]
    assert events(logs, PERSONS) == ["lock taken", "shape in force"]


def test_a_name_in_the_defaults_that_masks_nothing_is_logged_once_after_a_reload() -> None:
    world = World()
    world.at(20, lambda: reshape(world, replace(WRONG, shared=frozenset({"Phone"}))))
    _, logs = world.run(100)
    lines = [entry for entry in logs if entry["event"] == "shape names columns that no table captures"]
    assert [(line["log_level"], line["columns"]) for line in lines] == [("warning", ["Phone"])]
