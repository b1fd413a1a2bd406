"""However deep a batch is nested, its client gets an error with a number, and the session goes on."""

from __future__ import annotations

import pytest

from .conftest import Client

DEPTH = 400
NESTED = (
    "BEGIN " * DEPTH + "SELECT 1 " + "END " * DEPTH,
    "IF 1 = 1 " * DEPTH + "SELECT 1",
    "IF 1 = 0 SELECT 0 ELSE " * DEPTH + "SELECT 1",
    "WHILE 1 = 0 " * DEPTH + "BREAK",
    "BEGIN TRY " * DEPTH + "SELECT 1 " + "END TRY BEGIN CATCH SELECT 2 END CATCH " * DEPTH,
)


@pytest.mark.parametrize("sql", NESTED, ids=["BEGIN", "IF", "ELSE", "WHILE", "TRY"])
def test_statements_that_are_nested_too_deeply_are_191(client: Client, sql: str) -> None:
    """The number is SQL Server's; how deep is too deep depends on its memory.

    https://learn.microsoft.com/sql/t-sql/language-elements/if-else-transact-sql (nested levels)"""
    assert client.error(f"SELECT 1 {sql}") == (
        191,
        "Some part of your SQL statement is nested too deeply. Rewrite the query or break it up into smaller queries.",
    )
    assert client.value("SELECT 7") == 7


def test_a_hundred_levels_are_not_too_deep(client: Client) -> None:
    assert client.value("BEGIN IF 1 = 1 " * 60 + "SELECT 1 " + "END " * 60) == 1


def test_an_expression_that_is_too_deep_fails_where_it_is_reached(client: Client) -> None:
    deep = f"SELECT {'(' * 300}1{')' * 300}"
    assert client.rows(f"IF 1 = 0 BEGIN {deep} END SELECT 5") == [(5,)]
    assert client.rows(f"IF 1 = 0 BEGIN SELECT 4 {deep} END ELSE SELECT 5") == [(5,)]
    assert client.error(f"SELECT 4 IF 1 = 1 BEGIN {deep} END")[0] == 50001


def test_texts_that_run_texts_within_many_levels_end(client: Client) -> None:
    """The stack ends before the 32 levels of EXEC do, and the open transaction is kept."""
    client.run("CREATE TABLE t (id int) BEGIN TRAN")
    blocks, ends = "BEGIN " * 100, " END" * 100
    inner = f"{blocks} INSERT t VALUES (1) EXEC sp_executesql @s, N''@s nvarchar(max)'', @s {ends}"
    sql = f"DECLARE @s nvarchar(max) = N'{inner}' EXEC sp_executesql @s, N'@s nvarchar(max)', @s"
    assert client.error(sql)[0] == 191
    assert client.value("SELECT @@TRANCOUNT") == 1
    client.run("COMMIT")
    assert int(str(client.value("SELECT COUNT(*) FROM t"))) > 0


@pytest.mark.parametrize("terms", [2, 7, 8, 30, 100, 200])
def test_sums_and_functions_of_many_terms(client: Client, terms: int) -> None:
    """Each step is computed as if it stood alone: types, NULL and errors."""
    client.run(
        "CREATE TABLE t (a int, n numeric(9, 1), s varchar(400)) INSERT t VALUES (1, 0.5, 'abc'), (NULL, NULL, NULL)"
    )
    assert client.rows(f"SELECT {' + '.join(['a'] * terms)} FROM t ORDER BY a DESC") == [(terms,), (None,)]
    mixed = " + ".join("an"[i % 2] for i in range(terms))
    assert client.rows(f"SELECT ({mixed}) * 2 FROM t WHERE a = 1")[0][0] is not None
    levels = min(terms, 30)
    replaced = "REPLACE(" * levels + "s" + ", 'a', 'aa')" * min(levels, 7) + ", 'x', 'y')" * (levels - min(levels, 7))
    assert client.rows(f"SELECT LEN({replaced}) FROM t WHERE a = 1") == [(2 ** min(terms, 7) + 2,)]
    assert client.error(f"SELECT {' + '.join(['a'] * terms)} + 2147483647 FROM t")[0] == 8115
