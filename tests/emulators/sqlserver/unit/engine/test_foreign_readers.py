"""What other readers of change data send, as they send it: Debezium's SqlServerConnection and the Go dstream (katasec/dstream).

Their drivers' parameter marks stand as @P0, @P1 ..., as the drivers write them for sp_executesql.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulators.sqlserver.cdc.extension import CdcExtension
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import ErrorMessage, LoginRequest, Parameter, ResultSet, SqlError, Value
from emulators.sqlserver.sqltypes import SqlType

from .conftest import NOW, Client

LSN, INT = SqlType("varbinary", 10), SqlType("int")
LOW = b"\0" * 9 + b"\1"
FUNCTION_MODE = (
    "SELECT [__$start_lsn], [__$seqval], [__$operation], [__$update_mask], [id], [total], "
    "TODATETIMEOFFSET([demo].sys.fn_cdc_map_lsn_to_time([__$start_lsn]), DATEPART(TZOFFSET, SYSDATETIMEOFFSET())) "
    "FROM [demo].cdc.[fn_cdc_get_all_changes_dbo_orders](@P0, @P1, N'all update old') WHERE (([__$start_lsn] = @P2 AND "
    "[__$seqval] = @P3 AND [__$operation] > @P4) OR ([__$start_lsn] = @P2 AND [__$seqval] > @P3) OR ([__$start_lsn] > @P2)) "
    "AND [__$start_lsn] <= @P1 ORDER BY [__$start_lsn] ASC, [__$seqval] ASC, [__$operation] ASC"
)
DIRECT_MODE = (
    "SELECT TOP 1000 cdc_data.[__$start_lsn], cdc_data.[__$seqval], cdc_data.[__$operation], cdc_data.[__$update_mask], [id], "
    "[total], TODATETIMEOFFSET(ltm.tran_begin_time, DATEPART(TZOFFSET, SYSDATETIMEOFFSET())) FROM [demo].cdc.[dbo_orders_CT] AS "
    "cdc_data LEFT JOIN [demo].cdc.lsn_time_mapping ltm ON ltm.start_lsn = cdc_data.[__$start_lsn] WHERE "
    "cdc_data.[__$start_lsn] <= @P1 ORDER BY cdc_data.[__$start_lsn] ASC, cdc_data.[__$command_id] ASC, "
    "cdc_data.[__$seqval] ASC, cdc_data.[__$operation] ASC"
)
OLD_FUNCTION_MODE = (
    "SELECT *, TODATETIMEOFFSET([demo].sys.fn_cdc_map_lsn_to_time([__$start_lsn]), DATEPART(TZOFFSET, SYSDATETIMEOFFSET())) "
    "FROM [demo].cdc.[fn_cdc_get_all_changes_dbo_orders](@P0, @P1, N'all update old') WHERE __$operation NOT IN (2) order by "
    "[__$start_lsn] ASC, [__$seqval] ASC, [__$operation] ASC"
)
CHANGE_TABLES = (
    "WITH ordered_change_tables AS (SELECT ROW_NUMBER() OVER (PARTITION BY ct.source_object_id, ct.start_lsn ORDER BY "
    "ct.create_date DESC) AS ct_sequence, ct.* FROM [demo].cdc.change_tables AS ct WHERE ct.start_lsn <= @P1) SELECT "
    "OBJECT_SCHEMA_NAME(source_object_id, DB_ID(N'demo')), OBJECT_NAME(source_object_id, DB_ID(N'demo')), capture_instance, "
    "object_id, start_lsn FROM ordered_change_tables WHERE ct_sequence = 1"
)
DSTREAM = (
    "SELECT TOP(100) ct.__$start_lsn, ct.__$operation, id, total FROM cdc.dbo_orders_CT AS ct WHERE ct.__$start_lsn > @P5 "
    "ORDER BY ct.__$start_lsn"
)


class Reader:
    """Runs statements with typed parameters, as sp_executesql does."""

    def __init__(self, client: Client, low: bytes) -> None:
        self.client = client
        values: dict[str, tuple[SqlType, Value]] = {
            "@P0": (LSN, low),
            "@P1": (LSN, client.value("SELECT sys.fn_cdc_get_max_lsn()")),  # type: ignore[dict-item]  # bytes
            "@P2": (LSN, low),
            "@P3": (LSN, b"\0" * 10),
            "@P4": (INT, 0),
            "@P5": (LSN, LOW),
            "@P6": (INT, 10),
        }
        self.parameters = {name: Parameter(name, kind, value) for name, (kind, value) in values.items()}

    def rows(self, sql: str) -> list[tuple[Value, ...]]:
        found: list[tuple[Value, ...]] = []
        for event in self.client.session.batch(sql, self.parameters, lambda: False):
            if isinstance(event, ErrorMessage):
                raise SqlError(event.number, event.message)
            if isinstance(event, ResultSet):
                found = [tuple(row) for row in event.rows]
        return found


@pytest.fixture
def reader() -> Iterator[Reader]:
    engine = SqlEngine(
        users={"sa": "secret"}, databases=["demo"], extension=CdcExtension(capture_interval=3600.0), clock=lambda: NOW
    )
    client = Client(engine.login(LoginRequest("sa", "secret", "demo")))
    client.run("CREATE TABLE dbo.orders (id int PRIMARY KEY, total decimal(9,2)) EXEC sys.sp_cdc_enable_db")
    client.run("EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'orders', @role_name = NULL")
    client.run("EXEC sys.sp_cdc_stop_job @job_type = N'capture'")
    client.run(
        "INSERT orders VALUES (1, 10) UPDATE orders SET total = 20 WHERE id = 1 DELETE orders EXEC sys.sp_cdc_scan"
    )
    low = client.value("SELECT sys.fn_cdc_get_min_lsn(N'dbo_orders')")
    assert isinstance(low, bytes)
    yield Reader(client, low)
    engine.close()


@pytest.mark.parametrize("sql", [FUNCTION_MODE, DIRECT_MODE], ids=["function", "direct"])
def test_both_modes_of_debezium_read_every_change(reader: Reader, sql: str) -> None:
    rows = reader.rows(sql)
    assert [(row[2], row[4], row[5]) for row in rows] == [
        (2, 1, "10.00"),
        (3, 1, "10.00"),
        (4, 1, "20.00"),
        (1, 1, "20.00"),
    ]
    assert all(str(row[6]).startswith("2024-05-06 07:08:09") and str(row[6]).endswith("+00:00") for row in rows)


def test_debezium_leaves_out_the_operations_that_it_skips(reader: Reader) -> None:
    assert [row[2] for row in reader.rows(OLD_FUNCTION_MODE)] == [3, 4, 1]


def test_debezium_finds_the_capture_instances(reader: Reader) -> None:
    assert [row[:3] for row in reader.rows(CHANGE_TABLES)] == [("dbo", "orders", "dbo_orders")]
    assert len(reader.rows("SELECT * FROM [demo].cdc.change_tables WHERE start_lsn BETWEEN @P0 AND @P1")) == 1
    captured = "SELECT object_id, column_name FROM [demo].cdc.captured_columns ORDER BY object_id, column_id"
    assert [row[1] for row in reader.rows(captured)] == ["id", "total"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT [demo].sys.fn_cdc_get_max_lsn()",
        "SELECT MAX(start_lsn) FROM [demo].cdc.lsn_time_mapping WHERE tran_id <> 0x00",
        (
            "SELECT MAX(start_lsn) FROM (SELECT TOP (@P6) start_lsn FROM [demo].cdc.lsn_time_mapping WHERE tran_id <> 0x00 "
            "ORDER BY start_lsn) as next_lsns"
        ),
        (
            "SELECT MAX(start_lsn) FROM (SELECT TOP (@P6 + 1) start_lsn FROM [demo].cdc.lsn_time_mapping WHERE start_lsn >= @P0 "
            "AND tran_id <> 0x00 ORDER BY start_lsn) as next_lsns"
        ),
    ],
)
def test_debezium_asks_for_the_end_of_the_log_in_four_ways(reader: Reader, sql: str) -> None:
    assert reader.rows(sql) == [(reader.parameters["@P1"].value,)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT name FROM sys.databases WHERE name = N'demo'", "demo"),
        (
            (
                "SELECT CASE WHEN dss.[status]=4 THEN 1 ELSE 0 END AS isRunning FROM [demo].sys.dm_server_services dss WHERE "
                "dss.[servicename] LIKE N'SQL Server Agent (%';"
            ),
            1,
        ),
        ("SELECT COUNT(*) FROM (SELECT [demo].sys.fn_cdc_increment_lsn(@P0) AS lsn) AS x WHERE lsn > @P0", 1),
    ],
)
def test_debezium_asks_for_database_and_agent(reader: Reader, sql: str, expected: object) -> None:
    assert reader.rows(sql) == [(expected,)]


def test_the_go_dstream_reads_the_change_table(reader: Reader) -> None:
    assert [row[1:] for row in reader.rows(DSTREAM)] == [
        (2, 1, "10.00"),
        (3, 1, "10.00"),
        (4, 1, "20.00"),
        (1, 1, "20.00"),
    ]


def test_the_go_dstream_makes_its_table_once(reader: Reader) -> None:
    sql = (
        "IF NOT EXISTS (SELECT * FROM sys.tables WHERE name = 'cdc_offsets')\nBEGIN\n CREATE TABLE cdc_offsets (\n table_name "
        "NVARCHAR(255) PRIMARY KEY,\n last_lsn VARBINARY(10),\n updated_at DATETIME DEFAULT GETDATE()\n );\nEND"
    )
    reader.client.run(sql)
    reader.client.run(sql)
    assert reader.client.value("SELECT COUNT(*) FROM cdc_offsets") == 0
