"""Item 83: bulk copy as FreeTDS (pymssql's bulk_copy) and python-tds (copy_to) send it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from multiprocessing import get_context
from typing import Any

import pytest
from pymssql._mssql import MSSQLDatabaseException
from pytds.tds_base import Column
from pytds.tds_types import IntType, NVarCharType

from tests.emulators.sqlserver.contract.client import Connection, Database, Refused, Server, refusing
from tests.emulators.sqlserver.contract.labels import item

Copy = Callable[..., int]


def copied(
    place: tuple[Server, str, str],
    rows: Sequence[tuple[Any, ...]],
    table: str,
    rolled_back: bool,
    options: dict[str, Any],
) -> int:
    """A connection of the driver copies rows; python-tds an int and an nvarchar. The error's number; the connection must stay."""
    with Connection(*place, autocommit=not rolled_back) as to:
        try:
            refusing(lambda: _send(to, rows, table, options))
            assert not rolled_back or to.value(f"SELECT COUNT(*) FROM {table}") == len(rows)
        except Refused as refused:
            return refused.number
        except MSSQLDatabaseException as refused:
            return int(refused.number)
        finally:
            if rolled_back:
                to.raw.rollback()
            to.run("SET FMTONLY OFF")  # where the question for the columns failed, it is still ON
            assert to.value("SELECT 1") == 1
    return 0


def _send(to: Connection, rows: Sequence[tuple[Any, ...]], table: str, options: dict[str, Any]) -> None:
    if to.driver == "pymssql":
        to.raw.bulk_copy(table, rows, **options)
        return
    columns = [
        Column("id", type=IntType(), flags=Column.fNullable),
        Column("name", type=NVarCharType(20), flags=Column.fNullable),
    ]
    schema, _, name = table.rpartition(".")
    with to.raw.cursor() as cursor:
        cursor.copy_to(table_or_view=name, schema=schema, columns=columns, data=rows, **options)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ProcessPoolExecutor]:
    """A process of its own: bulk_copy of pymssql keeps the interpreter while it waits, which a server in the process needs."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.fixture
def copy(elsewhere: ProcessPoolExecutor, database: Database) -> Copy:
    """Copies rows into dbo.t, and returns the number of the error, 0 without one."""

    def run(rows: Sequence[tuple[Any, ...]], table: str = "dbo.t", rolled_back: bool = False, **options: Any) -> int:
        place = (database.server, database.driver, database.database)
        return elsewhere.submit(copied, place, rows, table, rolled_back, options).result(timeout=60)

    return run


@pytest.fixture
def table(database: Database) -> Database:
    database.run("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(20) NULL, CHECK (id < 100))")
    return database


@item(83, "documented")
def test_rows_that_are_copied_are_there(table: Database, copy: Copy) -> None:
    """As many as were sent, NULL among them.

    Source: MS-TDS 2.2.6.1 (Bulk Load BCP) and 2.2.7.7 (COLMETADATA).
    """
    assert (
        copy(
            [(1, "Ann"), (2, None), (3, "J\u00f6rg \u6f22")],
        )
        == 0
    )
    assert table.rows("SELECT id, name FROM dbo.t ORDER BY id") == [(1, "Ann"), (2, None), (3, "J\u00f6rg \u6f22")]


@item(83, "documented")
def test_a_copy_is_part_of_the_transaction_that_is_open(table: Database, copy: Copy) -> None:
    """And is rolled back with it.

    Source: Microsoft, "Bulk copy operations in SQL Server", transactions.
    """
    assert copy([(1, "Ann")], rolled_back=True) == 0
    assert table.value("SELECT COUNT(*) FROM dbo.t") == 0


@item(83, "documented")
def test_a_row_that_cannot_be_takes_its_batch_along(table: Database, copy: Copy) -> None:
    """2627 for a key that is there already.

    Source: Microsoft, "BULK INSERT (Transact-SQL)"; Microsoft, "Database engine events and errors", 2627.
    """
    assert copy([(1, "Ann"), (2, "Bob"), (1, "Eve")]) == 2627
    assert table.value("SELECT COUNT(*) FROM dbo.t") == 0
    assert copy([(1, "Ann")]) == 0
    assert table.column("SELECT name FROM dbo.t") == ["Ann"]


@item(83, "documented")
def test_constraints_hold_where_the_client_asks_for_it(table: Database, copy: Copy) -> None:
    """CHECK_CONSTRAINTS; keys and NOT NULL always hold.

    Source: Microsoft, "BULK INSERT (Transact-SQL)", CHECK_CONSTRAINTS.
    """
    assert copy([(101, "too high")], check_constraints=True) == 547
    assert copy([(101, "too high")], check_constraints=False) == 0
    assert table.column("SELECT id FROM dbo.t") == [101]


@item(83, "documented")
def test_a_table_that_is_not_there_is_refused_before_the_first_row(database: Database, copy: Copy) -> None:
    """208, and the connection stays.

    Source: Microsoft, "Database engine events and errors", 208.
    """
    assert copy([(1, "Ann")], "dbo.nowhere") == 208


@item(83, "documented")
def test_copied_rows_are_captured(cdc: Database, copy: Copy) -> None:
    """As inserts of one transaction.

    Source: Microsoft, "Prerequisites for minimal logging in bulk import": tables that are replicated are fully logged.
    """
    cdc.run("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(20) NULL)")
    cdc.enable("t")
    assert copy([(1, "Ann"), (2, "Bob")]) == 0
    cdc.captured(2, "dbo_t")
    assert cdc.changes("[__$operation], id, name", "dbo_t") == [(2, 1, "Ann"), (2, 2, "Bob")]
    assert len({row[0] for row in cdc.changes("[__$start_lsn]", "dbo_t")}) == 1


VALUES: dict[str, Any] = {
    "tinyint": 7,
    "bigint": 2**40,
    "decimal(18, 4)": Decimal("12.3450"),
    "float": 1.5,
    "bit": True,
    "datetime2(3)": dt.datetime(2024, 2, 29, 12, 34, 56, 120000),
    "datetime": dt.datetime(2024, 2, 29, 12, 34, 56, 120000),
    "varchar(10)": "abc",
    "nchar(4)": "wide",
    "varbinary(8)": b"\x00\xff",
    "nvarchar(max)": "m" * 9000,
    "varchar(max)": "x" * 300,
}


@item(83, "documented")
@pytest.mark.one_driver("pymssql", "asks for the columns and sends the server's types")
def test_values_of_common_types_arrive(database: Database, copy: Copy) -> None:
    """The client asks for the columns with SET FMTONLY and sends their types. Without money, over which FreeTDS 1.5 writes
    beyond its buffer.

    Source: Microsoft, "SET FMTONLY (Transact-SQL)"; MS-TDS 2.2.6.1 (Bulk Load BCP).
    """
    for number, (kind, value) in enumerate(VALUES.items()):
        database.run(f"CREATE TABLE dbo.t{number} (v {kind} NULL)")
        assert copy([(value,), (None,)], f"dbo.t{number}") == 0
        assert database.rows(f"SELECT v FROM dbo.t{number} WHERE v IS NOT NULL") == [(value,)]
        assert database.value(f"SELECT COUNT(*) FROM dbo.t{number} WHERE v IS NULL") == 1


@item(83, "documented")
@pytest.mark.one_driver("pymssql", "leaves the identity column and a default out by itself")
def test_identities_are_given_and_null_becomes_the_default(database: Database, copy: Copy) -> None:
    """Unless KEEPIDENTITY and KEEP_NULLS are asked for.

    Source: Microsoft, "Keep nulls or default values during bulk import"; "Keep identity values when bulk importing data".
    """
    database.run("CREATE TABLE dbo.t (id int IDENTITY(5, 5), v int NULL DEFAULT 3, name nvarchar(20) NULL)")
    assert copy([(1, "x"), (None, "y")], column_ids=[2, 3]) == 0
    assert database.rows("SELECT id, v, name FROM dbo.t ORDER BY id") == [(5, 1, "x"), (10, 3, "y")]


@item(83, "measured")
@pytest.mark.one_driver("pytds", "names whatever columns it is given")
def test_an_identity_column_that_is_named_keeps_what_is_sent(database: Database, copy: Copy) -> None:
    """INSERT BULK has no option for it: a client that wants numbers made leaves the column out. The next number is behind them.

    Source: mssql-jdbc, SQLServerBulkCopy, which names the column for KeepIdentity, and does nothing else for it;
    Microsoft, "INSERT (Transact-SQL)", the syntax of external tools.
    """
    database.run("CREATE TABLE dbo.t (id int IDENTITY(5, 5), name nvarchar(20) NULL)")
    assert copy([(7, "x"), (30, "y")]) == 0
    database.run("INSERT INTO dbo.t (name) VALUES (N'z')")
    assert database.rows("SELECT id, name FROM dbo.t ORDER BY id") == [(7, "x"), (30, "y"), (35, "z")]


@item(83, "measured")
@pytest.mark.one_driver("pytds", "names whatever columns it is given")
def test_an_identity_column_that_is_named_takes_no_null(database: Database, copy: Copy) -> None:
    """515, as every column that is NOT NULL.

    Source: mssql-jdbc, SQLServerBulkCopy, as above; Microsoft, "Database engine events and errors", 515.
    """
    database.run("CREATE TABLE dbo.t (id int IDENTITY(5, 5), name nvarchar(20) NULL)")
    assert copy([(7, "x"), (None, "y")]) == 515
    assert database.value("SELECT COUNT(*) FROM dbo.t") == 0


@item(83, "documented")
def test_constraints_that_were_not_checked_are_not_trusted(table: Database, copy: Copy) -> None:
    """Nor are those that ALTER TABLE adds WITH NOCHECK. Copies that check them leave them trusted.

    Source: Microsoft, "BULK INSERT (Transact-SQL)", CHECK_CONSTRAINTS; "sys.check_constraints (Transact-SQL)",
    "sys.foreign_keys (Transact-SQL)", is_not_trusted; "ALTER TABLE (Transact-SQL)", WITH NOCHECK.
    """
    trust = "SELECT is_not_trusted FROM sys.check_constraints UNION ALL SELECT is_not_trusted FROM sys.foreign_keys"
    table.run("ALTER TABLE dbo.t ADD FOREIGN KEY (id) REFERENCES dbo.t (id)")
    assert copy([(1, "Ann")], check_constraints=True) == 0
    assert table.column(trust) == [False, False]
    assert copy([(101, "too high")], check_constraints=False) == 0
    assert table.column(trust) == [True, True]
    table.run("ALTER TABLE dbo.t WITH NOCHECK ADD CONSTRAINT later CHECK (id < 50)")
    table.run("ALTER TABLE dbo.t ADD CONSTRAINT sure CHECK (id < 500)")
    named = "SELECT name FROM sys.check_constraints WHERE is_not_trusted = {} AND name IN (N'later', N'sure')"
    assert (table.column(named.format(1)), table.column(named.format(0))) == (["later"], ["sure"])


@item(83, "documented")
def test_with_fmtonly_a_variable_is_known(table: Database) -> None:
    """A DECLARE runs nothing, and the statements behind it know the variable.

    Source: Microsoft, "SET FMTONLY (Transact-SQL)".
    """
    sql = "SET FMTONLY ON DECLARE @x int = 1, @y varchar(9) SELECT @x = 5 SELECT @x AS a, @y AS b SET FMTONLY OFF"
    assert table.sets(sql) == [(["a", "b"], [])]
    assert table.sets("SET FMTONLY ON DECLARE @t TABLE (c int) SELECT c FROM @t SET FMTONLY OFF") == [(["c"], [])]


@item(83, "documented")
def test_with_fmtonly_a_query_has_columns_and_no_rows(table: Database) -> None:
    """Nothing is run while it is ON; it is OFF again behind sp_executesql.

    Source: Microsoft, "SET FMTONLY (Transact-SQL)".
    """
    table.run("INSERT INTO dbo.t VALUES (1, N'Ann')")
    assert table.sets("SET FMTONLY ON SELECT * FROM dbo.t SET FMTONLY OFF") == [(["id", "name"], [])]
    table.run("SET FMTONLY ON DELETE FROM dbo.t SET FMTONLY OFF")
    assert table.sets("EXEC sp_executesql N'SET FMTONLY ON SELECT id FROM dbo.t'") == [(["id"], [])]
    assert table.column("SELECT id FROM dbo.t") == [1]
