"""Items 93 and 10: what DECLARE takes together, and explicit identity values that there are none of."""

from __future__ import annotations

from tests.emulators.sqlserver.contract.client import Database
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
