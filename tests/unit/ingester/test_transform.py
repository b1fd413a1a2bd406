"""Changes are transformed before they are encoded; what is dropped is passed and counted, and a transform that fails stops the table there."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from common.cel.filters import FilterFailed
from common.names import TableName
from ingester.change import Change, Operation
from ingester.position import Position
from ingester.slices import SliceResult, Trouble
from ingester.source import Part
from ingester.transform import SetAside, Transform
from ingester.worker import Worker
from ingester.worker_settings import WorkerSettings
from tests.fakes.ingester import PERSONS, position
from tests.unit.ingester.driver.test_reload import settings
from tests.unit.ingester.driver.test_spread import Bench as StrideBench
from tests.unit.ingester.task.test_drain import EXPECTED, ROWS, Bench
from tests.unit.ingester.test_refused import Picky


@dataclass(frozen=True)
class Mask:
    """Replaces a column's value."""

    column: str
    name: str = "mask"

    def __call__(self, change: Change) -> Change | None:
        return replace(change, data={**change.data, self.column: "***"})


@dataclass(frozen=True)
class Drop:
    """Drops the changes at these positions."""

    positions: frozenset[Position]
    name: str = "drop"

    def __call__(self, change: Change) -> Change | None:
        return None if change.position in self.positions else change


@dataclass(frozen=True)
class Fail:
    """Fails at a position, with a text that quotes the row."""

    position: Position
    name: str = "fail"

    def __call__(self, change: Change) -> Change | None:
        if change.position == self.position:
            raise ValueError(f"a secret of the row: {dict(change.data)}")
        return change


@dataclass(frozen=True)
class Aside:
    """Sets the changes at these positions aside."""

    positions: frozenset[Position]
    name: str = "filter"

    def __call__(self, change: Change) -> Change | None:
        return replace(change, set_aside=f"why {change.position}") if change.position in self.positions else change


@dataclass(frozen=True)
class Filtering:
    """A filter that fails at a position."""

    position: Position
    name: str = "filter"

    def __call__(self, change: Change) -> Change | None:
        if change.position == self.position:
            raise FilterFailed("the filter fails: division by zero (data.ID is an int)")
        return change


def drained(*transforms: Transform, rows: int = 5, part: Part | None = None) -> tuple[Bench, SliceResult]:
    bench = Bench()
    bench.drain = replace(bench.drain, transforms=transforms)
    return bench, bench.drain.run(replace(bench.todo, rows=rows, part=part))


def test_a_change_is_sent_as_the_transforms_make_it_in_their_order_and_keeps_its_identity() -> None:
    bench, result = drained(Mask("ID"), Mask("new"))
    bodies = [json.loads(message.body)["data"] for message in bench.sender.sent]
    assert len(bodies) == 12
    assert all((body["ID"], body["new"]) == ("***", "***") for body in bodies)
    assert bench.sent() == EXPECTED
    assert (result.changes, result.dropped, result.position) == (12, 0, ROWS[-1])


@pytest.mark.parametrize("rows", [1, 4, 5, 12, 13])
@pytest.mark.parametrize(
    "dropped",
    [{0}, {11}, {0, 1, 2, 3, 4}, {2, 3, 7}, set(range(12))],
    ids=lambda places: f"{len(places)}-{min(places)}",
)
def test_the_offset_moves_past_a_dropped_change_and_it_is_counted(dropped: set[int], rows: int) -> None:
    bench, result = drained(Drop(frozenset(ROWS[at] for at in dropped)), rows=rows)
    assert bench.sent() == [event for at, event in enumerate(EXPECTED) if at not in dropped]
    assert (result.trouble, result.position) == (None, ROWS[-1])
    assert (result.changes, result.dropped) == (12 - len(dropped), len(dropped))


@pytest.mark.parametrize("rows", [1, 4, 5, 12, 13])
@pytest.mark.parametrize("at", [0, 3, 5, 11])
def test_a_transform_that_raises_stops_the_table_before_its_change(at: int, rows: int) -> None:
    bench, result = drained(Drop(frozenset({ROWS[at - 1]} if at else ())), Fail(ROWS[at]), rows=rows)
    left_out = 1 if at else 0
    assert result.trouble is Trouble.PERMANENT
    for fact in ("dbo.Persons", "transform fail", "ValueError", ROWS[at].lsn.hex, ROWS[at].seqval.hex()):
        assert fact in result.message
    assert "secret" not in result.message
    assert result.hint == "fix the transform or remove it, and restart the ingester"
    assert bench.sent() == EXPECTED[: at - left_out]
    assert (result.position, result.changes, result.dropped) == (ROWS[at - 1] if at else None, at - left_out, left_out)


@pytest.mark.parametrize("rows", [1, 4, 5, 12, 13])
@pytest.mark.parametrize("places", [{0}, {3, 7}, {11}, set(range(12))], ids=lambda places: str(len(places)))
def test_a_change_that_is_set_aside_keeps_its_order_and_offset_and_is_shaped_as_it_would_be_sent(
    places: set[int], rows: int
) -> None:
    bench, result = drained(Aside(frozenset(ROWS[at] for at in places)), Mask("ID"), rows=rows)
    assert bench.sent() == EXPECTED
    told = [message.application_properties.get("set_aside") for message in bench.sender.sent]
    assert told == [f"why {ROWS[at]}" if at in places else None for at in range(12)]
    assert {json.loads(message.body)["data"]["ID"] for message in bench.sender.sent} == {"***"}
    assert (result.trouble, result.position, result.changes, result.dropped) == (None, ROWS[-1], 12, 0)
    first = min(places)
    assert result.filter_failed == SetAside(len(places), ROWS[first], f"why {ROWS[first]}")


def test_only_what_was_sent_counts_as_set_aside() -> None:
    bench = Bench()
    sender = Picky(refuses=frozenset({EXPECTED[5]}))
    bench.drain = replace(bench.drain, sender=sender, transforms=(Aside(frozenset({ROWS[1], ROWS[5], ROWS[8]})),))
    result = bench.drain.run(replace(bench.todo, rows=12))
    assert (result.trouble, result.position) == (Trouble.PERMANENT, ROWS[4])
    assert result.filter_failed == SetAside(1, ROWS[1], f"why {ROWS[1]}")
    assert drained(Mask("ID"))[1].filter_failed is None


def test_a_filter_that_fails_stops_the_table_before_the_change_and_says_why() -> None:
    bench, result = drained(Filtering(ROWS[5]))
    assert (result.trouble, result.position, bench.sent()) == (Trouble.SHAPE, ROWS[4], EXPECTED[:5])
    for fact in ("dbo.Persons", "division by zero (data.ID is an int)", ROWS[5].lsn.hex, ROWS[5].seqval.hex()):
        assert fact in result.message
    assert "on_filter_error" in str(result.hint)
    assert "a provider has no dead letters" in str(result.hint)


def test_what_a_transform_drops_goes_no_further() -> None:
    bench, result = drained(Drop(frozenset(ROWS)), Fail(ROWS[0]))
    assert (result.trouble, result.dropped, bench.sent()) == (None, 12, [])


@dataclass(frozen=True)
class Other:
    """Makes another change of it."""

    made: Change
    name: str = "other"

    def __call__(self, change: Change) -> Change | None:
        return replace(
            change,
            table=self.made.table,
            position=self.made.position,
            operation=self.made.operation,
            key=self.made.key,
        )


def test_a_transform_cannot_make_another_change_of_it() -> None:
    seen = Change(PERSONS, "dbo_Persons", ROWS[0], Operation.INSERT, {}, key=(1,))
    for made in (
        replace(seen, table=TableName("dbo", "Orders")),
        replace(seen, position=position(9)),
        replace(seen, operation=Operation.DELETE),
        replace(seen, key=(2,)),
    ):
        bench, result = drained(Other(made))
        assert (result.trouble, bench.sent()) == (Trouble.PERMANENT, [])
        assert "transform other changed its table, position, operation or key" in result.message


def test_a_dropped_change_before_one_that_the_queue_refuses_is_passed_with_those_before_it() -> None:
    bench = Bench()
    sender = Picky(refuses=frozenset({EXPECTED[5]}))
    drop = Drop(frozenset({ROWS[1], ROWS[4], ROWS[7]}))
    bench.drain = replace(bench.drain, sender=sender, transforms=(drop,))
    result = bench.drain.run(replace(bench.todo, rows=12))
    assert result.trouble is Trouble.PERMANENT
    assert (result.position, result.changes, result.dropped) == (ROWS[4], 3, 2)
    assert [message.message_id for message in sender.sent] == [EXPECTED[at] for at in (0, 2, 3)]


def test_a_stride_whose_parts_drop_changes_still_comes_to_all_its_rows() -> None:
    stride = StrideBench()
    dropped = stride.rows[4:7]
    stride.drain = replace(stride.drain, transforms=(Drop(frozenset(dropped)),))
    parts = stride.parts()
    found = stride.run(parts)
    assert parts[0].part is not None
    assert (found.trouble, found.changes, found.dropped) == (None, parts[0].part.rows - 3, 3)
    assert stride.offsets.commits == [parts[0].upto]


def test_the_transforms_of_the_settings_are_those_that_a_worker_drains_with(tmp_path: Path) -> None:
    given = replace(WorkerSettings.of(settings("Persons")), transforms=(Mask("ID"), Drop(frozenset(ROWS))))
    bench = Worker(pickle.loads(pickle.dumps(given)), (tmp_path / "stopping").exists)._take()
    assert bench.drain.transforms == given.transforms
    bench.close()
