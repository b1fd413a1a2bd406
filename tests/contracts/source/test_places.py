"""Each change's place in its transaction: the same in pages and parts of any size, and for a reader that has just begun."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from emulators.sqlserver.cdc.database import DatabaseCdc
from ingester.change import Change
from ingester.position import Position
from ingester.source import CaptureInstance, PageQuery, Part
from ingester.sqlserver.change_table import change_table
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.counting import steps as counting
from ingester.sqlserver.pairing import Tally
from ingester.sqlserver.position import LogPosition, in_the_log
from ingester.sqlserver.source import SqlServerSource
from ingester.sqlserver.sql.changes import Statement
from tests.contracts.source.conftest import Log, Places
from tests.contracts.source.log_shapes import SHAPES, Told
from tests.contracts.source.test_pages import window
from tests.contracts.source.test_parts import first, merged
from tests.contracts.source.test_source import Place

Shape = Callable[[DatabaseCdc], Told]


def read(
    place: Place, instance: CaptureInstance, upto: Position, rows: int, part: Part | None = None, *, fresh: bool = False
) -> list[Change]:
    """All changes in pages of `rows`. `fresh`: each page by a reader that has read no other."""
    source, after, found = place.source, instance.start, list[Change]()
    while True:
        if fresh:
            source = SqlServerSource(place.connection, places=True, before_images=True)
        page = source.page(PageQuery(instance, after, upto, rows, part))
        found += page.changes
        if page.end is None or not page.full:
            return found
        after = page.end


def counted(changes: Sequence[Change]) -> list[int]:
    """The place of each of all changes of a table, by counting."""
    seen: dict[object, int] = defaultdict(int)
    places = []
    for change in changes:
        seen[in_the_log(change.position).lsn] += 1
        places.append(seen[in_the_log(change.position).lsn])
    return places


def said(changes: Sequence[Change]) -> list[int]:
    assert all(c.transaction is not None and c.transaction["Id"] == c.position.place()[1] for c in changes)
    return [c.transaction["TableOrder"] for c in changes if c.transaction is not None]


@pytest.mark.parametrize("before_images", [False, True], ids=["after images", "both images"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_whatever_the_log_holds_each_change_has_one_place(
    places: Places, log: Log, shape: Shape, before_images: bool
) -> None:
    place = places(before_images=before_images, places=True)
    shape(log(place))
    place.scan()
    instance, _, upto = window(place)
    whole = read(place, instance, upto, 100)
    for rows in (1, 2, 3, 100):
        assert said(read(place, instance, upto, rows)) == counted(whole), f"pages of {rows}"
    assert said(read(place, instance, upto, 2, fresh=before_images)) == counted(whole)
    stride = first(place, instance, 1000)
    assert stride is not None
    for of, rows in ((2, 1), (3, 2), (2, 100)):
        parts = [Part(1, number, of, ("ID",), stride.rows) for number in range(of)]
        for fresh in {False, before_images}:
            found = merged([read(place, instance, stride.end, rows, part, fresh=fresh) for part in parts])
            assert [(c.position, p) for c, p in zip(found, said(found), strict=True)] == [
                (c.position, p) for c, p in zip(whole, counted(whole), strict=True)
            ], f"{of} parts in pages of {rows}"


def test_a_stride_that_begins_inside_a_transaction_goes_on_counting(places: Places) -> None:
    place = places(places=True)
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1), (2), (3), (4), (5), (6), (7)")
    place.scan()
    instance, _, upto = window(place)
    begun = read(place, instance, upto, 100)[2].position
    stride = place.source.stride(instance, after=begun, upto=upto, rows=100)
    assert stride is not None
    found = list[Change]()
    for number in range(2):
        part = Part(1, number, 2, ("ID",), stride.rows)
        source = SqlServerSource(place.connection, places=True)
        found += source.page(PageQuery(instance, begun, stride.end, 100, part)).changes
    assert sorted(said(found)) == [4, 5, 6, 7]


def test_without_the_option_no_change_has_a_place(places: Places) -> None:
    place = places()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    assert [change.transaction for change in place.read()] == [None]


@pytest.mark.parametrize("step", [1, 2, 3, 50])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_the_changes_between_any_two_places_of_a_transaction_are_counted_in_steps_of_any_size(
    places: Places, log: Log, shape: Shape, step: int
) -> None:
    place = places()
    shape(log(place))
    place.scan()
    instance, _, _ = window(place)
    whole = [in_the_log(change.position) for change in place.read()]
    for lsn in dict.fromkeys(position.lsn for position in whole):
        of = [position for position in whole if position.lsn == lsn]
        ends = [Tally(position, number) for number, position in enumerate(of, 1)]
        some = [Tally(LogPosition.before(lsn), 0), *ends, Tally(LogPosition.end_of(lsn), len(of))]
        for at, begin in enumerate(some):
            for end in some[at + 1 :]:
                found, steps = begin, 0
                while found.position != end.position:
                    found, steps = (
                        counting.step(place.connection, change_table(instance), found, end.position, step),
                        steps + 1,
                    )
                assert found == end
                assert steps <= (end.number - begin.number) // step + 1


def test_a_reader_of_parts_counts_only_what_it_has_not_read_of_a_transaction(places: Places) -> None:
    """From stride to stride of one transaction: from its own last change to the stride's beginning, whatever came before."""
    place = places(places=True)
    rows = ", ".join(f"({number})" for number in range(60))
    place.execute(f"INSERT INTO dbo.Persons (ID) VALUES {rows}")
    place.scan()
    instance, after, upto = window(place)

    class Counted(Connection):
        def batch(self, statements: Sequence[Statement], *, within: float | None = None) -> list[list[tuple[Any, ...]]]:
            sets = super().batch(statements, within=within)
            counts.append(sum(row[1] for rows in sets for row in rows if len(row) == 5))
            return sets

    counts = list[int]()
    source = SqlServerSource(Counted(Place.address_of(place.login)), places=True)
    found = list[Change]()
    while (stride := place.source.stride(instance, after=after, upto=upto, rows=10)) is not None:
        part = Part(1, 0, 2, ("ID",), stride.rows)
        found += source.page(PageQuery(instance, after, stride.end, 100, part)).changes
        after = stride.end
    source.close()
    order = {change.position: number for number, change in enumerate(place.read(), 1)}
    assert said(found) == [order[change.position] for change in found]
    assert len(counts) <= 6
    assert sum(counts) + len(found) <= 60, "each change is read or counted once"
