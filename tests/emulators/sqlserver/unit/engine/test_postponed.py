"""A conversion in a select list may wait until its row is sent; nobody can tell, whatever else reads the list."""

from __future__ import annotations

import pytest

from .conftest import Client

_MADE = "CONVERT(varbinary(4), CONVERT(nvarchar(9), t.A))"


@pytest.fixture
def table(client: Client) -> Client:
    client.run("CREATE TABLE dbo.T (ID int PRIMARY KEY, A varchar(9), B varchar(9))")
    client.run("INSERT INTO dbo.T VALUES (1, 'b', '2'), (2, 'a', '1'), (3, NULL, NULL), (4, 'b', '3')")
    return client


_A, _B = b"a\0", b"b\0"


@pytest.mark.parametrize(
    ("rest", "found"),
    [
        ("FROM dbo.T AS t ORDER BY t.ID", [_B, _A, None, _B]),
        ("FROM dbo.T AS t ORDER BY M, t.ID", [None, _A, _B, _B]),
        ("FROM dbo.T AS t ORDER BY 1 DESC, t.ID", [_B, _B, _A, None]),
        ("FROM dbo.T AS t WHERE CONVERT(int, t.B) > 1 ORDER BY t.A, t.ID", [_B, _B]),
        ("FROM (SELECT TOP (2) * FROM dbo.T ORDER BY ID) AS t ORDER BY t.ID DESC", [_A, _B]),
        ("FROM dbo.T AS t WHERE t.ID = 1 UNION SELECT 0x6100 ORDER BY 1", [_A, _B]),
        ("FROM dbo.T AS t GROUP BY t.A ORDER BY t.A", [None, _A, _B]),
    ],
)
def test_whatever_reads_the_list(table: Client, rest: str, found: list[bytes | None]) -> None:
    assert [row[0] for row in table.rows(f"SELECT {_MADE} AS M {rest}")] == found


def test_with_ties_distinct_and_a_variable(table: Client) -> None:
    assert (
        len(table.rows(f"SELECT TOP (1) WITH TIES {_MADE} AS M FROM dbo.T AS t WHERE t.ID <> 3 ORDER BY t.A DESC")) == 2
    )
    assert len(table.rows(f"SELECT DISTINCT {_MADE} AS M FROM dbo.T AS t")) == 3
    assert table.value(f"DECLARE @m varbinary(4); SELECT @m = {_MADE} FROM dbo.T AS t WHERE t.ID = 2; SELECT @m") == _A
    table.run(f"SELECT {_MADE} AS M INTO dbo.U FROM dbo.T AS t; CREATE TABLE dbo.V (M varbinary(4))")
    table.run(f"INSERT INTO dbo.V SELECT {_MADE} FROM dbo.T AS t")
    assert (
        table.rows("SELECT M FROM dbo.U ORDER BY M")
        == table.rows("SELECT M FROM dbo.V ORDER BY M")
        == [(None,), (_A,), (_B,), (_B,)]
    )


def test_one_that_fails_is_an_error_of_the_statement(table: Client) -> None:
    assert table.error("SELECT CONVERT(int, t.A) FROM dbo.T AS t ORDER BY t.ID")[0] == 245
    assert (
        table.value(
            "BEGIN TRY SELECT CONVERT(int, t.A) FROM dbo.T AS t END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"
        )
        == 245
    )
