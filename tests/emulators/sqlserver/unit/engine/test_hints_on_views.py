"""Lock hints on a view or a common table expression go to every table that it reads.

Source: https://learn.microsoft.com/sql/t-sql/queries/hints-transact-sql-table
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from .conftest import Client

Connect = Callable[[], Client]
READINGS = [
    "SELECT COUNT(*) FROM v {}",
    "SELECT COUNT(*) FROM outer_view {}",
    "WITH c AS (SELECT id FROM t) SELECT COUNT(*) FROM c {}",
    "WITH b AS (SELECT id FROM v), c AS (SELECT id FROM b) SELECT COUNT(*) FROM c AS x {}",
    "WITH c AS (SELECT id FROM t) SELECT COUNT(*) FROM (SELECT id FROM c {}) AS d",
]


@pytest.fixture
def tables(client: Client) -> Client:
    client.run("CREATE TABLE t (id int PRIMARY KEY, n int) INSERT t VALUES (1, 0)")
    client.run("CREATE VIEW v AS SELECT id FROM t")
    client.run("CREATE VIEW outer_view AS SELECT id FROM v")
    client.run("CREATE VIEW held AS SELECT id FROM t WITH (HOLDLOCK)")
    client.run("CREATE VIEW dirty AS SELECT id FROM t WITH (NOLOCK)")
    return client


@pytest.mark.parametrize("reading", READINGS)
def test_nolock_waits_for_nothing(tables: Client, connect: Connect, reading: str) -> None:
    tables.run("BEGIN TRAN UPDATE t SET n = 1")
    other = connect()
    assert other.value(f"SET LOCK_TIMEOUT 0 {';' + reading.format('WITH (NOLOCK)')}") == 1
    assert other.error(f";{reading.format('')}")[0] == 1222


@pytest.mark.parametrize("reading", READINGS)
def test_nowait_does_not_wait(tables: Client, connect: Connect, reading: str) -> None:
    tables.run("BEGIN TRAN UPDATE t SET n = 1")
    begin = time.monotonic()
    assert connect().error(f"SET LOCK_TIMEOUT 60000; {reading.format('WITH (NOWAIT)')}")[0] == 1222
    assert time.monotonic() - begin < 50


@pytest.mark.parametrize("reading", READINGS)
def test_tablockx_locks_the_table(tables: Client, connect: Connect, reading: str) -> None:
    tables.rows(f"BEGIN TRAN; {reading.format('WITH (TABLOCKX)')}")
    assert connect().error("SET LOCK_TIMEOUT 0 SELECT id FROM t")[0] == 1222


@pytest.mark.parametrize("reading", READINGS)
def test_readpast_is_refused(tables: Client, reading: str) -> None:
    number, text = tables.error(reading.format("WITH (READPAST)"))
    assert number == 50001
    assert "table hint READPAST" in text


def test_who_reads_it_with_a_hint_and_without_waits(tables: Client, connect: Connect) -> None:
    tables.run("BEGIN TRAN UPDATE t SET n = 1")
    sql = "WITH c AS (SELECT id FROM t) SELECT COUNT(*) FROM c WITH (NOLOCK) JOIN c AS d ON d.id = c.id"
    assert connect().error(f"SET LOCK_TIMEOUT 0; {sql}")[0] == 1222


def test_hints_inside_and_outside_are_both_heeded(tables: Client, connect: Connect) -> None:
    tables.rows("BEGIN TRAN SELECT id FROM held WITH (UPDLOCK)")
    kept = "SELECT request_mode FROM sys.dm_tran_locks WHERE resource_type = 'OBJECT'"
    assert tables.rows(kept)
    assert connect().error("SET LOCK_TIMEOUT 0 INSERT t VALUES (2, 0)")[0] == 1222
    assert connect().error("SET LOCK_TIMEOUT 0 SELECT id FROM t WITH (UPDLOCK)")[0] == 1222


@pytest.mark.parametrize(
    ("view", "hint"), [("held", "NOLOCK"), ("dirty", "UPDLOCK"), ("dirty", "TABLOCK"), ("held", "REPEATABLEREAD")]
)
def test_hints_that_contradict_each_other_are_refused_by_name(tables: Client, view: str, hint: str) -> None:
    number, text = tables.error(f"SELECT id FROM {view} WITH ({hint})")
    assert number == 50001
    assert hint in text


@pytest.mark.parametrize(
    ("view", "hint"), [("held", "SERIALIZABLE"), ("dirty", "READUNCOMMITTED"), ("held", "ROWLOCK")]
)
def test_the_same_hint_twice_is_one(tables: Client, view: str, hint: str) -> None:
    assert tables.rows(f"SELECT id FROM {view} WITH ({hint})") == [(1,)]
