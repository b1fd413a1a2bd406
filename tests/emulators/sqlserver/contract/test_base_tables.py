"""Items 74 and on: what a reader of whole tables asks beside the rows, and what makes it wait."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
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
"""Of a FROM: the numbers 0 to 499."""
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
