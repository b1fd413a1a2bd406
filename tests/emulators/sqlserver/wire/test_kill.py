"""KILL, over the wire: the other client's connection ends, and what it had open is rolled back.

Source: https://learn.microsoft.com/sql/t-sql/language-elements/kill-transact-sql
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytds
import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator


@pytest.fixture
def server() -> Iterator[SqlServerEmulator]:
    engine = build_engine(users={"sa": "secret"}, databases=["demo"])
    with SqlServerEmulator(engine) as running:
        yield running
    engine.close()


def connect(server: SqlServerEmulator) -> Any:
    return pytds.connect("127.0.0.1", "demo", "sa", "secret", port=server.port, autocommit=True)


def run(connection: Any, sql: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []


def spid(connection: Any) -> int:
    return int(run(connection, "SELECT @@SPID")[0][0])


def test_kill_ends_the_others_connection_and_rolls_it_back(server: SqlServerEmulator) -> None:
    with connect(server) as admin, connect(server) as victim:
        run(admin, "CREATE TABLE t (id int)")
        run(victim, "BEGIN TRAN INSERT t VALUES (1)")
        run(admin, f"KILL {spid(victim)}")
        run(admin, "INSERT t VALUES (2)")  # waits for the roll-back
        assert [tuple(row) for row in run(admin, "SELECT id FROM t")] == [(2,)]
        with pytest.raises(pytds.Error):
            run(victim, "SELECT 1")


def test_kill_ends_a_statement_that_waits(server: SqlServerEmulator) -> None:
    with connect(server) as admin, connect(server) as victim:
        number, failed = spid(victim), threading.Event()

        def wait() -> None:
            try:
                run(victim, "WAITFOR DELAY '00:10:00'")
            except pytds.Error:
                failed.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        run(admin, f"KILL {number}")
        assert failed.wait(10)
        waiting.join(10)


def test_a_killed_session_is_no_longer_listed(server: SqlServerEmulator) -> None:
    with connect(server) as admin, connect(server) as victim:
        number = spid(victim)
        run(admin, f"KILL {number}")
        with pytest.raises(pytds.Error):
            run(victim, "SELECT 1")
        while server.connections > 1:  # its thread is on its way out
            run(admin, "WAITFOR DELAY '00:00:00.010'")
        with pytest.raises(pytds.Error) as gone:
            run(admin, f"KILL {number}")
        assert "6106" in repr(gone.value) or f"Process ID {number} is not an active process ID." in str(gone.value)
