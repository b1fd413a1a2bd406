"""`dstream check` and `dstream doctor` of snapshots: said only where one is taken by itself, or was asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingester.sqlserver.history.rows import SqlServerRows
from ingester.sqlserver.sql.changes import P
from ingester.sqlserver.sql.history import rows as queries
from ingester.sqlserver.sql.history.base_table import base_of
from tests.contracts.check.conftest import Place, Report
from tests.contracts.check.test_doctor import corrected
from tests.contracts.check.test_source import offsets_table, reader

OF_PERSONS = "snapshots of dbo.Persons"
INITIAL = 'snapshot { mode = "initial" }'
MAKES = "created at the first start"


def checked(place: Place, more: str = INITIAL) -> Report:
    place.settings["more"] = more
    return place.check("--stage", "ingester")


@pytest.mark.parametrize("more", [INITIAL, 'snapshot { mode = "when_needed" }', 'on_gap = "snapshot"'])
def test_what_it_will_be_is_said(place: Place, more: str) -> None:
    place.execute("INSERT INTO dbo.Persons VALUES (1, N'a', N'b'), (2, N'a', N'b')")
    report = checked(place, more)
    assert report.status == 0
    assert report.said("ok", "snapshots").endswith(MAKES)
    assert report.said("ok", OF_PERSONS) == "about 2 rows, in the order of ID"


def test_without_any_nothing_is_said(place: Place) -> None:
    assert not [line for line in checked(place, "").lines if "snapshot" in line]


def test_an_override_counts(place: Place) -> None:
    of_persons = f'table_name = "Persons"\n{INITIAL}'
    assert checked(place, f"tables_overrides {{ overrides {{\n{of_persons}\n}} }}").each("ok", OF_PERSONS)


def test_a_table_without_a_key_is_warned_of(place: Place) -> None:
    place.execute(
        "CREATE TABLE dbo.Heap (ID INT NULL)",
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Heap', @role_name = NULL",
    )
    place.settings["tables"] = '"Heap"'
    assert "read in one pass" in checked(place).said("warn", "snapshots of dbo.Heap")
    exact = checked(place, 'snapshot {\n mode = "initial"\n exact = true\n }')
    assert "exact = false" in exact.said("fail", "snapshots of dbo.Heap")


def test_a_table_whose_only_order_its_partitions_cut_across_is_warned_of(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulator has no partitions: the catalog's answer is what is played here."""
    seen = SqlServerRows.table
    monkeypatch.setattr(
        SqlServerRows, "table", lambda rows, instance: replace(base_of(seen(rows, instance)), partitioned_by="Day")
    )
    said = checked(place).said("warn", OF_PERSONS)
    assert "(ID) is partitioned by Day" in said
    assert "CREATE UNIQUE INDEX ... ON [dbo].[Persons] (ID) ON [PRIMARY]" in said


def test_a_table_whose_rows_a_security_policy_hides(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator has no policies: the catalog's answer is what is played here."""
    filters = f"SELECT N'Security', t.name FROM sys.tables AS t WHERE t.object_id = {P}"
    monkeypatch.setattr(queries, "ROW_FILTERS", filters)
    said = checked(place).said("fail", OF_PERSONS)
    assert "the security policy Security.Persons hides rows of the table" in said
    assert "STATE = OFF" in said


def test_what_a_login_cannot_see_is_said(place: Place) -> None:
    place.execute("INSERT INTO dbo.Persons VALUES (1, N'a', N'b')")
    of_dbo = [f"{right} ON SCHEMA::dbo" for right in ("SELECT", "INSERT", "UPDATE", "ALTER")]
    reader(place, "SELECT ON SCHEMA::cdc", "CREATE TABLE", *of_dbo)
    said = checked(place).said("ok", OF_PERSONS)
    unseen = "whether a security policy hides rows, cannot be seen without VIEW DATABASE STATE and VIEW DEFINITION"
    assert said.endswith(unseen)


def test_a_login_that_may_not_read_the_table_itself(place: Place) -> None:
    offsets_table(place)
    reader(place, "SELECT ON SCHEMA::cdc", "VIEW DEFINITION ON OBJECT::dbo.Persons", "VIEW DATABASE STATE")
    said = checked(place).said("fail", OF_PERSONS)
    assert "GRANT SELECT ON OBJECT::[dbo].[Persons]" in said
    corrected(place, OF_PERSONS, "")


def test_a_table_of_snapshots_that_cannot_be_made(place: Place) -> None:
    reader(place, "SELECT ON SCHEMA::cdc", "SELECT ON SCHEMA::dbo", "CREATE TABLE", "ALTER ON SCHEMA::dbo")
    assert "may not create and use it" in checked(place).said("fail", "snapshots")
    corrected(place, "snapshots", "may not create and use it")
    assert checked(place).said("ok", "snapshots") == "dbo.cdc_snapshots may be read and written"


def test_one_that_somebody_asked_for_and_this_login_cannot_take(place: Place) -> None:
    place.execute("CREATE TABLE dbo.cdc_snapshots (id INT)")
    reader(place, "SELECT ON SCHEMA::cdc", "SELECT ON SCHEMA::dbo")
    assert "GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_snapshots" in checked(place, "").said("warn", "snapshots")
    assert checked(place).said("fail", "snapshots")


@pytest.mark.parametrize("exists", [False, True])
def test_a_table_of_snapshots_that_may_be_hidden_is_not_said_to_be_missing(place: Place, exists: bool) -> None:
    """The server hides what a login has no right on; a snapshot that somebody asks for waits for this login's ingester then."""
    if exists:
        place.execute("CREATE TABLE dbo.cdc_snapshots (id INT)")
    offsets_table(place)
    reader(place, "SELECT ON SCHEMA::cdc", "SELECT ON OBJECT::dbo.Persons", "VIEW DATABASE STATE")
    hidden = "dbo.cdc_snapshots does not exist, or this login may not see it"
    assert checked(place, "").said("ok", "snapshots").startswith(hidden)
    report = checked(place)
    assert report.said("fail", "snapshots").startswith(hidden)
    assert not report.each("ok", OF_PERSONS)  # none can be taken


def test_a_table_that_somebody_holds_is_a_warning(place: Place) -> None:
    place.execute("INSERT INTO dbo.Persons VALUES (1, N'a', N'b')")
    with place.login.connect() as held, held.cursor() as cursor:
        held.autocommit(False)
        cursor.execute("UPDATE dbo.Persons SET FirstName = N'c'")
        report = checked(place)
        held.rollback()
    assert report.said("warn", OF_PERSONS)
