"""SET FMTONLY ON: what it does not describe is refused by name."""

from __future__ import annotations

import pytest

from .conftest import Client


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("INSERT INTO t OUTPUT inserted.id VALUES (1)", "OUTPUT"),
        ("IF 1 = 1 SELECT 1", "IF"),
        ("BEGIN SELECT 1 END", "blocks"),
    ],
)
def test_what_it_does_not_describe_is_refused(client: Client, sql: str, name: str) -> None:
    client.run("CREATE TABLE t (id int) SET FMTONLY ON")
    number, text = client.error(sql)
    assert number == 50001
    assert name in text
    client.run("SET FMTONLY OFF")
    assert client.value("SELECT COUNT(*) FROM t") == 0


def test_variables_and_a_table_of_one_declare(client: Client) -> None:
    found = client.results(
        "SET FMTONLY ON DECLARE @a int, @t TABLE (q int) SELECT q, @a FROM @t SET FMTONLY OFF SELECT 7"
    )
    assert found == [[], [(7,)]]
