"""Hints that would change what a statement waits for, and that the emulator does not have."""

from __future__ import annotations

import pytest

from .conftest import Client


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("SELECT id FROM t WITH (READPAST)", "table hint READPAST"),
        ("SELECT id FROM t WITH (UPDLOCK, READPAST)", "table hint READPAST"),
        ("DELETE TOP (1) FROM t WITH (ROWLOCK, READPAST)", "table hint READPAST"),
        ("UPDATE t WITH (READPAST) SET id = 2", "table hint READPAST"),
        ("INSERT t WITH (READPAST) VALUES (2)", "table hint READPAST"),
        ("INSERT t WITH (IGNORE_CONSTRAINTS) VALUES (2)", "table hint IGNORE_CONSTRAINTS"),
        ("DELETE t WITH (NOWAIT)", "table hint NOWAIT"),
        ("UPDATE t SET id = 2 FROM t JOIN u WITH (NOWAIT) ON u.id = t.id", "table hint NOWAIT"),
        ("MERGE t WITH (NOWAIT) USING u ON u.id = t.id WHEN MATCHED THEN DELETE;", "table hint NOWAIT"),
    ],
)
def test_a_hint_is_refused_by_its_name_when_it_is_reached(client: Client, statement: str, name: str) -> None:
    client.run("CREATE TABLE t (id int) CREATE TABLE u (id int) INSERT t VALUES (1)")
    number, text = client.error(statement)
    assert number == 50001
    assert name in text
    client.run(f"IF 1 = 0 BEGIN {statement} END")
    assert client.rows("SELECT id FROM t") == [(1,)]


@pytest.mark.parametrize("hints", ["INDEX(k)", "INDEX = k", "INDEX (k), ROWLOCK", "FORCESEEK", "UPDLOCK, SERIALIZABLE"])
def test_a_table_that_is_written_to_takes_the_hints_of_one_that_is_read(client: Client, hints: str) -> None:
    client.run("CREATE TABLE t (id int) CREATE INDEX k ON t (id) INSERT t VALUES (1)")
    client.run(f"UPDATE t WITH ({hints}) SET id = 2")
    assert client.rows("SELECT id FROM t") == [(2,)]


def test_catalog_views_may_be_read_past_locks_that_they_do_not_have(client: Client) -> None:
    assert client.rows("SELECT name FROM sys.tables WITH (READPAST)") == []
