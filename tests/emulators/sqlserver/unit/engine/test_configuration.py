"""sp_configure and RECONFIGURE, as their pages document them."""

from __future__ import annotations

import pytest

from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import Info, LoginRequest

from .conftest import Client

OPTION = "max text repl size"


def test_an_option_runs_after_reconfigure(client: Client, engine: SqlEngine) -> None:
    told: list[tuple[str, int]] = []
    engine.configuration.changed = lambda name, value: told.append((name, value))
    assert client.rows(f"EXEC sp_configure '{OPTION}'") == [("max text repl size (B)", -1, 2147483647, 65536, 65536)]
    (message,) = [e for e in client.events(f"EXEC sp_configure '{OPTION}', -1") if isinstance(e, Info)]
    assert (message.number, message.message) == (
        15457,
        "Configuration option 'max text repl size (B)' changed from 65536 to -1. Run the RECONFIGURE statement to install.",
    )
    shown = "SELECT value, value_in_use FROM sys.configurations WHERE name = 'max text repl size (B)'"
    assert client.rows(shown) == [(-1, 65536)]
    assert told == []
    client.run("RECONFIGURE WITH OVERRIDE")
    assert client.rows(shown) == [(-1, -1)]
    assert told == [("max text repl size (B)", -1)]


def test_advanced_options_show_when_they_are_asked_for(client: Client) -> None:
    assert "user connections" not in [row[0] for row in client.rows("EXEC sp_configure")]
    client.run("EXEC sp_configure 'show advanced options', 1 RECONFIGURE")
    names = [row[0] for row in client.rows("EXEC sp_configure")]
    assert "user connections" in names
    assert names == sorted(names, key=lambda name: str(name).lower())


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("EXEC sp_configure 'nothing'", 15123),
        ("EXEC sp_configure 'user connections'", 15123),
        ("EXEC sp_configure 'e'", 15124),
        ("EXEC sp_configure 'max text repl size', -2", 15129),
        ("EXEC sp_configure 'nested triggers', 0", 50001),
        ("BEGIN TRAN RECONFIGURE", 574),
    ],
)
def test_what_is_wrong_or_not_here_is_said(client: Client, sql: str, number: int) -> None:
    assert client.error(sql)[0] == number


def test_setting_takes_a_permission_of_the_server(client: Client, engine: SqlEngine) -> None:
    client.run("CREATE LOGIN bob WITH PASSWORD = 'x' CREATE USER bob")
    bob = Client(engine.login(LoginRequest("bob", "x", "demo")))
    assert len(bob.rows("EXEC sp_configure")) == 4
    assert bob.error("EXEC sp_configure 'max text repl size', 1")[0] == 15247
    assert bob.error("RECONFIGURE")[0] == 15247
    client.run("ALTER SERVER ROLE serveradmin ADD MEMBER bob")
    bob.run("EXEC sp_configure 'max text repl size', 1 RECONFIGURE")


def test_a_value_that_is_no_number(client: Client) -> None:
    assert client.error(f"EXEC sp_configure '{OPTION}', 'much'")[0] == 8114
