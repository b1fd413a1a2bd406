"""What `dstream snapshot` says of ingesters is what they do."""

from __future__ import annotations

import pytest

from dstream.rendering import snapshots as rendering
from ingester.commands.snapshots import Started
from ingester.commands.stores import LocksSeen
from ingester.driver.history import snapshots as driver
from ingester.history.rows import BaseTable
from tests.fakes.ingester import PERSONS, instance


def test_how_soon_a_snapshot_begins_is_how_often_an_ingester_looks() -> None:
    assert driver.LOOK_SECONDS == rendering.LOOK_SECONDS


def started(*, ahead: int = 0, rows: int = 3) -> list[str]:
    base = BaseTable(instance(), ("ID",), rows, 5461.0)
    return list(rendering.started_lines(Started(PERSONS, base, LocksSeen(frozenset({PERSONS})), ahead)))


@pytest.mark.parametrize(("ahead", "begins"), [(0, "within 10 s"), (1, "after that one"), (2, "after those")])
def test_behind_others_it_does_not_begin_at_once(ahead: int, begins: str) -> None:
    assert f"begins: {begins}: a running ingester reads the table" in started(ahead=ahead)


@pytest.mark.parametrize(("rows", "size"), [(999, ""), (1_000, " of about 5,461 bytes each")])
def test_of_a_few_rows_the_size_is_not_said(rows: int, size: str) -> None:
    """A table has at least a page."""
    assert f"table:  dbo.Persons, about {rows:,} rows{size}" in started(rows=rows)
