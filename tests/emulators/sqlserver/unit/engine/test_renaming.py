"""sp_rename: what the batch does after its errors, who may call it, and what is refused by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import ErrorMessage, LoginRequest, ResultSet

from .conftest import Client


def test_the_batch_goes_on_after_an_error(client: Client) -> None:
    client.run("CREATE TABLE dbo.t (id int)")
    found = client.events("EXEC sp_rename 't', '' SELECT 1")
    assert [event.number for event in found if isinstance(event, ErrorMessage)] == [15004, 15224]
    assert any(isinstance(event, ResultSet) for event in found)
    assert client.rows("DECLARE @s int EXEC @s = sp_rename 't', 'u' SELECT @s") == [(0,)]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("'demo', 'other', 'DATABASE'", "DATABASE"),
        ("'t.ix', 'iy', 'STATISTICS'", "STATISTICS"),
        ("'v.id', 'other', 'COLUMN'", "view's column"),
    ],
)
def test_what_it_does_not_rename_is_refused_by_name(client: Client, arguments: str, name: str) -> None:
    client.run("CREATE TABLE dbo.t (id int)")
    client.run("CREATE VIEW dbo.v AS SELECT id FROM dbo.t")
    number, text = client.error(f"EXEC sp_rename {arguments}")
    assert number == 50001
    assert name in text


def test_a_name_in_another_schema(client: Client) -> None:
    client.run("CREATE TABLE dbo.t (id int CONSTRAINT c PRIMARY KEY)")
    client.run("CREATE SCHEMA s")
    client.run("CREATE TABLE s.t (id int CONSTRAINT c PRIMARY KEY)")
    client.run("EXEC sp_rename 's.c', 'd'")
    client.run("EXEC sp_rename 'demo.s.t', 'u'")
    assert client.rows("SELECT name, SCHEMA_NAME(schema_id) FROM sys.key_constraints ORDER BY name") == [
        ("c", "dbo"),
        ("d", "s"),
    ]
    assert client.rows("SELECT TABLE_SCHEMA, TABLE_NAME FROM INFORMATION_SCHEMA.TABLES ORDER BY 1") == [
        ("dbo", "t"),
        ("s", "u"),
    ]


def test_one_name_for_a_table_and_a_column(client: Client) -> None:
    """15248 unless the kind is said."""
    client.run("CREATE TABLE dbo.s (t int)")
    client.run("CREATE SCHEMA s")
    client.run("CREATE TABLE s.t (id int)")
    assert client.error("EXEC sp_rename 's.t', 'u'")[0] == 15248
    client.run("EXEC sp_rename 's.t', 'u', 'COLUMN'")
    client.run("EXEC sp_rename 's.t', 'v'")
    assert client.value("SELECT COL_LENGTH('dbo.s', 'u')") == 4
    assert client.value("SELECT COUNT(*) FROM s.v") == 0


def test_it_needs_alter(engine: SqlEngine, client: Client) -> None:
    """https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-rename-transact-sql#permissions"""
    client.run("CREATE TABLE dbo.t (id int CONSTRAINT c PRIMARY KEY)")
    client.run("CREATE VIEW dbo.v AS SELECT id FROM dbo.t")
    client.run("CREATE LOGIN reader WITH PASSWORD = 'Reader-1' CREATE USER reader GRANT SELECT ON dbo.t TO reader")
    reader = Client(engine.login(LoginRequest("reader", "Reader-1", "demo")))
    for name in ("t", "v", "c", "t.id", "t.c"):
        assert reader.error(f"EXEC sp_rename '{name}', 'other'")[0] == 15225
    client.run("GRANT ALTER ON dbo.t TO reader")
    for name, new in (("t.id", "n"), ("c", "d"), ("t", "u")):
        reader.run(f"EXEC sp_rename '{name}', '{new}'")
    assert client.value("SELECT COUNT(*) FROM dbo.u WHERE n = 1") == 0


@pytest.mark.parametrize(
    "arguments", ["'t', 'u'", "'t.id', 'other', 'COLUMN'", "'t.k', 'j', 'INDEX'", "'c', 'd'", "'w', 'x'"]
)
def test_readers_wait_while_a_rename_is_open(client: Client, connect: Callable[[], Client], arguments: str) -> None:
    client.run("CREATE TABLE t (id int CONSTRAINT c PRIMARY KEY) CREATE INDEX k ON t (id) INSERT t VALUES (1)")
    client.run("CREATE TABLE w (id int) INSERT w VALUES (1) CREATE TABLE free (id int)")
    reading = f"SELECT COUNT(*) FROM {'w' if 'w' in arguments else 't'}"
    client.run(f"BEGIN TRAN EXEC sp_rename {arguments}")
    other = connect()
    assert other.error(f"SET LOCK_TIMEOUT 0 {reading}")[0] == 1222
    assert other.value("SELECT COUNT(*) FROM free") == 0
    client.run("ROLLBACK")
    assert other.value(reading) == 1


def test_a_rename_waits_for_those_who_keep_locks_on_its_table(client: Client, connect: Callable[[], Client]) -> None:
    client.run("CREATE TABLE t (id int) INSERT t VALUES (1) CREATE TABLE u (id int)")
    client.rows("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ BEGIN TRAN SELECT id FROM t")
    other = connect()
    assert other.error("SET LOCK_TIMEOUT 0 EXEC sp_rename 't', 'v'")[0] == 1222
    other.run("EXEC sp_rename 'u', 'w'")
    client.run("COMMIT")
    other.run("EXEC sp_rename 't', 'v'")
    assert other.value("SELECT id FROM v") == 1


def test_an_index_and_a_constraint_of_one_name(client: Client) -> None:
    """The index alone gets another name, which a constraint may have already."""
    client.run("CREATE TABLE dbo.t (a int CONSTRAINT c CHECK (a > 0) CONSTRAINT d DEFAULT 1)")
    client.run("CREATE INDEX c ON dbo.t (a)")
    client.run("EXEC sp_rename 't.c', 'd', 'INDEX'")
    assert client.rows("SELECT name FROM sys.check_constraints") == [("c",)]
    assert client.rows("SELECT name FROM sys.default_constraints") == [("d",)]
    assert client.rows("SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID('t') AND index_id > 0") == [("d",)]
