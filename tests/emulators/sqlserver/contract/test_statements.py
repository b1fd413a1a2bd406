"""Items 10, 14, 64, 81, 84 and 93: statements that no client of the other tests sends."""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.contract.client import Connection, Database
from tests.emulators.sqlserver.contract.labels import item


@item(93, "documented")
def test_one_declare_has_variables_and_table_variables(database: Database) -> None:
    """In any order.

    Source: Microsoft, "DECLARE @local_variable (Transact-SQL)", syntax: the list holds both.
    """
    sql = (
        "DECLARE @x int = 5, @t TABLE (a int), @y int = 6 INSERT INTO @t VALUES (@x), (@y) SELECT a FROM @t ORDER BY a"
    )
    assert database.column(sql) == [5, 6]
    assert database.error("DECLARE @x int, @t TABLE (a int), @x int").number == 134


@item(10, "documented")
def test_an_explicit_identity_value_is_a_value(database: Database) -> None:
    """339 for NULL and DEFAULT as they stand, 515 for a variable that is NULL.

    Source: Microsoft, "Database engine events and errors", 339 and 515; "SET IDENTITY_INSERT (Transact-SQL)".
    """
    database.run("CREATE TABLE dbo.t (id int IDENTITY, n int NULL)")
    database.run("SET IDENTITY_INSERT dbo.t ON")
    assert database.error("INSERT INTO dbo.t (id, n) VALUES (NULL, 1)").number == 339
    assert database.error("INSERT INTO dbo.t (id, n) VALUES (7, 1), (DEFAULT, 1)").number == 339
    assert database.error("DECLARE @x int INSERT INTO dbo.t (id, n) VALUES (@x, 1)").number == 515
    assert database.value("SELECT COUNT(*) FROM dbo.t") == 0


@item(14, "documented")
@pytest.mark.parametrize(
    ("value", "padded", "cut"),
    [
        ("CAST(-5.5 AS smallmoney)", "0x00000000FFFF2928", "0x2928"),
        ("CAST(5.5 AS money)", "0x000000000000D6D8", "0xD6D8"),
        ("CAST(5000000000 AS bigint)", "0x000000012A05F200", "0xF200"),
        ("CAST(1.5 AS real)", "0x000000003FC00000", "0x0000"),
        ("CAST(1.1 AS float)", "0x3FF199999999999A", "0x999A"),
        ("CAST('1900-01-02 00:00:01' AS datetime)", "0x000000010000012C", "0x012C"),
        ("CAST('1900-01-02 00:01' AS smalldatetime)", "0x0000000000010001", "0x0001"),
        ("'ab'", "0x6162000000000000", "0x6162"),
        ("'abc'", "0x6162630000000000", "0x6162"),
        ("0x010203", "0x0102030000000000", "0x0102"),
    ],
)
def test_numbers_are_padded_and_cut_on_the_left(connection: Connection, value: str, padded: str, cut: str) -> None:
    """Strings and bytes on the right.

    Source: Microsoft, "binary and varbinary (Transact-SQL)", convert binary and varbinary data.
    """
    assert connection.value(f"SELECT CONVERT(varchar(30), CONVERT(binary(8), {value}), 1)") == padded
    assert connection.value(f"SELECT CONVERT(varchar(30), CONVERT(binary(2), {value}), 1)") == cut
    assert connection.value(f"SELECT CONVERT(varchar(30), CONVERT(varbinary(2), {value}), 1)") == cut


@item(81, "documented")
def test_values_read_columns_of_the_query_around_them(database: Database) -> None:
    """Behind APPLY, and in a subquery; the columns have the names of the alias.

    Source: Microsoft, "Table Value Constructor (Transact-SQL)"; "FROM clause (Transact-SQL)", APPLY.
    """
    database.run("CREATE TABLE dbo.t (a int NOT NULL) INSERT INTO dbo.t VALUES (1), (2)")
    sql = "SELECT a, k, v FROM dbo.t CROSS APPLY (VALUES ('once', a), ('twice', t.a * 2)) AS q (k, v) ORDER BY a, k"
    assert database.sets(sql) == [(["a", "k", "v"], [(1, "once", 1), (1, "twice", 2), (2, "once", 2), (2, "twice", 4)])]
    sql = "SELECT (SELECT MAX(m) FROM (VALUES (t.a), (2), (t.a * 3)) AS q (m)) FROM dbo.t ORDER BY a"
    assert database.column(sql) == [3, 6]
    assert database.columns("SELECT a, q.m FROM dbo.t OUTER APPLY (SELECT t.a AS m) AS q") == ["a", "m"]


@item(84, "documented")
def test_a_computed_column_has_its_name_in_a_query(database: Database) -> None:
    """As every column has; functions without parentheses have none.

    Source: Microsoft, "SELECT clause (Transact-SQL)", column_alias; "Specify computed columns in a table".
    """
    database.run("CREATE TABLE dbo.t (n int NOT NULL, twice AS n * 2) INSERT INTO dbo.t (n) VALUES (4)")
    assert database.named("SELECT n, twice FROM dbo.t") == [{"n": 4, "twice": 8}]
    assert database.value("SELECT q.twice FROM (SELECT twice FROM dbo.t) AS q") == 8
    assert database.columns("SELECT CURRENT_USER, CURRENT_TIMESTAMP, n FROM dbo.t") == ["", "", "n"]


@item(64, "documented")
def test_a_column_with_a_rule_keeps_its_type(database: Database) -> None:
    """5074 for another type, under a default, a CHECK or a foreign key; another length is taken.

    Source: Microsoft, "ALTER TABLE (Transact-SQL)", ALTER COLUMN: what the modified column cannot be; errors, 5074.
    """
    database.run("CREATE TABLE dbo.p (id int NOT NULL PRIMARY KEY)")
    database.run(
        "CREATE TABLE dbo.t (a int NULL DEFAULT 1, b int NULL CHECK (b > 0), c int NULL REFERENCES dbo.p (id), "
        "d varchar(5) NULL DEFAULT 'x')"
    )
    for column in "abc":
        refused = database.error(f"ALTER TABLE dbo.t ALTER COLUMN {column} bigint NULL").number
        assert refused in (5074, 4922)  # both come; a client shows one of them
    database.run("ALTER TABLE dbo.t ALTER COLUMN d varchar(9) NULL")
    database.run("ALTER TABLE dbo.t ALTER COLUMN b int NOT NULL")


@item(84, "documented")
def test_a_computed_column_may_use_columns_behind_it(database: Database) -> None:
    """But no other computed column: 1759.

    Source: Microsoft, "Specify computed columns in a table"; "Database engine events and errors", 1759.
    """
    database.run("CREATE TABLE dbo.t (twice AS n * 2, n int NOT NULL) INSERT INTO dbo.t (n) VALUES (4)")
    assert database.rows("SELECT * FROM dbo.t") == [(8, 4)]
    assert database.error("ALTER TABLE dbo.t ADD more AS twice * 2").number == 1759
    assert database.error("CREATE TABLE dbo.u (n int, twice AS n * 2, more AS twice * 2)").number == 1759


@item(10, "documented")
def test_a_view_that_is_not_there_is_not_altered(database: Database) -> None:
    """208; CREATE OR ALTER makes it.

    Source: Microsoft, "ALTER VIEW (Transact-SQL)": modifies a view that was created before; errors, 208.
    """
    assert database.error("ALTER VIEW dbo.v AS SELECT 1 AS n").number == 208
    database.run("CREATE OR ALTER VIEW dbo.v AS SELECT 1 AS n")
    database.run("ALTER VIEW dbo.v AS SELECT 2 AS n")
    assert database.value("SELECT n FROM dbo.v") == 2
