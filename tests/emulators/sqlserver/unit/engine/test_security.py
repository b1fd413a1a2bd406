"""Logins, users, roles and permissions: who may do what, and Microsoft's error where they may not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import LoginRequest, SqlError

from .conftest import Client

Enter = Callable[..., Client]


@pytest.fixture
def enter(engine: SqlEngine, client: Client) -> Enter:
    """A table, and a login with a user that may nothing yet."""
    client.run("CREATE SCHEMA sales")
    client.run(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, v int) INSERT t VALUES (1, 10), (2, 20) CREATE TABLE sales.o (id int) "
        "CREATE LOGIN reader WITH PASSWORD = 'pw', CHECK_POLICY = OFF CREATE USER reader FOR LOGIN reader"
    )
    return lambda database="demo": Client(engine.login(LoginRequest("reader", "pw", database)))


def test_a_login_needs_its_password_and_a_user_in_the_database(engine: SqlEngine, client: Client) -> None:
    """Errors 18456, 4060 and 916."""
    client.run("CREATE LOGIN guesty WITH PASSWORD = 'pw'")
    with pytest.raises(SqlError) as refused:
        engine.login(LoginRequest("guesty", "wrong", "master"))
    assert refused.value.number == 18456
    with pytest.raises(SqlError) as refused:
        engine.login(LoginRequest("guesty", "pw", "demo"))
    assert refused.value.number == 4060
    inside = Client(engine.login(LoginRequest("guesty", "pw", "")))
    assert inside.value("SELECT USER_NAME()") == "guest"
    text = 'The server principal "guesty" is not able to access the database "demo" under the current security context.'
    assert inside.error("USE demo") == (916, text)
    assert inside.error("SELECT * FROM demo.sys.tables") == (916, text)
    client.run("ALTER LOGIN guesty DISABLE")
    with pytest.raises(SqlError):
        engine.login(LoginRequest("guesty", "pw", "master"))


@pytest.mark.parametrize(
    ("sql", "permission"),
    [
        ("SELECT * FROM t", "SELECT"),
        ("SELECT 1 WHERE EXISTS (SELECT 1 FROM dbo.t)", "SELECT"),
        ("INSERT t VALUES (3, 30)", "INSERT"),
        ("UPDATE t SET v = 1", "UPDATE"),
        ("DELETE t", "DELETE"),
    ],
)
def test_rows_are_refused_until_granted_and_again_when_denied(
    client: Client, enter: Enter, sql: str, permission: str
) -> None:
    """Error 229: https://learn.microsoft.com/sql/relational-databases/errors-events/mssqlserver-229-database-engine-error"""
    reader = enter()
    text = f"The {permission} permission was denied on the object 't', database 'demo', schema 'dbo'."
    assert reader.error(sql) == (229, text)
    client.run(f"GRANT {permission} ON dbo.t TO reader")
    reader.run("BEGIN TRAN " + sql + " ROLLBACK")
    client.run(f"DENY {permission} ON SCHEMA::dbo TO reader")
    assert reader.error(sql)[0] == 229
    client.run(f"REVOKE {permission} ON SCHEMA::dbo TO reader REVOKE {permission} ON t FROM reader")
    assert reader.error(sql)[0] == 229


def test_a_merge_wants_what_its_clauses_do(client: Client, enter: Enter) -> None:
    """https://learn.microsoft.com/sql/t-sql/statements/merge-transact-sql#permissions"""
    merge = (
        "MERGE t AS target USING (VALUES (1, 5)) AS source (id, v) ON target.id = source.id "
        "WHEN MATCHED THEN UPDATE SET v = source.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (source.id, source.v);"
    )
    reader = enter()
    client.run("GRANT SELECT, UPDATE ON t TO reader")
    assert reader.error(merge) == (
        229,
        "The INSERT permission was denied on the object 't', database 'demo', schema 'dbo'.",
    )
    client.run("GRANT INSERT ON t TO reader")
    reader.run(merge)
    assert client.value("SELECT v FROM t WHERE id = 1") == 5


def test_an_update_that_reads_wants_select_as_well(client: Client, enter: Enter) -> None:
    """https://learn.microsoft.com/sql/t-sql/queries/update-transact-sql#permissions"""
    client.run("GRANT UPDATE, DELETE ON t TO reader")
    reader = enter()
    assert reader.error("UPDATE t SET v = 1 WHERE id = 1")[1].startswith("The SELECT permission")
    assert reader.error("DELETE t WHERE id = 1")[1].startswith("The SELECT permission")
    client.run("GRANT SELECT ON t TO reader")
    reader.run("UPDATE t SET v = 1 WHERE id = 1")


def test_permissions_come_through_schemas_databases_and_roles(client: Client, enter: Enter) -> None:
    reader = enter()
    client.run("GRANT SELECT ON SCHEMA::sales TO reader")
    assert reader.rows("SELECT * FROM sales.o") == []
    assert reader.error("SELECT * FROM t")[0] == 229
    client.run("CREATE ROLE outer_role CREATE ROLE inner_role GRANT SELECT TO outer_role")
    client.run("ALTER ROLE outer_role ADD MEMBER inner_role ALTER ROLE inner_role ADD MEMBER reader")
    assert len(reader.rows("SELECT * FROM t")) == 2
    assert reader.rows("SELECT IS_MEMBER('outer_role'), IS_ROLEMEMBER('db_owner'), IS_MEMBER('nosuch')") == [
        (1, 0, None)
    ]
    client.run("ALTER ROLE inner_role DROP MEMBER reader")
    assert reader.error("SELECT * FROM t")[0] == 229
    client.run("EXEC sp_addrolemember 'db_datareader', 'reader'")
    assert len(reader.rows("SELECT * FROM t")) == 2
    client.run("EXEC sp_addrolemember @rolename = N'db_denydatareader', @membername = N'reader'")
    assert reader.error("SELECT * FROM t")[0] == 229


def test_metadata_is_seen_by_who_may_use_it(client: Client, enter: Enter) -> None:
    """https://learn.microsoft.com/sql/relational-databases/security/metadata-visibility-configuration"""
    reader = enter()
    assert reader.rows("SELECT name FROM sys.tables") == []
    assert reader.value("SELECT OBJECT_ID('dbo.t')") is None
    client.run("GRANT SELECT ON t TO reader")
    assert reader.rows("SELECT name FROM sys.tables") == [("t",)]
    assert reader.value("SELECT COUNT(*) FROM INFORMATION_SCHEMA.COLUMNS") == 2
    assert reader.value("SELECT OBJECT_NAME(OBJECT_ID('dbo.t'))") == "t"
    assert reader.rows(
        "SELECT HAS_PERMS_BY_NAME('dbo.t', 'OBJECT', 'SELECT'), HAS_PERMS_BY_NAME('dbo.t', 'OBJECT', 'INSERT'), "
        "HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE'), HAS_DBACCESS('demo'), IS_SRVROLEMEMBER('sysadmin')"
    ) == [(1, 0, 0, 1, 0)]


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("CREATE TABLE n (id int)", 262),
        ("DROP TABLE t", 3701),
        ("TRUNCATE TABLE t", 1088),
        ("ALTER TABLE t ADD w int", 1088),
        ("CREATE SCHEMA mine", 262),
        ("CREATE DATABASE mine", 262),
        ("CREATE LOGIN other WITH PASSWORD = 'x'", 15247),
        ("CREATE USER other WITHOUT LOGIN", 15247),
        ("CREATE ROLE mine", 15247),
        ("ALTER ROLE db_owner ADD MEMBER reader", 15151),
        ("GRANT SELECT ON t TO reader", 15151),
        ("SELECT * FROM sys.dm_exec_connections", 300),
    ],
)
def test_definitions_want_permissions(client: Client, enter: Enter, sql: str, number: int) -> None:
    client.run("GRANT SELECT ON t TO reader")
    assert enter().error(sql)[0] == number


def test_who_may_create_may_drop_and_alter(client: Client, enter: Enter) -> None:
    reader = enter()
    client.run("GRANT CREATE TABLE TO reader")
    assert reader.error("CREATE TABLE sales.n (id int)")[0] == 2760
    client.run("GRANT ALTER ON SCHEMA::sales TO reader")
    reader.run("CREATE TABLE sales.n (id int) ALTER TABLE sales.n ADD w int DROP TABLE sales.n")
    client.run("ALTER ROLE db_owner ADD MEMBER reader")
    reader.run("CREATE TABLE dbo.n (id int) INSERT n VALUES (1) DROP TABLE n")


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("CREATE LOGIN sa WITH PASSWORD = 'x'", 15025),
        ("CREATE USER reader WITHOUT LOGIN", 15023),
        ("CREATE USER x FOR LOGIN nosuch", 15007),
        ("CREATE USER x FOR LOGIN reader", 15063),
        ("DROP USER nosuch", 15151),
        ("DROP LOGIN nosuch", 15151),
        ("DROP ROLE db_owner", 15150),
        ("GRANT SELECT ON nosuch TO reader", 15151),
        ("GRANT SELECT ON t TO nosuch", 15151),
        ("GRANT SELECT ON t TO dbo", 4624),
        ("GRANT VIEW SERVER STATE TO reader", 4621),
        ("GRANT UPDATE (id) ON t TO reader", 50001),
        ("GRANT BACKUP DATABASE TO reader", 50001),
        ("CREATE LOGIN [d\\x] FROM WINDOWS", 50001),
    ],
)
def test_the_errors_of_security_statements(client: Client, enter: Enter, sql: str, number: int) -> None:
    assert client.error(sql)[0] == number


def test_server_state_is_granted_in_master(client: Client, enter: Enter) -> None:
    client.run("USE master GRANT VIEW SERVER STATE TO reader")
    assert enter().value("SELECT COUNT(*) FROM sys.dm_exec_connections") >= 1  # type: ignore[operator]  # an int


def test_the_first_logins_are_sysadmins_and_enter_as_dbo(client: Client, enter: Enter) -> None:
    row = client.rows(
        "SELECT USER_NAME(), SUSER_SNAME(), IS_SRVROLEMEMBER('sysadmin'), IS_MEMBER('db_owner'), SUSER_ID('sa')"
    )
    assert row == [("dbo", "sa", 1, 1, 1)]
    assert enter().rows("SELECT CURRENT_USER, SYSTEM_USER, USER_ID(), USER_NAME(1)") == [("reader", "reader", 5, "dbo")]
