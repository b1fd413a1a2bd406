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


@pytest.fixture
def named(database: Database) -> Database:
    """A database with a table of which each part has a name, and a view."""
    database.run(
        "CREATE TABLE dbo.t (id int NOT NULL CONSTRAINT pk PRIMARY KEY, n int NULL CONSTRAINT df DEFAULT 7 "
        "CONSTRAINT ck CHECK (n > 0), m int NULL CONSTRAINT uq UNIQUE, twice AS id * 2)"
    )
    database.run("CREATE INDEX ix ON dbo.t (n)")
    database.run("CREATE VIEW dbo.v AS SELECT id, m FROM dbo.t")
    database.run("INSERT INTO dbo.t (id, n, m) VALUES (1, 2, 3)")
    return database


@item(85, "documented")
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("'dbo.v', 'w'", "SELECT OBJECT_ID(N'dbo.w', 'V')"),
        ("'v', 'w', 'OBJECT'", "SELECT id FROM dbo.w"),
        ("'t', 'T'", "SELECT 1 FROM sys.tables WHERE name = N'T' COLLATE Latin1_General_BIN2"),
        ("'t.m', 'M', 'column'", "SELECT 1 FROM sys.columns WHERE name = N'M' COLLATE Latin1_General_BIN2"),
        ("'t.ix', 'iy'", "SELECT index_id FROM sys.indexes WHERE name = N'iy'"),
        ("'dbo.t.ix', 'iy', 'INDEX'", "SELECT index_id FROM sys.indexes WHERE name = N'iy'"),
        ("'t.pk', 'pl', 'index'", "SELECT k.object_id FROM sys.key_constraints AS k WHERE name = N'pl'"),
        ("'pk', 'pl'", "SELECT index_id FROM sys.indexes WHERE name = N'pl' AND is_primary_key = 1"),
        ("'dbo.uq', 'ur', 'object'", "SELECT 1 FROM sys.key_constraints WHERE name = N'ur'"),
        ("'ck', 'cl'", "SELECT 1 FROM sys.check_constraints WHERE name = N'cl'"),
        ("'dbo.df', 'dg'", "SELECT 1 FROM sys.default_constraints WHERE name = N'dg'"),
    ],
)
def test_views_indexes_and_constraints_get_another_name(named: Database, arguments: str, shown: str) -> None:
    """And are what they were.

    Source: Microsoft, "sp_rename (Transact-SQL)", @objtype: COLUMN, INDEX, OBJECT, constraints among these.
    """
    named.run(f"EXEC sp_rename {arguments}")
    assert named.value(shown) is not None
    assert named.error("INSERT INTO dbo.t (id, n) VALUES (2, 0)").number == 547
    assert named.error("INSERT INTO dbo.t (id, m) VALUES (1, 4)").number == 2627
    assert named.error("INSERT INTO dbo.t (id, m) VALUES (4, 3)").number == 2627
    named.run("INSERT INTO dbo.t (id) VALUES (5)")
    assert named.value("SELECT n FROM dbo.t WHERE id = 5") == 7


@item(85, "documented")
@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        ("'t', NULL", (15223,)),
        ("NULL, 'u'", (15223,)),
        ("'t.n', ''", (15004, 15224)),  # both come; a client shows one of them
        ("'t', 'u', 'BOGUS'", (15249,)),
        ("'t', 'u', ''", (15249,)),
        ("'a.b.c.d.e', 'u'", (15253,)),
        ("'nowhere', 'u'", (15225,)),
        ("'nowhere', 'u', 'OBJECT'", (15248,)),
        ("'t.nowhere', 'u', 'INDEX'", (15248,)),
        ("'t', 'u', 'COLUMN'", (15248,)),
        ("'t', 'u', 'USERDATATYPE'", (15248,)),
        ("'master.dbo.t', 'u'", (15333,)),
        ("'t', 'v'", (15335,)),
        ("'v', 'pk'", (15335,)),
        ("'ck', 't'", (15335,)),
        ("'t.ix', 'pk'", (15335,)),
        ("'t.n', 'm'", (15335,)),
        ("'t.n', 'o'", (15336,)),
        ("'t', '#u'", (15600,)),
    ],
)
def test_what_sp_rename_refuses(named: Database, arguments: str, numbers: tuple[int, ...]) -> None:
    """Nothing has another name then, and the batch goes on.

    Source: Microsoft, "Database engine events and errors", 15004 to 15600; the procedure's text, as sp_helptext shows it.
    """
    objects = "SELECT name FROM sys.objects WHERE is_ms_shipped = 0 ORDER BY name"
    columns = "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID(N'dbo.t') ORDER BY name"
    before = named.column(objects), named.column(columns)
    assert named.error(f"EXEC sp_rename {arguments}").number in numbers
    assert (named.column(objects), named.column(columns)) == before
    caught = f"BEGIN TRY EXEC sp_rename {arguments} END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"
    assert named.value(caught) in numbers


@item(85, "measured")
def test_a_computed_column_keeps_its_name(named: Database) -> None:
    """4928.

    Source: msduck, which repeats what a server answered; Microsoft, "Database engine events and errors", 4928.
    """
    assert named.error("EXEC sp_rename 't.twice', 'double'").number == 4928
