"""The contract's fixtures: a server (the emulator, or DSTREAM_TEST_SQLSERVER), both drivers, a database a test; and its summary.

On the emulator a test of known_gaps.py must fail; on a real server a failing `unverified` test is reported, not failed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from common.sqladdress import SqlAddress
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.extension import CdcExtension
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.server import SqlServerEmulator
from tests.contracts.sqlserver.contract.client import DRIVERS, Connection, Database, Server
from tests.contracts.sqlserver.contract.known_gaps import GAPS
from tests.contracts.sqlserver.contract.labels import COLLECTED, LABELS, MARK, Claim, claim_of, strongest

REAL = os.environ.get("DSTREAM_TEST_SQLSERVER", "").strip()
USER, PASSWORD = "sa", "contract-Password-1"

_claims = pytest.StashKey[list[Claim]]()
_reports = pytest.StashKey[list[str]]()
_gaps = pytest.StashKey[set[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}(number, label): a test of the SQL Server contract")
    config.addinivalue_line("markers", "emulator_only(reason): cannot run on a real server")
    config.addinivalue_line("markers", "one_driver(name, reason): is about one driver only")
    config.stash[_claims] = []
    config.stash[_reports] = []
    config.stash[_gaps] = set()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "driver" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("one_driver")
        metafunc.parametrize("driver", [only.args[0]] if only else DRIVERS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = []
    config.stash[COLLECTED] = frozenset(
        name for test in items if isinstance(test, pytest.Function) for name in (test.name, _in_all_drivers(test))
    )
    for test in items:
        if not isinstance(test, pytest.Function) or (claim := claim_of(test.function)) is None:
            continue
        config.stash[_claims].append(claim)
        if REAL and test.get_closest_marker("emulator_only"):
            left_out.append(test)
        reason = gap_of(test)
        if reason is not None and not REAL:
            config.stash[_gaps].add(f"{claim.number} {_in_all_drivers(test)}: {reason}")
            test.add_marker(pytest.mark.xfail(reason=f"known gap: {reason}", strict=True))
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [test for test in items if test not in left_out]


def _in_all_drivers(test: pytest.Function) -> str:
    """name[case] of name[driver-case]."""
    _, _, case = test.name.removesuffix("]").partition("[")
    _, found, without_driver = case.partition("-")
    return f"{test.originalname}[{without_driver}]" if found else test.originalname


def gap_of(test: pytest.Function) -> str | None:
    """The reason of a known gap: of the case in all drivers, of the case in this driver, or of the whole test."""
    names = (_in_all_drivers(test), test.name, test.originalname)
    return next((GAPS[name] for name in names if name in GAPS), None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """What nobody has verified is news on a real server, not a failure."""
    report = yield
    if REAL and report.failed and call.excinfo is not None and isinstance(item, pytest.Function):
        claim = claim_of(item.function)
        if claim is not None and claim.label == "unverified":
            item.config.stash[_reports].append(f"{claim.number} {item.name}: {call.excinfo.exconly()[:300]}")
            report.outcome, report.wasxfail = "skipped", "reported: unverified"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    collected = config.stash[_claims]
    claims = set(collected)
    if not claims:
        return
    items, tests = Counter(strongest(claims).values()), Counter(claim.label for claim in claims)
    terminalreporter.section("SQL Server contract", sep="-")
    for what, counted in (("items, by their surest test", items), ("tests", tests)):
        by_label = ", ".join(f"{counted[label]} {label}" for label in LABELS)
        terminalreporter.line(f"{counted.total()} {what}: {by_label}; on {'a real server' if REAL else 'the emulator'}")
    gaps = config.stash[_gaps]
    for title, lines in (("known gap", sorted(gaps)), ("REPORT", config.stash[_reports])):
        for line in lines:
            terminalreporter.line(f"{title}: {line}")


@pytest.fixture(scope="session")
def engine() -> Iterator[SqlEngine]:
    """The emulator's engine for the whole run, its capture jobs in a hurry. Only for the server, and for injection."""
    made = build_engine(users={USER: PASSWORD}, capture_interval=0.05)
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
