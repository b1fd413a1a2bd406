"""A change table whose rows do not fit the new type of their column: error 22976, and no change is captured under it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.results import LoginRequest

from .conftest import Client


@pytest.fixture
def captured() -> Iterator[Client]:
    engine = build_engine(users={"sa": "secret"}, databases=["demo"], capture_interval=3600)
    client = Client(engine.login(LoginRequest("sa", "secret", "demo")))
    client.run("EXEC sys.sp_cdc_enable_db")
    client.run("CREATE TABLE dbo.t (id int PRIMARY KEY, name nvarchar(10))")
    client.run("EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL")
    client.run("INSERT dbo.t VALUES (1, N'abcdef')")
    client.run("EXEC sys.sp_cdc_scan")
    yield client
    engine.close()


def test_rows_that_fit_are_converted(captured: Client) -> None:
    captured.run("UPDATE dbo.t SET name = N'x'")
    captured.run("ALTER TABLE dbo.t ALTER COLUMN name nvarchar(20)")
    captured.run("EXEC sys.sp_cdc_scan")
    assert captured.value("SELECT COL_LENGTH(N'cdc.dbo_t_CT', N'name')") == 40
    assert captured.rows("SELECT name FROM cdc.dbo_t_CT WHERE __$operation = 2") == [("abcdef",)]


def test_rows_that_would_be_cut_keep_the_table_as_it_is(captured: Client) -> None:
    captured.run("DELETE dbo.t")
    captured.run("ALTER TABLE dbo.t ALTER COLUMN name nvarchar(3)")
    assert captured.error("EXEC sys.sp_cdc_scan")[0] in (22859, 22976)
    assert captured.rows("SELECT name FROM cdc.dbo_t_CT") == [("abcdef",)]
    assert captured.value("SELECT COL_LENGTH(N'cdc.dbo_t_CT', N'name')") == 20
    assert 22976 in {row[0] for row in captured.rows("SELECT error_number FROM sys.dm_cdc_errors")}
