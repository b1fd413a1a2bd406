"""sys.columns is made once for a catalog: whatever changes the catalog, or what a session sees of it, is seen in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulators.sqlserver.engine.store.links import Link
from tests.emulators.sqlserver.unit.engine.conftest import Client

COLUMNS = "SELECT c.name FROM sys.columns AS c WHERE c.object_id = OBJECT_ID('dbo.t') ORDER BY c.column_id"


def _names(client: Client) -> list[object]:
    return [row[0] for row in client.rows(COLUMNS)]


def test_every_change_of_a_table_is_seen(client: Client) -> None:
    client.run("CREATE TABLE dbo.t (a INT)")
    for text, names in (
        ("ALTER TABLE dbo.t ADD b INT", ["a", "b"]),
        ("ALTER TABLE dbo.t DROP COLUMN a", ["b"]),
        ("EXEC sp_rename 'dbo.t.b', 'c', 'COLUMN'", ["c"]),
        ("DROP TABLE dbo.t", []),
        ("CREATE TABLE dbo.t (d INT)", ["d"]),
    ):
        client.run(text)
        assert _names(client) == names
        assert _names(client) == names


def test_a_change_that_is_rolled_back_was_seen_by_its_session_alone(connect: Callable[[], Client]) -> None:
    client, other = connect(), connect()
    client.run("CREATE TABLE dbo.t (a INT)")
    assert _names(client) == ["a"]
    client.run("BEGIN TRANSACTION; ALTER TABLE dbo.t ADD b INT")
    assert _names(client) == ["a", "b"]
    client.run("ROLLBACK")
    assert _names(client) == ["a"]
    client.run("BEGIN TRANSACTION; INSERT INTO dbo.t VALUES (1)")
    assert _names(client) == ["a"]
    client.run("ROLLBACK")
    assert _names(client) == _names(other) == ["a"]


def test_another_database_and_another_view_in_the_same_place_are_not_taken_for_it(client: Client) -> None:
    client.run("CREATE TABLE dbo.t (a INT)")
    client.run("CREATE DATABASE further")
    assert _names(client) == ["a"]
    assert client.rows("SELECT c.name FROM further.sys.columns AS c WHERE c.name = 'a'") == []
    assert _names(client) == ["a"]
    twice = (
        "SELECT COUNT(*) FROM sys.columns AS c JOIN sys.columns AS d ON d.object_id = c.object_id WHERE c.name = 'a'"
    )
    assert client.value(twice) == client.value(twice) == 1


def test_a_views_columns_depend_on_other_tables_and_are_made_each_time(client: Client) -> None:
    client.run("CREATE TABLE dbo.u (a INT, b INT)")
    client.run("CREATE VIEW dbo.t AS SELECT a FROM dbo.u")
    assert _names(client) == ["a"]
    client.run("DROP TABLE dbo.u")
    assert _names(client) == []


def test_they_are_made_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.run("CREATE TABLE dbo.t (a INT)")
    _names(client)
    made: list[str] = []
    execute = Link.execute

    def noted(self: Link, sql: str, parameters: object = ()) -> object:
        made.append(sql)
        return execute(self, sql, parameters)  # type: ignore[arg-type]

    monkeypatch.setattr(Link, "execute", noted)
    _names(client)
    assert not [sql for sql in made if sql.startswith(("CREATE TEMP", "DELETE"))]
