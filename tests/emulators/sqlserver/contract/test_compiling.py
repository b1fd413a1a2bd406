"""Items 93 to 97 and 99 to 102: what else is found wrong when a batch is compiled, and how its variables live."""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.contract.client import Database
from tests.emulators.sqlserver.contract.labels import item


@pytest.fixture
def table(database: Database) -> Database:
    """A database with a table, dbo.t, of three rows."""
    database.run("CREATE TABLE dbo.t (a int NOT NULL, b int NULL)")
    database.run("INSERT INTO dbo.t VALUES (1, 2), (1, 3), (2, 4)")
    return database


@item(93, "documented")
@pytest.mark.parametrize(
    "wrong",
    [
        "DECLARE @a int, @A int",
        "DECLARE @a int DECLARE @a nvarchar(5)",
        "DECLARE @a int DECLARE @a TABLE (n int)",
        "IF 1 = 0 DECLARE @a int ELSE DECLARE @a int",
        "EXEC sp_executesql N'DELETE FROM dbo.t; DECLARE @a int', N'@a int', 1",
    ],
)
def test_a_variable_is_declared_once_in_its_batch(table: Database, wrong: str) -> None:
    """In whatever branch; nothing of the batch runs. A parameter is a variable.

    Source: Microsoft, "Database engine events and errors", 134: unique within a query batch or stored procedure.
    """
    assert table.error(wrong if wrong.startswith("EXEC") else f"DELETE FROM dbo.t; {wrong}").number == 134
    assert table.value("SELECT COUNT(*) FROM dbo.t") == 3


@item(93, "documented")
def test_the_batch_knows_a_variable_from_its_declaration_on(table: Database) -> None:
    """Whether that was reached or not; then it is NULL, or an empty table.

    Source: Microsoft, "Variables (Transact-SQL)": the scope of a variable lasts from the point it is declared until the end
    of the batch; "DECLARE @local_variable (Transact-SQL)": NULL after declaration.
    """
    assert table.rows("IF 1 = 0 BEGIN DECLARE @a int = 4 END SELECT @a AS a") == [(None,)]
    assert table.value("IF 1 = 0 DECLARE @a int; SET @a = 5; SELECT @a AS a") == 5
    assert table.value("IF 1 = 0 DECLARE @a TABLE (n int); SELECT COUNT(*) AS n FROM @a") == 0
    assert table.error("SELECT @a AS a; IF 1 = 0 DECLARE @a int").number == 137


@item(93, "measured")
def test_a_declaration_in_a_loop_leaves_the_value_alone(table: Database) -> None:
    """Only its initial value is assigned each time.

    Source: answers on Stack Overflow with the output of such loops.
    """
    loop = "DECLARE @i int = 0; WHILE @i < 3 BEGIN DECLARE @x int{}; SET @x = ISNULL(@x, 0) + 1; SET @i += 1 END; SELECT @x AS x"
    assert table.value(loop.format("")) == 3
    assert table.value(loop.format(" = 7")) == 8


@item(94, "documented")
def test_text_that_runs_itself_ends(table: Database) -> None:
    """And the session goes on.

    Source: Microsoft, "Nest stored procedures": a maximum of 32 levels; "Database engine events and errors", 217.
    """
    inner = "EXEC sp_executesql @s, N''@s nvarchar(max)'', @s"
    assert (
        table.error(f"DECLARE @s nvarchar(max) = N'{inner}'; EXEC sp_executesql @s, N'@s nvarchar(max)', @s").number
        == 217
    )
    assert table.value("SELECT COUNT(*) FROM dbo.t") == 3


@item(95, "documented")
@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("SELECT b FROM dbo.t GROUP BY a", 8120),
        ("SELECT a FROM dbo.t GROUP BY a HAVING b > 1", 8121),
        ("SELECT COUNT(*) FROM dbo.t HAVING a > 1", 8121),
        ("SELECT a FROM dbo.t GROUP BY a ORDER BY b", 8127),
        ("SELECT COUNT(*) FROM dbo.t ORDER BY a + 1", 8127),
    ],
)
def test_a_grouped_query_reads_what_it_groups_by(table: Database, query: str, number: int) -> None:
    """Each clause has its number.

    Source: Microsoft, "Database engine events and errors", 8120, 8121, 8127.
    """
    assert table.error(query).number == number


@item(95, "documented")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT t.a FROM dbo.t GROUP BY a HAVING t.a > 0 ORDER BY t.a",
        "SELECT a % 2 + 1 AS x FROM dbo.t AS u GROUP BY u.a % 2, u.A ORDER BY a",
        "SELECT a AS x FROM dbo.t GROUP BY a ORDER BY x, SUM(b), COUNT(*) - a",
        "SELECT CASE WHEN b > 2 THEN 'x' ELSE 'y' END AS z FROM dbo.t GROUP BY CASE WHEN t.b > 2 THEN 'x' ELSE 'y' END",
        "SELECT MAX(a) AS x FROM dbo.t GROUP BY a ORDER BY (SELECT MAX(u.b) FROM dbo.t AS u WHERE u.a = t.a)",
    ],
    ids=range(5),
)
def test_it_may_spell_it_otherwise(table: Database, query: str) -> None:
    """With its table's name or without; aggregates and names of the select list in ORDER BY.

    Source: Microsoft, "SELECT - GROUP BY (Transact-SQL)"; "SELECT - ORDER BY clause (Transact-SQL)".
    """
    assert len(table.rows(query)) == 2


@item(96, "documented")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM nowhere.x.dbo.t",
        "INSERT INTO nowhere.x.dbo.t VALUES (1)",
        "UPDATE nowhere.x.dbo.t SET a = 1",
        "DELETE FROM nowhere.x.dbo.t",
        "EXEC nowhere.x.dbo.p 1",
    ],
)
def test_a_server_that_nobody_added_is_not_found(table: Database, sql: str) -> None:
    """Without linked servers.

    Source: Microsoft, "Linked servers (Database Engine)"; "Database engine events and errors", 7202.
    """
    error = table.error(sql)
    assert error.number == 7202
    assert error.text.startswith("Could not find server 'nowhere' in sys.servers.")


@item(97, "documented")
def test_a_common_table_expression_that_reads_itself_without_union_all(table: Database) -> None:
    """A table of that name is read by its name with a schema.

    Source: Microsoft, "Database engine events and errors", 252; "WITH common_table_expression (Transact-SQL)".
    """
    assert table.error("WITH t AS (SELECT a FROM t) SELECT a FROM t").number == 252
    assert table.error("WITH t AS (SELECT a FROM dbo.t UNION SELECT a FROM t) SELECT a FROM t").number == 252
    assert table.column("WITH t AS (SELECT a FROM dbo.t) SELECT a FROM t ORDER BY a") == [1, 1, 2]


@item(99, "documented")
@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("SELECT a FROM dbo.t WHERE SUM(b) > 1", 147),
        ("DELETE FROM dbo.t WHERE MAX(b) = 4", 147),
        ("SELECT COUNT(SUM(a)) FROM dbo.t", 130),
        ("SELECT MAX(a) FROM dbo.t GROUP BY COUNT(*)", 144),
        ("UPDATE dbo.t SET b = MAX(a)", 157),
        ("SELECT u.a FROM dbo.t AS u JOIN dbo.t AS v ON MAX(u.a) = v.a", 1015),
        ("SELECT a FROM dbo.t WHERE SUM(b) OVER () > 1", 4108),
        ("SELECT SUM(COUNT(*) OVER ()) FROM dbo.t", 4109),
    ],
)
def test_an_aggregate_stands_where_rows_are_put_together(table: Database, sql: str, number: int) -> None:
    """Not where they are chosen, changed or joined, and not in another aggregate.

    Source: Microsoft, "Database engine events and errors", 130, 144, 147, 157, 1015, 4108, 4109.
    """
    assert table.error(sql).number == number
    assert table.value("SELECT SUM(b) FROM dbo.t") == 9


@item(99, "documented")
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT a FROM dbo.t WHERE b = (SELECT MAX(b) FROM dbo.t)", [(2,)]),
        ("SELECT a, SUM(COUNT(*)) OVER () AS n FROM dbo.t GROUP BY a ORDER BY a", [(1, 3), (2, 3)]),
        ("SELECT (SELECT COUNT(*) FROM dbo.t AS v WHERE v.a = u.a) AS n FROM dbo.t AS u WHERE u.b > 2", [(2,), (1,)]),
        ("SELECT a FROM dbo.t GROUP BY a HAVING SUM(b) > (SELECT AVG(b) FROM dbo.t WHERE a > 0)", [(1,), (2,)]),
    ],
    ids=range(4),
)
def test_a_query_inside_has_aggregates_of_its_own(table: Database, sql: str, rows: list[tuple[int, ...]]) -> None:
    """And a window adds up groups.

    Source: Microsoft, "Aggregate functions (Transact-SQL)"; "SELECT - OVER clause (Transact-SQL)".
    """
    found = table.rows(sql)
    assert found == rows if "ORDER" in sql else sorted(found) == sorted(rows)


@item(100, "documented")
@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ("N'DELETE FROM dbo.t', N'@a int', 1, 2", 8144),
        ("N'DELETE FROM dbo.t', N'@a int', @a = 1, @b = 2", 8145),
        ("N'DELETE FROM dbo.t WHERE a = @a', N'@a int'", 8178),
        ("N'DELETE FROM dbo.t WHERE a = @a', N'@a int, @b int', @b = 2", 8178),
        ("N'DELETE FROM dbo.t WHERE a = @a', N'@a int', @a = 1, @a = 1", 8143),
        ("'DELETE FROM dbo.t'", 214),
        ("N'DELETE FROM dbo.t', '@a int', 1", 214),
    ],
)
def test_sp_executesql_is_given_what_its_text_declares(table: Database, arguments: str, number: int) -> None:
    """Unicode texts, and a value for each parameter. Else the text does not run.

    Source: Microsoft, "sp_executesql (Transact-SQL)", arguments; "Database engine events and errors", 214, 8143, 8144, 8145, 8178.
    """
    assert table.error(f"EXEC sp_executesql {arguments}").number == number
    assert table.value("SELECT COUNT(*) FROM dbo.t") == 3


@item(101, "documented")
def test_not_less_and_not_greater(table: Database) -> None:
    """As conditions, in expressions and in checks.

    Source: Microsoft, "!< (Not Less Than) (Transact-SQL)", "!> (Not Greater Than) (Transact-SQL)".
    """
    assert table.column("SELECT b FROM dbo.t WHERE b !< 3 ORDER BY b") == [3, 4]
    assert table.column("SELECT CASE WHEN b!>3 THEN 'x' ELSE '!>' END AS v FROM dbo.t ORDER BY b") == ["x", "x", "!>"]
    table.run("ALTER TABLE dbo.t ADD CONSTRAINT ck CHECK (a !> 5)")
    assert table.error("INSERT INTO dbo.t VALUES (6, 0)").number == 547


@item(102, "documented")
@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("SELECT TOP (-1) b FROM dbo.t", 127),
        ("DECLARE @n int = -1; SELECT TOP (@n) b FROM dbo.t", 127),
        ("DECLARE @n int; SELECT TOP (@n) b FROM dbo.t", 1060),
        ("SELECT b FROM dbo.t ORDER BY b OFFSET -1 ROWS", 10742),
        ("DECLARE @n bigint = -1; SELECT b FROM dbo.t ORDER BY b OFFSET @n ROWS", 10742),
        ("DECLARE @n int; SELECT b FROM dbo.t ORDER BY b OFFSET @n ROWS FETCH NEXT 1 ROWS ONLY", 10743),
        ("SELECT b FROM dbo.t ORDER BY -1", 408),
        ("SELECT b FROM dbo.t ORDER BY b, 'x'", 408),
    ],
)
def test_a_number_of_rows_is_a_number_and_not_below_zero(table: Database, query: str, number: int) -> None:
    """No query takes it for all rows; a constant in ORDER BY is a position.

    Source: Microsoft, "TOP (Transact-SQL)"; "SELECT - ORDER BY clause (Transact-SQL)"; "Database engine events and errors", 127,
    408, 1060, 10742, 10743.
    """
    assert table.error(query).number == number
    assert table.column("DECLARE @n int = 1; SELECT TOP (@n) b FROM dbo.t ORDER BY b") == [2]
    assert table.column(
        "DECLARE @n int = 1; SELECT b FROM dbo.t ORDER BY b OFFSET @n ROWS FETCH NEXT @n ROWS ONLY"
    ) == [3]
    assert table.column("SELECT TOP (0) b FROM dbo.t") == []
