"""Items 91 and 92: databases with a single user, and databases that are offline."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import pymssql
import pytds
import pytest

from tests.emulators.sqlserver.contract.client import PATIENCE, Connection, Database, Refused, Server
from tests.emulators.sqlserver.contract.labels import item


@pytest.fixture
def master(connection: Connection) -> Connection:
    """A session in master; a database has its own first session beside it."""
    return connection


def access(asker: Connection, name: str) -> tuple[Any, ...]:
    (row,) = asker.rows(
        "SELECT user_access, user_access_desc, state, state_desc, CONVERT(nvarchar(60), DATABASEPROPERTYEX(name, 'UserAccess')), "
        f"CONVERT(nvarchar(60), DATABASEPROPERTYEX(name, 'Status')) FROM sys.databases WHERE name = N'{name}'"
    )
    return row


def ended(connection: Connection) -> bool:
    try:
        connection.value("SELECT 1")
    except (Refused, pymssql.Error, pytds.tds_base.Error, OSError):
        return True
    return False


def refused_login(server: Server, name: str) -> int:
    """Asked through python-tds: pymssql keeps the first failed login of the process for all that follow."""
    with pytest.raises(Refused) as refused:
        Connection(server, "pytds", name)
    return refused.value.number


def numbers(connection: Connection, sql: str) -> set[int]:
    """Those of the error that the driver reports; of several, each reports one of its own choice."""
    return {connection.error(sql).number}


@item(91, "documented")
def test_single_user_ends_other_sessions_and_lets_nobody_else_in(
    server: Server, database: Database, master: Connection
) -> None:
    """Their transactions are rolled back; who set it has the database alone, until it leaves.

    Source: Microsoft, "ALTER DATABASE SET options (Transact-SQL)", SINGLE_USER; "Set a database to single-user mode"; "Database engine
    events and errors", 924 and 4060.
    """
    name = database.database
    database.run("CREATE TABLE dbo.t (n int NOT NULL)")
    other = database.another()
    other.run("BEGIN TRAN INSERT INTO dbo.t VALUES (1)")
    database.run(f"ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
    assert ended(other)
    assert database.value("SELECT COUNT(*) FROM dbo.t") == 0
    assert access(master, name) == (1, "SINGLE_USER", 0, "ONLINE", "SINGLE_USER", "ONLINE")
    assert master.error(f"USE {name}").number == 924
    assert master.error(f"SELECT n FROM {name}.dbo.t").number == 924
    assert refused_login(server, name) in (4060, 18456)
    assert master.value(f"SELECT HAS_DBACCESS(N'{name}')") == 0
    database.run("USE master")
    master.run(f"USE {name}")
    assert database.error(f"USE {name}").number == 924
    assert numbers(database, f"ALTER DATABASE {name} SET MULTI_USER") <= {5064, 5069}
    master.run(f"ALTER DATABASE {name} SET MULTI_USER")
    database.run(f"USE {name}")
    assert access(master, name) == (0, "MULTI_USER", 0, "ONLINE", "MULTI_USER", "ONLINE")


@item(91, "documented")
def test_who_is_alone_in_a_database_drops_it(database: Database, master: Connection) -> None:
    """With Change Data Capture too, once its session is not in it.

    Source: Microsoft, "DROP DATABASE (Transact-SQL)"; "ALTER DATABASE SET options (Transact-SQL)", SINGLE_USER.
    """
    name = database.database
    database.run("EXEC sys.sp_cdc_enable_db CREATE TABLE dbo.t (n int NOT NULL)")
    database.enable("t")
    master.run(f"USE {name} ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
    master.run("USE master")
    master.run(f"DROP DATABASE {name}")
    assert master.value(f"SELECT DB_ID(N'{name}')") is None
    master.run(f"CREATE DATABASE {name}")


@item(91, "documented")
def test_no_wait_is_refused_while_others_are_there(database: Database, master: Connection) -> None:
    """5070, and 5069 behind it; the database stays as it is.

    Source: Microsoft, "ALTER DATABASE SET options (Transact-SQL)", WITH termination; "Database engine events and errors", 5069 and 5070.
    """
    for option in ("SINGLE_USER", "OFFLINE"):
        failing = f"ALTER DATABASE {database.database} SET {option} WITH NO_WAIT"
        assert numbers(master, failing) <= {5070, 5069}
    assert access(master, database.database)[:4] == (0, "MULTI_USER", 0, "ONLINE")


@item(91, "documented")
@pytest.mark.parametrize("option", ["SINGLE_USER", "OFFLINE"])
def test_without_a_termination_clause_it_waits_whatever_the_lock_timeout_is(
    database: Database, master: Connection, option: str
) -> None:
    """Until the others have left.

    Source: Microsoft, "ALTER DATABASE SET options (Transact-SQL)", WITH termination; "SET LOCK_TIMEOUT (Transact-SQL)", remarks.
    """
    master.run("SET LOCK_TIMEOUT 0")
    waiting = threading.Thread(
        target=master.run, args=(f"ALTER DATABASE {database.database} SET {option}",), daemon=True
    )
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    database.run("USE master")
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    with suppress(Refused):
        database.run(f"ALTER DATABASE {database.database} SET ONLINE")
    master.run(f"ALTER DATABASE {database.database} SET MULTI_USER")


@item(91, "documented")
def test_rollback_after_some_seconds_gives_the_others_that_time(database: Database, master: Connection) -> None:
    """A session that leaves in time goes on.

    Source: Microsoft, "ALTER DATABASE SET options (Transact-SQL)", ROLLBACK AFTER.
    """
    waiting = threading.Thread(
        target=master.run,
        args=(f"ALTER DATABASE {database.database} SET SINGLE_USER WITH ROLLBACK AFTER 60 SECONDS",),
        daemon=True,
    )
    waiting.start()
    waiting.join(0.2)
    database.run("USE master")
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    assert not ended(database)
    database.run(f"ALTER DATABASE {database.database} SET MULTI_USER")


@item(91, "documented")
def test_restricted_user_lets_owners_in(server: Server, driver: str, database: Database) -> None:
    """Members of db_owner, dbcreator and sysadmin; others are ended.

    Source: Microsoft, "ALTER DATABASE SET options (Transact-SQL)", RESTRICTED_USER; "Database engine events and errors", 923.
    """
    name = database.database
    login = f"{name}_login"
    database.run(f"CREATE LOGIN {login} WITH PASSWORD = 'Restricted-Password-1' CREATE USER {login} FOR LOGIN {login}")
    try:
        plain = _as(server, driver, login, name)
        database.run(f"ALTER DATABASE {name} SET RESTRICTED_USER WITH ROLLBACK IMMEDIATE")
        assert ended(plain)
        plain.close()
        assert access(database, name)[:2] == (2, "RESTRICTED_USER")
        elsewhere = _as(server, driver, login, "master")
        assert elsewhere.error(f"USE {name}").number == 923
        database.run(f"ALTER ROLE db_owner ADD MEMBER {login}")
        elsewhere.run(f"USE {name}")
        elsewhere.close()
        database.another().close()
    finally:
        database.run(f"ALTER DATABASE {name} SET MULTI_USER DROP USER {login} DROP LOGIN {login}")


def _as(server: Server, driver: str, login: str, name: str) -> Connection:
    address = server.address
    theirs = Server(
        type(address)(
            address.host, address.port, address.instance, name, login, type(address.password)("Restricted-Password-1")
        ),
        server.real,
    )
    return Connection(theirs, driver, name)


@item(92, "documented")
def test_offline_ends_sessions_and_refuses_everybody(server: Server, database: Database, master: Connection) -> None:
    """942 by name and by USE, 4060 at login; rows are back with ONLINE.

    Source: Microsoft, "ALTER DATABASE SET options (Transact-SQL)", OFFLINE; "sys.databases (Transact-SQL)", state;
    "HAS_DBACCESS (Transact-SQL)"; "Database engine events and errors", 942 and 4060.
    """
    name = database.database
    database.run("CREATE TABLE dbo.t (n int NOT NULL) INSERT INTO dbo.t VALUES (1)")
    master.run(f"ALTER DATABASE {name} SET OFFLINE WITH ROLLBACK IMMEDIATE")
    assert ended(database)
    assert access(master, name) == (0, "MULTI_USER", 6, "OFFLINE", "MULTI_USER", "OFFLINE")
    assert master.value(f"SELECT collation_name FROM sys.databases WHERE name = N'{name}'") is None
    assert master.error(f"USE {name}").number == 942
    assert master.error(f"SELECT n FROM {name}.dbo.t").number == 942
    assert master.error(f"INSERT INTO {name}.dbo.t VALUES (2)").number == 942
    assert master.rows(f"SELECT HAS_DBACCESS(N'{name}'), OBJECT_ID(N'{name}.dbo.t'), DB_NAME(DB_ID(N'{name}'))") == [
        (0, None, name)
    ]
    assert refused_login(server, name) in (4060, 18456)
    master.run(f"ALTER DATABASE {name} SET ONLINE")
    assert access(master, name)[2:4] == (0, "ONLINE")
    assert master.value(f"SELECT HAS_DBACCESS(N'{name}')") == 1
    assert master.rows(f"SELECT n FROM {name}.dbo.t") == [(1,)]


@item(92, "measured")
def test_who_takes_its_own_database_offline_goes_on_in_master(database: Database) -> None:
    """5068 says so.

    Source: Microsoft, "Database engine events and errors", 5068; scripts of others with its text behind SET OFFLINE.
    """
    name = database.database
    database.run(f"ALTER DATABASE {name} SET OFFLINE WITH ROLLBACK IMMEDIATE")
    assert database.value("SELECT DB_NAME()") == "master"
    database.run(f"ALTER DATABASE {name} SET ONLINE")
    database.run(f"USE {name}")


@item(92, "documented")
def test_changes_are_captured_when_the_database_is_back(cdc: Database, server: Server, driver: str) -> None:
    """Those that were captured are there, and those that waited in the log come.

    Source: Microsoft, "ALTER DATABASE SET options (Transact-SQL)", OFFLINE closes the database; "About change data capture (SQL Server)":
    what is not captured stays in the log.
    """
    name = cdc.database
    cdc.enable()
    cdc.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    cdc.captured(1)
    cdc.run("INSERT INTO dbo.Persons (ID) VALUES (2)")
    with Connection(server, driver, "master") as master:
        master.run(f"ALTER DATABASE {name} SET OFFLINE WITH ROLLBACK IMMEDIATE")
        assert master.value(f"SELECT CONVERT(int, is_cdc_enabled) FROM sys.databases WHERE name = N'{name}'") == 1
        jobs = f"SELECT COUNT(*) FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID(N'{name}')"
        assert master.value(jobs) == 2
        time.sleep(0.2)  # the job's interval here; on a real server its step fails and is tried again
        master.run(f"ALTER DATABASE {name} SET ONLINE")
        if server.real:
            master.run(f"USE {name} EXEC sys.sp_cdc_start_job")
    cdc.reopen()
    cdc.captured(2)


@item(92, "documented")
def test_databases_of_the_system_stay_as_they_are(database: Database) -> None:
    """5058.

    Source: Microsoft, "ALTER DATABASE SET options (Transact-SQL)"; "Database engine events and errors", 5058.
    """
    assert numbers(database, "ALTER DATABASE tempdb SET OFFLINE") <= {5058, 5069}


@item(92, "documented")
def test_alter_database_runs_outside_transactions(database: Database) -> None:
    """226.

    Source: Microsoft, "ALTER DATABASE (Transact-SQL)", remarks; "Database engine events and errors", 226.
    """
    assert database.error(f"BEGIN TRAN ALTER DATABASE {database.database} SET ONLINE").number == 226
    database.run("IF @@TRANCOUNT > 0 ROLLBACK")
