"""A statement that fails inside a transaction leaves nothing: no row, no definition, no trace in the log that capture reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulators.sqlserver.cdc.extension import CdcExtension
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import LoginRequest

from .conftest import NOW, Client


@pytest.fixture
def captured() -> Iterator[Client]:
    """A session in a database whose table t is under Change Data Capture; capture runs when sys.sp_cdc_scan is called."""
    engine = SqlEngine(
        users={"sa": "secret"}, databases=["demo"], extension=CdcExtension(capture_interval=3600.0), clock=lambda: NOW
    )
    client = Client(engine.login(LoginRequest("sa", "secret", "demo")))
    client.run(
        "CREATE TABLE t (id int PRIMARY KEY, v nvarchar(10)) INSERT t VALUES (1, N'a') EXEC sys.sp_cdc_enable_db"
    )
    client.run("EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = NULL")
    client.run("EXEC sys.sp_cdc_stop_job @job_type = N'capture'")
    yield client
    engine.close()


def test_a_failed_alter_table_is_not_in_ddl_history(captured: Client) -> None:
    captured.run("BEGIN TRAN ALTER TABLE t ADD seen int NULL")
    with pytest.raises(Exception, match="ALTER TABLE only allows columns"):
        captured.run("ALTER TABLE t ADD x int NOT NULL")
    captured.run("IF @@TRANCOUNT > 0 COMMIT")
    captured.run("EXEC sys.sp_cdc_scan")
    assert captured.rows("SELECT ddl_command FROM cdc.ddl_history") == [("ALTER TABLE t ADD seen int NULL",)]


def test_a_failed_first_statement_leaves_no_row_in_ddl_history(captured: Client) -> None:
    captured.run("BEGIN TRAN")
    with pytest.raises(Exception, match="ALTER TABLE only allows columns"):
        captured.run("ALTER TABLE t ADD x int NOT NULL")
    captured.run("UPDATE t SET v = N'b' WHERE id = 1 COMMIT EXEC sys.sp_cdc_scan")
    assert captured.rows("SELECT ddl_command FROM cdc.ddl_history") == []
    assert captured.rows("SELECT __$operation, v FROM cdc.dbo_t_CT ORDER BY __$operation") == [(3, "a"), (4, "b")]


def test_a_schema_is_not_made_twice(captured: Client) -> None:
    captured.run("CREATE SCHEMA s")
    with pytest.raises(Exception, match="already an object named 'S'"):
        captured.session.engine.database("demo").create_schema("S")  # type: ignore[attr-defined]  # the engine's own session
