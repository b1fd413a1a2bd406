"""The gating role and the permissions of a login, as an unmodified client meets them: on the emulator and, where DSTREAM_TEST_SQLSERVER
names one, on a real server. D: documented.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pymssql
import pytest

from tests.emulators.sqlserver.wire.cdc_client import Client, database_with_persons, server

CALL = (
    "SELECT ID FROM cdc.fn_cdc_get_all_changes_dbo_Persons("
    "sys.fn_cdc_get_min_lsn('dbo_Persons'), sys.fn_cdc_get_max_lsn(), N'all')"
)


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    with server() as found:
        yield found


@pytest.fixture
def client(options: dict[str, Any]) -> Iterator[Client]:
    with database_with_persons(options) as made:
        yield made


@pytest.fixture
def reader(client: Client, options: dict[str, Any]) -> Iterator[Any]:
    """A cursor of a user without rights; Persons is behind role readers and holds one captured row."""
    name, password = f"reader_{uuid.uuid4().hex[:8]}", "Reader-Password-1"
    client.run(f"CREATE LOGIN {name} WITH PASSWORD = N'{password}'")
    client.run(f"CREATE USER reader FOR LOGIN {name}")
    client.run("EXEC sys.sp_cdc_enable_table N'dbo', N'Persons', @role_name = N'readers'")
    client.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    client.captured(1)
    given = {**options, "user": name, "password": password, "database": client.database, "autocommit": True}
    with pymssql.connect(**given) as connection, connection.cursor() as cursor:
        yield cursor
    client.run(f"DROP LOGIN {name}")


def number_of(cursor: Any, sql: str) -> int:
    with pytest.raises(pymssql.Error) as refused:
        cursor.execute(sql)
    number: int = refused.value.args[0]
    return number


def test_the_gating_role_and_select_open_the_change_data(client: Client, reader: Any) -> None:
    """D: members of the role that may SELECT the captured columns of the source."""
    assert number_of(reader, CALL) == 229
    client.run("ALTER ROLE readers ADD MEMBER reader")
    client.run("GRANT SELECT ON dbo.Persons TO reader")
    reader.execute(CALL)
    assert reader.fetchall() == [(1,)]


def test_a_user_who_is_no_owner_changes_nothing_about_capture(reader: Any) -> None:
    """D: 22902 for the database, 22904 for its tables."""
    assert number_of(reader, "EXEC sys.sp_cdc_disable_db") in (22902, 22904)
    assert number_of(reader, "EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'") == 22904


def test_the_jobs_in_msdb_are_shown_to_those_who_may_select_them(client: Client, reader: Any) -> None:
    """D: a table of msdb; everybody is guest there (GRANT Object Permissions, dbo.cdc_jobs)."""
    asked = "SELECT job_type, retention FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID() ORDER BY job_type"
    assert number_of(reader, asked) == 229
    reader.execute("SELECT SUSER_SNAME()")
    (login,) = reader.fetchone()
    client.run(
        f"USE msdb; CREATE USER {login} FOR LOGIN {login}; GRANT SELECT ON OBJECT::dbo.cdc_jobs TO {login}; "
        f"USE {client.database}"
    )
    reader.execute(asked)
    assert reader.fetchall() == [("capture", 0), ("cleanup", 4320)]
    client.run(f"USE msdb; DROP USER {login}; USE {client.database}")


def test_the_views_of_scans_want_a_permission_on_the_databases_state(client: Client, reader: Any) -> None:
    """D: VIEW DATABASE STATE, on the pages of both views."""
    for view in ("sys.dm_cdc_log_scan_sessions", "sys.dm_cdc_errors"):
        assert number_of(reader, f"SELECT session_id FROM {view}") == 262
    client.run("GRANT VIEW DATABASE STATE TO reader")
    reader.execute("SELECT COUNT(*) FROM sys.dm_cdc_errors")
    assert reader.fetchone() == (0,)


def test_capture_that_could_not_be_switched_off_keeps_its_user(client: Client, options: dict[str, Any]) -> None:
    """D, of the page sys.sp_cdc_disable_db: the user cdc goes with the schema."""
    users = "SELECT COUNT(*) FROM sys.database_principals WHERE name = N'cdc'"
    with pymssql.connect(**{**options, "database": client.database, "autocommit": True}) as other:
        cursor = other.cursor()
        cursor.execute("BEGIN TRAN INSERT INTO dbo.Persons (ID) VALUES (1)")
        with pytest.raises(pymssql.Error, match="1222"):
            client.run("SET LOCK_TIMEOUT 100 EXEC sys.sp_cdc_disable_db")
        cursor.execute("ROLLBACK")
    assert client.rows(users) == [(1,)]
    client.run("SET LOCK_TIMEOUT -1 EXEC sys.sp_cdc_disable_db")
    assert client.rows(users) == [(0,)]
