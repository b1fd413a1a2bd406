"""Items 74 and on: what a reader of whole tables asks beside the rows, and what makes it wait."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pydantic import SecretStr

from tests.emulators.sqlserver.contract.client import Connection, Database
from tests.emulators.sqlserver.contract.labels import item

STATS = (
    "SELECT index_id, partition_number, row_count, in_row_data_page_count, in_row_used_page_count, "
    "in_row_reserved_page_count, lob_used_page_count, lob_reserved_page_count, row_overflow_used_page_count, "
    "row_overflow_reserved_page_count, used_page_count, reserved_page_count FROM sys.dm_db_partition_stats "
    "WHERE object_id = OBJECT_ID(N'dbo.{table}') ORDER BY index_id"
)
_TEN = ", ".join(f"({n})" for n in range(10))
ROWS = (
    f"(SELECT a.n * 100 + b.n * 10 + c.n AS n FROM (VALUES {_TEN}) AS a (n) CROSS JOIN (VALUES {_TEN}) AS b (n) "
    f"CROSS JOIN (VALUES {_TEN}) AS c (n)) AS r WHERE n < 500"
)
"""Of a FROM, with its WHERE: the numbers 0 to 499."""
END = "SELECT log_end_lsn FROM sys.dm_db_log_stats(DB_ID())"
COMMITS = "SELECT [__$start_lsn] FROM cdc.dbo_Persons_CT ORDER BY 1 DESC"


@pytest.fixture
def reader(database: Database) -> Iterator[Connection]:
    """A user who may read every table, whose name is `reader`."""
    login, password = f"contract_{uuid.uuid4().hex[:8]}", "Reader-Password-1"
    database.run(f"CREATE LOGIN {login} WITH PASSWORD = N'{password}'")
    database.run(f"CREATE USER reader FOR LOGIN {login}; ALTER ROLE db_datareader ADD MEMBER reader")
    address = replace(database.server.address, user=login, password=SecretStr(password))
    with Connection(replace(database.server, address=address), database.driver, database.database) as made:
        yield made
    database.run(f"DROP LOGIN {login}")


@item(74, "documented")
def test_a_partition_has_its_rows_and_pages(database: Database) -> None:
    """A heap is index 0, the clustered index 1; used and reserved are sums. Full pages hold 8096 bytes of rows and their slots.

    Source: Microsoft, "sys.dm_db_partition_stats (Transact-SQL)"; Microsoft, "Estimate the Size of a Clustered Index".
    """
    database.run(
        "CREATE TABLE dbo.heap (n int NOT NULL, filler char(900) NOT NULL) "
        "CREATE TABLE dbo.tree (n int NOT NULL PRIMARY KEY, filler char(900) NOT NULL, large varchar(max) NULL) "
        "CREATE INDEX filled ON dbo.tree (filler)"
    )
    database.run(f"INSERT INTO dbo.heap SELECT n, 'x' FROM {ROWS}")
    database.run(f"INSERT INTO dbo.tree SELECT n, 'x', REPLICATE(CONVERT(varchar(max), 'y'), 20000) FROM {ROWS}")
    ((heap, number, rows, data, *pages, used, reserved),) = database.rows(STATS.format(table="heap"))
    assert (heap, number, rows) == (0, 1, 500)
    assert 500 * 900 / 8096 <= data <= 80  # eight rows a page
    assert used == pages[0] + pages[2] + pages[4] >= data
    assert reserved == pages[1] + pages[3] + pages[5] >= used
    tree, index = database.rows(STATS.format(table="tree"))
    assert (tree[0], tree[2], index[0], index[2]) == (1, 500, 2, 500)
    assert tree[6] >= 500 * 20000 / 8096  # large values are apart
    assert index[6] == 0


@item(74, "documented")
def test_a_table_without_rows_has_no_pages(database: Database) -> None:
    """Not before its first row.

    Source: Microsoft, "sys.dm_db_partition_stats (Transact-SQL)".
    """
    database.run("CREATE TABLE dbo.empty (n int NOT NULL)")
    ((_, _, rows, *pages),) = database.rows(STATS.format(table="empty"))
    assert (rows, set(pages)) == (0, {0})


@item(74, "documented")
def test_sizes_take_permissions_and_row_counts_of_visible_tables_do_not(database: Database, reader: Connection) -> None:
    """262 or 297 without VIEW DATABASE STATE and VIEW DEFINITION; sys.partitions shows what the metadata of the table does.

    Source: Microsoft, "sys.dm_db_partition_stats (Transact-SQL)", Permissions; Microsoft, "sys.partitions (Transact-SQL)".
    """
    database.run("CREATE TABLE dbo.heap (n int NOT NULL) INSERT INTO dbo.heap VALUES (1)")
    assert reader.value("SELECT rows FROM sys.partitions WHERE object_id = OBJECT_ID(N'dbo.heap')") == 1
    assert reader.error(STATS.format(table="heap")).number in (262, 297)
    database.run("GRANT VIEW DATABASE STATE TO reader; GRANT VIEW DEFINITION TO reader")
    assert reader.rows(STATS.format(table="heap"))[0][2] == 1


def _lsn(text: str) -> bytes:
    """What a view over the log writes, as Change Data Capture has it."""
    virtual_log_file, block, slot = text.split(":")
    return bytes.fromhex(virtual_log_file.rjust(8, "0") + block.rjust(8, "0") + slot.rjust(4, "0"))


@item(75, "documented")
def test_the_end_of_the_log_lies_between_two_commits(persons: Database) -> None:
    """Asked after a commit it is not below that commit's LSN, asked before a transaction it is below that one's.

    Source: Microsoft, "sys.dm_db_log_stats (Transact-SQL)"; Microsoft, "SQL Server transaction log architecture and management
    guide".
    """
    ends = [_lsn(persons.value(END))]
    for number in range(3):
        persons.run(f"INSERT INTO dbo.Persons (ID) VALUES ({number})")
        ends.append(_lsn(persons.value(END)))
    persons.captured(3)
    commits = [bytes(lsn) for lsn in reversed(persons.column(COMMITS))]
    assert all(before < commit <= after for before, commit, after in zip(ends[:-1], commits, ends[1:], strict=True))


@item(75, "documented")
def test_the_log_is_described(persons: Database) -> None:
    """Of the database asked for, NULL being the current one; the reason for which it is not cut off is that of sys.databases.

    Source: Microsoft, "sys.dm_db_log_stats (Transact-SQL)".
    """
    persons.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    persons.captured(1)
    (found,) = persons.named("SELECT * FROM sys.dm_db_log_stats(NULL)")
    assert found["database_id"] == persons.value("SELECT DB_ID()")
    assert found["recovery_model"] in ("FULL", "SIMPLE", "BULK_LOGGED")
    assert _lsn(found["log_min_lsn"]) <= _lsn(found["log_end_lsn"])
    (joined,) = persons.rows(
        "SELECT s.log_truncation_holdup_reason, d.log_reuse_wait_desc FROM sys.databases AS d "
        "CROSS APPLY sys.dm_db_log_stats(d.database_id) AS s WHERE d.database_id = DB_ID()"
    )
    assert joined[0] == joined[1]


@item(75, "documented")
def test_the_log_is_for_who_sees_the_servers_state(database: Database, reader: Connection) -> None:
    """300 or 297 without VIEW SERVER STATE.

    Source: Microsoft, "sys.dm_db_log_stats (Transact-SQL)", Permissions; Microsoft, "Database engine events and errors", 300.
    """
    assert reader.error(END).number in (297, 300)
    login = reader.value("SELECT SUSER_SNAME()")
    database.run(f"USE master; GRANT VIEW SERVER STATE TO {login}; USE {database.database}")
    assert reader.value(END).count(":") == 2


LOCKS = (
    "SELECT resource_type, request_mode, request_status, request_owner_type FROM sys.dm_tran_locks "
    "WHERE resource_database_id = DB_ID() AND request_session_id = {session} AND resource_type IN ({types}) ORDER BY 1, 2"
)


def _held(database: Connection, session: int, *types: str) -> list[tuple[str, str, str, str]]:
    """The locks of a session in the database, of these types."""
    rows = database.rows(LOCKS.format(session=session, types=", ".join(f"N'{name}'" for name in types)))
    return [(str(kind), str(mode), str(status), str(owner)) for kind, mode, status, owner in rows]


def _table(database: Database, rows: int = 3) -> None:
    database.run("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, filler char(800) NOT NULL)")
    database.run(f"INSERT INTO dbo.t SELECT n, 'x' FROM {ROWS} AND n < {rows}")


@item(76, "documented")
def test_a_transaction_holds_the_rows_that_it_changed_and_their_table_intent_exclusively(database: Database) -> None:
    """Until it ends. The object is the table, the rows are keys of its clustered index.

    Source: Microsoft, "sys.dm_tran_locks (Transact-SQL)"; Microsoft, "Transaction locking and row versioning guide".
    """
    _table(database)
    writer = database.another()
    session = writer.value("SELECT @@SPID")
    assert _held(database, session, "OBJECT", "KEY", "DATABASE") == [
        ("DATABASE", "S", "GRANTED", "SHARED_TRANSACTION_WORKSPACE")
    ]
    writer.run("BEGIN TRAN UPDATE dbo.t SET filler = 'y' WHERE id IN (0, 2)")
    key, table = ("KEY", "X", "GRANTED", "TRANSACTION"), ("OBJECT", "IX", "GRANTED", "TRANSACTION")
    assert _held(database, session, "OBJECT", "KEY") == [key, key, table]
    assert database.rows(
        "SELECT DISTINCT OBJECT_NAME(p.object_id), p.index_id FROM sys.dm_tran_locks AS l JOIN sys.partitions AS p "
        f"ON p.hobt_id = l.resource_associated_entity_id WHERE l.resource_type = 'KEY' AND request_session_id = {session}"
    ) == [("t", 1)]
    assert (
        database.value(
            "SELECT resource_associated_entity_id - OBJECT_ID(N'dbo.t') FROM sys.dm_tran_locks "
            f"WHERE resource_type = 'OBJECT' AND request_session_id = {session} AND resource_database_id = DB_ID()"
        )
        == 0
    )
    writer.run("COMMIT")
    assert _held(database, session, "OBJECT", "KEY") == []


@item(76, "documented")
def test_whole_tables_and_application_locks_are_held_too(database: Database) -> None:
    """TABLOCKX is X on the object; an application lock belongs to the session or to its transaction.

    Source: Microsoft, "sys.dm_tran_locks (Transact-SQL)"; Microsoft, "Table hints (Transact-SQL)"; Microsoft, "sp_getapplock
    (Transact-SQL)".
    """
    _table(database)
    holder = database.another()
    session = holder.value("SELECT @@SPID")
    holder.run("EXEC sp_getapplock N'one', N'Exclusive', N'Session'")
    holder.run("BEGIN TRAN EXEC sp_getapplock N'two', N'Shared' SELECT TOP (0) id FROM dbo.t WITH (TABLOCKX, HOLDLOCK)")
    assert _held(database, session, "OBJECT", "APPLICATION") == [
        ("APPLICATION", "S", "GRANTED", "TRANSACTION"),
        ("APPLICATION", "X", "GRANTED", "SESSION"),
        ("OBJECT", "X", "GRANTED", "TRANSACTION"),
    ]
    holder.run("ROLLBACK")
    assert _held(database, session, "OBJECT", "APPLICATION") == [("APPLICATION", "X", "GRANTED", "SESSION")]


@item(76, "documented")
@pytest.mark.one_driver("pymssql", "reads a result row by row")
def test_a_reader_holds_its_table_until_it_has_the_last_row(database: Database) -> None:
    """Intent shared under READ COMMITTED, while the result is read; afterwards nothing, whatever the connection does.

    Source: Microsoft, "Transaction locking and row versioning guide", intent locks; "SET TRANSACTION ISOLATION LEVEL".
    """
    _table(database)
    database.run("CREATE TABLE dbo.long (n int NOT NULL, filler char(8000) NOT NULL)")
    for _ in range(5):
        database.run(f"INSERT INTO dbo.long SELECT n, 'x' FROM {ROWS}")
    reader = database.another()
    session = reader.value("SELECT @@SPID")
    with reader.raw.cursor() as cursor:
        cursor.execute("SELECT n, filler FROM dbo.long")
        assert cursor.fetchone() is not None
        assert _held(database, session, "OBJECT") == [("OBJECT", "IS", "GRANTED", "TRANSACTION")]
        assert len(cursor.fetchall()) == 2499
    assert _held(database, session, "OBJECT", "KEY", "RID", "PAGE") == []


@item(76, "documented")
def test_the_locks_are_for_who_sees_the_servers_state(reader: Connection) -> None:
    """300 or 297 without VIEW SERVER STATE.

    Source: Microsoft, "sys.dm_tran_locks (Transact-SQL)", Permissions.
    """
    assert reader.error("SELECT request_mode FROM sys.dm_tran_locks").number in (297, 300)


@item(77, "documented")
@pytest.mark.parametrize("change", ["UPDATE dbo.t SET filler = 'y' WHERE id = 2", "DELETE FROM dbo.t WHERE id = 2"])
def test_a_reader_waits_for_the_rows_that_it_reads_and_for_no_others(database: Database, change: str) -> None:
    """1222 after LOCK_TIMEOUT for what comes upon the changed row by its key or in a scan; nobody waits for other rows.

    Source: Microsoft, "Transaction locking and row versioning guide"; Microsoft, "SET LOCK_TIMEOUT (Transact-SQL)".
    """
    _table(database, rows=5)
    writer, other = database.another(), database.another()
    writer.run(f"BEGIN TRAN {change}")
    other.run("SET LOCK_TIMEOUT 50")
    for query in ("SELECT id FROM dbo.t WHERE id = 2", "SELECT COUNT(*) FROM dbo.t WHERE filler = 'z'"):
        assert other.error(query).number == 1222
    assert other.error("SELECT TOP (3) id FROM dbo.t WHERE id >= 1 ORDER BY id").number == 1222
    assert other.column("SELECT id FROM dbo.t WHERE id >= 3 ORDER BY id") == [3, 4]
    assert other.column("SELECT TOP (2) id FROM dbo.t ORDER BY id") == [0, 1]
    assert other.value("SELECT COUNT(*) FROM dbo.t WITH (NOLOCK)") in (4, 5)
    writer.run("ROLLBACK")
    assert other.column("SELECT id FROM dbo.t WHERE id = 2") == [2]


@item(77, "documented")
def test_a_reader_that_waited_reads_what_was_committed(database: Database) -> None:
    """It is seen to wait, and goes on by itself.

    Source: Microsoft, "Transaction locking and row versioning guide"; Microsoft, "sys.dm_tran_locks (Transact-SQL)".
    """
    _table(database)
    writer, other = database.another(), database.another()
    session = other.value("SELECT @@SPID")
    writer.run("BEGIN TRAN UPDATE dbo.t SET filler = 'y' WHERE id = 1")
    waits = f"SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = {session} AND request_status = N'WAIT'"
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(other.value, "SELECT RTRIM(filler) FROM dbo.t WHERE id = 1")
        try:
            deadline = time.monotonic() + 30
            while not database.value(waits):
                assert time.monotonic() < deadline, "nobody was seen to wait"
                assert not read.done()
                time.sleep(0.02)
        finally:
            writer.run("COMMIT")
        assert read.result(timeout=30) == "y"


@item(77, "documented")
def test_a_statement_that_changes_very_many_rows_locks_the_table(database: Database) -> None:
    """From 5,000 locks of one statement on one table they become one lock on all of it: every reader waits.

    Source: Microsoft, "Transaction locking and row versioning guide", Lock escalation thresholds.
    """
    database.run("CREATE TABLE dbo.many (n int NOT NULL PRIMARY KEY)")
    database.run("INSERT INTO dbo.many VALUES (-1)")
    writer, other = database.another(), database.another()
    session = writer.value("SELECT @@SPID")
    writer.run(
        "BEGIN TRAN INSERT INTO dbo.many SELECT a.n * 500 + b.n FROM (SELECT * FROM "
        f"{ROWS}) AS a CROSS JOIN (SELECT * FROM {ROWS}) AS b WHERE a.n < 20"
    )
    assert _held(database, session, "OBJECT") == [("OBJECT", "X", "GRANTED", "TRANSACTION")]
    assert other.error("SET LOCK_TIMEOUT 50 SELECT n FROM dbo.many WHERE n = -1").number == 1222
    writer.run("ROLLBACK")
    assert other.column("SELECT n FROM dbo.many") == [-1]
