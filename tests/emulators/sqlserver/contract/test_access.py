"""Item 73: who may read what is captured, and who may change what is."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pydantic import SecretStr

from tests.emulators.sqlserver.contract.client import Connection, Database
from tests.emulators.sqlserver.contract.labels import item

READ = (
    "SELECT ID FROM cdc.fn_cdc_get_all_changes_dbo_Persons("
    "sys.fn_cdc_get_min_lsn(N'dbo_Persons'), sys.fn_cdc_get_max_lsn(), N'all')"
)
JOBS = "SELECT job_type FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID() ORDER BY job_type"


@pytest.fixture
def gated(cdc: Database) -> Database:
    """Persons behind role readers, with one captured row."""
    cdc.enable(role_name="N'readers'")
    cdc.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    cdc.captured(1)
    return cdc


@pytest.fixture
def reader(gated: Database) -> Iterator[Connection]:
    """A user without rights, whose name is `reader`."""
    login, password = f"contract_{uuid.uuid4().hex[:8]}", "Reader-Password-1"
    gated.run(f"CREATE LOGIN {login} WITH PASSWORD = N'{password}'")
    gated.run(f"CREATE USER reader FOR LOGIN {login}")
    address = replace(gated.server.address, user=login, password=SecretStr(password))
    with Connection(replace(gated.server, address=address), gated.driver, gated.database) as made:
        yield made
    gated.run(f"DROP LOGIN {login}")


@item(73, "documented")
def test_the_functions_are_for_the_gating_role_and_who_may_select_from_the_table(
    gated: Database, reader: Connection
) -> None:
    """229 for everybody else.

    Source: Microsoft, "sys.sp_cdc_enable_table (Transact-SQL)", @role_name.
    """
    assert reader.error(READ).number == 229
    gated.run("ALTER ROLE readers ADD MEMBER reader")
    gated.run("GRANT SELECT ON dbo.Persons TO reader")
    assert reader.column(READ) == [1]


@item(73, "documented")
def test_who_is_not_an_owner_changes_nothing_about_capture(reader: Connection) -> None:
    """22902 for the database, 22904 for its tables.

    Source: Microsoft, "Database engine events and errors", 22902 and 22904.
    """
    assert reader.error("EXEC sys.sp_cdc_disable_db").number in (22902, 22904)
    assert reader.error("EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'all'").number == 22904


@item(73, "documented")
def test_the_jobs_in_msdb_are_for_who_may_select_from_their_table(gated: Database, reader: Connection) -> None:
    """Everybody is guest in msdb; the right takes a user.

    Source: Microsoft, "dbo.cdc_jobs (Transact-SQL)"; Microsoft, "GRANT Object Permissions (Transact-SQL)".
    """
    assert reader.error(JOBS).number == 229
    login = reader.value("SELECT SUSER_SNAME()")
    gated.run(f"USE msdb; CREATE USER {login} FOR LOGIN {login}; GRANT SELECT ON OBJECT::dbo.cdc_jobs TO {login}")
    try:
        assert reader.column(JOBS) == ["capture", "cleanup"]
    finally:
        gated.run(f"USE msdb; DROP USER {login}; USE {gated.database}")


@item(73, "documented")
def test_the_views_of_log_scans_take_a_permission_on_the_databases_state(gated: Database, reader: Connection) -> None:
    """262 without VIEW DATABASE STATE.

    Source: Microsoft, "sys.dm_cdc_log_scan_sessions (Transact-SQL)"; Microsoft, "sys.dm_cdc_errors (Transact-SQL)".
    """
    for view in ("sys.dm_cdc_log_scan_sessions", "sys.dm_cdc_errors"):
        assert reader.error(f"SELECT session_id FROM {view}").number == 262
    gated.run("GRANT VIEW DATABASE STATE TO reader")
    assert reader.value("SELECT COUNT(*) FROM sys.dm_cdc_errors") == 0
