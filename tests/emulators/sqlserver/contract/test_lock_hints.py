"""Items 76, 77 and 82: hints of statements that write, definitions in open transactions, and waits that fail."""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.contract.client import Connection, Database
from tests.emulators.sqlserver.contract.labels import item

PATIENT = "SET LOCK_TIMEOUT 60000"
"""For what must succeed, however slow the machine."""


@pytest.fixture
def tables(database: Database) -> Database:
    """dbo.t, dbo.u and dbo.w with two rows each."""
    for name in ("t", "u", "w"):
        database.run(f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY, v int NOT NULL)")
        database.run(f"INSERT INTO dbo.{name} VALUES (1, 0), (2, 0)")
    database.run(PATIENT)
    return database


def holding(database: Database, statements: str) -> Connection:
    """Another session in a transaction that has run `statements`."""
    holder = database.another()
    holder.run(f"{PATIENT} BEGIN TRAN {statements}")
    return holder


def number_of(database: Database, statement: str) -> int:
    """Of the error that a statement ends with that must not get its locks."""
    database.run("SET LOCK_TIMEOUT 50")
    try:
        return database.error(statement).number
    finally:
        database.run(PATIENT)


@item(82, "documented")
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM dbo.u WITH (XLOCK), dbo.t WITH (UPDLOCK)",
        "UPDATE dbo.w SET v = 1 FROM dbo.w JOIN dbo.u WITH (HOLDLOCK) ON u.id = w.id JOIN dbo.t WITH (UPDLOCK) ON t.id = w.id",
    ],
)
def test_a_statement_whose_wait_fails_outside_a_transaction_keeps_no_lock(tables: Database, statement: str) -> None:
    """Locks of a statement end with its transaction, which is the statement.

    Source: Microsoft, "Transaction locking and row versioning guide", Autocommit transactions; "Table hints (Transact-SQL)".
    """
    holder = holding(tables, "SELECT v FROM dbo.t WITH (UPDLOCK)")
    assert number_of(tables, statement) == 1222
    holder.run("ROLLBACK")
    holder.run("UPDATE dbo.u SET v = 1 UPDATE dbo.t SET v = 1 UPDATE dbo.w SET v = 1")
    assert tables.value("SELECT SUM(v) FROM dbo.u") == 2


@item(76, "documented")
@pytest.mark.parametrize(("hint", "mode"), [("UPDLOCK", "IX"), ("XLOCK", "IX"), ("TABLOCKX", "X")])
def test_locks_of_a_reader_that_keeps_them_are_shown(tables: Database, hint: str, mode: str) -> None:
    """To everybody, whether it has changed something or not.

    Source: Microsoft, "sys.dm_tran_locks (Transact-SQL)"; Microsoft, "Transaction locking and row versioning guide", intent locks.
    """
    holder = holding(tables, f"SELECT v FROM dbo.t WITH ({hint})")
    spid = holder.value("SELECT @@SPID")
    modes = tables.column(
        "SELECT request_mode FROM sys.dm_tran_locks WHERE resource_type = 'OBJECT' AND request_session_id = %s AND "
        "resource_associated_entity_id = OBJECT_ID(N'dbo.t')",
        spid,
    )
    assert modes == [mode]


@item(77, "documented")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dbo.t WITH (TABLOCKX) SET v = 1 WHERE id = 1",
        "UPDATE x SET v = 1 FROM dbo.t AS x WITH (TABLOCKX) WHERE id = 1",
        "DELETE FROM dbo.t WITH (ROWLOCK TABLOCKX) WHERE id = 1",
        "INSERT INTO dbo.t WITH (TABLOCKX) VALUES (3, 0)",
        "INSERT INTO dbo.t WITH (TABLOCK, XLOCK) SELECT 3, 0",
        "MERGE dbo.t WITH (TABLOCKX) AS x USING (SELECT 1 AS id) AS y ON x.id = y.id WHEN MATCHED THEN UPDATE SET v = 1;",
    ],
)
def test_a_table_that_is_changed_under_tablockx_is_nobody_elses(tables: Database, statement: str) -> None:
    """Not even its other rows; other tables are free, and so is who asks for no locks.

    Source: Microsoft, "Table hints (Transact-SQL)", TABLOCKX.
    """
    holder = holding(tables, statement)
    assert number_of(tables, "SELECT v FROM dbo.t WHERE id = 2") == 1222
    assert tables.value("SELECT v FROM dbo.u WHERE id = 2") == 0
    assert tables.value("SELECT v FROM dbo.t WITH (NOLOCK) WHERE id = 2") == 0
    holder.run("ROLLBACK")
    assert tables.value("SELECT v FROM dbo.t WHERE id = 2") == 0


@item(77, "documented")
def test_a_change_under_tablockx_waits_for_readers_that_keep_their_locks(tables: Database) -> None:
    """An exclusive lock goes with no other; without the hint an INSERT passes.

    Source: Microsoft, "Table hints (Transact-SQL)", TABLOCKX; Microsoft, "Transaction locking and row versioning guide", Lock
    compatibility.
    """
    holder = holding(tables, "SELECT v FROM dbo.t WITH (REPEATABLEREAD)")
    tables.run("INSERT INTO dbo.t VALUES (3, 0)")
    assert number_of(tables, "INSERT INTO dbo.t WITH (TABLOCKX) VALUES (4, 0)") == 1222
    holder.run("COMMIT")
    tables.run("INSERT INTO dbo.t WITH (TABLOCKX) VALUES (4, 0)")


@item(77, "documented")
def test_a_rollback_to_a_savepoint_releases_the_table_that_was_taken_after_it(tables: Database) -> None:
    """Escalations and conversions alone stay.

    Source: Microsoft, "ROLLBACK TRANSACTION (Transact-SQL)", savepoint_name.
    """
    holder = holding(
        tables,
        "UPDATE dbo.u WITH (TABLOCKX) SET v = 1 WHERE id = 1 SAVE TRAN here UPDATE dbo.t WITH (TABLOCKX) SET v = 1 "
        "WHERE id = 1 ROLLBACK TRAN here",
    )
    assert tables.column("SELECT v FROM dbo.t") == [0, 0]
    assert number_of(tables, "SELECT v FROM dbo.u WHERE id = 2") == 1222
    holder.run("ROLLBACK")


@item(77, "documented")
@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE TABLE dbo.t",
        "DROP TABLE dbo.t",
        "ALTER TABLE dbo.t ADD w int NULL",
        "ALTER TABLE dbo.t ALTER COLUMN v bigint NOT NULL",
    ],
)
def test_readers_wait_for_a_table_that_is_being_redefined(tables: Database, statement: str) -> None:
    """A lock on its definition goes with no other.

    Source: Microsoft, "TRUNCATE TABLE (Transact-SQL)", remarks; Microsoft, "Transaction locking and row versioning guide", Schema locks.
    """
    holder = holding(tables, statement)
    assert number_of(tables, "SELECT v FROM dbo.t WHERE id = 2") == 1222
    assert tables.value("SELECT v FROM dbo.u WHERE id = 2") == 0
    holder.run("ROLLBACK")
    assert tables.value("SELECT v FROM dbo.t WHERE id = 2") == 0


@item(6, "documented")
def test_nowait_fails_at_once(tables: Database) -> None:
    """As with a LOCK_TIMEOUT of 0 for that table alone.

    Source: Microsoft, "Table hints (Transact-SQL)", NOWAIT.
    """
    holder = holding(tables, "UPDATE dbo.t SET v = 1")
    tables.run("SET LOCK_TIMEOUT -1")
    assert tables.error("SELECT v FROM dbo.t WITH (NOWAIT)").number == 1222
    assert tables.error("SELECT t.v FROM dbo.u JOIN dbo.t WITH (UPDLOCK, NOWAIT) ON u.id = t.id").number == 1222
    holder.run("ROLLBACK")
    assert tables.column("SELECT v FROM dbo.t WITH (NOWAIT)") == [0, 0]


@item(10, "documented")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dbo.t WITH (NOLOCK) SET v = 1",
        "DELETE FROM dbo.t WITH (READUNCOMMITTED)",
        "INSERT INTO dbo.t WITH (NOLOCK) VALUES (3, 0)",
    ],
)
def test_a_table_that_is_written_to_is_locked(tables: Database, statement: str) -> None:
    """NOLOCK is for tables that are read.

    Source: Microsoft, "Table hints (Transact-SQL)", NOLOCK; "Database engine events and errors", 1065.
    """
    assert tables.error(statement).number == 1065
