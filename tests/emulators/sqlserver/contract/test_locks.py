"""Item 82: readers that keep their locks, and who waits for them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from tests.emulators.sqlserver.contract.client import Connection, Database, Refused
from tests.emulators.sqlserver.contract.labels import item


@pytest.fixture
def tables(database: Database) -> Database:
    """dbo.t and dbo.u with two rows each; who is asked waits 50 ms at most."""
    for name in ("t", "u"):
        database.run(f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY, v int NOT NULL)")
        database.run(f"INSERT INTO dbo.{name} VALUES (1, 0), (2, 0)")
    database.run("SET LOCK_TIMEOUT 50")
    return database


def holding(database: Database, statements: str) -> Connection:
    """Another session in a transaction that has run `statements`."""
    holder = database.another()
    holder.run(f"SET LOCK_TIMEOUT 50 BEGIN TRAN {statements}")
    return holder


REPEATABLE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"


@item(82, "documented")
@pytest.mark.parametrize(
    "reading",
    [
        f"{REPEATABLE} SELECT v FROM dbo.t",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE SELECT v FROM dbo.t",
        "SELECT v FROM dbo.t WITH (TABLOCKX)",
        "SELECT v FROM dbo.t WITH (UPDLOCK, HOLDLOCK)",
    ],
)
def test_a_reader_that_keeps_its_locks_stops_no_writer_of_another_table(tables: Database, reading: str) -> None:
    """Locks are on what is read, whatever the isolation level.

    Source: Microsoft, "SET TRANSACTION ISOLATION LEVEL (Transact-SQL)"; Microsoft, "Table hints (Transact-SQL)".
    """
    holder = holding(tables, reading)
    tables.run("UPDATE dbo.u SET v = 1 INSERT INTO dbo.u VALUES (3, 0) DELETE FROM dbo.u WHERE id = 2")
    tables.run("CREATE TABLE dbo.made (n int NOT NULL)")
    assert tables.error("UPDATE dbo.t SET v = 1").number == 1222
    holder.run("COMMIT")
    tables.run("UPDATE dbo.t SET v = 1")


@item(82, "documented")
def test_repeatable_reads_stop_changes_of_their_rows_and_no_inserts(tables: Database) -> None:
    """Phantoms may appear; other readers come in, with the same level too.

    Source: Microsoft, "SET TRANSACTION ISOLATION LEVEL (Transact-SQL)", REPEATABLE READ.
    """
    holder = holding(tables, f"{REPEATABLE} SELECT v FROM dbo.t")
    assert tables.error("DELETE FROM dbo.t WHERE id = 1").number == 1222
    tables.run("INSERT INTO dbo.t VALUES (3, 0)")
    other = holding(tables, f"{REPEATABLE} SELECT v FROM dbo.t")
    assert holder.value("SELECT COUNT(*) FROM dbo.t") == 3
    holder.run("COMMIT")
    assert tables.error("DELETE FROM dbo.t WHERE id = 1").number == 1222
    other.run("COMMIT")
    tables.run("DELETE FROM dbo.t WHERE id = 1")


@item(82, "documented")
@pytest.mark.parametrize("hint", ["SERIALIZABLE", "HOLDLOCK", "TABLOCK, HOLDLOCK", "TABLOCKX"])
def test_locks_on_ranges_and_tables_stop_inserts_too(tables: Database, hint: str) -> None:
    """No phantoms.

    Source: Microsoft, "Table hints (Transact-SQL)".
    """
    holder = holding(tables, f"SELECT v FROM dbo.t WITH ({hint})")
    assert tables.error("INSERT INTO dbo.t VALUES (3, 0)").number == 1222
    holder.run("ROLLBACK")
    tables.run("INSERT INTO dbo.t VALUES (3, 0)")


@item(82, "documented")
def test_update_locks_exclude_one_another_and_no_readers(tables: Database) -> None:
    """One at a time may be about to change a row.

    Source: Microsoft, "Transaction locking and row versioning guide", Update locks; Microsoft, "Table hints (Transact-SQL)".
    """
    holder = holding(tables, "SELECT v FROM dbo.t WITH (UPDLOCK) WHERE id = 1")
    tables.run("BEGIN TRAN")
    assert tables.value("SELECT v FROM dbo.t WHERE id = 1") == 0
    assert tables.error("SELECT v FROM dbo.t WITH (UPDLOCK) WHERE id = 1").number == 1222
    holder.run("UPDATE dbo.t SET v = 1 WHERE id = 1 COMMIT")
    assert tables.value("SELECT v FROM dbo.t WITH (UPDLOCK) WHERE id = 1") == 1
    tables.run("COMMIT")


@item(82, "documented")
@pytest.mark.parametrize("hint", ["TABLOCKX", "TABLOCK, HOLDLOCK"])
def test_a_lock_on_a_table_waits_for_who_has_changed_it(tables: Database, hint: str) -> None:
    """Intent exclusive is compatible neither with S nor with X.

    Source: Microsoft, "Transaction locking and row versioning guide", Lock compatibility.
    """
    writer = holding(tables, "INSERT INTO dbo.t VALUES (3, 0)")
    tables.run("BEGIN TRAN")
    assert tables.error(f"SELECT v FROM dbo.t WITH ({hint})").number == 1222
    writer.run("ROLLBACK")
    assert len(tables.rows(f"SELECT v FROM dbo.t WITH ({hint})")) == 2
    tables.run("COMMIT")


@item(82, "documented")
def test_a_rollback_to_a_savepoint_releases_what_was_locked_after_it(tables: Database) -> None:
    """What was locked before stays locked.

    Source: Microsoft, "ROLLBACK TRANSACTION (Transact-SQL)", savepoint_name.
    """
    holder = holding(tables, "SELECT v FROM dbo.u WITH (TABLOCKX) SAVE TRAN here SELECT v FROM dbo.t WITH (TABLOCKX)")
    assert tables.error("SELECT v FROM dbo.t").number == 1222
    holder.run("ROLLBACK TRAN here")
    tables.run("UPDATE dbo.t SET v = 1")
    assert tables.value("SELECT SUM(v) FROM dbo.t") == 2
    assert tables.error("SELECT v FROM dbo.u").number == 1222
    holder.run("COMMIT")
    assert len(tables.rows("SELECT v FROM dbo.u")) == 2


@item(82, "documented")
def test_a_rollback_to_a_savepoint_releases_the_rows_that_were_changed_after_it(tables: Database) -> None:
    """For readers, and for writers.

    Source: Microsoft, "ROLLBACK TRANSACTION (Transact-SQL)", savepoint_name.
    """
    holder = holding(tables, "SAVE TRAN here UPDATE dbo.t SET v = 5")
    assert tables.error("SELECT v FROM dbo.t").number == 1222
    holder.run("ROLLBACK TRAN here")
    assert tables.column("SELECT v FROM dbo.t") == [0, 0]
    tables.run("UPDATE dbo.t SET v = 1")
    holder.run("UPDATE dbo.u SET v = 1 COMMIT")
    assert tables.column("SELECT v FROM dbo.u") == [1, 1]


@item(82, "documented")
def test_two_that_wait_for_each_other_are_a_deadlock(tables: Database) -> None:
    """One is rolled back with 1205 and its session stays; the other goes on.

    Source: Microsoft, "Transaction locking and row versioning guide", Deadlocks; errors, 1205.
    """
    both = [tables.another() for _ in range(2)]
    for session in both:
        session.run(f"{REPEATABLE} BEGIN TRAN SELECT v FROM dbo.t")
    start = Barrier(2)

    def change(session: Connection) -> int:
        start.wait(60)
        try:
            session.run("UPDATE dbo.t SET v = v + 1")
        except Refused as refused:
            return refused.number
        session.run("COMMIT")
        return 0

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(change, both)) == [0, 1205]
    assert sorted(session.value("SELECT @@TRANCOUNT") for session in both) == [0, 0]
    assert tables.column("SELECT v FROM dbo.t") == [1, 1]
