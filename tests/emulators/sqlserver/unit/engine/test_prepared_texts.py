"""Texts that come again with other values are read once, and a value that stands alone is the one that a query finds."""

from __future__ import annotations

import pytest

from emulators.sqlserver.engine.session.session import SqlSession
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.reading import batch
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.batch import parse_batch
from tests.emulators.sqlserver.unit.engine.conftest import Client


@pytest.mark.parametrize(
    "text",
    [
        *("0", "7", "2147483647", "2147483648", "1.50", "000.1", "12345678901234567890.5", "1e3"),
        *("''", "'it''s'", "'é'", "'\u0416'", "N''", "N'naïve'", f"N'{'x' * 4001}'", f"'{'x' * 8001}'"),
        *("0x1", "0x0102030405060708090A", "@known", "@KNOWN", "@empty"),
    ],
)
def test_a_value_that_stands_alone_is_what_a_query_finds(client: Client, text: str) -> None:
    session = client.session
    assert isinstance(session, SqlSession)
    session.variables = {"@known": (SqlType("nvarchar", 20), "x"), "@empty": (SqlType("binary", 10), None)}
    (call,) = parse_batch(f"EXEC sys.sp_any {text}")
    assert isinstance(call, st.Execute)
    (argument,) = call.arguments
    assert argument.value is not None
    found = session.variables[argument.variable] if argument.constant is None else argument.constant
    assert session.runner.literal(*found) == session.runner.value(argument.value)


def test_a_variable_that_is_not_declared_is_error_137(client: Client) -> None:
    number, _ = client.error("EXEC sys.sp_executesql N'SELECT @a', N'@a int', @missing")
    assert number == 137
    assert client.rows("SELECT 1") == [(1,)]


def test_values_of_each_type_reach_the_text_as_its_parameters_are_declared(client: Client) -> None:
    sql = (
        "DECLARE @outer nvarchar(10) = N'outer';\n"
        "EXEC sys.sp_executesql N'SELECT @a, @b, @c, @d, @e; SET @e = N''changed''',\n"
        "N'@a int, @b binary(4), @c nvarchar(3), @d decimal(5,2), @e nvarchar(10) OUTPUT',\n"
        "7, 0x0102, N'longer', 1.5, @outer OUTPUT;\nSELECT @outer"
    )
    for _ in range(2):
        first, last = client.results(sql)
        assert first == [(7, b"\1\2\0\0", "lon", "1.50", "outer")]
        assert last == [("changed",)]


def test_a_text_with_parameters_outlives_thousands_of_texts_with_values(client: Client) -> None:
    text = "SELECT @p1 AS kept"
    known = parse_batch(text, parameterised=True)
    for number in range(2000):
        parse_batch(f"SELECT {number} AS passing")
    assert parse_batch(text, parameterised=True) is known


def test_a_text_with_parameters_is_read_once_for_all_values(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    parse = batch._parse

    def noted(sql: str) -> tuple[st.Statement, ...]:
        read.append(sql)
        return parse(sql)

    monkeypatch.setattr(batch, "_parse", noted)
    for number in range(3):
        assert client.value(f"EXEC sys.sp_executesql N'SELECT @p1 AS asked_once', N'@p1 int', {number}") == number
    assert read.count("SELECT @p1 AS asked_once") == 1


def test_a_text_that_is_wrong_is_wrong_each_time(client: Client) -> None:
    for _ in range(2):
        with pytest.raises(SqlError) as refused:
            client.run("EXEC sys.sp_executesql N'SELECT FROM WHERE', N'@p1 int', 1")
        assert refused.value.number in (102, 156)


def test_a_plan_is_not_used_after_its_table_was_made_anew(client: Client) -> None:
    ask = "EXEC sys.sp_executesql N'SELECT COUNT(*) FROM dbo.Kept WHERE a = @p1', N'@p1 int', 1"
    client.run("CREATE TABLE dbo.Kept (a int); INSERT INTO dbo.Kept VALUES (1)")
    assert client.value(ask) == 1
    client.run("DROP TABLE dbo.Kept")
    assert client.error(ask)[0] == 208
    client.run("CREATE TABLE dbo.Kept (a int, b int); INSERT INTO dbo.Kept VALUES (1, 1), (1, 2)")
    assert client.value(ask) == 2


@pytest.mark.parametrize("statements", [1, 3, 400])
def test_an_error_names_its_line_in_a_long_batch(client: Client, statements: int) -> None:
    lines = ["SELECT 1"] * statements + ["/* two\nlines */ THROW 50000, N'here', 1"]
    with pytest.raises(SqlError) as thrown:
        client.run("\n".join(lines))
    assert thrown.value.line == statements + 2
