"""Captured tables that change their shape and large values, as an unmodified client sees them: on the emulator
and, where DSTREAM_TEST_SQLSERVER names one, on a real server. D: documented; M: measured on SQL Server 2025; U: unverified.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
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


def type_of(client: Client, column: str, table: str = "dbo_Items_CT") -> tuple[Any, ...]:
    (found,) = client.rows(
        "SELECT DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE FROM INFORMATION_SCHEMA.COLUMNS "
        "WHERE TABLE_SCHEMA = N'cdc' AND TABLE_NAME = %s AND COLUMN_NAME = %s",
        table,
        column,
    )
    return tuple(found)


def test_a_widened_column_is_widened_in_the_change_table_and_its_rows_with_it(client: Client) -> None:
    """D, M: cdc.ddl_history says required_column_update = 1."""
    client.run("CREATE TABLE dbo.Items (ID int NOT NULL PRIMARY KEY, Price decimal(6, 2), N int, Name nvarchar(3))")
    client.enable("Items")
    client.run("INSERT INTO dbo.Items VALUES (1, 1.25, 7, N'abc')")
    client.captured(1, "dbo_Items")
    client.run("ALTER TABLE dbo.Items ALTER COLUMN Price decimal(10, 4)")
    client.run("ALTER TABLE dbo.Items ALTER COLUMN N bigint")
    client.run("ALTER TABLE dbo.Items ALTER COLUMN Name nvarchar(20)")
    client.run("INSERT INTO dbo.Items VALUES (2, 2.3456, 5000000000, N'abcdef')")
    client.captured(2, "dbo_Items")
    assert type_of(client, "Price") == ("decimal", None, 10, 4)
    assert type_of(client, "N")[0] == "bigint"
    assert type_of(client, "Name")[:2] == ("nvarchar", 20)
    assert client.changes("ID, Price, N, Name", "dbo_Items") == [
        (1, Decimal("1.2500"), 7, "abc"),
        (2, Decimal("2.3456"), 5_000_000_000, "abcdef"),
    ]
    assert client.rows("SELECT required_column_update FROM cdc.ddl_history ORDER BY ddl_lsn") == [(True,)] * 3
    assert client.rows(
        "SELECT Price FROM cdc.fn_cdc_get_all_changes_dbo_Items(sys.fn_cdc_get_min_lsn('dbo_Items'), "
        "sys.fn_cdc_get_max_lsn(), N'all') ORDER BY ID"
    ) == [(Decimal("1.2500"),), (Decimal("2.3456"),)]


def test_two_instances_of_one_table_capture_their_own_columns_side_by_side(client: Client) -> None:
    """D: cdc.change_tables.end_lsn stays NULL."""
    client.enable()
    client.run("ALTER TABLE dbo.Persons ADD Age int NULL")
    client.enable(capture_instance="N'wide'")
    client.run("INSERT INTO dbo.Persons (ID, FirstName, Age) VALUES (1, N'a', 30)")
    client.captured(1)
    client.captured(1, "wide")
    client.run("UPDATE dbo.Persons SET Age = 31")
    client.captured(3, "wide")
    assert client.changes("[__$operation], ID, FirstName", "dbo_Persons") == [(2, 1, "a")]
    assert client.changes("[__$operation], [__$update_mask], Age", "wide") == [
        (2, b"\x0f", 30),
        (3, b"\x08", 30),
        (4, b"\x08", 31),
    ]
    assert client.rows("SELECT end_lsn FROM cdc.change_tables") == [(None,), (None,)]


def test_a_renamed_table_is_captured_on(client: Client) -> None:
    """D, M: the capture instance keeps its name."""
    client.enable()
    client.run("EXEC sp_rename N'dbo.Persons', N'People'")
    client.run("INSERT INTO dbo.People (ID) VALUES (1)")
    client.captured(1)
    assert client.value("SELECT OBJECT_NAME(source_object_id) FROM cdc.change_tables") == "People"


def test_a_captured_column_cannot_be_renamed(client: Client) -> None:
    """D, M: 4928."""
    client.enable()
    assert client.error("EXEC sp_rename N'dbo.Persons.FirstName', N'Given', N'COLUMN'") == 4928


def test_the_primary_key_that_capture_uses_cannot_be_dropped(client: Client) -> None:
    """D: 22983; the number on a real server is unverified."""
    client.run("CREATE TABLE dbo.Items (ID int NOT NULL CONSTRAINT PK_Items PRIMARY KEY)")
    client.enable("Items")
    assert client.error("ALTER TABLE dbo.Items DROP CONSTRAINT PK_Items") in (22979, 22983)


def test_a_large_value_that_is_refused_ends_its_statement_alone(client: Client) -> None:
    """D: 7139 at 65537 bytes; the transaction's other rows stay."""
    client.run("CREATE TABLE dbo.Docs (ID int NOT NULL PRIMARY KEY, Doc varchar(max))")
    client.enable("Docs")
    client.run("BEGIN TRAN")
    client.run("INSERT INTO dbo.Docs VALUES (1, REPLICATE(CAST('x' AS varchar(max)), 65536))")
    assert client.error("INSERT INTO dbo.Docs VALUES (2, REPLICATE(CAST('x' AS varchar(max)), 65537))") == 7139
    client.run("INSERT INTO dbo.Docs VALUES (3, 'y')")
    client.run("COMMIT")
    client.captured(2, "dbo_Docs")
    assert client.changes("ID, LEN(Doc)", "dbo_Docs") == [(1, 65536), (3, 1)]
    assert client.rows("SELECT ID FROM dbo.Docs ORDER BY ID") == [(1,), (3,)]


def test_large_values_in_the_images_of_an_update(client: Client) -> None:
    """D, M: a (max) column is NULL before an update that leaves it alone; text is NULL there always, and in deletes."""
    client.run("CREATE TABLE dbo.Docs (ID int NOT NULL PRIMARY KEY, N int, Doc nvarchar(max), Old text)")
    client.enable("Docs")
    client.run("INSERT INTO dbo.Docs VALUES (1, 1, N'doc', 'old')")
    client.run("UPDATE dbo.Docs SET N = 2")
    client.run("UPDATE dbo.Docs SET Doc = N'new'")
    client.run("DELETE FROM dbo.Docs")
    client.captured(6, "dbo_Docs")
    assert client.changes("[__$operation], Doc, CAST(Old AS varchar(10))", "dbo_Docs") == [
        (2, "doc", "old"),
        (3, None, None),
        (4, "doc", "old"),
        (3, "doc", None),
        (4, "new", "old"),
        (1, "new", None),
    ]


def test_identity_and_rowversion_are_captured_as_plain_values(client: Client) -> None:
    """D: identity as its base type, rowversion as binary(8)."""
    client.run("CREATE TABLE dbo.Items (ID int IDENTITY(5, 5) NOT NULL PRIMARY KEY, N int, V rowversion)")
    client.enable("Items")
    client.run("INSERT INTO dbo.Items (N) VALUES (1)")
    client.run("UPDATE dbo.Items SET N = 2")
    client.captured(3, "dbo_Items")
    rows = client.changes("[__$operation], [__$update_mask], ID, V", "dbo_Items")
    assert [(row[0], row[1], row[2]) for row in rows] == [(2, b"\x07", 5), (3, b"\x06", 5), (4, b"\x06", 5)]
    assert rows[0][3] == rows[1][3] < rows[2][3]
    assert type_of(client, "V")[:2] == ("binary", 8)


def test_a_merge_upserts(client: Client) -> None:
    """D; the text with which the first DStream saved its offsets."""
    client.enable()
    client.run("INSERT INTO dbo.Persons (ID, FirstName) VALUES (1, N'a')")
    client.run(
        "MERGE dbo.Persons AS target USING (VALUES (1, N'z'), (2, N'b')) AS source (ID, FirstName) "
        "ON target.ID = source.ID WHEN MATCHED THEN UPDATE SET FirstName = source.FirstName "
        "WHEN NOT MATCHED THEN INSERT (ID, FirstName) VALUES (source.ID, source.FirstName);"
    )
    client.captured(4)
    found = client.changes("[__$operation], ID, FirstName")
    assert found[0] == (2, 1, "a")
    assert sorted(found[1:]) == [(2, 2, "b"), (3, 1, "a"), (4, 1, "z")]
    assert len({row[0] for row in client.changes("[__$start_lsn]")}) == 2


def test_a_merge_that_moves_unique_values_deletes_before_it_inserts(client: Client) -> None:
    """U: KB 238254 tells of UPDATE."""
    client.run("CREATE TABLE dbo.Items (ID int NOT NULL PRIMARY KEY, Code int NOT NULL)")
    client.run("CREATE UNIQUE INDEX UQ_Items ON dbo.Items (Code)")
    client.run("INSERT INTO dbo.Items VALUES (1, 10), (2, 20)")
    client.enable("Items")
    client.run(
        "MERGE dbo.Items AS t USING (VALUES (1, 20), (2, 10)) AS s (ID, Code) ON t.ID = s.ID "
        "WHEN MATCHED THEN UPDATE SET Code = s.Code;"
    )
    client.captured(4, "dbo_Items")
    found = client.changes("[__$operation], ID, Code", "dbo_Items")
    assert sorted(found[:2]) == [(1, 1, 10), (1, 2, 20)]
    assert sorted(found[2:]) == [(2, 1, 20), (2, 2, 10)]
