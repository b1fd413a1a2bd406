"""Item 78: names that a batch is held against before its first statement runs, those of table variables among them."""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.contract.client import Database
from tests.emulators.sqlserver.contract.labels import item


@pytest.fixture
def table(database: Database) -> Database:
    """A database with a table, dbo.t, of one row."""
    database.run("CREATE TABLE dbo.t (n int NOT NULL)")
    database.run("INSERT INTO dbo.t VALUES (1)")
    return database


@item(78, "documented")
@pytest.mark.parametrize(
    "wrong",
    [
        "SELECT n FROM @missing",
        "SELECT a.n FROM dbo.nowhere AS a CROSS JOIN @missing AS b",
        "INSERT INTO @missing VALUES (1)",
        "INSERT INTO @missing (n) SELECT 1",
        "UPDATE @missing SET n = 1",
        "DELETE FROM @missing",
        "DELETE FROM dbo.t OUTPUT deleted.n INTO @missing",
        "IF EXISTS (SELECT 1 FROM @missing) PRINT 'x'",
        "INSERT INTO @later VALUES (1); DECLARE @later TABLE (n int)",
        "DECLARE @scalar int; SELECT n FROM @scalar",
    ],
)
def test_a_table_variable_is_declared_before_it_is_named(table: Database, wrong: str) -> None:
    """Else nothing of the batch runs, unlike with a table that is not there.

    Source: Microsoft, "Database engine events and errors", 1087; "table (Transact-SQL)": a table variable's scope is its batch.
    """
    for batch in (
        f"INSERT INTO dbo.t VALUES (2); {wrong}",
        f"INSERT INTO dbo.t VALUES (2); IF 1 = 0 BEGIN {wrong} END",
    ):
        error = table.error(batch)
        assert error.number == 1087
        assert error.text.startswith('Must declare the table variable "@')
        assert table.column("SELECT n FROM dbo.t") == [1]


@item(78, "documented")
@pytest.mark.parametrize(
    "wrong",
    [
        "SELECT missing FROM @t",
        "INSERT INTO @t (missing) VALUES (1)",
        "INSERT INTO @t (n) SELECT missing FROM @t",
        "UPDATE @t SET missing = 1",
        "DELETE FROM @t WHERE missing = 1",
        "DELETE FROM dbo.t OUTPUT deleted.n INTO @t (missing)",
        "WITH q AS (SELECT n FROM @t) SELECT missing FROM q",
    ],
)
def test_the_columns_of_a_table_variable_are_known_when_its_batch_is_compiled(table: Database, wrong: str) -> None:
    """Only tables are found when their statement is reached.

    Source: Microsoft, "CREATE PROCEDURE (Transact-SQL)", deferred name resolution is for tables that do not exist.
    """
    batch = f"DECLARE @t TABLE (n int); INSERT INTO dbo.t VALUES (2); {wrong}"
    assert table.error(batch).number == 207
    assert table.column("SELECT n FROM dbo.t") == [1]


@item(78, "documented")
def test_a_table_variable_belongs_to_one_batch(table: Database) -> None:
    """The text of EXEC has its own, and the batch behind it none.

    Source: Microsoft, "table (Transact-SQL)"; "EXECUTE (Transact-SQL)".
    """
    batch = "DECLARE @t TABLE (n int); INSERT INTO @t VALUES (7); EXEC (N'{}')"
    assert table.sets(batch.format("DECLARE @t TABLE (m int); SELECT m FROM @t")) == [(["m"], [])]
    assert table.error(batch.format("SELECT n FROM @t")).number == 1087
    assert table.error("SELECT n FROM @t").number == 1087
    caught = "BEGIN TRY EXEC (N'SELECT n FROM @t') END TRY BEGIN CATCH SELECT ERROR_NUMBER() AS n END CATCH"
    assert table.column(caught) == [1087]


@item(78, "documented")
def test_a_prefix_of_all_columns_is_known_when_its_batch_is_compiled(table: Database) -> None:
    """And the columns of a temporary table that is there already.

    Source: Microsoft, "Database engine events and errors", 107, 207.
    """
    table.run("CREATE TABLE #t (n int)")
    for wrong, number in (("SELECT x.* FROM dbo.t", 107), ("SELECT missing FROM #t", 207)):
        assert table.error(f"INSERT INTO dbo.t VALUES (2); {wrong}").number == number
        assert table.column("SELECT n FROM dbo.t") == [1]
