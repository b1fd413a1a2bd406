"""The statements of a change data reader, as a client that interpolates its parameters sends them."""

from __future__ import annotations

import pytest

from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import Column, ResultSet
from emulators.sqlserver.sqltypes import SqlType

from .conftest import Client

OFFSETS = (
    "IF OBJECT_ID(N'dbo.cdc_offsets', N'U') IS NULL CREATE TABLE dbo.cdc_offsets (table_name NVARCHAR(255) NOT NULL PRIMARY KEY, "
    "last_lsn VARBINARY(10) NULL, updated_at DATETIME NOT NULL DEFAULT GETDATE())"
)
LSN = SqlType("binary", 10)
INT = SqlType("int")


@pytest.fixture
def offsets(client: Client) -> Client:
    client.run(OFFSETS)
    client.run(OFFSETS)
    client.run(
        "IF COL_LENGTH(N'dbo.cdc_offsets', N'epoch') IS NULL ALTER TABLE dbo.cdc_offsets ADD epoch BIGINT NOT NULL DEFAULT 0"
    )
    return client


def test_an_offset_row_is_made_once_and_moves_only_from_where_it_was_seen(offsets: Client) -> None:
    make = (
        "INSERT INTO dbo.cdc_offsets (table_name, epoch) SELECT N'dbo.P', 17 "
        "WHERE NOT EXISTS (SELECT 1 FROM dbo.cdc_offsets WHERE table_name = N'dbo.P')"
    )
    assert offsets.counts(make) == [1]
    assert offsets.counts(make) == [0]
    assert offsets.counts("UPDATE dbo.cdc_offsets SET epoch = 17 WHERE table_name = N'dbo.P' AND epoch < 17") == [0]
    first = (
        "UPDATE dbo.cdc_offsets SET last_lsn = 0x0000002D000005800001 WHERE table_name = N'DBO.P' AND last_lsn IS NULL"
    )
    assert offsets.counts(first) == [1]
    move = (
        "UPDATE dbo.cdc_offsets SET last_lsn = 0x0000002D000005900001, updated_at = GETDATE() "
        "WHERE table_name = N'dbo.P' AND epoch <= 17 AND last_lsn = 0x0000002D000005800001"
    )
    assert offsets.counts(move) == [1]
    assert offsets.counts(move) == [0]
    assert offsets.rows("SELECT last_lsn, epoch FROM dbo.cdc_offsets") == [(bytes.fromhex("0000002D000005900001"), 17)]


PAGE = """SELECT TOP (2) ct.[__$start_lsn], ct.[__$operation], CONVERT(varchar(41), ct.[Amount]) AS [Amount],
  CONVERT(varchar(34), ct.[When], 121) AS [When]
FROM [cdc].[dbo_P_CT] AS ct
WHERE (ct.[__$start_lsn] > {0} OR (ct.[__$start_lsn] = {0} AND (ct.[__$command_id] > 1 OR (ct.[__$command_id] = 1
  AND (ct.[__$seqval] > {0} OR (ct.[__$seqval] = {0} AND ct.[__$operation] > 2))))))
  AND ct.[__$start_lsn] <= 0x00000000000000000005 AND ct.[__$operation] <> 3
ORDER BY ct.[__$start_lsn], ct.[__$command_id], ct.[__$seqval], ct.[__$operation];
SELECT COUNT(*) AS pending FROM cdc.dbo_P_CT WHERE [__$start_lsn] > 0x00"""


@pytest.fixture
def changes(engine: SqlEngine, client: Client) -> Client:
    database = engine.database("demo")
    database.create_schema("cdc")
    key = ["__$start_lsn", "__$command_id", "__$seqval", "__$operation"]
    columns = [
        *(Column(name, LSN if name.endswith(("lsn", "val")) else INT) for name in key),
        Column("Amount", SqlType("decimal", None, 18, 4)),
        Column("When", SqlType("datetime2", None, None, 7)),
    ]
    with database.writer() as connection:
        table = database.create_system_table(connection, "cdc", "dbo_P_CT", columns, key)
        for number in range(1, 7):
            lsn = number.to_bytes(10, "big")
            row = (lsn, 1, lsn, 2, f"{number}.5000", "2018-07-13 13:23:45.7801234")
            connection.execute(f"INSERT INTO {database.storage(table)} VALUES (?, ?, ?, ?, ?, ?)", row)
    return client


def test_a_page_and_what_follows_it_come_in_one_batch(changes: Client) -> None:
    page, pending = changes.results(PAGE.format("0x00000000000000000003"))
    assert page == [
        ((4).to_bytes(10, "big"), 2, "4.5000", "2018-07-13 13:23:45.7801234"),
        ((5).to_bytes(10, "big"), 2, "5.5000", "2018-07-13 13:23:45.7801234"),
    ]
    assert pending == [(6,)]


def test_rows_left_unread_are_still_there_after_the_next_statement(changes: Client) -> None:
    found = [
        e
        for e in changes.session.batch(PAGE.format("0x00000000000000000003"), {}, lambda: False)
        if isinstance(e, ResultSet)
    ]
    assert [len(list(event.rows)) for event in found] == [2, 1]


def test_catalog_questions(changes: Client) -> None:
    assert changes.rows("SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()") == [(0,)]
    sql = (
        "SELECT s.name, t.name, t.is_tracked_by_cdc, COL_LENGTH(N'cdc.' + QUOTENAME(OBJECT_NAME(t.object_id)), N'__$command_id') "
        "FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id WHERE (s.name = N'cdc' AND t.name = N'DBO_P_CT')"
    )
    assert changes.rows(sql) == [("cdc", "dbo_P_CT", 0, 4)]
    assert changes.rows("SELECT CURRENT_TIMEZONE_ID(), DATEPART(TZOFFSET, SYSDATETIMEOFFSET())") == [("UTC", 0)]
