"""Items 78 and 88: a statement that the emulator does not have ends where it ends on a real server, and has a name."""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.contract.client import Database
from tests.emulators.sqlserver.contract.labels import item

PASSED_OVER = (
    "ALTER TABLE dbo.t NOCHECK CONSTRAINT ALL",
    "ALTER TABLE dbo.t DISABLE TRIGGER ALL",
    "ALTER DATABASE CURRENT SET RECOVERY FULL, AUTO_SHRINK ON",
    "KILL QUERY NOTIFICATION SUBSCRIPTION ALL",
    "WITH q AS (SELECT n FROM dbo.t) INSERT INTO q SELECT 1 UNION ALL SELECT 2;",
    "WITH q AS (SELECT n FROM dbo.t) INSERT INTO q (n) VALUES (1);",
    "DECLARE c CURSOR FOR WITH q AS (SELECT 1 AS n UNION SELECT 2) SELECT n FROM q UNION ALL SELECT n FROM q;",
    "DECLARE c CURSOR FOR SELECT n FROM dbo.t FOR UPDATE OF n",
    "ALTER TABLE dbo.t ADD m int REFERENCES dbo.t (n) ON UPDATE NO ACTION ON DELETE SET NULL",
    "BEGIN TRANSACTION x WITH MARK N'x'",
    "COMMIT TRANSACTION WITH (DELAYED_DURABILITY = ON)",
    "EXEC (N'SELECT 1') AS USER = N'dbo'",
    "EXEC (N'SELECT 1 AS one') WITH RESULT SETS ((one int))",
    "EXEC sp_executesql N'SELECT 1 AS one' WITH RESULT SETS ((one int))",
    "EXECUTE AS USER = N'dbo' WITH NO REVERT",
    "UPDATE dbo.t SET v.WRITE(N'x', 0, 1)",
    "SELECT PARSE(N'1' AS int USING N'en-US') AS n",
    "SELECT TRY_PARSE(N'1' AS int USING N'en-US') AS n",
    "SELECT TRIM(N'x' FROM N'xax') AS v",
    "SELECT n FROM dbo.t OPTION (USE HINT (N'FORCE_LEGACY_CARDINALITY_ESTIMATION'))",
    "WITH XMLNAMESPACES (N'urn:x' AS x) DELETE dbo.t;",
    "WITH XMLNAMESPACES (N'urn:x' AS x), q AS (SELECT 1 AS n) SELECT n FROM q;",
    "INSERT INTO dbo.u (n) SELECT n FROM (DELETE dbo.t OUTPUT deleted.n) AS gone",
)
"""Statements that the emulator refuses when they are reached."""


@pytest.fixture
def table(database: Database) -> Database:
    """A database with two tables: dbo.t, which is empty, and dbo.u, which has a row."""
    database.run("CREATE TABLE dbo.t (n int NOT NULL PRIMARY KEY, v nvarchar(max) NULL)")
    database.run("CREATE TABLE dbo.u (n int NULL) INSERT INTO dbo.u VALUES (1)")
    return database


@item(78, "documented")
@pytest.mark.parametrize("sql", PASSED_OVER, ids=range(len(PASSED_OVER)))
@pytest.mark.parametrize("following", ["DELETE dbo.u", "UPDATE dbo.u SET n = NULL", "INSERT INTO dbo.u SELECT NULL"])
def test_if_skips_one_statement_and_no_more(table: Database, sql: str, following: str) -> None:
    """What stands behind it runs, and no part of it does.

    Source: Microsoft, "IF...ELSE (Transact-SQL)": without a block it affects one statement alone; "Transact-SQL statements".
    """
    batch = f"IF 1 = 0 {sql}\n{following}\nSELECT 77 AS seventy_seven"
    assert table.sets(batch) == [(["seventy_seven"], [(77,)])]
    assert table.column("SELECT n FROM dbo.u") != [1]
    assert table.sets(f"IF 1 = 0 BEGIN {sql} END ELSE SELECT 77 AS n") == [(["n"], [(77,)])]


@item(78, "documented")
def test_a_block_ends_behind_a_statement_that_ends_with_all(table: Database) -> None:
    """END is not a part of it.

    Source: Microsoft, "TRY...CATCH (Transact-SQL)"; "ALTER TABLE (Transact-SQL)".
    """
    batch = "IF 1 = 0 BEGIN TRY ALTER TABLE dbo.t DISABLE TRIGGER ALL END TRY BEGIN CATCH SELECT 1 AS n END CATCH SELECT 2 AS n"
    assert table.sets(batch) == [(["n"], [(2,)])]


@item(78, "documented")
@pytest.mark.parametrize(
    "sql",
    [
        "BEGIN DIALOG CONVERSATION @h FROM SERVICE a TO SERVICE N'b' ON CONTRACT c WITH ENCRYPTION = OFF;",
        "BEGIN CONVERSATION TIMER (@h) TIMEOUT = 120;",
        "END CONVERSATION @h WITH CLEANUP;",
        "SEND ON CONVERSATION @h (N'x');",
        "RECEIVE TOP (1) * FROM dbo.q;",
        "GET CONVERSATION GROUP @h FROM dbo.q;",
        "MOVE CONVERSATION @h TO @h;",
        "ADD SIGNATURE TO dbo.p BY CERTIFICATE c WITH PASSWORD = N'x';",
    ],
    ids=range(8),
)
def test_a_condition_ends_before_words_that_may_be_names(table: Database, sql: str) -> None:
    """RECEIVE, SEND and their kin are no reserved words, and END CONVERSATION ends no block.

    Source: Microsoft, "Service Broker statements"; "ADD SIGNATURE (Transact-SQL)".
    """
    declared = "DECLARE @h uniqueidentifier; "
    for batch in (f"IF 1 = 0 {sql} SELECT 2 AS n", f"IF 1 = 0 BEGIN {sql} END; SELECT 2 AS n"):
        assert table.sets(declared + batch) == [(["n"], [(2,)])]


@item(78, "documented")
def test_statistics_are_switched_together(table: Database) -> None:
    """Source: Microsoft, "SET STATISTICS IO (Transact-SQL)", "SET STATISTICS TIME (Transact-SQL)"; "SET statements"."""
    assert table.sets("SET STATISTICS IO, TIME OFF SELECT 2 AS n") == [(["n"], [(2,)])]


@item(78, "measured")
@pytest.mark.parametrize("kind", ["PROCEDURE dbo.x AS", "VIEW dbo.x AS", "TRIGGER dbo.x ON dbo.t AFTER INSERT AS"])
def test_a_module_is_not_made_within_a_statement(table: Database, kind: str) -> None:
    """Where it is no statement at all.

    Source: answers on Stack Overflow with the error of such scripts, near the keyword PROCEDURE, VIEW and TRIGGER.
    """
    word, _, _ = kind.partition(" ")
    for batch in (f"IF 1 = 0 CREATE {kind} SELECT 1 AS n", f"DELETE dbo.u BEGIN CREATE {kind} SELECT 1 AS n END"):
        error = table.error(batch)
        assert error.number == 156
        assert error.text.startswith(f"Incorrect syntax near the keyword '{word}'.")
    assert table.column("SELECT n FROM dbo.u") == [1]


@item(88, "documented")
@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("EXEC (N'SELECT 1') AS USER = N'dbo'", "EXECUTE ('...') AS"),
        ("EXEC (N'SELECT 1 AS one') WITH RESULT SETS ((one int))", "RESULT SETS"),
        ("EXEC sp_executesql N'SELECT 1 AS one' WITH RESULT SETS ((one int))", "RESULT SETS"),
        ("BEGIN TRANSACTION x WITH MARK N'x'; COMMIT", "WITH MARK"),
        ("BEGIN TRANSACTION; COMMIT TRANSACTION WITH (DELAYED_DURABILITY = ON)", "DELAYED_DURABILITY"),
        ("UPDATE dbo.t SET v.WRITE(N'x', 0, 1)", "WRITE"),
        ("SELECT PARSE(N'1' AS int USING N'en-US')", "PARSE"),
        ("SELECT TRY_PARSE(N'1' AS int USING N'en-US')", "TRY_PARSE"),
        ("SELECT TRIM(N'x' FROM N'xax')", "TRIM"),
        ("SELECT n FROM dbo.t OPTION (USE HINT (N'FORCE_LEGACY_CARDINALITY_ESTIMATION'))", "USE HINT"),
        ("SELECT n FROM dbo.t OPTION (TABLE HINT (dbo.t, NOLOCK))", "TABLE HINT"),
        ("DECLARE @n int = 1; SELECT n FROM dbo.t WHERE n = @n OPTION (OPTIMIZE FOR (@n = 1))", "OPTIMIZE FOR"),
        ("WITH XMLNAMESPACES (N'urn:x' AS x) DELETE dbo.t", "XMLNAMESPACES"),
        ("WITH XMLNAMESPACES (N'urn:x' AS x) SELECT n FROM dbo.t", "XMLNAMESPACES"),
        ("INSERT INTO dbo.u (n) SELECT n FROM (DELETE dbo.t OUTPUT deleted.n) AS gone", "DELETE in FROM"),
        ("SELECT @@CPU_BUSY", "@@CPU_BUSY"),
        ("SELECT @@TOTAL_READ", "@@TOTAL_READ"),
        ("SELECT TYPEPROPERTY('int', 'Precision')", "TYPEPROPERTY"),
        ("SELECT sys.fn_hadr_is_primary_replica(N'nowhere')", "fn_hadr_is_primary_replica"),
        ("SELECT sys.fn_varbintohexstr(0x00)", "fn_varbintohexstr"),
    ],
    ids=range(20),
)
def test_what_has_another_grammar_is_refused_by_its_name(table: Database, sql: str, name: str) -> None:
    """A real server answers; the emulator says 50001 and what it does not have, and nothing about wrong syntax.

    Source: Microsoft, "Transact-SQL reference (Database Engine)".
    """
    if table.server.real:
        table.run(sql)
        return
    error = table.error(sql)
    assert error.number == 50001
    assert name in error.text
    assert table.sets(f"IF 1 = 0 BEGIN {sql} END; SELECT 2 AS n") == [(["n"], [(2,)])]
