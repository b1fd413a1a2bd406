"""What the log says about shapes: from where on one holds, and what about it may not be meant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from ingester.driver.catalog_news import note_shape
from ingester.driver.loop import Loop
from ingester.driver.tables import TrackedTable
from ingester.shape.mask import Mask, mask_of
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CapturedColumn
from tests.fakes.ingester import ORDERS, PERSONS, instance
from tests.unit.ingester.driver.test_loop import World
from tests.unit.ingester.driver.test_shapes import reshape

SALT = "CzQMA0cB5K"
MASKED = TableShape(masks=(("name", Mask("redact")),))
SAME_KIND = TableShape(masks=(("name", mask_of(f"hash:SHA-256:{SALT}")),))
OTHER_SALT = TableShape(masks=(("name", mask_of("hash:SHA-256:another")),))
SLIP = TableShape(filter="data.Nmae == 'x' || has(data.ID)", skip_unchanged=True)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop asks the clock instead of waiting."""
    monkeypatch.setattr(Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)


def shapes(logs: list[Any]) -> list[tuple[str, ...]]:
    return [
        tuple(line[name] for name in ("table", "after", "clear", "masked", "not_sent", "changes"))
        for line in logs
        if line["event"] == "shape in force"
    ]


def told(table: TrackedTable, shape: TableShape, *, epoch: int = 1, columns: int = 2) -> list[str]:
    one = instance()
    more = tuple(CapturedColumn(f"C{at}", "int", at) for at in range(3, columns + 1))
    with capture_logs() as logs:
        note_shape(table, shape, replace(one, columns=(*one.columns, *more)), epoch)
    return [str(line["event"]) for line in logs]


def test_the_log_says_from_which_position_on_a_mask_holds_and_since_when_it_does_not() -> None:
    world = World()
    world.at(3, lambda: world.commit(2))
    world.at(20, lambda: reshape(world, MASKED))
    world.at(40, lambda: world.commit(4))
    world.at(60, lambda: reshape(world, TableShape(excluded=("Name",))))
    world.at(80, lambda: reshape(world, AS_CAPTURED))
    _, logs = world.run(100)
    assert [(table, *rest) for table, after, *rest in shapes(logs)] == [
        (PERSONS.key, "ID", "Name (redact)", "", "all"),
        (PERSONS.key, "ID", "", "Name", "all"),
        (PERSONS.key, "ID, Name", "", "", "all"),
    ]
    positions = [after for _, after, *_ in shapes(logs)]
    assert positions[0] == str(world.source.rows[instance().name][2])
    assert positions[1] == positions[2] == str(world.offsets.stored[PERSONS])


def test_a_shape_is_said_once_until_it_its_columns_or_the_owner_change() -> None:
    table = TrackedTable(PERSONS)
    assert told(table, AS_CAPTURED) == []
    assert told(table, MASKED) == ["shape in force"]
    assert told(table, MASKED) == []
    assert told(table, MASKED, columns=3) == ["shape in force"]
    assert told(table, MASKED, columns=3) == []
    assert told(table, MASKED, epoch=2) == ["shape in force"], "another ingester may have sent meanwhile"
    assert told(table, SAME_KIND, epoch=2) == ["shape in force"]
    assert told(table, OTHER_SALT, epoch=2) == ["shape in force"], "another salt makes other hashes"
    assert told(table, AS_CAPTURED, epoch=2) == ["shape in force"]
    assert told(table, AS_CAPTURED, epoch=2) == []


def test_no_salt_is_shown_and_the_line_has_a_bounded_length() -> None:
    table, one = TrackedTable(PERSONS), instance()
    wide = replace(one, columns=(*one.columns, *(CapturedColumn(f"C{at}", "int", at) for at in range(3, 1001))))
    with capture_logs() as logs:
        note_shape(table, SAME_KIND, wide, 1)
    [line] = logs
    assert line["after"] == "the beginning"
    assert line["masked"] == "Name (hash)"
    assert line["clear"].startswith("ID, C3, ")
    assert line["clear"].endswith(" and 959 more")
    assert SALT not in str(line)
    assert len(str(line)) < 1000


def test_a_filter_that_names_what_is_not_captured_is_said_at_the_start_and_after_an_edit_and_the_table_goes_on() -> (
    None
):
    world = World()
    reshape(world, SLIP)
    world.at(30, lambda: reshape(world, replace(SLIP, skip_unchanged=False), ORDERS))
    _, logs = world.run(60)
    found = [line for line in logs if line["event"] == "shape may be wrong"]
    assert [line["table"] for line in found] == [PERSONS.key, ORDERS.key]
    assert {line["log_level"] for line in found} == {"warning"}
    assert "the filter names Nmae, which dbo_Persons does not capture" in found[0]["doubt"]
    assert [rest[-1] for rest in shapes(logs)] == [
        "leaves out updates that changed no sent column; has a filter",
        "has a filter",
    ]
    assert not [line for line in logs if str(line["event"]).startswith("table stopped")]


def test_a_table_that_stopped_with_a_mask_and_goes_on_without_leaves_a_trace() -> None:
    world = World()
    world.at(3, lambda: reshape(world, MASKED))
    world.at(20, lambda: reshape(world, TableShape(excluded=("Nobody",))))
    world.at(90, lambda: reshape(world, AS_CAPTURED))
    _, logs = world.run(200)
    assert [line[2] for line in shapes(logs)] == ["ID", "ID, Name"]


def test_a_changed_shape_is_judged_soon_however_rarely_its_table_is_polled() -> None:
    world = World()
    world.at(100, lambda: reshape(world, MASKED))  # idle, it is polled at 75 and at 135
    _, logs = world.run(105)
    assert len(shapes(logs)) == 1
