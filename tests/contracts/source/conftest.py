"""A server of its own whose log a test may write to, and databases in it that the product's reader reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from dstream.emulators import Login
from emulators.sqlserver.build import build_engine, capture_of
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.injection import without_command_ids
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.server import SqlServerEmulator
from tests.contracts.source.test_source import Place

Places = Callable[..., Place]
Log = Callable[[Place], DatabaseCdc]
"""The log of a place's database, for the injector."""

_numbers = count(1)


@pytest.fixture(scope="module")
def engine() -> Iterator[SqlEngine]:
    made = build_engine(users={"sa": "test-Password-1"}, capture_interval=3600)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(engine: SqlEngine) -> Iterator[SqlServerEmulator]:
    with SqlServerEmulator(engine) as running:
        yield running


@pytest.fixture
def log(engine: SqlEngine) -> Log:
    return lambda place: capture_of(engine, place.login.database)


@pytest.fixture
def places(engine: SqlEngine, server: SqlServerEmulator) -> Iterator[Places]:
    """A new database with dbo.Persons under CDC: `places(before_images=True, query_mode="function")`."""
    made: list[Place] = []

    def make(*, command_ids: bool = True, **options: Any) -> Place:
        name = f"source{next(_numbers)}"
        engine.create_database(name)
        place = Place(Login("127.0.0.1", server.port, "sa", "test-Password-1", name), **options)
        made.append(place)
        if command_ids:
            place.enable()
        else:
            with without_command_ids(capture_of(engine, name)):
                place.enable()
        place.execute("EXEC sys.sp_cdc_stop_job")
        return place

    yield make
    for one in made:
        one.execute(
            "IF EXISTS (SELECT 1 FROM sys.databases WHERE name = DB_NAME() AND is_cdc_enabled = 1) EXEC sys.sp_cdc_disable_db"
        )
        one.close()
