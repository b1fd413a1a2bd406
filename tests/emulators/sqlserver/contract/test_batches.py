"""Items 78 to 81: a batch is read and bound as a whole ahead of its first statement, and what it lacks fails when it is reached."""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.contract.client import Database
from tests.emulators.sqlserver.contract.labels import item

UNREACHED = (
    "DECLARE c CURSOR FOR SELECT n FROM dbo.t OPEN c FETCH NEXT FROM c CLOSE c DEALLOCATE c",
    "DECLARE @c CURSOR SET @c = CURSOR FOR SELECT n FROM dbo.t",
    "CREATE TABLE dbo.u (n int REFERENCES dbo.t (n) ON DELETE CASCADE ON UPDATE CASCADE)",
    "BACKUP DATABASE model TO DISK = N'nowhere' WITH INIT, STATS = 10",
    "BULK INSERT dbo.t FROM 'nowhere' WITH (FIRSTROW = 2)",
    "DROP PROCEDURE IF EXISTS dbo.p",
    "MERGE TOP (1) INTO dbo.t AS a USING dbo.t AS b ON a.n = b.n WHEN MATCHED THEN DELETE;",
    "SELECT a FROM OPENJSON(N'[]') WITH (a int '$.a')",
    "CREATE SEQUENCE dbo.s START WITH 1 INCREMENT BY 1",
    "ALTER TABLE dbo.t ALTER COLUMN n ADD SPARSE",
    "EXEC sp_help N'dbo.t'",
    "UPDATE dbo.t SET v = N'b' WHERE CURRENT OF c",
    "SELECT n, COUNT(*) FROM dbo.t GROUP BY n WITH ROLLUP",
    "SELECT n FROM dbo.nowhere",
    "MERGE dbo.t AS a USING dbo.nowhere AS b ON a.missing = b.n WHEN MATCHED THEN DELETE;",
    "MERGE dbo.nowhere AS a USING dbo.t AS b ON a.n = b.missing WHEN MATCHED THEN UPDATE SET missing = 1;",
)
"""What some server may not have, or cannot do here."""
NUMBERS = ", ".join(f"({n}, {n % 7})" for n in range(1500))


@pytest.fixture
def table(database: Database) -> Database:
    """A database with a table, dbo.t, of one row."""
    database.run("CREATE TABLE dbo.t (n int NOT NULL PRIMARY KEY, v nvarchar(10) NULL)")
    database.run("INSERT INTO dbo.t VALUES (1, N'a')")
    return database


@item(78, "documented")
@pytest.mark.parametrize("sql", UNREACHED, ids=range(len(UNREACHED)))
def test_a_branch_that_never_runs_may_hold_anything(table: Database, sql: str) -> None:
    """Only the statements that are reached can fail; the others are read, and no more.

    Source: Microsoft, "IF...ELSE (Transact-SQL)"; Microsoft, "CREATE PROCEDURE (Transact-SQL)", deferred name resolution.
    """
    assert table.sets(f"IF 1 = 0 BEGIN {sql} END ELSE SELECT n FROM dbo.t") == [(["n"], [(1,)])]
    assert table.sets(f"IF 1 = 1 SELECT n FROM dbo.t ELSE BEGIN {sql} END") == [(["n"], [(1,)])]


@item(78, "documented")
@pytest.mark.parametrize(
    ("wrong", "number"),
    [
        ("SELECT missing FROM dbo.t", 207),
        ("INSERT INTO dbo.t (n, missing) VALUES (3, 3)", 207),
        ("UPDATE dbo.t SET missing = 3", 207),
        ("DELETE FROM dbo.t WHERE missing = 3", 207),
        ("IF EXISTS (SELECT 1 FROM dbo.t WHERE missing = 3) PRINT 'x'", 207),
        ("SELECT other.n FROM dbo.t", 4104),
        ("SELECT default FROM dbo.t", 156),
        ("SELECT @missing", 137),
        ("SELECT n FROM dbo.t WHERE", 102),
        ("SET @missing = 1", 137),
        ("SELECT @missing = n FROM dbo.t", 137),
        ("INSERT INTO dbo.t (n) VALUES (@missing)", 137),
        ("EXEC sp_executesql @missing", 137),
        ("EXEC (@missing)", 137),
        ("RAISERROR (@missing, 16, 1)", 137),
        ("INSERT INTO dbo.t (n) OUTPUT inserted.missing VALUES (3)", 207),
        ("UPDATE dbo.t SET n = 3 OUTPUT deleted.missing", 207),
        ("MERGE dbo.t AS a USING dbo.t AS b ON a.missing = b.n WHEN MATCHED THEN DELETE;", 207),
        ("MERGE dbo.t AS a USING dbo.t AS b ON a.n = b.n WHEN MATCHED THEN UPDATE SET missing = 3;", 207),
        ("MERGE dbo.t AS a USING dbo.t AS b ON a.n = b.n WHEN NOT MATCHED THEN INSERT (missing) VALUES (3);", 207),
        ("MERGE dbo.t AS a USING dbo.t AS b ON a.n = b.n WHEN NOT MATCHED THEN INSERT (n) VALUES (b.missing);", 207),
    ],
)
def test_a_batch_that_cannot_be_compiled_runs_none_of_its_statements(table: Database, wrong: str, number: int) -> None:
    """Wherever the statement stands, in a branch that never runs and in TRY too; the table is there, its column is not.

    Source: Microsoft, "CREATE PROCEDURE (Transact-SQL)", deferred name resolution is for tables that do not exist;
    Microsoft, "TRY...CATCH (Transact-SQL)", errors unaffected by it; "Database engine events and errors", 102, 137, 207, 4104.
    """
    insert = "INSERT INTO dbo.t VALUES (2, N'b')"
    for batch in (
        f"{insert}; {wrong}",
        f"{insert}; IF 1 = 0 BEGIN {wrong} END",
        f"{insert}; BEGIN TRY {wrong} END TRY BEGIN CATCH PRINT 'x' END CATCH",
    ):
        assert table.error(batch).number == number or (number, table.error(batch).number) == (102, 156)
        assert table.column("SELECT n FROM dbo.t") == [1]


@item(78, "documented")
def test_a_table_that_is_not_there_is_missed_when_its_statement_is_reached(table: Database) -> None:
    """Also where another name of that statement is wrong; a column of a table made in the batch is found.

    Source: Microsoft, "CREATE PROCEDURE (Transact-SQL)", deferred name resolution.
    """
    error = table.error(
        "INSERT INTO dbo.t VALUES (2, N'b'); SELECT missing FROM dbo.t WHERE n IN (SELECT n FROM dbo.nowhere)"
    )
    assert error.number == 208
    assert table.column("SELECT n FROM dbo.t ORDER BY n") == [1, 2]
    assert table.column(
        "CREATE TABLE dbo.made (x int NULL); INSERT INTO dbo.made VALUES (5); SELECT x FROM dbo.made"
    ) == [5]


@item(78, "documented")
def test_a_batch_that_ran_is_bound_again_after_its_table_has_changed(table: Database) -> None:
    """The same text, once good, fails before its first statement when the column is gone.

    Source: Microsoft, "Query processing architecture guide", recompiling execution plans.
    """
    table.run("CREATE TABLE dbo.noted (n int NOT NULL)")
    batch = "INSERT INTO dbo.noted VALUES (1); SELECT v FROM dbo.t WHERE n = 1"
    assert [table.column(batch), table.column(batch)] == [["a"], ["a"]]
    table.run("ALTER TABLE dbo.t DROP COLUMN v")
    assert table.error(batch).number == 207
    assert table.value("SELECT COUNT(*) FROM dbo.noted") == 2


@item(78, "documented")
def test_a_text_run_by_exec_is_a_batch_of_its_own(table: Database) -> None:
    """Its errors of compilation are caught around it.

    Source: Microsoft, "TRY...CATCH (Transact-SQL)", errors unaffected by a TRY...CATCH construct.
    """
    text = "INSERT INTO dbo.t VALUES (2, N''b''); SELECT missing FROM dbo.t"
    caught = f"BEGIN TRY EXEC (N'{text}') END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"
    assert table.column(caught) == [207]
    assert table.column("SELECT n FROM dbo.t") == [1]


@item(78, "documented")
@pytest.mark.parametrize("kind", ["CREATE/ALTER PROCEDURE", "CREATE VIEW", "CREATE TRIGGER", "CREATE FUNCTION"])
def test_what_must_stand_first_in_its_batch(table: Database, kind: str) -> None:
    """Nothing of the batch runs.

    Source: Microsoft, "Database engine events and errors", 111; Microsoft, "CREATE PROCEDURE (Transact-SQL)".
    """
    body = {
        "CREATE/ALTER PROCEDURE": "CREATE PROCEDURE dbo.x AS SELECT 1 AS one",
        "CREATE VIEW": "CREATE VIEW dbo.x AS SELECT 1 AS one",
        "CREATE TRIGGER": "CREATE TRIGGER dbo.x ON dbo.t AFTER INSERT AS SELECT 1",
        "CREATE FUNCTION": "CREATE FUNCTION dbo.x() RETURNS int AS BEGIN RETURN 1 END",
    }[kind]
    error = table.error(f"INSERT INTO dbo.t VALUES (2, N'b') {body}")
    assert error.number == 111
    assert error.text.startswith(f"'{kind}' must be the first statement in a query batch.")
    assert table.column("SELECT n FROM dbo.t") == [1]


@item(79, "measured")
def test_the_comma_before_the_constraint_of_a_table_may_be_missing(database: Database) -> None:
    """The key is that of the table, and not of the column that it stands behind.

    Source: Debezium SqlServerConnectorIT, whose tables are written so.
    """
    database.run("CREATE TABLE dbo.t (id int NOT NULL, m money PRIMARY KEY (id))")
    database.run("CREATE TABLE dbo.u (a int NOT NULL, b int NOT NULL CONSTRAINT uq_u UNIQUE (b DESC, a))")
    keys = (
        "SELECT k.type, c.name, i.is_descending_key FROM sys.key_constraints AS k JOIN sys.index_columns AS i "
        "ON i.object_id = k.parent_object_id AND i.index_id = k.unique_index_id JOIN sys.columns AS c "
        "ON c.object_id = i.object_id AND c.column_id = i.column_id WHERE k.parent_object_id = OBJECT_ID(N'dbo.{}') "
        "ORDER BY i.key_ordinal"
    )
    assert database.rows(keys.format("t")) == [("PK", "id", False)]
    assert database.rows(keys.format("u")) == [("UQ", "b", True), ("UQ", "a", False)]
    database.run("INSERT INTO dbo.t VALUES (1, NULL)")
    assert database.error("INSERT INTO dbo.t VALUES (1, 2)").number == 2627


@item(80, "documented")
def test_a_default_is_added_without_a_name(database: Database) -> None:
    """The server names it; WITH VALUES may stand behind it.

    Source: Microsoft, "ALTER TABLE table_constraint (Transact-SQL)".
    """
    database.run("CREATE TABLE dbo.t (n int NOT NULL, c varchar(10) NULL, d int NULL)")
    database.run("ALTER TABLE dbo.t ADD DEFAULT ('x') FOR c")
    database.run("ALTER TABLE dbo.t ADD CONSTRAINT df_d DEFAULT 7 FOR d WITH VALUES")
    database.run("INSERT INTO dbo.t (n) VALUES (1)")
    assert database.rows("SELECT c, d FROM dbo.t") == [("x", 7)]
    named = "SELECT name, is_system_named FROM sys.default_constraints ORDER BY is_system_named DESC"
    (unnamed, by_server), second = database.rows(named)
    assert (unnamed[:8], by_server, second) == ("DF__t__c", True, ("df_d", False))
    assert database.error("ALTER TABLE dbo.t ADD DEFAULT ('y') FOR c").number == 1781


@item(81, "documented")
def test_a_table_of_values_has_more_rows_than_an_insert(database: Database) -> None:
    """A derived table has no limit; INSERT ... VALUES ends at 1000 rows.

    Source: Microsoft, "Table Value Constructor (Transact-SQL)", limitations and restrictions; errors, 10738.
    """
    database.run("CREATE TABLE dbo.t (n int NOT NULL, m int NOT NULL)")
    database.run(f"INSERT INTO dbo.t SELECT v.n, v.m FROM (VALUES {NUMBERS}) AS v (n, m)")
    assert database.rows("SELECT COUNT(*), SUM(n), MAX(m) FROM dbo.t") == [(1500, 1500 * 1499 // 2, 6)]
    assert database.error(f"INSERT INTO dbo.t VALUES {NUMBERS}").number == 10738


@item(81, "documented")
def test_conditions_may_be_long(database: Database) -> None:
    """A list of IN, and a chain of ORs, of some thousand members.

    Source: Microsoft, "IN (Transact-SQL)", remarks; "Maximum capacity specifications for SQL Server", batch size.
    """
    database.run("CREATE TABLE dbo.t (n int NOT NULL)")
    database.run("INSERT INTO dbo.t VALUES (1), (1999), (4000)")
    listed = ", ".join(str(n) for n in range(2000))
    chain = " OR ".join(f"n = {n}" for n in range(2000))
    for condition in (f"n IN ({listed})", chain, f"NOT (n NOT IN ({listed}))"):
        assert database.column(f"SELECT n FROM dbo.t WHERE {condition} ORDER BY n") == [1, 1999]
