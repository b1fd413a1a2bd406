"""Readers and whole tables that another transaction holds exclusively.

Source: https://learn.microsoft.com/sql/t-sql/queries/hints-transact-sql-table and the page "SET TRANSACTION ISOLATION LEVEL".
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from .conftest import Client

Connect = Callable[[], Client]


@pytest.fixture
def holder(client: Client) -> Client:
    client.run("CREATE TABLE t (id int PRIMARY KEY) CREATE TABLE other (id int) INSERT t VALUES (1)")
    client.run("CREATE DATABASE second")
    return client


def hold(holder: Client, hints: str = "TABLOCKX") -> None:
    holder.run("BEGIN TRAN")
    holder.rows(f"SELECT * FROM t WITH ({hints})")


@pytest.mark.parametrize("hints", ["TABLOCKX", "TABLOCKX, HOLDLOCK", "TABLOCK, XLOCK"])
@pytest.mark.parametrize(
    "reading",
    [
        "SELECT id FROM t",
        "SELECT (SELECT MAX(id) FROM t)",
        "IF EXISTS (SELECT 1 FROM dbo.t AS x WHERE id = 1) SELECT 1",
        "DECLARE @n int SELECT @n = id FROM t",
        "USE second SELECT id FROM demo.dbo.t",
    ],
)
def test_readers_wait_for_an_exclusive_table_lock(holder: Client, connect: Connect, hints: str, reading: str) -> None:
    other = connect()
    hold(holder, hints)
    assert other.error(f"SET LOCK_TIMEOUT 0 {reading}") == (1222, "Lock request time out period exceeded.")
    holder.run("COMMIT")
    other.run(reading)


@pytest.mark.parametrize(
    "reading",
    [
        "SELECT COUNT(*) FROM t WITH (NOLOCK)",
        "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED SELECT COUNT(*) FROM t",
        "SET TRANSACTION ISOLATION LEVEL SNAPSHOT SELECT COUNT(*) FROM t",
        "SELECT COUNT(*) + 1 FROM other",
    ],
)
def test_who_asks_for_no_lock_does_not_wait(holder: Client, connect: Connect, reading: str) -> None:
    other = connect()
    holder.run("ALTER DATABASE demo SET ALLOW_SNAPSHOT_ISOLATION ON")
    hold(holder)
    assert other.value(f"SET LOCK_TIMEOUT 0 {reading}") == 1


def test_with_row_versions_read_committed_does_not_wait(holder: Client, connect: Connect) -> None:
    holder.run("ALTER DATABASE demo SET READ_COMMITTED_SNAPSHOT ON")
    other = connect()
    assert other.value("SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = 'demo'") == 1
    hold(holder)
    assert other.value("SET LOCK_TIMEOUT 0 SELECT id FROM t") == 1
    assert other.error("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ SELECT id FROM t")[0] == 1222


def test_shared_table_locks_and_row_locks_stop_no_reader(holder: Client, connect: Connect) -> None:
    other = connect()
    for hints in ("TABLOCK, HOLDLOCK", "UPDLOCK", "XLOCK"):
        hold(holder, hints)
        assert other.value("SET LOCK_TIMEOUT 0 SELECT id FROM t") == 1
        holder.run("ROLLBACK")


def test_outside_a_transaction_nothing_is_held(holder: Client, connect: Connect) -> None:
    holder.rows("SELECT * FROM t WITH (TABLOCKX)")
    assert connect().value("SET LOCK_TIMEOUT 0 SELECT id FROM t") == 1


def test_a_waiting_reader_goes_on_when_the_lock_is_released(holder: Client, connect: Connect) -> None:
    other = connect()
    hold(holder)
    holder.run("INSERT t VALUES (2)")
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.append(other.value("SELECT COUNT(*) FROM t")))
    reader.start()
    holder.run("COMMIT")
    reader.join(10)
    assert found == [2]
