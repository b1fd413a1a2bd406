"""ATTENTION: an answer cut short, an abandoned result set, a cancel while the engine waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pymssql
import pytds
import pytest

from emulators.sqlserver.results import Event, ResultSet, SqlError, StatementDone, Value
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.sqltypes import SqlType
from tests.fakes.sql_engine import Column, ScriptedEngine, rows_of


class Endless:
    """A result set without end, which notes that batch and rows were let go of, in this order: rows first."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.rows: Iterator[list[Value]] = iter(())
        self.order: list[str] = []

    def script(self, session: Any, parameters: Any, cancelled: Any) -> Iterator[Event]:
        try:
            self.rows = self._rows()
            yield ResultSet([Column("n", SqlType("int")), Column("t", SqlType("nvarchar", 50))], self.rows)
        finally:
            self.order.append("batch")
            self.released.set()

    def _rows(self) -> Iterator[list[Value]]:
        n = 0
        try:
            while True:
                n += 1
                yield [n, "some text to fill packets with"]
        finally:
            self.order.append("rows")


@pytest.fixture
def endless() -> Endless:
    return Endless()


@pytest.fixture
def server(endless: Endless) -> Iterator[SqlServerEmulator]:
    engine = ScriptedEngine()
    engine.script("endless", endless.script)
    engine.script("endless @P1", endless.script)
    engine.script("one", lambda s, p, c: iter([rows_of({"n": SqlType("int")}, [[1]])]))
    engine.script("wait", _wait)
    with SqlServerEmulator(engine) as running:
        yield running


def _wait(session: Any, parameters: Any, cancelled: Any) -> Iterator[Event]:
    pause = threading.Event()
    while not cancelled():
        pause.wait(0.005)
    raise SqlError(1222, "the engine may raise when it is cancelled")
    yield StatementDone()


def _pymssql(server: SqlServerEmulator, **options: Any) -> Any:
    return pymssql.connect(
        server="127.0.0.1", port=str(server.port), user="sa", password="secret", autocommit=True, **options
    )


def _pytds(server: SqlServerEmulator, **options: Any) -> Any:
    return pytds.connect("127.0.0.1", port=server.port, user="sa", password="secret", autocommit=True, **options)


@pytest.mark.parametrize("connect", [_pymssql, _pytds])
def test_an_abandoned_result_set_does_not_spoil_the_next_query(
    connect: Any, endless: Endless, server: SqlServerEmulator
) -> None:
    with connect(server) as connection:
        cursor = connection.cursor()
        for _ in range(3):
            endless.released.clear()
            cursor.execute("endless")
            assert [cursor.fetchone()[0] for _ in range(100)] == list(range(1, 101))
            cursor.execute("one")
            assert [tuple(row) for row in cursor.fetchall()] == [(1,)]
            assert endless.released.wait(10)
    assert endless.order == ["rows", "batch"] * 3


def test_an_abandoned_rpc_does_not_spoil_the_next_query(endless: Endless, server: SqlServerEmulator) -> None:
    with _pytds(server) as connection:
        cursor = connection.cursor()
        cursor.execute("endless %s", (5,))
        assert cursor.fetchone()[0] == 1
        cursor.execute("one")
        assert cursor.fetchall() == [(1,)]
        assert endless.released.wait(10)


def test_a_cancel_that_comes_after_the_answer_is_acknowledged(server: SqlServerEmulator) -> None:
    with _pytds(server) as connection:
        cursor = connection.cursor()
        cursor.execute("one")
        cursor.cancel()
        cursor.execute("one")
        assert cursor.fetchall() == [(1,)]


def test_a_cancel_reaches_an_engine_that_waits(server: SqlServerEmulator) -> None:
    with _pytds(server) as connection:
        session = connection._tds_socket.main_session
        session.submit_plain_query("wait")
        session.cancel_if_pending()
        cursor = connection.cursor()
        cursor.execute("one")
        assert cursor.fetchall() == [(1,)]


def test_a_timeout_of_python_tds_cancels_and_the_connection_goes_on(server: SqlServerEmulator) -> None:
    with _pytds(server, timeout=2) as connection:
        with pytest.raises(pytds.TimeoutError):
            connection.cursor().execute("wait")
        cursor = connection.cursor()
        cursor.execute("one")
        assert cursor.fetchall() == [(1,)]


def test_a_timeout_of_pymssql_kills_the_connection_and_a_new_one_works(server: SqlServerEmulator) -> None:
    connection = _pymssql(server, timeout=1)
    with pytest.raises(pymssql.Error):
        connection.cursor().execute("wait")
    with _pymssql(server) as again:
        cursor = again.cursor()
        cursor.execute("one")
        assert cursor.fetchall() == [(1,)]
