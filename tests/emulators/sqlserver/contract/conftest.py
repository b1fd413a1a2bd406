"""The contract's fixtures: a server (the emulator, or DSTREAM_TEST_SQLSERVER), both drivers, a database a test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from pydantic import SecretStr

from common.sqladdress import SqlAddress
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.extension import CdcExtension
from emulators.sqlserver.cdc.options import CdcOptions
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.server import SqlServerEmulator
from tests.contracts.contract_plugin import ContractPlugin
from tests.emulators.sqlserver.contract.client import DRIVERS, Connection, Database, Server
from tests.emulators.sqlserver.contract.known_gaps import GAPS
from tests.emulators.sqlserver.contract.labels import CONTRACT

REAL = os.environ.get("DSTREAM_TEST_SQLSERVER", "").strip()
USER, PASSWORD = "sa", "contract-Password-1"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "one_driver(name, reason): is about one driver only")
    config.pluginmanager.register(ContractPlugin(CONTRACT, GAPS, "a real server" if REAL else None, names_of))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "driver" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("one_driver")
        metafunc.parametrize("driver", [only.args[0]] if only else DRIVERS)


def names_of(test: pytest.Function) -> tuple[str, ...]:
    """name[case] for a case in all drivers, name[driver-case] for one through one driver, and the name alone."""
    _, _, case = test.name.removesuffix("]").partition("[")
    _, found, without_driver = case.partition("-")
    in_all_drivers = f"{test.originalname}[{without_driver}]" if found else test.originalname
    return in_all_drivers, test.name, test.originalname


@pytest.fixture(scope="session")
def engine() -> Iterator[SqlEngine]:
    """The emulator's engine for the whole run, its capture jobs in a hurry. Only for the server, and for injection."""
    made = build_engine(users={USER: PASSWORD}, capture_interval=0.05, capture=CdcOptions(first_entry=True))
    assert isinstance(made, SqlEngine)
    yield made
    made.close()


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """The real server when there is one, else the emulator."""
    if REAL:
        yield Server(SqlAddress.parse(REAL), real=True)
        return
    with SqlServerEmulator(request.getfixturevalue("engine")) as emulator:
        address = SqlAddress("127.0.0.1", emulator.port, None, "master", USER, SecretStr(PASSWORD))
        yield Server(address, real=False)


@pytest.fixture
def log_of(engine: SqlEngine) -> Callable[[Database], DatabaseCdc]:
    """Where to inject log records of a database: the emulator's own, for item 53 alone."""

    def find(database: Database) -> DatabaseCdc:
        stored = engine.find(database.database)
        assert stored is not None
        assert isinstance(engine.extension, CdcExtension)
        state = engine.extension.find(stored)
        assert state is not None
        return state

    return find


@pytest.fixture
def database(server: Server, driver: str) -> Iterator[Database]:
    """A new database, without Change Data Capture."""
    made = Database(server, driver)
    yield made
    made.drop()


@pytest.fixture
def cdc(database: Database) -> Database:
    """A new database with Change Data Capture and a table, dbo.Persons, that is not yet captured."""
    database.run("EXEC sys.sp_cdc_enable_db")
    database.run(
        "CREATE TABLE dbo.Persons (ID int NOT NULL PRIMARY KEY, FirstName nvarchar(50) NULL, LastName nvarchar(50) NULL)"
    )
    return database


@pytest.fixture
def persons(cdc: Database) -> Database:
    """The same with the table captured."""
    cdc.enable()
    return cdc


@pytest.fixture
def connection(server: Server, driver: str) -> Iterator[Connection]:
    """A connection to master."""
    with Connection(server, driver, "master") as made:
        yield made
