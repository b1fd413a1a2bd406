"""The extension's system views are read in FROM like catalog views: in every database, or in the one that their name gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from emulators.sqlserver.engine.extension import (
    CallContext,
    Database,
    LogState,
    ProcedureSpec,
    ScalarFunction,
    TableFunction,
)
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import Column, LoginRequest, Value
from emulators.sqlserver.sqltypes import SqlType
from tests.emulators.sqlserver.unit.engine.conftest import Client


class _Views:
    def detach(self, database: Database) -> None:
        pass

    def session_ended(self, session_id: int) -> None:
        pass

    def procedures(self) -> Mapping[str, ProcedureSpec]:
        return {}

    def scalar_functions(self) -> Mapping[str, ScalarFunction]:
        return {}

    def table_function(self, database: Database, schema: str, name: str) -> TableFunction | None:
        return None

    def views(self) -> Mapping[str, TableFunction]:
        columns = (Column("job", SqlType("sysname", 128)), Column("number", SqlType("int")))
        return {
            "sys.dm_cdc_errors": TableFunction(0, columns, _rows),
            "msdb.dbo.cdc_jobs": TableFunction(0, columns, _rows),
        }

    def log(self, database: Database) -> LogState | None:
        return None

    def attach(self, database: Database) -> None:
        return None

    def close(self) -> None:
        return None


def _rows(context: CallContext, arguments: Sequence[Value]) -> Iterator[tuple[Value, ...]]:
    yield context.database.name, 7


@pytest.fixture
def viewer() -> Iterator[Client]:
    engine = SqlEngine(users={"sa": "secret"}, databases=["demo"], extension=_Views())
    yield Client(engine.login(LoginRequest("sa", "secret", "demo")))
    engine.close()


def test_a_view_of_every_database_is_asked_for_the_database_it_is_read_in(viewer: Client) -> None:
    assert viewer.rows("SELECT * FROM sys.dm_cdc_errors WHERE number = 7") == [("demo", 7)]
    assert viewer.rows("SELECT job FROM master.sys.dm_cdc_errors") == [("master",)]


def test_a_view_of_one_database_is_in_that_database_alone(viewer: Client) -> None:
    assert viewer.rows("SELECT j.Job FROM msdb.dbo.cdc_jobs AS j") == [("msdb",)]
    assert viewer.error("SELECT * FROM dbo.cdc_jobs") == (208, "Invalid object name 'dbo.cdc_jobs'.")
    assert viewer.rows("USE msdb SELECT number FROM dbo.cdc_jobs") == [(7,)]
