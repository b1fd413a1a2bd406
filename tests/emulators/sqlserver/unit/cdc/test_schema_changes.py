"""DDL on tracked tables. Sources: the pages About CDC, cdc.ddl_history and cdc.<capture_instance>_CT (D); measured (M)."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from emulators.sqlserver.engine.extension import KeyIndex
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.sqltypes import SqlType
from tests.emulators.sqlserver.unit.cdc.conftest import INT, NAME, Lab, person


def test_an_added_column_is_not_captured_and_a_second_instance_has_it(lab: Lab) -> None:
    """D, M."""
    lab.enable()
    with lab.database.transaction() as t:
        t.add_column("Persons", "Age", INT)
    lab.enable(capture_instance="second")
    with lab.database.transaction() as t:
        t.insert("Persons", person(1) | {"Age": 30})
    lab.scan()
    assert "Age" not in lab.changes()[0]
    assert lab.changes("second")[0]["Age"] == 30


def test_a_dropped_column_is_null_from_then_on(lab: Lab) -> None:
    """D; rows that waited for capture at the time keep their value."""
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    with lab.database.transaction() as t:
        t.drop_column("Persons", "FirstName")
        t.insert("Persons", {"ID": 2, "LastName": "Roe"})
    lab.scan()
    values = [(c["ID"], c["FirstName"], c["LastName"]) for c in lab.changes()]
    assert values == [(1, "Ann", "Lee"), (2, None, "Roe")]


def test_ddl_history_is_written_by_capture(lab: Lab) -> None:
    """D, M."""
    lab.enable()
    with lab.database.transaction() as t:
        t.add_column("Persons", "Age", INT)
    assert lab.rows_of("sp_cdc_get_ddl_history", capture_instance="dbo_Persons") == []
    lab.scan()
    (entry,) = lab.entries()
    (row,) = lab.rows_of("sp_cdc_get_ddl_history", capture_instance="dbo_Persons")
    assert row == {
        "source_schema": "dbo",
        "source_table": "Persons",
        "capture_instance": "dbo_Persons",
        "required_column_update": 0,
        "ddl_command": "ALTER TABLE Persons ADD Age",
        "ddl_lsn": entry["start_lsn"],
        "ddl_time": lab.time,
    }


def test_ddl_that_changes_no_column_leaves_no_history(lab: Lab) -> None:
    """D: the history is there for the columns of consumers; an index is none."""
    lab.enable()
    table = lab.database.table("dbo", "Persons")
    assert table is not None
    indexed = replace(table, keys=(*table.keys, KeyIndex("UQ", (2,), primary=False, index_id=2)))
    with lab.database.transaction() as t:
        t.alter(table, indexed, "CREATE UNIQUE INDEX UQ ON Persons (FirstName)")
    lab.scan()
    assert lab.rows_of("sp_cdc_get_ddl_history", capture_instance="dbo_Persons") == []


def test_an_instance_has_no_history_of_ddl_from_before_it_was_made(lab: Lab) -> None:
    """D: cdc.ddl_history; the statement was committed before, and is captured after."""
    lab.enable()
    with lab.database.transaction() as t:
        t.add_column("Persons", "Age", INT)
    lab.enable(capture_instance="second")
    lab.scan()
    assert len(lab.rows_of("sp_cdc_get_ddl_history", capture_instance="dbo_Persons")) == 1
    assert lab.rows_of("sp_cdc_get_ddl_history", capture_instance="second") == []


def test_ddl_that_is_rolled_back_leaves_no_history(lab: Lab) -> None:
    lab.enable()
    with lab.database.transaction() as t:
        t.add_column("Persons", "Age", INT)
        t.rollback()
    lab.scan()
    assert lab.rows_of("sp_cdc_get_ddl_history", capture_instance="dbo_Persons") == []


def test_truncate_is_4711(lab: Lab) -> None:
    """D."""
    lab.enable()
    with pytest.raises(SqlError) as refused, lab.database.transaction() as t:
        t.truncate("Persons")
    assert refused.value.number == 4711
    with lab.database.transaction() as t:
        t.truncate("Notes")


def test_dropping_a_table_drops_its_instances_and_keeps_the_others(lab: Lab) -> None:
    """D."""
    lab.enable()
    lab.enable(capture_instance="second")
    lab.enable("Notes")
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
        t.drop_table("Persons")
    lab.scan()
    assert [row["capture_instance"] for row in lab.database.rows("cdc", "change_tables")] == ["dbo_Notes"]
    assert lab.database.table("cdc", "dbo_Persons_CT") is None
    assert lab.database.table("cdc", "second_CT") is None


def test_a_rolled_back_drop_keeps_the_instances_capturing(lab: Lab) -> None:
    lab.enable()
    with lab.database.transaction() as t:
        t.drop_table("Persons")
        t.rollback()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    lab.scan()
    assert len(lab.changes()) == 1


def test_a_drop_whose_commit_fails_keeps_the_instances_capturing(lab: Lab) -> None:
    lab.enable()
    lab.database.commit_fails = True
    with pytest.raises(sqlite3.OperationalError), lab.database.transaction() as t:
        t.drop_table("Persons")
    lab.database.commit_fails = False
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    lab.scan()
    assert len(lab.changes()) == 1


def test_renaming_a_captured_column_is_4928(lab: Lab) -> None:
    """D, M."""
    lab.enable(captured_column_list="ID, FirstName")
    table = lab.database.table("dbo", "Persons")
    assert table is not None
    identity, first, last = table.columns
    with pytest.raises(SqlError) as refused, lab.database.transaction() as t:
        t.alter(table, replace(table, columns=(identity, replace(first, name="Given"), last)), "sp_rename")
    assert refused.value.number == 4928
    with lab.database.transaction() as t:
        t.alter(table, replace(table, columns=(identity, first, replace(last, name="Family"))), "sp_rename")


def test_renaming_the_table_is_allowed(lab: Lab) -> None:
    """D, M."""
    lab.enable()
    table = lab.database.table("dbo", "Persons")
    assert table is not None
    with lab.database.transaction() as t:
        t.alter(table, replace(table, name="People"), "sp_rename")


def column_type(lab: Lab, instance: str, column: str) -> SqlType:
    table = lab.database.table("cdc", f"{instance}_CT")
    assert table is not None
    return next(c.type for c in table.columns if c.name == column)


def test_a_captured_columns_new_type_comes_to_the_change_table_with_capture(lab: Lab) -> None:
    """D, M: asynchronously, with required_column_update = 1."""
    lab.enable()
    lab.enable(capture_instance="names", captured_column_list="ID, LastName")
    wider = SqlType("nvarchar", 80)
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
        t.alter_column("Persons", "FirstName", wider)
        t.insert("Persons", person(2))
    assert column_type(lab, "dbo_Persons", "FirstName") == NAME
    lab.scan()
    assert column_type(lab, "dbo_Persons", "FirstName") == wider
    assert [c["ID"] for c in lab.changes()] == [1, 2]
    (updated,) = lab.rows_of("sp_cdc_get_ddl_history", capture_instance="dbo_Persons")
    (passed,) = lab.rows_of("sp_cdc_get_ddl_history", capture_instance="names")
    assert (updated["required_column_update"], passed["required_column_update"]) == (1, 0)
    lengths = {
        row["column_name"]: row["character_maximum_length"]
        for row in lab.rows_of("sp_cdc_get_captured_columns", capture_instance="dbo_Persons")
    }
    assert lengths == {"ID": None, "FirstName": 80, "LastName": 50}


def test_another_type_shows_in_the_captured_columns(lab: Lab) -> None:
    """D: cdc.captured_columns.column_type."""
    lab.enable()
    with lab.database.transaction() as t:
        t.alter_column("Persons", "ID", SqlType("bigint"))
    lab.scan()
    assert [row["column_type"] for row in lab.database.rows("cdc", "captured_columns")] == [
        *("bigint", "nvarchar", "nvarchar")
    ]


def test_a_scan_that_fails_after_a_type_change_takes_it_back(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.enable()
    with lab.database.transaction() as t:
        t.alter_column("Persons", "FirstName", SqlType("nvarchar", 80))
    with monkeypatch.context() as patched:
        patched.setattr("emulators.sqlserver.cdc.log_store.forget", _broken)
        with pytest.raises(sqlite3.OperationalError):
            lab.scan()
    state = lab.extension.find(lab.database)
    assert state is not None
    assert state.instances[0].columns[1].type == NAME
    lab.scan()
    assert state.instances[0].columns[1].type == SqlType("nvarchar", 80)


def _broken(connection: sqlite3.Connection, up_to: bytes) -> None:
    raise sqlite3.OperationalError("disk I/O error")


def test_dropping_the_key_that_capture_uses_is_22983(lab: Lab) -> None:
    """D: the error list; the number on a real server is unverified."""
    lab.enable()
    table = lab.database.table("dbo", "Persons")
    assert table is not None
    with pytest.raises(SqlError) as refused, lab.database.transaction() as t:
        t.alter(table, replace(table, keys=()), "ALTER TABLE Persons DROP CONSTRAINT PK_Persons")
    assert refused.value.number == 22983
