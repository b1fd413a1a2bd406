"""Items 63 to 66: DDL on captured tables."""

from __future__ import annotations

from tests.emulators.sqlserver.contract.client import Database
from tests.emulators.sqlserver.contract.labels import item

CT_COLUMNS = (
    "SELECT COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = N'cdc' AND TABLE_NAME = %s "
    "AND COLUMN_NAME NOT LIKE '[_][_]$%%' ORDER BY ORDINAL_POSITION"
)


@item(63, "documented")
def test_a_new_column_is_left_out_by_the_old_instance_and_captured_by_a_second(persons: Database) -> None:
    """Both are filled side by side, and neither has an end LSN.

    Source: Microsoft, "About change data capture (SQL Server)", handling changes to source tables; Debezium migrateTable.
    """
    persons.run("ALTER TABLE dbo.Persons ADD Age int NULL")
    persons.enable(capture_instance="N'second'")
    persons.run("INSERT INTO dbo.Persons VALUES (1, N'Ann', N'Lee', 42)")
    persons.captured(1)
    persons.captured(1, "second")
    assert persons.column(CT_COLUMNS.replace("%s", "N'dbo_Persons_CT'").replace("%%", "%")) == [
        "ID",
        "FirstName",
        "LastName",
    ]
    assert persons.changes("ID, Age", "second") == [(1, 42)]
    assert persons.changes("[__$start_lsn]") == persons.changes("[__$start_lsn]", "second")
    assert persons.column("SELECT end_lsn FROM cdc.change_tables") == [None, None]
    starts = persons.rows("SELECT capture_instance, start_lsn FROM cdc.change_tables ORDER BY start_lsn")
    assert [name for name, _ in starts] == ["dbo_Persons", "second"]


@item(63, "unverified")
def test_an_update_of_columns_that_an_instance_leaves_out_is_no_change_of_it(persons: Database) -> None:
    """Each instance has the changes and the masks of its own columns.

    Source: Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)", __$update_mask; that no rows are left nobody has written down.
    """
    persons.run("ALTER TABLE dbo.Persons ADD Age int NULL")
    persons.enable(capture_instance="N'wide'")
    persons.run("INSERT INTO dbo.Persons (ID, Age) VALUES (1, 30)")
    persons.run("UPDATE dbo.Persons SET Age = 31")
    persons.captured(3, "wide")
    assert persons.changes("[__$operation], [__$update_mask], Age", "wide") == [
        (2, b"\x0f", 30),
        (3, b"\x08", 30),
        (4, b"\x08", 31),
    ]
    assert persons.changes("[__$operation], [__$update_mask], ID") == [(2, b"\x07", 1)]


@item(63, "documented")
def test_ddl_on_a_captured_table_is_kept_once_it_is_captured(persons: Database) -> None:
    """cdc.ddl_history has the statement as it was, with the log's order.

    Source: Microsoft, "cdc.ddl_history (Transact-SQL)".
    """
    persons.run("ALTER TABLE dbo.Persons ADD Age int NULL")
    persons.run("ALTER TABLE dbo.Persons ADD Size int NULL")
    persons.until(lambda: persons.value("SELECT COUNT(*) FROM cdc.ddl_history") >= 2, "two rows in ddl_history")
    rows = persons.rows(
        "SELECT OBJECT_NAME(source_object_id), OBJECT_NAME(object_id), ddl_command, ddl_lsn FROM cdc.ddl_history ORDER BY ddl_lsn"
    )
    assert [row[:3] for row in rows] == [
        ("Persons", "dbo_Persons_CT", "ALTER TABLE dbo.Persons ADD Age int NULL"),
        ("Persons", "dbo_Persons_CT", "ALTER TABLE dbo.Persons ADD Size int NULL"),
    ]
    assert rows[0][3] < rows[1][3]


@item(64, "documented")
def test_a_dropped_column_is_null_from_then_on(persons: Database) -> None:
    """The change table keeps it.

    Source: Microsoft, "About change data capture (SQL Server)", handling changes to source tables.
    """
    persons.run("INSERT INTO dbo.Persons VALUES (1, N'Ann', N'Lee')")
    persons.run("ALTER TABLE dbo.Persons DROP COLUMN FirstName")
    persons.run("INSERT INTO dbo.Persons VALUES (2, N'Roe')")
    persons.captured(2)
    assert persons.changes("ID, FirstName, LastName") == [(1, "Ann", "Lee"), (2, None, "Roe")]


@item(64, "documented")
def test_a_column_that_is_widened_is_widened_in_the_change_table(persons: Database) -> None:
    """By the capture process; ddl_history says that it was required.

    Source: Microsoft, "About change data capture (SQL Server)"; "cdc.ddl_history (Transact-SQL)", required_column_update.
    """
    persons.run("ALTER TABLE dbo.Persons ALTER COLUMN LastName nvarchar(80) NULL")
    long = "x" * 80
    persons.run("INSERT INTO dbo.Persons (ID, LastName) VALUES (1, %s)", long)
    persons.captured(1)
    assert persons.changes("LastName") == [(long,)]
    assert persons.column("SELECT CONVERT(int, required_column_update) FROM cdc.ddl_history") == [1]
    assert persons.value("SELECT COL_LENGTH(N'cdc.dbo_Persons_CT', N'LastName')") == 160


@item(64, "documented")
def test_what_was_captured_before_a_column_was_retyped_is_of_the_new_type(cdc: Database) -> None:
    """The change table's column is altered with the rows that are in it; the function returns them so.

    Source: Microsoft, "About change data capture (SQL Server)"; "cdc.ddl_history (Transact-SQL)", required_column_update.
    """
    cdc.run("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, price decimal(6, 2) NULL, n int NULL)")
    cdc.enable("t")
    cdc.run("INSERT INTO dbo.t VALUES (1, 1.25, 7)")
    cdc.captured(1, "dbo_t")
    cdc.run("ALTER TABLE dbo.t ALTER COLUMN price decimal(10, 4) NULL")
    cdc.run("ALTER TABLE dbo.t ALTER COLUMN n bigint NULL")
    cdc.run("INSERT INTO dbo.t VALUES (2, 2.3456, 5000000000)")
    cdc.captured(2, "dbo_t")
    expected = [(1, "1.2500", 7), (2, "2.3456", 5_000_000_000)]
    assert cdc.changes("id, CONVERT(varchar(20), price), n", "dbo_t") == expected
    assert cdc.all_changes("id, CONVERT(varchar(20), price), n", "dbo_t") == expected
    assert cdc.rows(
        "SELECT name, TYPE_NAME(system_type_id), precision, scale FROM sys.columns "
        "WHERE object_id = OBJECT_ID(N'cdc.dbo_t_CT') AND name IN (N'price', N'n') ORDER BY name"
    ) == [("n", "bigint", 19, 0), ("price", "decimal", 10, 4)]


@item(65, "documented")
def test_a_captured_column_cannot_be_renamed(persons: Database) -> None:
    """4928; the table can.

    Source: Microsoft, "Database engine events and errors", 4928; measured on SQL Server 2025.
    """
    assert persons.error("EXEC sp_rename N'dbo.Persons.LastName', N'Surname', N'COLUMN'").number == 4928
    persons.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    persons.captured(1)


@item(65, "measured")
def test_a_captured_table_can_be_renamed(persons: Database) -> None:
    """Its capture instance keeps its name and goes on.

    Source: measured on SQL Server 2025.
    """
    persons.run("EXEC sp_rename N'dbo.Persons', N'People'")
    persons.run("INSERT INTO dbo.People (ID) VALUES (1)")
    persons.captured(1)
    assert persons.value("SELECT OBJECT_NAME(source_object_id) FROM cdc.change_tables") == "People"


@item(65, "documented")
def test_a_captured_table_cannot_be_truncated(persons: Database) -> None:
    """4711.

    Source: Microsoft, "TRUNCATE TABLE (Transact-SQL)"; errors, 4711.
    """
    assert persons.error("TRUNCATE TABLE dbo.Persons").number == 4711
    persons.run("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'")
    persons.run("TRUNCATE TABLE dbo.Persons")


@item(65, "unverified")
def test_the_key_that_identifies_the_rows_cannot_be_dropped(cdc: Database) -> None:
    """22983, where the instance supports net changes.

    Source: Microsoft, "Database engine events and errors", 22983, has the text; nobody has written down when it comes.
    """
    cdc.run("CREATE TABLE dbo.t (n int NOT NULL CONSTRAINT PK_t PRIMARY KEY)")
    cdc.enable("t", supports_net_changes="1")
    assert cdc.error("ALTER TABLE dbo.t DROP CONSTRAINT PK_t").number in (22983, 3723, 3725)


@item(65, "documented")
def test_dropping_a_captured_table_removes_its_instances(persons: Database) -> None:
    """With change table and functions.

    Source: Microsoft, "Enable and disable change data capture (SQL Server)".
    """
    persons.run("DROP TABLE dbo.Persons")
    persons.until(lambda: persons.value("SELECT COUNT(*) FROM cdc.change_tables") == 0, "the instance to go")
    assert persons.value("SELECT OBJECT_ID(N'cdc.dbo_Persons_CT')") is None


@item(66, "documented")
def test_a_procedure_tells_the_ddl_of_an_instance(persons: Database) -> None:
    """The page's columns; nothing before the first.

    Source: Microsoft, "sys.sp_cdc_get_ddl_history (Transact-SQL)".
    """
    call = "EXEC sys.sp_cdc_get_ddl_history @capture_instance = N'dbo_Persons'"
    assert persons.rows(call) == []
    statement = "ALTER TABLE dbo.Persons ADD Age int NULL"
    persons.run(statement)
    persons.until(lambda: persons.value("SELECT COUNT(*) FROM cdc.ddl_history") >= 1, "a row in ddl_history")
    (row,) = persons.named(call)
    assert list(row) == [
        *(
            "source_schema",
            "source_table",
            "capture_instance",
            "required_column_update",
            "ddl_command",
            "ddl_lsn",
            "ddl_time",
        ),
    ]
    assert list(row.values())[:3] == ["dbo", "Persons", "dbo_Persons"]
    assert (bool(row["required_column_update"]), row["ddl_command"]) == (False, statement)
