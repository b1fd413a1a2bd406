"""What is left of statements that an ATTENTION or a KILL ends, over the wire.

Source: MS-TDS 2.2.1.7 (Attention); https://learn.microsoft.com/sql/t-sql/language-elements/kill-transact-sql
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytds
import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator
from tests.emulators.sqlserver.wire.test_kill import connect, run, spid
from tests.worlds.world import wait_until

ROWS = 3000
LONG = "SELECT COUNT_BIG(*) FROM big a, big b, big c WHERE a.i + b.i + c.i < 0"


@pytest.fixture
def server() -> Iterator[SqlServerEmulator]:
    engine = build_engine(users={"sa": "secret"}, databases=["demo"])
    with SqlServerEmulator(engine) as running:
        with connect(running) as first:
            run(first, "CREATE TABLE big (i int, c char(200) NOT NULL DEFAULT '') CREATE TABLE copy (i int)")
            for begin in range(0, ROWS, 1000):
                run(first, f"INSERT big (i) VALUES {', '.join(f'({i})' for i in range(begin, begin + 1000))}")
        yield running
    engine.close()


def attention(connection: Any, sql: str, after: float) -> float:
    """Send a batch and then an ATTENTION; the seconds from that to its acknowledgement."""
    session = connection._tds_socket.main_session
    session.submit_plain_query(sql)
    time.sleep(after)
    begin = time.monotonic()
    session.cancel_if_pending()
    return time.monotonic() - begin


def test_an_attention_ends_a_loop_and_what_stands_behind_it(server: SqlServerEmulator) -> None:
    with connect(server) as connection:
        attention(connection, "SET NOCOUNT ON; WHILE 1=1 BEGIN DECLARE @i int=1 END; DELETE big", 0.1)
        assert run(connection, "SELECT COUNT(*) FROM big")[0][0] == ROWS


def test_an_attention_ends_a_query_that_runs_long(server: SqlServerEmulator) -> None:
    with connect(server) as connection:
        assert attention(connection, LONG, 0.2) < 60
        assert run(connection, "SELECT 1")[0][0] == 1


def test_rollback_immediate_ends_a_query_that_runs_long(server: SqlServerEmulator) -> None:
    with connect(server) as admin, connect(server) as victim:
        victim._tds_socket.main_session.submit_plain_query(LONG)
        time.sleep(0.2)
        run(admin, "USE demo")
        begin = time.monotonic()
        run(admin, "ALTER DATABASE demo SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
        assert time.monotonic() - begin < 60


@pytest.mark.parametrize("after", [0.0, 0.01, 0.03, 0.1])
def test_a_killed_session_never_ends_its_result_set_early(server: SqlServerEmulator, after: float) -> None:
    """All rows, or an error."""
    with connect(server) as admin, connect(server) as victim:
        number, found = spid(victim), 0
        kill = threading.Timer(after, lambda: run(admin, f"KILL {number}"))
        kill.start()
        try:
            for _ in range(1000):
                found = len(run(victim, "SELECT i, c FROM big"))
                assert found == ROWS
        except (pytds.Error, OSError):
            pass
        kill.join(60)
        assert found in (0, ROWS)


def test_an_insert_of_what_a_text_returns_is_rolled_back_by_a_kill(server: SqlServerEmulator) -> None:
    with connect(server) as admin, connect(server) as victim:
        number = spid(victim)
        victim._tds_socket.main_session.submit_plain_query(
            "INSERT copy EXEC('SELECT a.i FROM big a, big b WHERE b.i < 500')"
        )
        time.sleep(0.2)
        run(admin, f"KILL {number}")
        wait_until(lambda: server.connections == 1, "the connection of the killed session ends")
        assert run(admin, "SELECT COUNT(*) FROM copy")[0][0] == 0
