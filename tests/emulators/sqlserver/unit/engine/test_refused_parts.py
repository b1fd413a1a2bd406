"""A statement with a part that is refused by name: a branch that never runs may hold it, and what stands behind it runs."""

from __future__ import annotations

import pytest

from .conftest import Client


@pytest.mark.parametrize("semicolon", ["", ";"])
@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("CREATE TABLE x (a int) ON ps(a)", "ON a partition scheme"),
        ("CREATE TABLE x (a int PRIMARY KEY ON ps (a)) ON [ps](a)", "ON a partition scheme"),
        ("CREATE INDEX i ON t (id) ON ps(id)", "ON a partition scheme"),
        ("ALTER TABLE t ADD CONSTRAINT u UNIQUE (id) ON ps(id)", "ON a partition scheme"),
        ("CREATE INDEX i ON t (id) WITH DROP_EXISTING", "WITH DROP_EXISTING without brackets"),
        ("CREATE INDEX i ON t (id) WITH FILLFACTOR = 80, PAD_INDEX ON ps(id)", "WITH FILLFACTOR without brackets"),
        ("ALTER TABLE t ADD PRIMARY KEY (id) WITH FILLFACTOR = 80", "WITH FILLFACTOR without brackets"),
        ("DROP INDEX i ON t WITH (ONLINE = ON)", "DROP INDEX ... WITH"),
        ("DROP INDEX IF EXISTS i ON t WITH (MAXDOP = 1, MOVE TO ps(id))", "DROP INDEX ... WITH"),
        ("DROP INDEX i ON t, j ON t", "DROP INDEX of several indexes"),
        ("DROP INDEX t.i, t.j", "DROP INDEX of several indexes"),
        ("SET @x.modify('insert 1')", "SET of a variable's property or method"),
        ("ALTER PARTITION FUNCTION f() MERGE RANGE (1)", "ALTER PARTITION"),
        ("ALTER TABLE t ALTER COLUMN id DROP MASKED", "ALTER COLUMN ... DROP"),
        ("ALTER TABLE t ALTER COLUMN id DROP SPARSE", "ALTER COLUMN ... DROP"),
        ("ALTER FULLTEXT INDEX ON t SET CHANGE_TRACKING AUTO", "ALTER FULLTEXT"),
        ("ALTER ASSEMBLY a DROP FILE ALL", "ALTER ASSEMBLY"),
        ("ALTER EXTERNAL DATA SOURCE x SET LOCATION = 'y'", "ALTER EXTERNAL"),
        ("ALTER AVAILABILITY GROUP x GRANT CREATE ANY DATABASE", "ALTER AVAILABILITY"),
        ("ALTER RESOURCE GOVERNOR RECONFIGURE", "ALTER RESOURCE"),
        ("SET @x.part = 1", "SET of a variable's property or method"),
    ],
)
def test_it_is_refused_only_where_it_is_reached(client: Client, sql: str, name: str, semicolon: str) -> None:
    client.run("CREATE TABLE t (id int)")
    assert client.results(f"IF 1 = 0 {sql}{semicolon} SELECT 2") == [[(2,)]]
    assert client.results(f"IF 1 = 0 {sql} ELSE SELECT 3 SELECT 2") == [[(3,)], [(2,)]]
    number, text = client.error(sql)
    assert number == 50001
    assert name in text


def test_a_file_group_is_read_over(client: Client) -> None:
    client.run("CREATE TABLE t (id int, v varchar(max)) ON [PRIMARY] TEXTIMAGE_ON [PRIMARY]")
    client.run("CREATE INDEX i ON t (id) ON [PRIMARY]")
    assert client.results("CREATE TABLE u (id int) ON [PRIMARY]; (SELECT 2)") == [[(2,)]]


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER RESOURCE POOL p WITH (MAX_CPU_PERCENT = 10) SET @x = 2",
        "ALTER FULLTEXT CATALOG c REBUILD SET @x = 2",
        "ALTER EXTERNAL DATA SOURCE x SET LOCATION = 'y' SET @x = 2",
    ],
)
def test_set_of_a_variable_is_a_statement_of_its_own(client: Client, sql: str) -> None:
    assert client.rows(f"DECLARE @x int IF 1 = 0 {sql} SELECT @x") == [(2,)]
