"""Enabling and disabling. Sources: the pages sys.sp_cdc_enable_db, _enable_table, _disable_table, _disable_db and the list of
errors 22000 to 22999 (D); measured on SQL Server 2025 (M)."""

from __future__ import annotations

import pytest

from emulators.sqlserver.cdc import metadata
from emulators.sqlserver.cdc.column_list import column_names
from emulators.sqlserver.engine.extension import CallContext
from emulators.sqlserver.results import Info, SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from tests.emulators.sqlserver.unit.cdc.conftest import INT, NAME, Lab, person


def number_of(lab: Lab, procedure: str, **arguments: Value) -> int:
    with pytest.raises(SqlError) as refused:
        lab.run(procedure, **arguments)
    assert refused.value.severity == 16
    return refused.value.number


def enabling(lab: Lab, **arguments: Value) -> int:
    """The number of the error with which enabling a table is refused."""
    given: dict[str, Value] = {"source_schema": "dbo", "source_name": "Persons", "role_name": None}
    return number_of(lab, "sp_cdc_enable_table", **(given | arguments))


def test_enabling_a_database_makes_schema_cdc_and_its_five_tables(lab: Lab) -> None:
    """D."""
    tables = ("change_tables", "captured_columns", "index_columns", "lsn_time_mapping", "ddl_history")
    assert all(lab.database.table("cdc", name) for name in tables)
    assert "cdc" in lab.database.schemas
    assert lab.database.cdc_enabled


def test_enabling_a_database_again_is_message_22905(lab: Lab) -> None:
    """D: severity 10."""
    (message,) = [event for event in lab.run("sp_cdc_enable_db") if isinstance(event, Info)]
    assert (message.number, message.severity) == (22905, 10)


def test_a_schema_named_cdc_prevents_enabling(lab: Lab) -> None:
    """D: 22906."""
    lab.run("sp_cdc_disable_db")
    lab.database.create_schema("cdc")
    assert number_of(lab, "sp_cdc_enable_db") == 22906
    assert not lab.database.cdc_enabled


def test_a_table_of_a_database_without_cdc_is_22901(lab: Lab) -> None:
    """D."""
    lab.run("sp_cdc_disable_db")
    assert enabling(lab) == 22901


def test_a_table_that_does_not_exist_is_22931(lab: Lab) -> None:
    """D."""
    assert enabling(lab, source_name="Nobody") == 22931


def test_a_table_of_schema_cdc_is_22974(lab: Lab) -> None:
    """D."""
    assert enabling(lab, source_schema="cdc", source_name="change_tables") == 22974


def test_an_empty_source_name_is_22963(lab: Lab) -> None:
    """D."""
    assert enabling(lab, source_name=None) == 22963


def test_an_empty_role_name_is_22907(lab: Lab) -> None:
    """D."""
    assert enabling(lab, role_name="") == 22907


def test_an_unknown_filegroup_is_22973(lab: Lab) -> None:
    """D."""
    assert enabling(lab, filegroup_name="fast") == 22973


def test_the_instance_is_named_schema_table_and_listed(lab: Lab) -> None:
    """D."""
    lab.enable()
    (row,) = lab.database.rows("cdc", "change_tables")
    assert row["capture_instance"] == "dbo_Persons"
    assert row["end_lsn"] is None
    assert (row["index_name"], row["supports_net_changes"], row["partition_switch"]) == ("PK_Persons", 1, 1)
    assert lab.call("fn_cdc_get_min_lsn", "dbo_Persons") == row["start_lsn"]
    table = lab.database.table("cdc", "dbo_Persons_CT")
    assert table is not None
    assert table.object_id == row["object_id"]


def test_the_source_is_marked_as_tracked_until_its_last_instance_goes(lab: Lab) -> None:
    """D: sys.tables.is_tracked_by_cdc."""
    lab.enable()
    lab.enable(capture_instance="second")
    source = lab.database.table("dbo", "Persons")
    assert source is not None
    for instance, tracked in (("dbo_Persons", True), ("second", False)):
        lab.run("sp_cdc_disable_table", source_schema="dbo", source_name="Persons", capture_instance=instance)
        assert (source.object_id in lab.database.tracked) is tracked


def test_a_name_of_more_than_100_characters_is_22927(lab: Lab) -> None:
    """D."""
    assert enabling(lab, capture_instance="x" * 101) == 22927
    lab.enable(capture_instance="x" * 100)


def test_a_name_in_use_is_22926(lab: Lab) -> None:
    """D: names compare without case."""
    lab.enable()
    assert enabling(lab) == 22926
    assert enabling(lab, source_name="Notes", capture_instance="DBO_PERSONS") == 22926


def test_a_third_instance_is_22962(lab: Lab) -> None:
    """M, D."""
    lab.enable()
    lab.enable(capture_instance="second")
    assert enabling(lab, capture_instance="third") == 22962


def test_both_instances_of_a_table_are_filled(lab: Lab) -> None:
    """D, M."""
    lab.enable()
    lab.enable(capture_instance="second", captured_column_list="ID", supports_net_changes=0)
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    lab.scan()
    assert [c["ID"] for c in lab.changes()] == [1]
    assert [c["ID"] for c in lab.changes("second")] == [1]
    assert lab.changes("second")[0]["__$update_mask"] == b"\x01"


def test_the_change_table_has_the_documented_columns_in_order(lab: Lab) -> None:
    """D; `__$command_id` last and captured columns nullable: M."""
    lab.database.define("Versions", {"ID": INT, "Version": SqlType("rowversion")}, key=["ID"])
    lab.enable("Versions")
    table = lab.database.table("cdc", "dbo_Versions_CT")
    assert table is not None
    assert [(c.name, c.type, c.nullable) for c in table.columns] == [
        ("__$start_lsn", SqlType("binary", 10), False),
        ("__$end_lsn", SqlType("binary", 10), True),
        ("__$seqval", SqlType("binary", 10), False),
        ("__$operation", SqlType("int"), False),
        ("__$update_mask", SqlType("varbinary", 128), True),
        ("ID", INT, True),
        ("Version", SqlType("binary", 8), True),
        ("__$command_id", SqlType("int"), True),
    ]


def test_captured_columns_and_index_columns_describe_the_instance(lab: Lab) -> None:
    """D."""
    lab.database.define("Versions", {"ID": INT, "Skip": INT, "Version": SqlType("rowversion")}, key=["ID"])
    lab.enable("Versions", captured_column_list="ID, Version")
    captured = lab.database.rows("cdc", "captured_columns")
    assert [(c["column_name"], c["column_id"], c["column_ordinal"], c["column_type"]) for c in captured] == [
        ("ID", 1, 1, "int"),
        ("Version", 3, 2, "timestamp"),
    ]
    (indexed,) = lab.database.rows("cdc", "index_columns")
    assert (indexed["column_name"], indexed["index_ordinal"], indexed["column_id"]) == ("ID", 1, 1)


def test_an_unknown_column_in_the_list_is_22942(lab: Lab) -> None:
    """D."""
    assert enabling(lab, captured_column_list="ID, Age") == 22942


def test_an_unterminated_column_in_the_list_is_22965(lab: Lab) -> None:
    """D."""
    assert enabling(lab, captured_column_list="[ID, FirstName") == 22965


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ID", ["ID"]),
        (" ID , [Order Details] ", ["ID", "Order Details"]),
        ('[a]]b],"c""d,e"', ["a]b", 'c"d,e']),
        ("[a] b", [""]),
        ("a,,b", ["a", "", "b"]),
    ],
)
def test_column_lists_take_plain_bracketed_and_quoted_names(text: str, names: list[str]) -> None:
    """D: sp_cdc_enable_table, @captured_column_list."""
    assert column_names(text) == names


def test_the_captured_columns_stand_in_the_tables_order(lab: Lab) -> None:
    lab.enable(captured_column_list="LastName, ID")
    assert [c["column_name"] for c in lab.database.rows("cdc", "captured_columns")] == ["ID", "LastName"]


def test_net_changes_need_a_key(lab: Lab) -> None:
    """D: 22939; without a key the default is 0."""
    lab.database.define("Heap", {"A": INT})
    assert enabling(lab, source_name="Heap", supports_net_changes=1) == 22939
    lab.enable("Heap")
    assert lab.database.rows("cdc", "change_tables")[0]["supports_net_changes"] == 0


def test_net_changes_need_the_key_among_the_captured_columns(lab: Lab) -> None:
    """D: 22943."""
    assert enabling(lab, captured_column_list="FirstName", supports_net_changes=1) == 22943
    lab.enable(captured_column_list="FirstName", supports_net_changes=0)


def test_a_unique_index_may_identify_rows_and_an_unknown_one_is_22928(lab: Lab) -> None:
    """D."""
    lab.database.define("Mails", {"ID": INT, "Mail": NAME}, unique=["Mail"])
    assert enabling(lab, source_name="Mails", index_name="IX_None") == 22928
    lab.enable("Mails", index_name="UQ_Mails", supports_net_changes=1)
    assert lab.database.rows("cdc", "index_columns")[0]["column_name"] == "Mail"


def test_reserved_column_names_are_22975(lab: Lab) -> None:
    """D."""
    lab.database.define("Odd", {"ID": INT, "__$operation": INT})
    assert enabling(lab, source_name="Odd") == 22975


def test_a_refused_enabling_leaves_nothing_behind(lab: Lab) -> None:
    enabling(lab, captured_column_list="Age")
    assert lab.database.rows("cdc", "change_tables") == []
    assert lab.database.table("cdc", "dbo_Persons_CT") is None
    lab.enable()


def test_disabling_a_table_drops_its_change_table_and_its_function(lab: Lab) -> None:
    """D; the engine then answers 208 (Z)."""
    lab.enable()
    lab.run("sp_cdc_disable_table", source_schema="dbo", source_name="Persons", capture_instance="all")
    assert lab.database.table("cdc", "dbo_Persons_CT") is None
    assert lab.extension.table_function(lab.database, "cdc", "fn_cdc_get_all_changes_dbo_Persons") is None
    for name in ("change_tables", "captured_columns", "index_columns"):
        assert lab.database.rows("cdc", name) == []


def test_disabling_says_what_is_not_enabled(lab: Lab) -> None:
    """D: 22931, 22985, 22960."""
    given: dict[str, Value] = {"source_schema": "dbo", "capture_instance": "dbo_Persons"}
    assert number_of(lab, "sp_cdc_disable_table", source_name="Nobody", **given) == 22931
    assert number_of(lab, "sp_cdc_disable_table", source_name="Persons", **given) == 22985
    lab.enable("Notes")
    assert number_of(lab, "sp_cdc_disable_table", source_name="Notes", **given) == 22960


def test_changes_of_a_disabled_table_that_wait_for_capture_are_dropped(lab: Lab) -> None:
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    lab.run("sp_cdc_disable_table", source_schema="dbo", source_name="Persons", capture_instance="all")
    lab.enable()
    lab.scan()
    assert lab.changes() == []


def test_disabling_a_database_drops_everything_and_it_can_be_enabled_again(lab: Lab) -> None:
    """D."""
    lab.enable()
    lab.run("sp_cdc_disable_db")
    assert not [table for table in lab.database.tables() if table.schema == "cdc"]
    assert "cdc" not in lab.database.schemas
    assert lab.database.observer is None
    assert not lab.database.cdc_enabled
    assert not lab.database.tracked
    lab.run("sp_cdc_enable_db")
    lab.enable()


@pytest.mark.parametrize("procedure", ["sp_cdc_enable_db", "sp_cdc_disable_db", "sp_cdc_scan", "sp_cdc_change_job"])
def test_procedures_that_write_are_refused_inside_a_user_transaction(lab: Lab, procedure: str) -> None:
    """The emulator's own limit: they would wait for the user's write transaction for ever."""
    lab.context = CallContext(lab.database, "sa", 51, in_transaction=True)
    assert number_of(lab, procedure) == 50001


@pytest.mark.parametrize("procedure", ["sp_cdc_vupgrade", "sp_cdc_generate_wrapper_function"])
def test_known_procedures_that_are_not_imitated_are_refused_by_name(lab: Lab, procedure: str) -> None:
    with pytest.raises(SqlError, match=f"emulator: sys.{procedure} is not supported"):
        lab.run(procedure)


def test_help_lists_every_instance_with_its_columns(lab: Lab) -> None:
    """D: sys.sp_cdc_help_change_data_capture."""
    lab.enable()
    lab.enable("Notes")
    first, second = lab.rows_of("sp_cdc_help_change_data_capture")
    assert list(first) == [
        *("source_schema", "source_table", "capture_instance", "object_id", "source_object_id", "start_lsn"),
        *("end_lsn", "supports_net_changes", "has_drop_pending", "role_name", "index_name", "filegroup_name"),
        *("create_date", "index_column_list", "captured_column_list"),
    ]
    assert (first["source_schema"], first["source_table"]) == ("dbo", "Persons")
    assert (first["index_column_list"], first["captured_column_list"]) == ("[ID]", "[ID], [FirstName], [LastName]")
    assert second["capture_instance"] == "dbo_Notes"
    (only,) = lab.rows_of("sp_cdc_help_change_data_capture", source_schema="dbo", source_name="Notes")
    assert only == second


def test_help_wants_schema_and_name_together(lab: Lab) -> None:
    """D: 22972."""
    assert number_of(lab, "sp_cdc_help_change_data_capture", source_schema="dbo") == 22972


def test_get_captured_columns_describes_their_types(lab: Lab) -> None:
    """D: sys.sp_cdc_get_captured_columns."""
    lab.database.define("Sums", {"ID": INT, "Amount": SqlType("decimal", precision=18, scale=4), "Name": NAME})
    lab.enable("Sums")
    rows = lab.rows_of("sp_cdc_get_captured_columns", capture_instance="dbo_Sums")
    measured = [
        (r["column_name"], r["data_type"], r["character_maximum_length"], r["numeric_precision"], r["numeric_scale"])
        for r in rows
    ]
    assert measured == [
        ("ID", "int", None, 10, 0),
        ("Amount", "decimal", None, 18, 4),
        ("Name", "nvarchar", 50, None, None),
    ]


def test_an_unknown_instance_is_22920(lab: Lab) -> None:
    """D."""
    assert number_of(lab, "sp_cdc_get_captured_columns", capture_instance="nothing") == 22920


def test_what_is_known_of_the_instances_is_what_their_rows_describe(lab: Lab) -> None:
    lab.enable()
    lab.enable("Notes", capture_instance="first")
    lab.enable("Notes", capture_instance="second")
    lab.run("sp_cdc_disable_table", source_schema="dbo", source_name="Notes", capture_instance="first")
    lab.scan()
    lab.run("sp_cdc_cleanup_change_table", capture_instance="dbo_Persons", low_water_mark=None)
    state = lab.extension.find(lab.database)
    assert state is not None
    with lab.database.writer() as connection:
        assert tuple(state.instances) == metadata.load_instances(lab.database, connection)
    assert sorted(instance.name for instance in state.instances) == ["dbo_Persons", "second"]
