"""Change Data Capture as an unmodified client sees it: the same tests for the emulator and, where DSTREAM_TEST_SQLSERVER names one
(sqlserver://user:password@host:port), for a real server with SQL Server Agent.

The docstring of a test names what it rests on: D Microsoft's documentation, M measured on SQL Server 2025, Z Debezium's code and
tests, U unverified on a real server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulators.sqlserver.wire.cdc_client import Client, database_with_persons, server


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    with server() as found:
        yield found


@pytest.fixture
def client(options: dict[str, Any]) -> Iterator[Client]:
    with database_with_persons(options) as made:
        yield made


# Enabling


def test_an_enabled_database_says_so_and_has_the_five_tables(client: Client) -> None:
    """D: sp_cdc_enable_db."""
    assert client.value("SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()")
    for table in ("change_tables", "captured_columns", "index_columns", "lsn_time_mapping", "ddl_history"):
        assert client.value(f"SELECT COUNT(*) FROM cdc.{table}") == 0


def test_enabling_under_a_condition(client: Client) -> None:
    """Z: TestHelper."""
    client.run(
        "IF EXISTS(select 1 from sys.databases where name = DB_NAME() AND is_cdc_enabled = 0) EXEC sys.sp_cdc_enable_db"
    )
    client.run("EXEC sys.sp_cdc_disable_db")
    client.run(
        "IF EXISTS(select 1 from sys.databases where name = DB_NAME() AND is_cdc_enabled = 0) EXEC sys.sp_cdc_enable_db"
    )
    assert client.value("SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()")


def test_an_enabled_table_says_so(client: Client) -> None:
    """Z: IS_CDC_TABLE_ENABLED."""
    query = "SELECT is_tracked_by_cdc FROM sys.tables WHERE name = 'Persons'"
    assert not client.value(query)
    client.enable()
    assert client.value(query)
    client.run("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'")
    assert not client.value(query)


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ("@source_schema = N'dbo', @source_name = N'Nobody', @role_name = NULL", 22931),
        (
            "@source_schema = N'dbo', @source_name = N'Persons', @role_name = NULL, @captured_column_list = N'ID, Age'",
            22942,
        ),
        (
            "@source_schema = N'dbo', @source_name = N'Persons', @role_name = NULL, @captured_column_list = N'LastName'",
            22943,
        ),
    ],
)
def test_what_cannot_be_enabled_is_refused_with_its_number(client: Client, arguments: str, number: int) -> None:
    """D: the list of errors."""
    assert client.error(f"EXEC sys.sp_cdc_enable_table {arguments}") == number


def test_a_third_capture_instance_is_refused(client: Client) -> None:
    """D, M."""
    client.enable()
    client.enable(capture_instance="N'second'")
    call = "EXEC sys.sp_cdc_enable_table N'dbo', N'Persons', @role_name = NULL, @capture_instance = N'third'"
    assert client.error(call) == 22962


def test_metadata_joins_as_readers_join_it(client: Client) -> None:
    """D, Z: change_tables, captured_columns and index_columns."""
    client.enable()
    ((instance, schema, name, change_table, low),) = client.rows(
        "SELECT ct.capture_instance, OBJECT_SCHEMA_NAME(ct.source_object_id), OBJECT_NAME(ct.source_object_id), "
        "OBJECT_NAME(ct.object_id), ct.start_lsn FROM cdc.change_tables AS ct"
    )
    assert (instance, schema, name, change_table) == ("dbo_Persons", "dbo", "Persons", "dbo_Persons_CT")
    assert client.value("SELECT sys.fn_cdc_get_min_lsn(N'dbo_Persons')") == low
    columns = client.rows(
        "SELECT cc.column_name, cc.column_type, cc.column_ordinal, ic.index_ordinal FROM cdc.captured_columns AS cc "
        "LEFT JOIN cdc.index_columns AS ic ON ic.object_id = cc.object_id AND ic.column_id = cc.column_id "
        "ORDER BY cc.object_id, cc.column_ordinal"
    )
    assert columns == [("ID", "int", 1, 1), ("FirstName", "nvarchar", 2, None), ("LastName", "nvarchar", 3, None)]


# Changes


def test_insert_update_and_delete_become_rows(client: Client) -> None:
    """D, M."""
    client.enable()
    client.run("INSERT INTO dbo.Persons VALUES (1, N'Ann', N'Lee'), (2, N'Bob', N'Roe')")
    client.run("UPDATE dbo.Persons SET LastName = N'Poe' WHERE ID = 2")
    client.run("DELETE FROM dbo.Persons WHERE ID = 1")
    client.captured(5)
    rows = client.changes("[__$operation], [__$update_mask], ID, LastName")
    assert rows == [
        (2, b"\x07", 1, "Lee"),
        (2, b"\x07", 2, "Roe"),
        (3, b"\x04", 2, "Roe"),
        (4, b"\x04", 2, "Poe"),
        (1, b"\x07", 1, "Lee"),
    ]
    lsns = [lsn for (lsn,) in client.changes("[__$start_lsn]")]
    assert lsns[0] == lsns[1] < lsns[2] == lsns[3] < lsns[4]
    assert all(seqval < lsn for seqval, lsn in client.changes("[__$seqval], [__$start_lsn]"))


def test_a_transaction_over_two_tables_has_one_commit_lsn(client: Client) -> None:
    """D, Z."""
    client.run("CREATE TABLE dbo.Orders (ID int NOT NULL PRIMARY KEY)")
    client.enable()
    client.enable("Orders")
    client.run("BEGIN TRAN; INSERT INTO dbo.Persons (ID) VALUES (1); INSERT INTO dbo.Orders VALUES (1); COMMIT")
    client.captured(1)
    client.captured(1, "dbo_Orders")
    assert client.changes("[__$start_lsn]") == client.changes("[__$start_lsn]", "dbo_Orders")
    ((first,),), ((second,),) = client.changes("[__$seqval]"), client.changes("[__$seqval]", "dbo_Orders")
    assert first < second


def test_rolled_back_work_and_what_a_savepoint_undoes_never_appear(client: Client) -> None:
    """D; the savepoint: U."""
    client.enable()
    client.run("BEGIN TRAN; INSERT INTO dbo.Persons (ID) VALUES (1); ROLLBACK")
    client.run(
        "BEGIN TRAN; INSERT INTO dbo.Persons (ID) VALUES (2); SAVE TRAN here; "
        "INSERT INTO dbo.Persons (ID) VALUES (3); ROLLBACK TRAN here; INSERT INTO dbo.Persons (ID) VALUES (4); COMMIT"
    )
    client.captured(2)
    assert client.changes("ID") == [(2,), (4,)]


def test_uncommitted_rows_are_invisible(client: Client) -> None:
    """D."""
    client.enable()
    with client.connect() as other, other.cursor() as cursor:
        cursor.execute("BEGIN TRAN INSERT INTO dbo.Persons (ID) VALUES (1)")
        assert client.value("SELECT COUNT(*) FROM cdc.dbo_Persons_CT") == 0
        cursor.execute("COMMIT")
    client.captured(1)


def test_a_statement_that_fails_leaves_the_transactions_earlier_rows(client: Client) -> None:
    """D: XACT_ABORT OFF."""
    client.enable()
    client.run("BEGIN TRAN; INSERT INTO dbo.Persons (ID) VALUES (1)")
    assert client.error("INSERT INTO dbo.Persons (ID) VALUES (2), (1)") == 2627
    client.run("COMMIT")
    client.captured(1)
    assert client.changes("ID") == [(1,)]


def test_a_key_update_of_one_row_is_a_delete_and_an_insert(client: Client) -> None:
    """Z: same commit LSN and seqval, consecutive command ids."""
    client.enable()
    client.run("INSERT INTO dbo.Persons VALUES (1, N'Ann', N'Lee')")
    client.run("UPDATE dbo.Persons SET ID = 2 WHERE ID = 1")
    client.captured(3)
    deleted, inserted = client.changes("[__$operation], ID, [__$start_lsn], [__$seqval], [__$command_id]")[1:]
    assert (deleted[:2], inserted[:2]) == ((1, 1), (2, 2))
    assert deleted[2:4] == inserted[2:4]
    assert inserted[4] == deleted[4] + 1


def test_a_key_update_of_several_rows_deletes_all_then_inserts_all(client: Client) -> None:
    """KB 238254, Z; U in detail."""
    client.enable()
    client.run("INSERT INTO dbo.Persons (ID) VALUES (1), (2), (3)")
    client.run("UPDATE dbo.Persons SET ID = ID + 1000")
    client.captured(9)
    assert client.changes("[__$operation], ID")[3:] == [(1, 1), (1, 2), (1, 3), (2, 1001), (2, 1002), (2, 1003)]


def test_values_of_every_type_pass_through_the_change_table(client: Client) -> None:
    """D, Z: what the source gives and what the change table gives are the same."""
    types = {
        "a": ("bit", "1"),
        "b": ("tinyint", "255"),
        "c": ("bigint", "9223372036854775807"),
        "d": ("decimal(38, 10)", "1234567890123456789012345678.0123456789"),
        "e": ("money", "922337203685477.5807"),
        "f": ("float", "0.1"),
        "g": ("real", "0.5"),
        "h": ("nvarchar(max)", "N'Zoë 😀'"),
        "i": ("char(5)", "'ab'"),
        "j": ("date", "'0001-01-01'"),
        "k": ("time(7)", "'10:23:45.6789012'"),
        "l": ("datetime", "'2018-07-13T13:23:45.777'"),
        "m": ("datetime2(7)", "'2018-07-13T13:23:45.7801234'"),
        "n": ("datetimeoffset(7)", "'2018-07-13T12:23:45.4560000+11:00'"),
        "o": ("varbinary(max)", "0x0001FF"),
        "p": ("binary(4)", "0x01"),
        "q": ("uniqueidentifier", "'6F9619FF-8B86-D011-B42D-00C04FC964FF'"),
        "r": ("xml", "N'<a/>'"),
        "s": ("smalldatetime", "'2018-07-13T13:23:00'"),
    }
    columns = ", ".join(f"{name} {kind} NULL" for name, (kind, _) in types.items())
    client.run(f"CREATE TABLE dbo.Types (ID int IDENTITY PRIMARY KEY, {columns}, v rowversion)")
    client.enable("Types")
    names = ", ".join(types)
    client.run(f"INSERT INTO dbo.Types ({names}) VALUES ({', '.join(value for _, value in types.values())})")
    client.run(f"INSERT INTO dbo.Types ({names}) VALUES ({', '.join('NULL' for _ in types)})")
    client.captured(2, "dbo_Types")
    assert client.changes(f"ID, {names}, v", "dbo_Types") == client.rows(
        f"SELECT ID, {names}, v FROM dbo.Types ORDER BY ID"
    )


# Reading


def test_max_lsn_is_that_of_the_last_captured_transaction(client: Client) -> None:
    """D, M."""
    client.enable()
    client.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    client.captured(1)
    ((lsn,),) = client.changes("[__$start_lsn]")
    assert client.value("SELECT MAX(start_lsn) FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00") == lsn
    assert client.value("SELECT sys.fn_cdc_get_max_lsn()") >= lsn
    time_of = client.value("SELECT sys.fn_cdc_map_lsn_to_time(%s)", bytearray(lsn))
    assert client.rows("SELECT tran_end_time FROM cdc.lsn_time_mapping WHERE start_lsn = %s", bytearray(lsn)) == [
        (time_of,)
    ]


def test_max_lsn_without_cdc_is_208(client: Client) -> None:
    """M."""
    client.run("EXEC sys.sp_cdc_disable_db")
    assert client.error("SELECT sys.fn_cdc_get_max_lsn()") == 208


def test_debeziums_function_mode_query(client: Client) -> None:
    """Z: its columns, its order and its three-clause predicate."""
    client.enable()
    client.run("INSERT INTO dbo.Persons (ID) VALUES (1), (2)")
    client.run("UPDATE dbo.Persons SET FirstName = N'x' WHERE ID = 1")
    client.captured(4)
    first = client.changes("[__$start_lsn], [__$seqval]")[0]
    high = bytearray(client.value("SELECT sys.fn_cdc_get_max_lsn()"))
    lsn, seqval = bytearray(first[0]), bytearray(first[1])
    rows = client.rows(
        f"SELECT * FROM [{client.database}].cdc.[fn_cdc_get_all_changes_dbo_Persons](%s, %s, N'all update old') "
        "WHERE ([__$start_lsn] = %s AND [__$seqval] = %s AND [__$operation] > %s) "
        "OR ([__$start_lsn] = %s AND [__$seqval] > %s) OR ([__$start_lsn] > %s) "
        "ORDER BY [__$start_lsn] ASC, [__$seqval] ASC, [__$operation] ASC",
        *(lsn, high, lsn, seqval, 2, lsn, seqval, lsn),
    )
    assert [(row[2], row[4]) for row in rows] == [(2, 2), (3, 1), (4, 1)]


def test_a_page_by_position_with_its_commit_times(client: Client) -> None:
    """Z: direct mode; what DStream's own pages are like."""
    client.enable()
    for number in range(4):
        client.run(f"INSERT INTO dbo.Persons (ID) VALUES ({number})")
    client.captured(4)
    seen = []
    position = (bytearray(b"\0"), 0, bytearray(b"\0"), 0)
    while True:
        lsn, command, seqval, operation = position
        page = client.rows(
            "SELECT TOP (3) ct.[__$start_lsn], ct.[__$command_id], ct.[__$seqval], ct.[__$operation], "
            "CONVERT(varchar(33), tm.tran_end_time, 126), ct.[ID] FROM [cdc].[dbo_Persons_CT] AS ct "
            "LEFT JOIN cdc.lsn_time_mapping AS tm ON tm.start_lsn = ct.[__$start_lsn] "
            "WHERE ct.[__$start_lsn] > %s OR (ct.[__$start_lsn] = %s AND (ct.[__$command_id] > %s OR "
            "(ct.[__$command_id] = %s AND (ct.[__$seqval] > %s OR "
            "(ct.[__$seqval] = %s AND ct.[__$operation] > %s))))) "
            "ORDER BY ct.[__$start_lsn], ct.[__$command_id], ct.[__$seqval], ct.[__$operation]",
            *(lsn, lsn, command, command, seqval, seqval, operation),
        )
        if not page:
            break
        seen += [row[5] for row in page]
        assert all(row[4] for row in page)
        position = (bytearray(page[-1][0]), page[-1][1], bytearray(page[-1][2]), page[-1][3])
    assert seen == [0, 1, 2, 3]


def test_a_bad_window_is_error_313(client: Client) -> None:
    """D, M."""
    client.enable()
    client.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    client.captured(1)
    for arguments in (
        "NULL, sys.fn_cdc_get_max_lsn(), N'all'",
        "0x01, sys.fn_cdc_get_max_lsn(), N'all'",
        "sys.fn_cdc_get_min_lsn('dbo_Persons'), sys.fn_cdc_increment_lsn(sys.fn_cdc_get_max_lsn()), N'all'",
        "sys.fn_cdc_get_min_lsn('dbo_Persons'), sys.fn_cdc_get_max_lsn(), N'everything'",
    ):
        assert client.error(f"SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_Persons({arguments})") == 313


def test_a_disabled_tables_function_is_208(client: Client) -> None:
    """Z: MISSING_CDC_FUNCTION."""
    client.enable()
    client.run("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'dbo_Persons'")
    assert client.error("SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_Persons(0x00, 0x00, N'all')") == 208


def test_cleanup_raises_the_low_watermark_and_deletes_below_it(client: Client) -> None:
    """D, M."""
    client.enable()
    for number in range(3):
        client.run(f"INSERT INTO dbo.Persons (ID) VALUES ({number}); WAITFOR DELAY '00:00:00.020'")
    client.captured(3)
    marks = [lsn for (lsn,) in client.changes("[__$start_lsn]")]
    call = "EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_Persons', @low_water_mark = %s, @threshold = 5000"
    client.run(call, bytearray(marks[1]))
    assert client.value("SELECT sys.fn_cdc_get_min_lsn(N'dbo_Persons')") == marks[1]
    assert client.changes("ID") == [(1,), (2,)]
    unknown = client.value("SELECT sys.fn_cdc_increment_lsn(%s)", bytearray(marks[2]))
    assert client.error(call, bytearray(unknown)) == 22964


# Schema changes


def test_a_column_added_later_is_captured_by_a_second_instance_only(client: Client) -> None:
    """D, M, Z: migrateTable."""
    client.enable()
    client.run("ALTER TABLE dbo.Persons ADD Age int NULL")
    client.enable(capture_instance="N'second'")
    client.run("INSERT INTO dbo.Persons VALUES (1, N'Ann', N'Lee', 30)")
    client.captured(1)
    client.captured(1, "second")
    assert client.changes("ID, Age", "second") == [(1, 30)]
    assert client.error("SELECT Age FROM cdc.dbo_Persons_CT") == 207
    assert client.value("SELECT COUNT(*) FROM cdc.change_tables WHERE end_lsn IS NULL") == 2


def test_a_dropped_column_is_null_from_then_on(client: Client) -> None:
    """D."""
    client.enable()
    client.run("INSERT INTO dbo.Persons VALUES (1, N'Ann', N'Lee')")
    client.captured(1)
    client.run("ALTER TABLE dbo.Persons DROP COLUMN FirstName")
    client.run("INSERT INTO dbo.Persons VALUES (2, N'Roe')")
    client.captured(2)
    assert client.changes("ID, FirstName, LastName") == [(1, "Ann", "Lee"), (2, None, "Roe")]


def test_truncating_a_tracked_table_is_4711(client: Client) -> None:
    """D."""
    client.enable()
    assert client.error("TRUNCATE TABLE dbo.Persons") == 4711


def test_dropping_a_tracked_table_drops_its_instances(client: Client) -> None:
    """D."""
    client.enable()
    client.run("DROP TABLE dbo.Persons")
    assert client.value("SELECT COUNT(*) FROM cdc.change_tables") == 0
    assert client.error("SELECT * FROM cdc.dbo_Persons_CT") == 208


# Jobs


def test_the_capture_job_can_be_stopped_changed_and_started(client: Client) -> None:
    """D; Z: ADJUST_CDC_POLLING_INTERVAL."""
    client.enable()
    client.run("EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = 1")
    client.run("EXEC sys.sp_cdc_stop_job @job_type = N'capture'")
    client.run("EXEC sys.sp_cdc_start_job @job_type = N'capture'")
    with client.connection.cursor(as_dict=True) as cursor:
        cursor.execute("EXEC sys.sp_cdc_help_jobs")
        jobs = {row["job_type"]: row for row in cursor.fetchall()}
    assert jobs["capture"]["pollinginterval"] == 1
    assert jobs["cleanup"]["retention"] == 4320
