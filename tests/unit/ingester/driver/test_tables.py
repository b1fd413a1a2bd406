"""What a configured table lacks, in words, with the statements that help."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from common.names import TableName
from ingester.driver.catalog_news import take_in
from ingester.driver.tables import TrackedTable, drift
from ingester.position import Position
from ingester.source import TableState
from ingester.sqlserver.hints import HINTS
from ingester.sqlserver.position import LogPosition
from tests.fakes.ingester import instance, lsn, position

TABLE = TableName("dbo", "Person's")


def test_a_table_that_is_not_under_cdc_comes_with_the_statement() -> None:
    said = HINTS.absence(TABLE, TableState(exists=True)) or ""
    assert "@source_name = N'Person''s'" in said
    assert "sp_cdc_enable_db" not in said


def test_in_a_database_without_cdc_the_database_comes_first() -> None:
    said = HINTS.absence(TABLE, TableState(exists=True, database_has_cdc=False)) or ""
    assert 0 < said.index("sp_cdc_enable_db") < said.index("sp_cdc_enable_table")


def test_a_renamed_table_is_said_to_be_renamed_and_not_missing() -> None:
    said = HINTS.absence(TABLE, TableState(exists=False, renamed=TableName("dbo", "PersonsOld"))) or ""
    assert "dbo.Person's is now named dbo.PersonsOld; rename it back, or configure the new name" in said
    assert "does not exist" not in said
    assert "GRANT" not in said


def test_the_clause_about_later_passes_is_left_to_those_who_make_some() -> None:
    for state in (TableState(exists=False), TableState(exists=True), TableState(True, database_has_cdc=False)):
        assert "later passes" not in (HINTS.absence(TABLE, state) or "")


@pytest.mark.parametrize(("offset", "level"), [(None, "warning"), (position(2), "error")])
def test_the_absence_of_a_table_that_was_read_is_an_error(offset: Position | None, level: str) -> None:
    table = TrackedTable(TABLE, offset=offset)
    with capture_logs() as logs:
        for _ in range(2):
            take_in(table, TableState(exists=False), HINTS)
    [told] = logs
    assert told["log_level"] == level
    assert "later passes look for it again" in told["event"]


def test_nobody_is_told_to_drop_an_instance_that_is_still_read() -> None:
    old = replace(instance(), added=("Email",))
    said = drift(TableState(True, (old,)), HINTS, position(5)) or ""
    assert f"Keep {old.name}" in said
    assert "drop the older" not in said
    newer = replace(old, name="dbo_Persons_2", start=LogPosition.before(lsn(9)))
    unread = drift(TableState(True, (old, newer)), HINTS, position(5)) or ""
    assert f"{old.name} is still being read: wait" in unread
    assert "drop the older" not in unread
    over = drift(TableState(True, (old, newer)), HINTS, position(9)) or ""
    assert f"drop the older one, {old.name}, first" in over
