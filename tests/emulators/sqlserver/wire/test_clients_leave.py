"""Clients that come and go leave nothing behind: no open file of the databases that they read."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from dstream.emulators import Login
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator

CLIENTS = 20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts in /proc")
def test_no_file_stays_open_for_a_client_that_has_gone() -> None:
    engine = build_engine(users={"sa": "test-Password-1"}, databases=["shop"])
    try:
        with SqlServerEmulator(engine) as server:
            login = Login(server.host, server.port, "sa", "test-Password-1", "shop")
            visit(login, "EXEC sys.sp_cdc_enable_db")
            visit(login, "SELECT sys.fn_cdc_get_max_lsn()")
            before = files()
            for _ in range(CLIENTS):
                visit(login, "SELECT sys.fn_cdc_get_max_lsn()")
            deadline = time.monotonic() + 60
            while files() > before + CLIENTS // 4 and time.monotonic() < deadline:
                time.sleep(0.02)
            assert files() <= before + CLIENTS // 4
    finally:
        engine.close()


def visit(login: Login, sql: str) -> None:
    with login.connect() as connection, connection.cursor() as cursor:
        cursor.execute(sql)


def files() -> int:
    return sum(is_database(link) for link in Path("/proc/self/fd").iterdir())


def is_database(link: Path) -> bool:
    try:
        return ".sqlite" in str(link.readlink())
    except FileNotFoundError:  # closed since it was listed
        return False
