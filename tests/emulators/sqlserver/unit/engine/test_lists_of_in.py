"""Lists of IN: constants are looked up, whatever else stands among them, with the meaning of a chain of comparisons."""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.unit.engine.conftest import Client


@pytest.fixture
def row(client: Client) -> Client:
    client.run("CREATE TABLE t (i INT, n NVARCHAR(20), v VARCHAR(20), b VARBINARY(4), f FLOAT, m MONEY, d DATE)")
    client.run("INSERT INTO t VALUES (7, N'Apple ', 'É', 0x0100, 1.5, 2.5, '2024-02-29')")
    return client


@pytest.mark.parametrize(
    "condition",
    [
        "i IN (1, 7, 9)",
        "i IN (1, '7', 9.0)",
        "i IN (NULL, 7)",
        "i IN (1, i, 3)",
        "n IN ('x', 'APPLE', N'y')",
        "n IN (N'apple   ')",
        "v IN ('e', N'é')",
        "b IN (0x02, 0x01)",
        "f IN (1, 1.5, 2)",
        "m IN (1, 2.5, '3')",
        "d IN ('2024-02-28', '2024-02-29')",
        "i NOT IN (1, 2, 3)",
        "i + 1 IN (8, 9)",
    ],
)
def test_a_member_is_found(row: Client, condition: str) -> None:
    assert row.rows(f"SELECT i FROM t WHERE {condition}") == [(7,)]
    assert row.rows(f"SELECT i FROM t WHERE NOT ({condition})") == []


@pytest.mark.parametrize(
    "condition", ["i NOT IN (1, NULL, 3)", "n IN ('x', N'Appl')", "i IN (1, NULL)", "b IN (0x0001, 0x02)"]
)
def test_none_is_found(row: Client, condition: str) -> None:
    assert row.rows(f"SELECT i FROM t WHERE {condition}") == []


def test_hundreds_of_parameters_are_no_chain(row: Client) -> None:
    names = [f"@p{number}" for number in range(300)]
    declared = ", ".join(f"{name} NVARCHAR(4000) = N'{name}'" for name in names)
    assert row.rows(
        f"DECLARE {declared}, @last NVARCHAR(9) = N'apple'; SELECT i FROM t WHERE n IN ({', '.join(names)}, @last)"
    ) == [(7,)]
