"""VALUES as a table that reads columns of the query around it: how many rows SQLite takes."""

from __future__ import annotations

from .conftest import Client


def _query(rows: int) -> str:
    return f"SELECT COUNT(*) FROM t CROSS APPLY (VALUES {', '.join(['(a)'] * rows)}) AS q (m)"


def test_more_rows_than_sqlite_unites_are_refused_by_name(client: Client) -> None:
    client.run("CREATE TABLE t (a int) INSERT t VALUES (1), (2)")
    assert client.value(_query(499)) == 998
    number, text = client.error(_query(500))
    assert number == 50001
    assert "VALUES" in text


def test_constants_have_no_such_limit(client: Client) -> None:
    client.run("CREATE TABLE t (a int) INSERT t VALUES (1), (2)")
    assert client.value(_query(1200).replace("(a)", "(1)")) == 2400
