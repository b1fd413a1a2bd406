"""The loop over a source that is not SQL Server: positions are compared, stored and shown, and what a person can do is in the source's words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ingester
from ingester.position import Position
from tests.fakes.diary import DiarySource, Entry
from tests.fakes.ingester import ORDERS, PERSONS
from tests.unit.ingester.driver.test_loop import World, no_waiting

__all__ = ["no_waiting"]

_T_SQL = re.compile(
    r"GRANT |\bEXEC(UTE)? |\bsys\.(dm|sp|fn)_|sp_cdc_|fn_cdc_|__\$|\bmsdb\b|N'|"
    r"\b(ALTER|CREATE|DROP) (TABLE|DATABASE|USER)\b|\b(DELETE|INSERT INTO|UPDATE) dbo\.|\bSELECT (TOP|\*|@|\w+ FROM)|\bDELETE FROM\b"
)
"""Statements and names that only SQL Server knows."""
_SETTINGS = ("ingester/settings.py",)
"""Its descriptions are for the person who chooses between SQL Server's own functions and its tables."""


def test_entries_are_sent_once_in_order_and_their_places_are_the_offsets_and_the_ids() -> None:
    source = DiarySource({PERSONS: 7, ORDERS: 0})
    world = World(source=source, rows=3)
    world.at(30, lambda: source.entries.update({PERSONS: 9}))
    status, logs = world.run(200)
    assert status == 0
    assert world.sent() == [f"database.dbo.Persons:entry-{at}" for at in range(1, 10)]
    assert world.offsets.stored[PERSONS] == Entry(9)
    assert [line for line in logs if line["log_level"] in ("warning", "error")] == []
    first = world.sender.sent[0]
    assert first.application_properties["lsn"] == "day 1"


@pytest.mark.parametrize("skip_gaps", [False, True])
def test_a_gap_is_shown_in_the_sources_own_places(skip_gaps: bool) -> None:
    source = DiarySource({PERSONS: 3})
    world = World(source=source, tables=(PERSONS,), skip_gaps=skip_gaps)

    def torn() -> None:
        source.entries[PERSONS], source.kept_from = 9, 6

    world.at(30, torn)
    _, logs = world.run(200)
    [told] = [line for line in logs if "lost" in line.get("what", line.get("error", ""))]
    text = told["what"] if skip_gaps else told["error"]
    assert "the offset is at entry 3, but diary of Persons begins at its low watermark, entry 5" in text
    assert len(world.sent()) == (7 if skip_gaps else 3)


def test_why_a_table_cannot_be_read_is_said_in_the_sources_words() -> None:
    _, logs = World(source=DiarySource({PERSONS: 1})).run(30)
    assert any(line["event"].startswith("sales.Orders keeps no diary; give it one") for line in logs)


def test_a_place_needs_no_more_than_an_order() -> None:
    places: list[Position] = [Entry(2), Entry(1)]
    assert min(places) == Entry(1)


def test_no_module_outside_sqlserver_has_words_of_t_sql() -> None:
    root = Path(ingester.__file__).parent
    modules = [path for path in root.rglob("*.py") if "sqlserver" not in path.relative_to(root).parts]
    assert len(modules) > 50
    found = [
        f"{path.relative_to(root.parent)}:{at}: {line.strip()}"
        for path in modules
        for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if _T_SQL.search(line) and path.relative_to(root.parent).as_posix() not in _SETTINGS
    ]
    assert found == []
