"""Fixtures that every suite may use: one SQL Server emulator a run, and the rule that CI skips nothing."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from hypothesis import settings
from typer import testing

from dstream.emulators import Login
from emulators.certificates import TlsSettings
from emulators.sqlserver.server import SqlServerEmulator
from tests import jvm_archive

# How long an example takes is the machine's matter, and whoever else works on it. Each run has other examples: few at a time are many in the end.
settings.register_profile("any machine", settings(), deadline=None, max_examples=50)
settings.load_profile("any machine")

jvm_archive.use()

# Typer builds all commands of an application again for each one that a test invokes: a third of the time of such a test.
testing._get_command = functools.cache(typer.main.get_command)  # type: ignore[attr-defined]  # its own name of it

USER, PASSWORD = "sa", "test-Password-1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Skipping is for laptops without a tool; in CI what is missing is an error."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands under test write to no person's own audit log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSTREAM_AUDIT_FILE", str(tmp_path_factory.mktemp("audit") / "audit.jsonl"))
        yield


@pytest.fixture(scope="session")
def sqlserver() -> Iterator[SqlServerEmulator]:
    """An emulator without databases of its own; capture runs when a test asks for a scan."""
    from emulators.sqlserver.build import build_engine  # loads the T-SQL parser: only for tests that want it

    engine = build_engine(users={USER: PASSWORD}, capture_interval=3600)
    with SqlServerEmulator(engine) as server:
        yield server
    engine.close()


@pytest.fixture(scope="session")
def tls() -> TlsSettings:
    """A certificate for localhost, with an authority of its own. SQL Server's tests have others: its TLS is older."""
    return TlsSettings.self_made()


@pytest.fixture(scope="session")
def ca(tls: TlsSettings, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of that authority's certificate."""
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    path.write_text(tls.authority)
    return str(path)


_made = 0


@pytest.fixture
def login(sqlserver: SqlServerEmulator) -> Iterator[Login]:
    """A new database; its capture job, if a test started one, is ended afterwards."""
    global _made
    _made += 1
    name = f"test{_made}"
    master = Login("127.0.0.1", sqlserver.port, USER, PASSWORD, "master")
    with master.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    made = Login("127.0.0.1", sqlserver.port, USER, PASSWORD, name)
    yield made
    with made.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "IF EXISTS (SELECT 1 FROM sys.databases WHERE name = DB_NAME() AND is_cdc_enabled = 1) EXEC sys.sp_cdc_disable_db"
        )
