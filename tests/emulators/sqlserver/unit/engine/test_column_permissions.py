"""SELECT on single columns: GRANT, DENY and REVOKE, and error 230.

https://learn.microsoft.com/sql/t-sql/statements/grant-object-permissions-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import LoginRequest

from .conftest import Client

Enter = Callable[[], Client]


@pytest.fixture
def enter(engine: SqlEngine, client: Client) -> Enter:
    """A table of four columns, and a login with a user that may nothing yet."""
    client.run(
        "CREATE TABLE dbo.pay (id int PRIMARY KEY, name nvarchar(10), wage int, yearly AS (wage * 12)) "
        "INSERT dbo.pay VALUES (1, N'Ann', 100), (2, N'Bob', 200) "
        "CREATE LOGIN reader WITH PASSWORD = 'pw', CHECK_POLICY = OFF CREATE USER reader FOR LOGIN reader"
    )
    return lambda: Client(engine.login(LoginRequest("reader", "pw", "demo")))


@pytest.mark.parametrize("grant", ["SELECT ON dbo.pay (id, name)", "SELECT (id, name) ON dbo.pay"])
def test_granted_columns_are_read_and_no_others(client: Client, enter: Enter, grant: str) -> None:
    reader = enter()
    assert reader.error("SELECT id FROM dbo.pay")[0] == 229
    client.run(f"GRANT {grant} TO reader")
    assert reader.rows("SELECT p.name FROM dbo.pay AS p WHERE id = 2 ORDER BY p.id") == [("Bob",)]
    text = "The SELECT permission was denied on the column 'wage' of the object 'pay', database 'demo', schema 'dbo'."
    assert reader.error("SELECT wage FROM dbo.pay") == (230, text)
    for sql in (
        "SELECT * FROM dbo.pay",
        "SELECT p.* FROM dbo.pay AS p",
        "SELECT id FROM dbo.pay WHERE wage > 1",
        "SELECT id FROM dbo.pay ORDER BY wage",
        "SELECT MAX(p.wage) FROM dbo.pay AS p",
        "SELECT a.id FROM dbo.pay AS a LEFT JOIN dbo.pay AS b ON b.wage = a.id",
        "SELECT yearly FROM dbo.pay",
    ):
        assert reader.error(sql)[0] == 230, sql


def test_a_denied_column_is_kept_from_who_may_read_the_table(client: Client, enter: Enter) -> None:
    client.run("GRANT SELECT ON dbo.pay TO reader DENY SELECT ON dbo.pay (wage) TO reader")
    reader = enter()
    assert reader.error("SELECT * FROM dbo.pay")[0] == 230
    assert reader.rows("SELECT id, yearly FROM dbo.pay WHERE id = 1") == [(1, 1200)]
    client.run("REVOKE SELECT ON dbo.pay (wage) FROM reader")
    assert len(reader.rows("SELECT * FROM dbo.pay")) == 2


def test_a_column_granted_is_read_although_the_table_is_denied(client: Client, enter: Enter) -> None:
    """Kept "for backward compatibility", says the page."""
    client.run("DENY SELECT ON dbo.pay TO reader GRANT SELECT ON dbo.pay (name) TO reader")
    reader = enter()
    assert reader.rows("SELECT name FROM dbo.pay WHERE name LIKE N'A%'") == [("Ann",)]
    assert reader.error("SELECT id FROM dbo.pay")[0] == 230


def test_a_role_gives_and_takes_columns(client: Client, enter: Enter) -> None:
    client.run(
        "CREATE ROLE clerks ALTER ROLE clerks ADD MEMBER reader GRANT SELECT (id, wage) ON dbo.pay TO clerks "
        "DENY SELECT (wage) ON dbo.pay TO reader"
    )
    reader = enter()
    assert reader.rows("SELECT id FROM dbo.pay WHERE id = 1") == [(1,)]
    assert reader.error("SELECT wage FROM dbo.pay")[0] == 230
    assert reader.rows("SELECT name FROM sys.tables") == [("pay",)]


def test_the_catalog_names_the_column(client: Client, enter: Enter) -> None:
    client.run("GRANT SELECT ON dbo.pay (name) TO reader")
    assert client.rows(
        "SELECT class_desc, OBJECT_NAME(major_id), COL_NAME(major_id, minor_id), permission_name, state_desc "
        "FROM sys.database_permissions WHERE minor_id > 0"
    ) == [("OBJECT_OR_COLUMN", "pay", "name", "SELECT", "GRANT")]


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("GRANT SELECT ON dbo.pay (nothing) TO reader", 1911),
        ("GRANT INSERT ON dbo.pay (name) TO reader", 1020),
        ("GRANT SELECT ON SCHEMA::dbo (name) TO reader", 1020),
        ("GRANT UPDATE ON dbo.pay (name) TO reader", 50001),
    ],
)
def test_what_columns_cannot_be_given(client: Client, enter: Enter, sql: str, number: int) -> None:
    assert enter().error("SELECT id FROM dbo.pay")[0] == 229
    assert client.error(sql)[0] == number
