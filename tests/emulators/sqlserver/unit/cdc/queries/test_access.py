"""Who may call what. Sources: the "Permissions" sections of the pages (D); errors 22902, 22904 and 22981 of the error list (D); rows of
NULLs as the text of the generated functions makes them (T)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from emulators.sqlserver.results import SqlError, Value
from tests.emulators.sqlserver.unit.cdc.conftest import Lab, person


@dataclass
class SomeRights:
    roles: set[str] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)
    made: list[str] = field(default_factory=list)

    def is_member(self, role: str) -> bool:
        return role in self.roles

    def may_select(self, schema: str, table: str) -> bool:
        return table in self.tables

    def ensure_role(self, role: str) -> None:
        self.made.append(role)

    def has_principal(self, name: str) -> bool:
        return name in self.made

    def create_user(self, name: str) -> None:
        self.made.append(name)

    def drop_user(self, name: str) -> None:
        self.made.remove(name)


def become(lab: Lab, *roles: str, tables: tuple[str, ...] = ()) -> SomeRights:
    rights = SomeRights(set(roles), set(tables))
    lab.context = replace(lab.context, rights=rights)
    return rights


def number_of(lab: Lab, procedure: str, **arguments: Value) -> int:
    with pytest.raises(SqlError) as refused:
        lab.run(procedure, **arguments)
    return refused.value.number


def gated(lab: Lab) -> bytes:
    """Table Persons behind role readers, with one captured row; its commit LSN."""
    lab.run("sp_cdc_enable_table", source_schema="dbo", source_name="Persons", role_name="readers")
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    lab.scan()
    lsn = lab.entries()[-1]["start_lsn"]
    assert isinstance(lsn, bytes)
    return lsn


@pytest.mark.parametrize(
    ("procedure", "arguments", "number"),
    [
        ("sp_cdc_enable_db", {}, 22902),
        ("sp_cdc_disable_db", {}, 22902),
        ("sp_cdc_enable_table", {"source_schema": "dbo", "source_name": "Notes", "role_name": None}, 22904),
        ("sp_cdc_disable_table", {"source_schema": "dbo", "source_name": "Persons", "capture_instance": "all"}, 22904),
        ("sp_cdc_scan", {}, 22904),
        ("sp_cdc_help_jobs", {}, 22904),
        ("sp_cdc_change_job", {"maxtrans": 5}, 22904),
        ("sp_cdc_start_job", {}, 22904),
        ("sp_cdc_stop_job", {}, 22904),
        ("sp_cdc_add_job", {"job_type": "capture"}, 22904),
        ("sp_cdc_drop_job", {"job_type": "capture"}, 22904),
        ("sp_cdc_cleanup_change_table", {"capture_instance": "dbo_Persons", "low_water_mark": None}, 22904),
    ],
)
def test_what_changes_capture_takes_db_owner(
    lab: Lab, procedure: str, arguments: dict[str, Value], number: int
) -> None:
    """D: 22902 and 22904."""
    lab.enable()
    become(lab, "readers", tables=("Persons", "Notes"))
    assert number_of(lab, procedure, **arguments) == number


def test_enabling_a_table_makes_its_gating_role(lab: Lab) -> None:
    """D: the role is created unless it exists."""
    rights = become(lab, "db_owner", tables=("Persons",))
    gated(lab)
    assert rights.made == ["readers"]


@pytest.mark.parametrize("kind", ["all", "net"])
def test_outside_the_gating_role_the_functions_are_229(lab: Lab, kind: str) -> None:
    """D: SELECT on them is granted to the role."""
    lsn = gated(lab)
    become(lab, tables=("Persons",))
    function = lab.extension.table_function(lab.database, "cdc", f"fn_cdc_get_{kind}_changes_dbo_Persons")
    assert function is not None
    with pytest.raises(
        SqlError, match=f"'fn_cdc_get_{kind}_changes_dbo_Persons', database 'demo', schema 'cdc'"
    ) as refused:
        function.call(lab.context, (lsn, lsn, "all"))
    assert refused.value.number == 229


@pytest.mark.parametrize(("kind", "columns"), [("all", 7), ("net", 6)])
def test_who_may_not_select_from_the_source_gets_a_row_of_nulls(lab: Lab, kind: str, columns: int) -> None:
    """T: no error, and no `__$start_lsn`."""
    lsn = gated(lab)
    become(lab, "readers")
    function = lab.extension.table_function(lab.database, "cdc", f"fn_cdc_get_{kind}_changes_dbo_Persons")
    assert function is not None
    assert list(function.call(lab.context, (lsn, lsn, "all"))) == [(None,) * columns]
    become(lab, "readers", tables=("Persons",))
    (row,) = function.call(lab.context, (lsn, lsn, "all"))
    assert row[0] == lsn


def test_the_low_watermark_is_zeros_for_who_may_not_read(lab: Lab) -> None:
    """D."""
    gated(lab)
    become(lab, tables=("Persons",))
    assert lab.call("fn_cdc_get_min_lsn", "dbo_Persons") == bytes(10)
    become(lab, "readers", tables=("Persons",))
    assert lab.call("fn_cdc_get_min_lsn", "dbo_Persons") != bytes(10)


def test_descriptions_are_for_those_who_may_read(lab: Lab) -> None:
    """D: 22981; sys.sp_cdc_help_change_data_capture leaves out what the caller may not see."""
    gated(lab)
    lab.enable("Notes")
    become(lab, tables=("Persons", "Notes"))
    assert number_of(lab, "sp_cdc_get_captured_columns", capture_instance="dbo_Persons") == 22981
    assert number_of(lab, "sp_cdc_get_ddl_history", capture_instance="dbo_Persons") == 22981
    assert len(lab.rows_of("sp_cdc_get_captured_columns", capture_instance="dbo_Notes")) == 4
    assert [row["source_table"] for row in lab.rows_of("sp_cdc_help_change_data_capture")] == ["Notes"]


def test_the_user_cdc_comes_and_goes_with_change_data_capture(lab: Lab) -> None:
    """D: sys.sp_cdc_enable_db, and error 22906 where there is such a user."""
    lab.run("sp_cdc_disable_db")
    rights = become(lab, "db_owner", "sysadmin")
    lab.run("sp_cdc_enable_db")
    assert rights.made == ["cdc"]
    lab.run("sp_cdc_disable_db")
    assert rights.made == []
    rights.create_user("cdc")
    assert number_of(lab, "sp_cdc_enable_db") == 22906
    assert not lab.database.cdc_enabled
