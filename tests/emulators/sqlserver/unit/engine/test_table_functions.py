"""STRING_SPLIT and fn_listextendedproperty: https://learn.microsoft.com/sql/t-sql/functions/string-split-transact-sql"""

from __future__ import annotations

from .conftest import Client


def test_string_split_gives_a_row_for_each_piece(client: Client) -> None:
    assert client.rows("SELECT value FROM STRING_SPLIT('a,,b', ',')") == [("a",), ("",), ("b",)]
    assert client.rows(
        "DECLARE @t nvarchar(9) = N'x y' SELECT s.ordinal, s.value FROM STRING_SPLIT(@t, N' ', 1) AS s"
    ) == [
        (1, "x"),
        (2, "y"),
    ]
    assert client.rows("SELECT value FROM STRING_SPLIT(NULL, ',')") == []


def test_string_split_runs_for_each_row_of_apply(client: Client) -> None:
    client.run("CREATE TABLE t (id int, tags nvarchar(20)) INSERT t VALUES (1, N'a b'), (2, N'c')")
    assert client.rows("SELECT t.id, s.value FROM t CROSS APPLY STRING_SPLIT(t.tags, ' ') AS s ORDER BY 1, 2") == [
        (1, "a"),
        (1, "b"),
        (2, "c"),
    ]
    assert client.rows("SELECT id FROM t WHERE N'b' IN (SELECT value FROM STRING_SPLIT(N'a b', N' '))") == [(1,), (2,)]


def test_a_separator_is_one_character(client: Client) -> None:
    assert client.error("SELECT value FROM STRING_SPLIT('a', 'xy')")[0] == 214
    assert client.error("SELECT value FROM STRING_SPLIT('a', ',', 0)")[0] == 50001


def test_there_are_no_extended_properties(client: Client) -> None:
    columns = "objtype, objname, name, value"
    for name in ("fn_listextendedproperty", "sys.fn_listextendedproperty"):
        asked = f"SELECT {columns} FROM {name}(NULL, N'schema', N'dbo', N'table', N't', N'column', NULL)"
        assert client.rows(asked) == []
    assert client.error("SELECT * FROM fn_listextendedproperty(NULL)")[0] == 313
