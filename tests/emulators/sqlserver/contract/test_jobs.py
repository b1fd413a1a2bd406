"""Items 67 to 71: jobs, cleanup, views of the capture's state, and the Go dstream's checkpoint table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.names import TableName
from ingester.source import PageQuery
from ingester.sqlserver.connection import Connection as IngesterConnection
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.sqlserver.source import SqlServerSource
from ingester.window import gap, gap_error
from tests.emulators.sqlserver.contract.client import Database, Refused
from tests.emulators.sqlserver.contract.labels import item


def job(database: Database, kind: str) -> dict[str, object]:
    """What sys.sp_cdc_help_jobs says of one of the two jobs."""
    (found,) = [row for row in database.named("EXEC sys.sp_cdc_help_jobs") if row["job_type"] == kind]
    return found


@item(67, "documented")
def test_a_captured_database_has_two_jobs(persons: Database) -> None:
    """With the page's columns.

    Source: Microsoft, "sys.sp_cdc_help_jobs (Transact-SQL)".
    """
    assert persons.columns("EXEC sys.sp_cdc_help_jobs") == [
        *(
            "job_id",
            "job_type",
            "job_name",
            "maxtrans",
            "maxscans",
            "continuous",
            "pollinginterval",
            "retention",
            "threshold",
        ),
    ]
    assert job(persons, "capture")["job_name"] == f"cdc.{persons.database}_capture"
    cleanup = job(persons, "cleanup")
    assert cleanup["job_name"] == f"cdc.{persons.database}_cleanup"
    assert (cleanup["retention"], cleanup["threshold"]) == (4320, 5000)


@item(67, "documented")
def test_the_capture_job_reads_continuously(persons: Database) -> None:
    """500 transactions a scan and 10 scans a cycle, up to SQL Server 2022.

    Source: Microsoft, "sys.sp_cdc_add_job (Transact-SQL)".
    """
    capture = job(persons, "capture")
    assert bool(capture["continuous"])
    assert int(str(capture["maxtrans"])) >= 500
    assert int(str(capture["maxscans"])) >= 10


@item(67, "documented")
def test_a_job_is_changed_and_started_again(persons: Database) -> None:
    """As Debezium's tests adjust the polling interval.

    Source: Microsoft, "sys.sp_cdc_change_job (Transact-SQL)"; Debezium ADJUST_CDC_POLLING_INTERVAL.
    """
    persons.run("EXEC sys.sp_cdc_change_job @job_type = 'capture', @pollinginterval = 1")
    persons.run("EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 60, @threshold = 100")
    assert job(persons, "capture")["pollinginterval"] == 1
    assert (job(persons, "cleanup")["retention"], job(persons, "cleanup")["threshold"]) == (60, 100)
    stopped(persons)
    persons.run("EXEC sys.sp_cdc_start_job @job_type = N'capture'")
    persons.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    persons.captured(1)


def stopped(database: Database) -> None:
    """Stop the capture job; the agent of a real server may still be starting it, or stopping it."""
    database.until(lambda: not_refused(database, "EXEC sys.sp_cdc_stop_job @job_type = N'capture'"), "the job to stop")
    database.until(lambda: not_refused(database, "EXEC sys.sp_cdc_scan"), "the log to be free")


def not_refused(database: Database, sql: str) -> bool:
    try:
        database.run(sql)
    except Refused:
        return False
    return True


@item(67, "documented")
def test_without_its_job_nothing_is_captured_until_a_scan(persons: Database) -> None:
    """sys.sp_cdc_scan does what a cycle of the job does.

    Source: Microsoft, "sys.sp_cdc_scan", "sys.sp_cdc_stop_job (Transact-SQL)".
    """
    stopped(persons)
    persons.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    assert persons.changes("ID") == []
    persons.run("EXEC sys.sp_cdc_scan")
    assert persons.changes("ID") == [(1,)]


@item(67, "documented")
def test_both_jobs_are_in_msdb_with_their_settings(persons: Database) -> None:
    """By the database's number, and under their names with the agent's other jobs.

    Source: Microsoft, "dbo.cdc_jobs (Transact-SQL)"; Microsoft, "dbo.sysjobs (Transact-SQL)".
    """
    capture, cleanup = persons.named("SELECT * FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID() ORDER BY job_type")
    assert [capture[name] for name in ("job_type", "continuous", "retention", "threshold")] == ["capture", True, 0, 0]
    assert (capture["maxtrans"] >= 500, capture["maxscans"] >= 10, capture["pollinginterval"] >= 1) == (True,) * 3
    names = ("job_type", "maxtrans", "maxscans", "continuous", "pollinginterval", "retention", "threshold")
    assert [cleanup[name] for name in names] == ["cleanup", 0, 0, False, 0, 4320, 5000]
    assert persons.rows(
        "SELECT c.job_type, j.name FROM msdb.dbo.cdc_jobs AS c JOIN msdb.dbo.sysjobs AS j ON j.job_id = c.job_id "
        "WHERE c.database_id = DB_ID() ORDER BY c.job_type"
    ) == [("capture", f"cdc.{persons.database}_capture"), ("cleanup", f"cdc.{persons.database}_cleanup")]


@item(67, "documented")
def test_a_job_is_dropped_and_added_again(persons: Database) -> None:
    """With the settings that are given, and started; the other job stays.

    Source: Microsoft, "sys.sp_cdc_drop_job (Transact-SQL)"; Microsoft, "sys.sp_cdc_add_job (Transact-SQL)".
    """
    kinds = "SELECT job_type FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID() ORDER BY job_type"
    persons.run("EXEC sys.sp_cdc_drop_job @job_type = N'capture'")
    assert persons.column(kinds) == ["cleanup"]
    persons.run("EXEC sys.sp_cdc_add_job @job_type = N'capture', @pollinginterval = 1")
    assert persons.column(kinds) == ["capture", "cleanup"]
    assert job(persons, "capture")["pollinginterval"] == 1
    persons.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    persons.captured(1)


@item(67, "measured")
def test_a_scan_beside_the_running_job_is_22903(persons: Database) -> None:
    """One log scan session a database.

    Source: Microsoft, "Database engine events and errors", 22903; measured on SQL Server 2025.
    """
    persons.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    persons.captured(1)
    assert persons.error("EXEC sys.sp_cdc_scan").number == 22903


def two_changes(persons: Database) -> tuple[bytes, bytes]:
    """The LSNs of two captured transactions, which did not end at the same time."""
    for number in (1, 2):
        persons.run(f"WAITFOR DELAY '00:00:00.020' INSERT INTO dbo.Persons (ID) VALUES ({number})")
        persons.captured(number)
    (first,), (second,) = persons.changes("[__$start_lsn]")
    return first, second


CLEANUP = "EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_Persons', @low_water_mark = "
SMALLEST_OF_ITS_TIME = (
    "SELECT MIN(start_lsn) FROM cdc.lsn_time_mapping WHERE tran_end_time = "
    "(SELECT tran_end_time FROM cdc.lsn_time_mapping WHERE start_lsn = %s)"
)


@item(68, "documented")
def test_cleanup_raises_the_low_watermark_and_deletes_below_it(persons: Database) -> None:
    """Rows at the mark stay; a window that begins below it is 313.

    Source: Microsoft, "sys.sp_cdc_cleanup_change_table (Transact-SQL)"; measured on SQL Server 2025.
    """
    first, second = two_changes(persons)
    persons.run(CLEANUP + "%s, @threshold = 1", second)
    low = persons.value(SMALLEST_OF_ITS_TIME, second)
    assert first < low <= second  # an entry of a scan that found nothing may have its time
    assert persons.value("SELECT sys.fn_cdc_get_min_lsn(N'dbo_Persons')") == low
    assert persons.value("SELECT start_lsn FROM cdc.change_tables") == low
    assert [lsn for (lsn,) in persons.changes("[__$start_lsn]")] == [second]
    query = "SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_Persons(sys.fn_cdc_decrement_lsn(%s), %s, N'all')"
    assert persons.error(query, low, second).number == 313


@item(68, "documented")
def test_a_mark_that_no_transaction_has_is_22964(persons: Database) -> None:
    """And changes nothing.

    Source: Microsoft, "sys.sp_cdc_cleanup_change_table (Transact-SQL)"; errors, 22964.
    """
    two_changes(persons)
    assert persons.error(CLEANUP + "0x00000000000000000001").number == 22964
    assert len(persons.changes("ID")) == 2


@item(68, "documented")
def test_without_a_mark_cleanup_deletes_only_what_is_below_the_present_one(persons: Database) -> None:
    """NULL keeps the low watermark.

    Source: Microsoft, "sys.sp_cdc_cleanup_change_table (Transact-SQL)"; measured on SQL Server 2025.
    """
    two_changes(persons)
    low = persons.value("SELECT sys.fn_cdc_get_min_lsn(N'dbo_Persons')")
    persons.run(CLEANUP + "NULL")
    assert persons.value("SELECT sys.fn_cdc_get_min_lsn(N'dbo_Persons')") == low
    assert len(persons.changes("ID")) == 2


@item(68, "documented")
def test_cleanup_says_by_a_parameter_and_its_return_code_that_it_did_not_fail(persons: Database) -> None:
    """@fCleanupFailed is 0, and so is the return code.

    Source: Microsoft, "sys.sp_cdc_cleanup_change_table (Transact-SQL)", arguments and return code values.
    """
    assert [
        (bool(failed), code)
        for failed, code in persons.rows(
            "DECLARE @failed bit, @code int "
            "EXEC @code = sys.sp_cdc_cleanup_change_table N'dbo_Persons', NULL, 10, @fCleanupFailed = @failed OUTPUT "
            "SELECT @failed, @code"
        )
    ] == [(False, 0)]


@item(69, "measured")
@pytest.mark.one_driver("pymssql", "DStream's own reader uses it")
def test_a_reader_below_the_low_watermark_learns_that_changes_were_lost(persons: Database) -> None:
    """DStream's reader reads the change table itself, gets the watermark with the page, and says what happened: not 313.

    Source: the design of the ingester; that the change table does not check bounds measured on SQL Server 2025.
    """
    _, second = two_changes(persons)
    connection = IngesterConnection(replace(persons.server.address, database=persons.database))
    try:
        source = SqlServerSource(connection)
        table = TableName("dbo", "Persons")
        instance = source.states([table])[table].instances[0]
        cursor = instance.start
        persons.run(CLEANUP + "%s", second)
        page = source.page(PageQuery(instance, after=cursor, upto=LogPosition.end_of(Lsn(second)), rows=10))
    finally:
        connection.close()
    found = gap(cursor, page.low_watermark)
    assert found is not None
    assert "changes were lost" in str(gap_error(instance, found))


@item(70, "documented")
def test_the_log_scan_sessions_are_visible(persons: Database) -> None:
    """Session 0 sums up; a scan that found changes counts them.

    Source: Microsoft, "sys.dm_cdc_log_scan_sessions (Transact-SQL)".
    """
    persons.run("INSERT INTO dbo.Persons (ID) VALUES (1), (2)")
    persons.captured(2)
    expected = [
        *("session_id", "start_time", "end_time", "duration", "scan_phase", "error_count", "start_lsn", "current_lsn"),
        *("end_lsn", "tran_count", "last_commit_lsn", "last_commit_time", "log_record_count", "schema_change_count"),
        *("command_count", "first_begin_cdc_lsn", "last_commit_cdc_lsn", "last_commit_cdc_time", "latency"),
        *("empty_scan_count", "failed_sessions_count"),
    ]
    assert persons.columns("SELECT * FROM sys.dm_cdc_log_scan_sessions")[: len(expected)] == expected
    assert persons.value("SELECT COUNT(*) FROM sys.dm_cdc_log_scan_sessions WHERE session_id = 0") == 1
    assert persons.value("SELECT command_count FROM sys.dm_cdc_log_scan_sessions WHERE session_id = 0") >= 2
    assert persons.value("SELECT latency FROM sys.dm_cdc_log_scan_sessions WHERE session_id = 0") >= 0


@item(70, "documented")
def test_the_last_log_scan_session_is_found_by_its_number(persons: Database) -> None:
    """The page's own query.

    Source: Microsoft, "sys.dm_cdc_log_scan_sessions (Transact-SQL)", example A.
    """
    persons.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    persons.captured(1)
    newest = "SELECT MAX(b.session_id) FROM sys.dm_cdc_log_scan_sessions AS b"
    rows = persons.rows(
        "SELECT session_id, start_time, end_time, duration, scan_phase, error_count, tran_count, empty_scan_count "
        f"FROM sys.dm_cdc_log_scan_sessions WHERE session_id = ({newest})"
    )
    assert [row[0] > 0 for row in rows] == [True]


@item(70, "documented")
def test_the_errors_of_capture_are_visible(persons: Database) -> None:
    """None, as long as there are none.

    Source: Microsoft, "sys.dm_cdc_errors (Transact-SQL)".
    """
    expected = [
        *("session_id", "phase_number", "entry_time", "error_number", "error_severity", "error_state", "error_message"),
        *("start_lsn", "begin_lsn", "sequence_value"),
    ]
    assert persons.columns("SELECT * FROM sys.dm_cdc_errors")[: len(expected)] == expected
    assert persons.rows("SELECT session_id, error_number, error_message FROM sys.dm_cdc_errors") == []


@item(70, "documented")
def test_the_agents_status_is_visible(persons: Database) -> None:
    """Debezium's query; the login needs VIEW SERVER STATE.

    Source: Debezium SqlServerConnection.java, AGENT_STATUS_QUERY; Microsoft, "sys.dm_server_services (Transact-SQL)".
    """
    assert persons.rows(
        "SELECT CASE WHEN dss.[status]=4 THEN 1 ELSE 0 END AS isRunning "
        f"FROM [{persons.database}].sys.dm_server_services dss WHERE dss.[servicename] LIKE N'SQL Server Agent (%';"
    ) == [(1,)]


CHECKPOINTS = """
    IF NOT EXISTS (SELECT * FROM sys.tables WHERE name = 'cdc_offsets')
    BEGIN
        CREATE TABLE cdc_offsets (
            table_name NVARCHAR(255) PRIMARY KEY,
            last_lsn VARBINARY(10),
            updated_at DATETIME DEFAULT GETDATE()
        );
    END"""
SAVE = """
    MERGE INTO cdc_offsets AS target
    USING (VALUES (%s, %s, GETDATE())) AS source (table_name, last_lsn, updated_at)
    ON target.table_name = source.table_name
    WHEN MATCHED THEN
        UPDATE SET last_lsn = source.last_lsn, updated_at = source.updated_at
    WHEN NOT MATCHED THEN
        INSERT (table_name, last_lsn, updated_at)
        VALUES (source.table_name, source.last_lsn, source.updated_at);"""


@item(71, "documented")
def test_the_checkpoint_table_is_made_once(database: Database) -> None:
    """With a default that is the time.

    Source: Go dstream, checkpoint_manager.go; Microsoft, "CREATE TABLE (Transact-SQL)".
    """
    database.run(CHECKPOINTS)
    database.run(CHECKPOINTS)
    database.run("INSERT INTO cdc_offsets (table_name, last_lsn) VALUES (N'Persons', 0x01)")
    assert database.value("SELECT ABS(DATEDIFF(minute, updated_at, GETDATE())) FROM cdc_offsets") <= 1


@item(71, "documented")
def test_a_checkpoint_is_saved_and_saved_again(database: Database) -> None:
    """By MERGE.

    Source: Go dstream, checkpoint_manager.go; Microsoft, "MERGE (Transact-SQL)".
    """
    database.run(CHECKPOINTS)
    for lsn in ("0000002D00000580001D", "0000002D00000580001E"):
        database.run(SAVE, "Persons", bytes.fromhex(lsn))
    assert database.rows("SELECT table_name, last_lsn FROM cdc_offsets") == [
        ("Persons", bytes.fromhex("0000002D00000580001E"))
    ]


@item(90, "measured")
def test_lsns_of_scan_sessions_end_in_nul(cdc: Database) -> None:
    """Zeros while no transaction was met; the columns are nvarchar(23).

    Source: Debezium TestHelper, which compares start_lsn with zeros and a NUL; Microsoft, "sys.dm_cdc_log_scan_sessions
    (Transact-SQL)".
    """
    cdc.enable()
    cdc.scan()
    found = cdc.column("SELECT start_lsn FROM sys.dm_cdc_log_scan_sessions")
    assert found
    assert {len(text) for text in found} == {23}
    assert {text[8] + text[17] + text[22] for text in found} == {"::\0"}
