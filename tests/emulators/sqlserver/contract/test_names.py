"""Items 79 and 85: names of constraints, and names that sp_rename changes."""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.contract.client import Database
from tests.emulators.sqlserver.contract.labels import item

NAMES = "SELECT name FROM sys.objects WHERE parent_object_id = OBJECT_ID(N'dbo.t') AND type = '{}'"


@item(79, "documented")
def test_a_constraint_of_a_column_does_not_give_its_name_to_the_next_one(database: Database) -> None:
    """The name is that of one constraint, perhaps behind NOT NULL; the next one gets a name of its own.

    Source: Microsoft, "CREATE TABLE (Transact-SQL)", column_constraint: CONSTRAINT is optional in front of each;
    "ALTER TABLE column_constraint (Transact-SQL)", NOT NULL stands behind the name.
    """
    database.run(
        "CREATE TABLE dbo.t (id int CONSTRAINT pk1 PRIMARY KEY CHECK (id > 0), "
        "n int CONSTRAINT uq1 NOT NULL UNIQUE, d int CONSTRAINT df1 DEFAULT 1 CHECK (d > 0) CONSTRAINT ck2 CHECK (d < 9))"
    )
    assert database.column(NAMES.format("PK")) == ["pk1"]
    assert database.column(NAMES.format("D")) == ["df1"]
    assert database.column(NAMES.format("UQ")) == ["uq1"]
    checks = database.column(NAMES.format("C"))
    assert sum(name == "ck2" for name in checks) == 1
    assert sum(name.startswith("CK__t__") for name in checks) == 2
    database.run("ALTER TABLE dbo.t DROP CONSTRAINT pk1")
    assert database.error("INSERT INTO dbo.t (id, n) VALUES (-5, 1)").number == 547


@item(79, "documented")
@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE dbo.u (id int CONSTRAINT {} PRIMARY KEY)",
        "CREATE TABLE dbo.u (id int CONSTRAINT {} UNIQUE)",
        "CREATE TABLE dbo.u (id int CONSTRAINT {} CHECK (id > 0))",
        "CREATE TABLE dbo.u (id int CONSTRAINT {} DEFAULT 1)",
        "CREATE TABLE dbo.u (id int CONSTRAINT {} REFERENCES dbo.t (id))",
        "ALTER TABLE dbo.t ADD CONSTRAINT {} CHECK (id > 0)",
        "ALTER TABLE dbo.t ADD CONSTRAINT {} DEFAULT 1 FOR n",
        "ALTER TABLE dbo.t ADD CONSTRAINT {} UNIQUE (n)",
        "ALTER TABLE dbo.t ADD m int CONSTRAINT {} DEFAULT 1",
        "CREATE TABLE dbo.{} (id int)",
        "CREATE VIEW dbo.{} AS SELECT 1 AS one",
    ],
)
def test_a_name_that_an_object_of_the_schema_has(database: Database, sql: str) -> None:
    """Tables, views and constraints of one schema have one space of names; another schema has its own.

    Source: Microsoft, "CREATE TABLE (Transact-SQL)", constraint_name: unique within the schema; errors, 2714.
    """
    database.run("CREATE TABLE dbo.t (id int NOT NULL CONSTRAINT pk1 PRIMARY KEY, n int NULL)")
    database.run("CREATE VIEW dbo.v AS SELECT id FROM dbo.t")
    for name in ("PK1", "t", "v"):
        assert database.error(sql.format(name)).number in (2714, 1750)  # 1750 follows where a constraint fails
    database.run("CREATE SCHEMA other")
    database.run("CREATE TABLE other.u (id int CONSTRAINT pk1 PRIMARY KEY)")


@item(79, "documented")
def test_one_statement_names_two_constraints_alike(database: Database) -> None:
    """And a table is not made, nor has it one of the two afterwards.

    Source: Microsoft, "CREATE TABLE (Transact-SQL)", constraint_name; errors, 2714.
    """
    sql = "CREATE TABLE dbo.t (id int NOT NULL CONSTRAINT c PRIMARY KEY, n int, CONSTRAINT c CHECK (n > 0))"
    assert database.error(sql).number in (2714, 1750)
    assert database.value("SELECT OBJECT_ID(N'dbo.t')") is None
    sql = "CREATE TABLE dbo.t (id int NOT NULL CONSTRAINT t PRIMARY KEY)"
    assert database.error(sql).number in (2714, 1750)
    assert database.value("SELECT OBJECT_ID(N'dbo.t')") is None
