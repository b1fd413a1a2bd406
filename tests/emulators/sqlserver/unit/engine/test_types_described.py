"""sp_datatype_info, which ODBC drivers ask when they connect; and the status of sp_executesql."""

from __future__ import annotations

import pytest

from emulators.sqlserver.results import ResultSet

from .conftest import Client

_COLUMNS = (
    "TYPE_NAME DATA_TYPE PRECISION LITERAL_PREFIX LITERAL_SUFFIX CREATE_PARAMS NULLABLE CASE_SENSITIVE SEARCHABLE "
    "UNSIGNED_ATTRIBUTE MONEY AUTO_INCREMENT LOCAL_TYPE_NAME MINIMUM_SCALE MAXIMUM_SCALE SQL_DATA_TYPE SQL_DATETIME_SUB "
    "NUM_PREC_RADIX INTERVAL_PRECISION USERTYPE"
)


def test_the_documented_columns_in_their_order(client: Client) -> None:
    """https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-datatype-info-transact-sql"""
    event = next(e for e in client.events("EXEC sp_datatype_info_100 @ODBCVer = 3") if isinstance(e, ResultSet))
    assert " ".join(column.name for column in event.columns) == _COLUMNS
    codes = [row[1] for row in event.rows]
    assert codes == sorted(codes, key=lambda code: int(str(code)))


@pytest.mark.parametrize(
    ("code", "name", "expected"),
    [
        (4, "int", (10, None, None, None, 1, 2, 0, 0, 0, 0, 4, 10, 7)),
        (-6, "tinyint identity", (3, None, None, None, 0, 2, 1, 1, 0, 0, -6, 10, 5)),
        (2, "numeric", (38, None, None, "precision,scale", 1, 2, 0, 0, 0, 38, 2, 10, 10)),
        (-9, "nvarchar", (4000, "N'", "'", "max length", 1, 3, None, None, None, None, -9, None, 0)),
        (-2, "timestamp", (8, "0x", None, None, 0, 2, None, None, None, None, -2, None, 80)),
        (93, "datetime2", (27, "'", "'", "scale", 1, 3, None, None, 0, 7, 9, None, 0)),
        (-1, "text", (2147483647, "'", "'", None, 1, 1, None, None, None, None, -1, None, 19)),
    ],
)
def test_types_are_described(client: Client, code: int, name: str, expected: tuple[object, ...]) -> None:
    rows = client.rows(f"EXEC sp_datatype_info_100 {code}, 3")
    assert {row[1] for row in rows} == {code}
    row = next(row for row in rows if row[0] == name)
    assert tuple(row[i] for i in (2, 3, 4, 5, 6, 8, 9, 11, 13, 14, 15, 17, 19)) == expected


def test_odbc_2_knows_datetime_under_its_old_number(client: Client) -> None:
    assert {row[0] for row in client.rows("EXEC sp_datatype_info 11")} == {"datetime", "smalldatetime"}
    assert client.rows("EXEC sp_datatype_info 93") == []


@pytest.mark.parametrize(
    ("text", "status"),
    [("SELECT 1 / 0", 8134), ("SELECT 1 / 0; DECLARE @x int = 1", 0), ("RAISERROR (''no'', 16, 1)", 50000), ("", 0)],
)
def test_the_status_of_sp_executesql_is_the_error_that_its_text_ends_with(
    client: Client, text: str, status: int
) -> None:
    """https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-executesql-transact-sql"""
    events = client.events(f"DECLARE @rc int; EXEC @rc = sp_executesql N'{text}'; SELECT @rc")
    found = [list(event.rows) for event in events if isinstance(event, ResultSet)]
    assert found[-1] == [(status,)]


@pytest.mark.parametrize(
    ("column", "number"),
    [
        ("name nvarchar(3)", 2628),
        ("name char(3)", 2628),
        ("data varbinary(1)", 2628),
        ("size decimal(4, 2)", 8115),
        ("n tinyint", 220),
    ],
)
def test_a_column_is_not_altered_where_values_would_be_cut(client: Client, column: str, number: int) -> None:
    client.run("CREATE TABLE dbo.t (name nvarchar(10), data varbinary(4), size decimal(9, 2), n int)")
    client.run("INSERT dbo.t VALUES (N'abcd', 0x0102, 123.45, 256)")
    assert client.error(f"ALTER TABLE dbo.t ALTER COLUMN {column}")[0] == number
    assert client.rows("SELECT * FROM dbo.t") == [("abcd", b"\x01\x02", "123.45", 256)]
    client.run("ALTER TABLE dbo.t ALTER COLUMN size decimal(9, 1)")  # rounded, which is no cut
    assert client.value("SELECT size FROM dbo.t") == "123.5"
