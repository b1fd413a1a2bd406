"""The statements of readers of Change Data Capture, one list: each runs on one database, and says what its reader needs.

Debezium's and the Go dstream's are asked in the contract as well, where their answers are judged in full; here stand those of the others,
as their documentation and connectors' pages tell: Kafka Connect's JDBC source, Flink CDC, Airbyte, SSIS, Azure Data Factory, Fivetran-like
readers of views, and what people type to see whether it works.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulators.sqlserver.results import Session, SqlError
from tests.emulators.sqlserver.wire.statements import answer, session_after


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    statements = (
        (
            "CREATE TABLE dbo.items (id int NOT NULL CONSTRAINT pk_items PRIMARY KEY, name nvarchar(40) NULL, price decimal(9, 2) NULL, "
            "changed datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME())"
        ),
        "EXEC sys.sp_cdc_enable_db",
        (
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'items', @role_name = NULL, "
            "@supports_net_changes = 1"
        ),
        "INSERT dbo.items (id, name, price) VALUES (1, N'pen', 1.50), (2, N'ink', 9)",
        "UPDATE dbo.items SET price = 2 WHERE id = 1",
        "EXEC sys.sp_cdc_scan",
    )
    with session_after(statements) as made:
        yield made


ONE_ROW = [
    # is it on, and where does it stand?
    "SELECT name FROM sys.databases WHERE name = DB_NAME() AND is_cdc_enabled = 1",
    (
        "SELECT t.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id "
        "WHERE s.name = N'dbo' AND t.is_tracked_by_cdc = 1"
    ),
    "SELECT 1 WHERE EXISTS (SELECT * FROM cdc.change_tables AS ct JOIN sys.tables AS t ON t.object_id = ct.source_object_id)",
    "SELECT sys.fn_cdc_get_max_lsn() AS max_lsn WHERE sys.fn_cdc_get_max_lsn() IS NOT NULL",
    "SELECT sys.fn_cdc_get_min_lsn(capture_instance) FROM cdc.change_tables",
    "SELECT CAST('false' AS bit) AS done, sys.fn_cdc_map_lsn_to_time(MAX(start_lsn)) FROM cdc.lsn_time_mapping",
    # is the agent there?
    "SELECT dss.status, dss.status_desc FROM sys.dm_server_services AS dss WHERE dss.servicename LIKE N'SQL Server Agent (%'",
    "SELECT COUNT(*) FROM msdb.dbo.sysjobs WHERE name LIKE N'cdc.demo[_]%' HAVING COUNT(*) = 2",
    # SSIS' and Data Factory's: a window between two times, and how much is in it
    (
        "DECLARE @from binary(10) = sys.fn_cdc_get_min_lsn(N'dbo_items'), @to binary(10) = sys.fn_cdc_map_time_to_lsn("
        "'largest less than or equal', DATEADD(day, 1, GETDATE())); "
        "SELECT COUNT(1) AS changecount FROM cdc.fn_cdc_get_net_changes_dbo_items(@from, @to, 'all') HAVING COUNT(1) = 2"
    ),
    # Kafka Connect's JDBC source: by time and number
    (
        "SELECT id FROM dbo.items WHERE changed < DATEADD(day, 1, SYSUTCDATETIME()) AND ((changed = '2000-01-01' AND id > 0) "
        "OR changed > '2000-01-01') ORDER BY changed, id OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY"
    ),
    "SELECT CURRENT_TIMESTAMP",
    # Flink CDC: splits of a table by its key, under a snapshot
    "SELECT MIN(id), MAX(id) FROM [demo].[dbo].[items] HAVING MAX(id) = 2",
    "SELECT MAX(chunk_high) FROM (SELECT TOP (1) id AS chunk_high FROM [demo].[dbo].[items] WHERE id >= 1 ORDER BY id ASC) AS t",
    "SELECT MIN(id) FROM [demo].[dbo].[items] WHERE id > 1",
    "SELECT SUM(p.rows) FROM sys.partitions AS p WHERE p.object_id = OBJECT_ID(N'[demo].[dbo].[items]') AND p.index_id IN (0, 1)",
    # Airbyte: discovery
    "SELECT IS_SRVROLEMEMBER(N'sysadmin') AS is_admin, HAS_PERMS_BY_NAME(N'cdc.change_tables', N'OBJECT', N'SELECT') AS ok",
    (
        "SELECT kcu.COLUMN_NAME FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS AS tc JOIN INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS kcu "
        "ON kcu.CONSTRAINT_SCHEMA = tc.CONSTRAINT_SCHEMA AND kcu.CONSTRAINT_NAME = tc.CONSTRAINT_NAME "
        "WHERE tc.CONSTRAINT_TYPE = 'PRIMARY KEY' AND tc.TABLE_NAME = N'items'"
    ),
    # locks of a reader that must be alone
    (
        "DECLARE @rc int; EXEC @rc = sp_getapplock @Resource = N'reader', @LockMode = N'Exclusive', @LockOwner = N'Session', "
        "@LockTimeout = 0; SELECT @rc WHERE @rc >= 0"
    ),
    "DECLARE @rc int; EXEC @rc = sp_releaseapplock @Resource = N'reader', @LockOwner = N'Session'; SELECT @rc WHERE @rc = 0",
]
COUNTED = [
    (
        "SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_items(sys.fn_cdc_get_min_lsn('dbo_items'), sys.fn_cdc_get_max_lsn(), N'all')",
        3,
    ),
    (
        (
            "SELECT __$operation, __$update_mask, id, price FROM cdc.fn_cdc_get_all_changes_dbo_items("
            "sys.fn_cdc_get_min_lsn('dbo_items'), sys.fn_cdc_get_max_lsn(), N'all update old') ORDER BY __$start_lsn, __$seqval"
        ),
        4,
    ),
    (
        (
            "SELECT CASE __$operation WHEN 1 THEN 'D' WHEN 2 THEN 'I' WHEN 4 THEN 'U' END AS op, CONVERT(varchar(22), __$start_lsn, 1), "
            "sys.fn_cdc_map_lsn_to_time(__$start_lsn), id, name, price FROM cdc.dbo_items_CT WHERE __$operation <> 3"
        ),
        3,
    ),
    (
        (
            "SELECT id, sys.fn_cdc_is_bit_set(sys.fn_cdc_get_column_ordinal('dbo_items', 'price'), __$update_mask) FROM "
            "cdc.fn_cdc_get_net_changes_dbo_items(sys.fn_cdc_get_min_lsn('dbo_items'), sys.fn_cdc_get_max_lsn(), 'all with mask')"
        ),
        2,
    ),
    ("SELECT column_name, column_type, column_ordinal FROM cdc.captured_columns ORDER BY column_ordinal", 4),
    (
        (
            "SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION "
            "FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = N'dbo' AND TABLE_NAME = N'items' ORDER BY ORDINAL_POSITION"
        ),
        4,
    ),
    (
        (
            "SELECT c.name, t.name, c.max_length, c.precision, c.scale, c.is_nullable, c.is_identity, c.is_computed FROM sys.columns AS c "
            "JOIN sys.types AS t ON t.user_type_id = c.user_type_id WHERE c.object_id = OBJECT_ID(N'dbo.items')"
        ),
        4,
    ),
    ("EXEC sys.sp_cdc_help_change_data_capture @source_schema = N'dbo', @source_name = N'items'", 1),
    ("EXEC sys.sp_cdc_help_jobs", 2),
    (
        "SELECT j.name, c.pollinginterval FROM msdb.dbo.cdc_jobs AS c JOIN msdb.dbo.sysjobs AS j ON j.job_id = c.job_id",
        2,
    ),
    ("EXEC sp_columns_100 N'items', N'dbo', NULL, NULL, @ODBCVer = 3", 4),
    ("EXEC sp_pkeys N'items', N'dbo'", 1),
]


@pytest.mark.parametrize("sql", ONE_ROW)
def test_the_statement_answers_with_a_row(session: Session, sql: str) -> None:
    assert len(answer(session, sql)) == 1


@pytest.mark.parametrize(("sql", "rows"), COUNTED)
def test_the_statement_answers_with_its_rows(session: Session, sql: str, rows: int) -> None:
    assert len(answer(session, sql)) == rows


def test_windows_by_time_follow_one_another_without_a_gap(session: Session) -> None:
    """The next window begins one LSN behind the last: https://learn.microsoft.com/sql/relational-databases/track-changes/work-with-change-data-sql-server"""
    bounds = "DECLARE @to binary(10) = sys.fn_cdc_get_max_lsn(); SELECT sys.fn_cdc_increment_lsn(@to), @to"
    ((following, last),) = answer(session, bounds)
    assert isinstance(following, bytes)
    assert isinstance(last, bytes)
    assert int.from_bytes(following, "big") == int.from_bytes(last, "big") + 1


def test_what_a_window_of_the_past_asks_is_313(session: Session) -> None:
    with pytest.raises(SqlError) as refused:
        answer(
            session,
            "SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_items(0x00000000000000000001, sys.fn_cdc_get_max_lsn(), N'all')",
        )
    assert refused.value.number == 313
