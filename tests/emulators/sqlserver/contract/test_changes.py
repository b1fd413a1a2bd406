"""Items 40 to 55: what statements and transactions leave in the change tables."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.injection import InjectedChange, inject, reserve
from tests.emulators.sqlserver.contract.client import Database
from tests.emulators.sqlserver.contract.labels import item

POSITION = "[__$start_lsn], [__$seqval], [__$operation], [__$update_mask]"


def made(persons: Database, *statements: str) -> None:
    """Three rows, captured, and then these statements."""
    persons.run("INSERT INTO dbo.Persons VALUES (1, N'Ann', N'Lee'), (2, N'Bob', N'Roe'), (3, N'Cy', N'Doe')")
    persons.captured(3)
    for statement in statements:
        persons.run(statement)


@item(40, "documented")
def test_an_insert_is_operation_2_with_all_bits(persons: Database) -> None:
    """Rows of one statement share the start LSN, each with a seqval of its own below it.

    Source: Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)"; that seqvals lie below measured on SQL Server 2025.
    """
    made(persons)
    rows = persons.changes(f"{POSITION}, ID, FirstName")
    assert [row[2:] for row in rows] == [(2, b"\x07", 1, "Ann"), (2, b"\x07", 2, "Bob"), (2, b"\x07", 3, "Cy")]
    assert len({row[0] for row in rows}) == 1
    assert len({row[1] for row in rows}) == 3
    assert all(row[1] < row[0] for row in rows)


@item(41, "documented")
def test_a_delete_is_operation_1_with_the_last_values(persons: Database) -> None:
    """And all bits.

    Source: Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)".
    """
    made(persons, "UPDATE dbo.Persons SET LastName = N'Poe' WHERE ID = 2", "DELETE FROM dbo.Persons WHERE ID = 2")
    persons.captured(6)
    assert persons.changes("[__$operation], [__$update_mask], ID, FirstName, LastName")[-1] == (
        1,
        b"\x07",
        2,
        "Bob",
        "Poe",
    )


@item(42, "documented")
def test_an_update_is_operations_3_and_4(persons: Database) -> None:
    """Before and after, one start LSN, one seqval, one command; the mask has what changed.

    Source: Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)"; measured on SQL Server 2025.
    """
    made(persons, "UPDATE dbo.Persons SET LastName = N'Poe' WHERE ID = 2")
    persons.captured(5)
    before, after = persons.changes(f"{POSITION}, [__$command_id], ID, FirstName, LastName")[3:]
    assert before[2:4] + before[5:] == (3, b"\x04", 2, "Bob", "Roe")
    assert after[2:4] + after[5:] == (4, b"\x04", 2, "Bob", "Poe")
    assert (before[0], before[1], before[4]) == (after[0], after[1], after[4])


@item(42, "documented")
def test_several_rows_updated_by_one_statement_are_pairs(persons: Database) -> None:
    """Each pair with a seqval of its own.

    Source: Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)".
    """
    made(persons, "UPDATE dbo.Persons SET FirstName = FirstName + N'!' WHERE ID < 3")
    persons.captured(7)
    rows = persons.rows(f"SELECT {POSITION}, ID FROM cdc.dbo_Persons_CT WHERE [__$operation] > 2 ORDER BY 1, 2, 3")
    assert [(row[2], row[3], row[4]) for row in rows] == [
        (3, b"\x02", 1),
        (4, b"\x02", 1),
        (3, b"\x02", 2),
        (4, b"\x02", 2),
    ]
    assert rows[0][1] == rows[1][1] < rows[2][1] == rows[3][1]


@item(43, "documented")
def test_the_mask_has_the_first_columns_in_its_last_byte(cdc: Database) -> None:
    """Ten columns: two bytes; changing the first, the eighth and the tenth.

    Source: Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)"; measured on SQL Server 2025; Debezium PR #8064.
    """
    columns = ", ".join(f"c{n} int NULL" for n in range(1, 11))
    cdc.run(f"CREATE TABLE dbo.wide ({columns})")
    cdc.enable("wide", supports_net_changes="0")
    cdc.run(f"INSERT INTO dbo.wide VALUES ({', '.join('0' for _ in range(10))})")
    cdc.run("UPDATE dbo.wide SET c1 = 1, c8 = 1, c10 = 1")
    cdc.captured(3, "dbo_wide")
    assert cdc.changes("[__$operation], [__$update_mask]", "dbo_wide") == [
        (2, b"\x03\xff"),
        (3, b"\x02\x81"),
        (4, b"\x02\x81"),
    ]
    bits = ", ".join(f"sys.fn_cdc_is_bit_set({n}, [__$update_mask])" for n in range(1, 11))
    found = cdc.rows(f"SELECT {bits} FROM cdc.dbo_wide_CT WHERE [__$operation] = 4")[0]
    assert [n for n, is_set in enumerate(found, start=1) if is_set] == [1, 8, 10]


@item(43, "documented")
def test_a_columns_ordinal_is_its_place_in_the_mask(cdc: Database) -> None:
    """Counted over the captured columns; NULL for others.

    Source: Microsoft, "sys.fn_cdc_get_column_ordinal", "sys.fn_cdc_has_column_changed (Transact-SQL)".
    """
    cdc.enable(captured_column_list="N'ID, LastName'")
    ordinals = ", ".join(
        f"sys.fn_cdc_get_column_ordinal(N'dbo_Persons', N'{name}')" for name in ("ID", "LastName", "FirstName", "Age")
    )
    assert cdc.rows(f"SELECT {ordinals}") == [(1, 2, None, None)]
    changed = ", ".join(
        f"sys.fn_cdc_has_column_changed(N'dbo_Persons', N'{name}', 0x02)" for name in ("ID", "LastName")
    )
    assert [bool(value) for value in cdc.rows(f"SELECT {changed}")[0]] == [False, True]


@item(44, "unverified")
def test_an_update_to_the_same_value_leaves_no_rows(persons: Database) -> None:
    """Whether the log has anything to capture is up to the storage engine.

    Source: nobody has written it down; Debezium's option to skip messages without updates only hints at rows.
    """
    made(persons, "UPDATE dbo.Persons SET LastName = N'Roe' WHERE ID = 2")
    persons.settled()
    persons.captured(3)


@item(45, "measured")
def test_an_update_of_one_key_is_a_delete_and_an_insert(persons: Database) -> None:
    """One start LSN and one seqval; the delete comes first by command id.

    Source: Debezium documentation on updates of a primary key; Debezium PR #7728; KB 3030352.
    """
    made(persons, "UPDATE dbo.Persons SET ID = 20 WHERE ID = 2")
    persons.captured(5)
    deleted, inserted = persons.changes("[__$start_lsn], [__$seqval], [__$operation], [__$command_id], ID, LastName")[
        3:
    ]
    assert (deleted[2], deleted[4:], inserted[2], inserted[4:]) == (1, (2, "Roe"), 2, (20, "Roe"))
    assert deleted[:2] == inserted[:2]
    assert deleted[3] < inserted[3]


@item(46, "measured")
def test_an_update_of_several_keys_has_seqvals_of_its_own_for_each(persons: Database) -> None:
    """Deletes and inserts of as many rows, all in one transaction, none sharing a seqval.

    Source: Debezium PR #7728.
    """
    made(persons, "UPDATE dbo.Persons SET ID = ID + 100")
    persons.captured(9)
    rows = persons.changes("[__$start_lsn], [__$seqval], [__$operation], ID")[3:]
    assert sorted(row[2:] for row in rows) == [(1, 1), (1, 2), (1, 3), (2, 101), (2, 102), (2, 103)]
    assert len({row[0] for row in rows}) == 1
    assert len({row[1] for row in rows}) == 6


@item(46, "unverified")
def test_an_update_of_several_keys_deletes_all_before_it_inserts(persons: Database) -> None:
    """A deferred update.

    Source: KB 238254 on replication; for Change Data Capture nobody has written it down.
    """
    made(persons, "UPDATE dbo.Persons SET ID = ID + 1")
    persons.captured(9)
    assert [row[0] for row in persons.changes("[__$operation]")[3:]] == [1, 1, 1, 2, 2, 2]


@item(46, "unverified")
def test_an_update_of_a_unique_index_is_a_delete_and_an_insert(cdc: Database) -> None:
    """As of a primary key.

    Source: KB 238254 on replication; for Change Data Capture nobody has written it down.
    """
    cdc.run("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, code int NOT NULL)")
    cdc.run("CREATE UNIQUE INDEX by_code ON dbo.t (code)")
    cdc.enable("t")
    cdc.run("INSERT INTO dbo.t VALUES (1, 10), (2, 20)")
    cdc.run("UPDATE dbo.t SET code = code + 10")
    cdc.captured(6, "dbo_t")
    assert sorted(cdc.changes("[__$operation], id, code", "dbo_t")[2:]) == [
        (1, 1, 10),
        (1, 2, 20),
        (2, 1, 20),
        (2, 2, 30),
    ]


@item(46, "unverified")
def test_a_merge_that_moves_the_values_of_a_unique_index_deletes_before_it_inserts(cdc: Database) -> None:
    """As an UPDATE of several keys does.

    Source: KB 238254 on replication tells of UPDATE; for MERGE nobody has written it down.
    """
    cdc.run("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, code int NOT NULL)")
    cdc.run("CREATE UNIQUE INDEX by_code ON dbo.t (code)")
    cdc.run("INSERT INTO dbo.t VALUES (1, 10), (2, 20)")
    cdc.enable("t")
    cdc.run(
        "MERGE dbo.t AS t USING (VALUES (1, 20), (2, 10)) AS s (id, code) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET code = s.code;"
    )
    cdc.captured(4, "dbo_t")
    found = cdc.changes("[__$operation], id, code", "dbo_t")
    assert sorted(found[:2]) == [(1, 1, 10), (1, 2, 20)]
    assert sorted(found[2:]) == [(2, 1, 20), (2, 2, 10)]


UPSERT = (
    "MERGE INTO dbo.Persons AS target USING (VALUES (%s, %s)) AS source (ID, LastName) ON target.ID = source.ID "
    "WHEN MATCHED THEN UPDATE SET LastName = source.LastName "
    "WHEN NOT MATCHED THEN INSERT (ID, LastName) VALUES (source.ID, source.LastName);"
)


@item(47, "documented")
def test_merge_inserts_what_is_new_and_updates_what_is_there(persons: Database) -> None:
    """Captured as an insert and as an update.

    Source: Microsoft, "MERGE (Transact-SQL)"; Go dstream, checkpoint_manager.go.
    """
    persons.run(UPSERT, 1, "Lee")
    persons.run(UPSERT, 1, "Poe")
    persons.captured(3)
    assert persons.changes("[__$operation], ID, LastName") == [(2, 1, "Lee"), (3, 1, "Lee"), (4, 1, "Poe")]


@item(47, "documented")
def test_what_one_merge_inserts_and_updates_is_one_transaction(persons: Database) -> None:
    """Both clauses of a statement share the start LSN.

    Source: Microsoft, "MERGE (Transact-SQL)"; Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)".
    """
    persons.run("INSERT INTO dbo.Persons (ID, LastName) VALUES (1, N'Lee')")
    persons.run(
        "MERGE dbo.Persons AS target USING (VALUES (1, N'Poe'), (2, N'Roe')) AS source (ID, LastName) "
        "ON target.ID = source.ID WHEN MATCHED THEN UPDATE SET LastName = source.LastName "
        "WHEN NOT MATCHED THEN INSERT (ID, LastName) VALUES (source.ID, source.LastName);"
    )
    persons.captured(4)
    rows = persons.changes("[__$start_lsn], [__$operation], ID, LastName")
    assert rows[0][1:] == (2, 1, "Lee")
    assert sorted(row[1:] for row in rows[1:]) == [(2, 2, "Roe"), (3, 1, "Lee"), (4, 1, "Poe")]
    assert len({row[0] for row in rows[1:]}) == 1


@item(48, "documented")
def test_a_table_without_a_primary_key_is_captured(cdc: Database) -> None:
    """Without net changes; two equal rows are two changes.

    Source: Microsoft, "sys.sp_cdc_enable_table (Transact-SQL)"; Debezium TablesWithoutPrimaryKeyIT.
    """
    cdc.run("CREATE TABLE dbo.t (n int NULL)")
    cdc.enable("t", supports_net_changes="0")
    cdc.run("INSERT INTO dbo.t VALUES (1), (1)")
    cdc.run("DELETE FROM dbo.t")
    cdc.captured(4, "dbo_t")
    assert cdc.changes("[__$operation], n", "dbo_t") == [(2, 1), (2, 1), (1, 1), (1, 1)]
    assert cdc.value("SELECT COUNT(*) FROM cdc.index_columns") == 0


@item(48, "documented")
def test_a_unique_index_can_identify_the_rows(cdc: Database) -> None:
    """@index_name; its columns stand in cdc.index_columns.

    Source: Microsoft, "sys.sp_cdc_enable_table (Transact-SQL)", @index_name; Debezium TablesWithUniqueIndexOnlyIT.
    """
    cdc.run("CREATE TABLE dbo.t (a int NOT NULL, b int NOT NULL, c int NULL)")
    cdc.run("CREATE UNIQUE INDEX by_b_a ON dbo.t (b, a)")
    cdc.enable("t", index_name="N'by_b_a'", supports_net_changes="1")
    assert cdc.rows("SELECT column_name, index_ordinal FROM cdc.index_columns ORDER BY index_ordinal") == [
        ("b", 1),
        ("a", 2),
    ]
    assert cdc.column("SELECT index_name FROM cdc.change_tables") == ["by_b_a"]


@item(49, "documented")
@pytest.mark.parametrize(
    ("type_", "value"), [("varchar(max)", "'big'"), ("nvarchar(max)", "N'big'"), ("varbinary(max)", "0x010203")]
)
def test_a_large_value_is_null_in_operation_3_unless_it_changed(cdc: Database, type_: str, value: str) -> None:
    """Operations 2, 4 and 1 have it.

    Source: Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)", large object data types; measured on SQL Server 2025.
    """
    cdc.run(f"CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, n int NULL, v {type_} NULL)")
    cdc.enable("t")
    cdc.run(f"INSERT INTO dbo.t VALUES (1, 1, {value})")
    cdc.run("UPDATE dbo.t SET n = 2")
    cdc.run("UPDATE dbo.t SET v = NULL")
    cdc.run(f"UPDATE dbo.t SET v = {value}")
    cdc.run("DELETE FROM dbo.t")
    cdc.captured(8, "dbo_t")
    rows = cdc.changes("[__$operation], CASE WHEN v IS NULL THEN 0 ELSE 1 END", "dbo_t")
    assert rows == [(2, 1), (3, 0), (4, 1), (3, 1), (4, 0), (3, 0), (4, 1), (1, 1)]


@item(49, "documented")
@pytest.mark.parametrize(
    ("type_", "value", "other"),
    [("text", "'big'", "'other'"), ("ntext", "N'big'", "N'other'"), ("image", "0x010203", "0x04")],
)
def test_an_old_large_value_is_null_in_operations_3_and_1(cdc: Database, type_: str, value: str, other: str) -> None:
    """Even where the update changed it; operations 2 and 4 have it.

    Source: Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)", large object data types.
    """
    cdc.run(f"CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, n int NULL, v {type_} NULL)")
    cdc.enable("t", supports_net_changes="0")
    cdc.run(f"INSERT INTO dbo.t VALUES (1, 1, {value})")
    cdc.run("UPDATE dbo.t SET n = 2")
    cdc.run(f"UPDATE dbo.t SET v = {other}")
    cdc.run("DELETE FROM dbo.t")
    cdc.captured(6, "dbo_t")
    rows = cdc.changes("[__$operation], CASE WHEN v IS NULL THEN 0 ELSE 1 END", "dbo_t")
    assert rows == [(2, 1), (3, 0), (4, 1), (3, 0), (4, 1), (1, 0)]


@item(50, "documented")
def test_a_computed_column_is_null(cdc: Database) -> None:
    """In the change table, whatever the table says.

    Source: Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)".
    """
    cdc.run("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, twice AS id * 2)")
    cdc.enable("t")
    cdc.run("INSERT INTO dbo.t (id) VALUES (4)")
    cdc.captured(1, "dbo_t")
    assert cdc.rows("SELECT id, twice FROM dbo.t") == [(4, 8)]
    assert cdc.changes("id, twice", "dbo_t") == [(4, None)]


@item(50, "documented")
def test_a_large_value_beyond_the_limit_is_7139(cdc: Database) -> None:
    """65536 bytes unless "max text repl size" says otherwise; a table that is not captured takes it.

    Source: Microsoft, "Configure the max text repl size (server configuration option)"; errors, 7139.
    """
    cdc.run("CREATE TABLE dbo.free (v varchar(max) NULL)")
    cdc.run("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, v varchar(max) NULL)")
    cdc.enable("t")
    cdc.run(f"INSERT INTO dbo.t VALUES (1, '{'x' * 65536}')")
    too_long = f"'{'x' * 65537}'"
    assert cdc.error(f"INSERT INTO dbo.t VALUES (2, {too_long})").number == 7139
    cdc.run(f"INSERT INTO dbo.free VALUES ({too_long})")


@item(50, "documented")
def test_a_large_value_beyond_the_limit_ends_its_statement_alone(cdc: Database) -> None:
    """What the transaction wrote before and after it stays, in the table and in the change table.

    Source: Microsoft, "Configure the max text repl size (server configuration option)"; "SET XACT_ABORT (Transact-SQL)".
    """
    cdc.run("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, v varchar(max) NULL)")
    cdc.enable("t")
    cdc.run("BEGIN TRAN INSERT INTO dbo.t VALUES (1, REPLICATE(CAST('x' AS varchar(max)), 65536))")
    assert cdc.error("INSERT INTO dbo.t VALUES (2, REPLICATE(CAST('x' AS varchar(max)), 65537))").number == 7139
    cdc.run("INSERT INTO dbo.t VALUES (3, 'y')")
    cdc.run("COMMIT")
    cdc.captured(2, "dbo_t")
    assert cdc.changes("id, LEN(v)", "dbo_t") == [(1, 65536), (3, 1)]
    assert cdc.column("SELECT id FROM dbo.t ORDER BY id") == [1, 3]


@item(51, "documented")
def test_two_tables_in_one_transaction_share_the_start_lsn(persons: Database) -> None:
    """Seqvals order the changes over both tables.

    Source: Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)"; Debezium merges by commit and change LSN.
    """
    persons.run("CREATE TABLE dbo.Orders (ID int NOT NULL PRIMARY KEY)")
    persons.enable("Orders")
    persons.run(
        "BEGIN TRAN INSERT INTO dbo.Persons (ID) VALUES (1) INSERT INTO dbo.Orders VALUES (2) "
        "INSERT INTO dbo.Persons (ID) VALUES (3) INSERT INTO dbo.Orders VALUES (4) COMMIT"
    )
    persons.captured(2)
    persons.captured(2, "dbo_Orders")
    changes = [
        row
        for instance in ("dbo_Persons", "dbo_Orders")
        for row in persons.changes("[__$start_lsn], [__$seqval], ID", instance)
    ]
    assert len({row[0] for row in changes}) == 1
    assert [row[2] for row in sorted(changes)] == [1, 2, 3, 4]


@item(52, "documented")
def test_what_was_rolled_back_never_appears(persons: Database) -> None:
    """Only committed transactions are captured.

    Source: Microsoft, "About change data capture (SQL Server)".
    """
    made(persons, "BEGIN TRAN INSERT INTO dbo.Persons (ID) VALUES (4) UPDATE dbo.Persons SET LastName = N'x' ROLLBACK")
    persons.run("INSERT INTO dbo.Persons (ID) VALUES (5)")
    persons.captured(4)
    assert persons.changes("ID")[-1] == (5,)


@item(52, "unverified")
def test_a_rollback_to_a_savepoint_drops_its_part_only(persons: Database) -> None:
    """What came before and after it stays.

    Source: Microsoft, "SAVE TRANSACTION (Transact-SQL)"; for Change Data Capture nobody has written it down.
    """
    persons.run(
        "BEGIN TRAN INSERT INTO dbo.Persons (ID) VALUES (1) SAVE TRAN here INSERT INTO dbo.Persons (ID) VALUES (2) "
        "ROLLBACK TRAN here INSERT INTO dbo.Persons (ID) VALUES (3) COMMIT"
    )
    persons.captured(2)
    assert persons.changes("ID") == [(1,), (3,)]


@item(53, "measured")
def test_of_interleaved_transactions_the_first_to_commit_comes_first(persons: Database) -> None:
    """The one that began first has the smaller seqval and the larger start LSN.

    Source: Debezium PR #746 (DBZ-1090).
    """
    first, second = persons.another(), persons.another()
    for connection in (first, second):
        connection.run("SET LOCK_TIMEOUT 500")
    first.run("BEGIN TRAN INSERT INTO dbo.Persons (ID) VALUES (1)")
    second.run("BEGIN TRAN INSERT INTO dbo.Persons (ID) VALUES (2) COMMIT")
    first.run("COMMIT")
    persons.captured(2)
    changes = persons.changes("ID, [__$start_lsn], [__$seqval]")
    assert [row[0] for row in changes] == [2, 1]
    assert changes[1][2] < changes[0][2]


@item(53, "measured")
@pytest.mark.emulator_only("injects log records: SQLite has one writer a database")
def test_injected_interleaved_transactions_come_in_the_order_of_their_commits(
    persons: Database, log_of: Callable[[Database], DatabaseCdc]
) -> None:
    """The same, by injection.

    Source: Debezium PR #746 (DBZ-1090).
    """
    state = log_of(persons)
    early, late = reserve(state, 2)
    for number, seqval in ((2, late), (1, early)):
        inject(state, [InjectedChange("Persons", 2, seqval, {"ID": number, "FirstName": None, "LastName": None})])
    persons.captured(2)
    assert [row[0] for row in persons.changes("ID")] == [2, 1]
    assert [row[2] for row in persons.changes("ID, [__$start_lsn], [__$seqval]")] == [late, early]


@item(54, "documented")
def test_uncommitted_changes_are_invisible(persons: Database) -> None:
    """Until the transaction commits and the capture process has seen that.

    Source: Microsoft, "About change data capture (SQL Server)".
    """
    made(persons)
    other = persons.another()
    other.run("BEGIN TRAN INSERT INTO dbo.Persons (ID) VALUES (4)")
    assert persons.changes("ID") == [(1,), (2,), (3,)]
    other.run("COMMIT")
    persons.captured(4)


@item(54, "documented")
def test_the_capture_process_does_not_wait_for_open_transactions(persons: Database) -> None:
    """Others' commits are captured while one is open, and the open one is not.

    Source: Microsoft, "About change data capture (SQL Server)".
    """
    other = persons.another()
    persons.run("SET LOCK_TIMEOUT 500")
    other.run("BEGIN TRAN INSERT INTO dbo.Persons (ID) VALUES (1)")
    persons.run("INSERT INTO dbo.Persons (ID) VALUES (2)")
    persons.captured(1)
    assert persons.changes("ID") == [(2,)]


@item(54, "documented")
def test_a_change_never_shows_without_its_time(persons: Database) -> None:
    """A reader beside the capture process finds every start LSN in lsn_time_mapping.

    Source: Microsoft, "Administer and monitor change data capture (SQL Server)": a scan is one transaction.
    """
    reader, done = persons.another(), threading.Event()
    orphans: list[int] = []

    def read() -> None:
        while not done.is_set():
            orphans.append(
                reader.value(
                    "SELECT COUNT(*) FROM cdc.dbo_Persons_CT AS c WHERE NOT EXISTS "
                    "(SELECT 1 FROM cdc.lsn_time_mapping AS m WHERE m.start_lsn = c.[__$start_lsn])"
                )
            )

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for number in range(20):
            persons.run(f"INSERT INTO dbo.Persons (ID) VALUES ({number})")
        persons.captured(20)
    finally:
        done.set()
        thread.join()
    assert orphans
    assert not any(orphans)


@item(55, "documented")
def test_a_failing_statement_leaves_the_transactions_earlier_rows(persons: Database) -> None:
    """With XACT_ABORT OFF, the default.

    Source: Microsoft, "SET XACT_ABORT (Transact-SQL)".
    """
    persons.run("BEGIN TRAN INSERT INTO dbo.Persons (ID) VALUES (1)")
    assert persons.error("INSERT INTO dbo.Persons (ID) VALUES (2), (1)").number == 2627
    persons.run("INSERT INTO dbo.Persons (ID) VALUES (3)")
    persons.run("COMMIT")
    persons.captured(2)
    assert persons.changes("ID") == [(1,), (3,)]


@item(55, "documented")
def test_with_xact_abort_a_failing_statement_undoes_everything(persons: Database) -> None:
    """And ends the transaction.

    Source: Microsoft, "SET XACT_ABORT (Transact-SQL)".
    """
    persons.run("SET XACT_ABORT ON")
    assert (
        persons.error(
            "BEGIN TRAN INSERT INTO dbo.Persons (ID) VALUES (1) INSERT INTO dbo.Persons (ID) VALUES (1) COMMIT"
        ).number
        == 2627
    )
    assert persons.value("SELECT @@TRANCOUNT") == 0
    persons.run("INSERT INTO dbo.Persons (ID) VALUES (2)")
    persons.captured(1)
    assert persons.changes("ID") == [(2,)]
