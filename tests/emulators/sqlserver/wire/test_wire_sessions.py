"""Logins, result sets, errors and transactions over the wire, as pymssql and python-tds see them."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pymssql
import pytds
import pytest

from emulators.sqlserver.results import (
    ErrorMessage,
    Event,
    Info,
    ReturnStatus,
    RowCount,
    SqlError,
    StatementDone,
    Value,
)
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.sqltypes import MAX, SqlType
from tests.fakes.sql_engine import ScriptedEngine, rows_of
from tests.worlds.ports import free_port

INT = SqlType("int")
DRIVERS = ["pymssql", "pytds"]


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def server(engine: ScriptedEngine) -> Iterator[SqlServerEmulator]:
    with SqlServerEmulator(engine) as running:
        yield running


def connect(driver: str, server: SqlServerEmulator, **options: Any) -> Any:
    options = {"user": "sa", "password": "secret", "database": "demo", **options}
    if driver == "pymssql":
        return pymssql.connect(server="127.0.0.1", port=str(server.port), **options)
    return pytds.connect("127.0.0.1", port=server.port, **options)


def numbers(*values: Value) -> Any:
    """A script that answers with one column of integers."""
    return lambda s, p, c: iter([rows_of({"n": INT}, [[v] for v in values])])


# Login


def test_a_wrong_password_is_18456_and_the_connection_ends(server: SqlServerEmulator) -> None:
    with pytest.raises(pytds.OperationalError) as raised:
        connect("pytds", server, password="wrong")
    assert raised.value.args[0] == "Login failed for user 'sa'."
    # pymssql keeps the text of a failed login in module state and loses it at the next one: only the number is sure.
    with pytest.raises(pymssql.OperationalError) as failed:
        connect("pymssql", server, password="wrong")
    assert failed.value.args[0][0] == 18456


def test_an_unknown_database_is_4060_followed_by_18456(server: SqlServerEmulator) -> None:
    text = "Cannot open database \"nowhere\" requested by the login. The login failed. Login failed for user 'sa'."
    with pytest.raises(pytds.OperationalError) as raised:
        connect("pytds", server, database="nowhere")
    assert raised.value.args[0] == text


@pytest.mark.parametrize("version", ["7.1", "7.2"])
def test_a_protocol_older_than_7_3_is_refused(server: SqlServerEmulator, version: str) -> None:
    with pytest.raises(pymssql.OperationalError):
        connect("pymssql", server, tds_version=version)


@pytest.mark.parametrize("version", ["7.3", "7.4"])
def test_protocol_versions_7_3_and_7_4_are_spoken(
    engine: ScriptedEngine, server: SqlServerEmulator, version: str
) -> None:
    engine.script("q", numbers(1))
    with connect("pymssql", server, tds_version=version) as connection:
        cursor = connection.cursor()
        cursor.execute("q")
        assert cursor.fetchall() == [(1,)]


def test_a_client_that_requires_encryption_is_turned_away(server: SqlServerEmulator) -> None:
    with pytest.raises(pymssql.OperationalError):
        connect("pymssql", server, encryption="require")


def test_a_client_that_would_like_encryption_goes_on_without(engine: ScriptedEngine, server: SqlServerEmulator) -> None:
    engine.script("q", numbers(1))
    with connect("pymssql", server, encryption="request") as connection:
        cursor = connection.cursor()
        cursor.execute("q")
        assert cursor.fetchall() == [(1,)]


def test_the_login_names_database_language_and_versions(server: SqlServerEmulator) -> None:
    with connect("pytds", server) as connection:
        assert connection.product_version >> 24 == 16
        assert connection.tds_version == 0x74000004
        assert connection._tds_socket.env.database == "demo"
        assert connection._tds_socket.env.language == "us_english"


def test_a_hundred_connections_in_sequence_leave_no_thread(server: SqlServerEmulator) -> None:
    before = threading.active_count()
    for _ in range(100):
        connect("pymssql", server).close()
    for thread in threading.enumerate():
        if thread.name == "sqlserver-connection":
            thread.join(5)
    assert threading.active_count() <= before
    assert server.connections == 0


# Result sets


@pytest.mark.parametrize("driver", DRIVERS)
def test_several_result_sets_arrive_in_order(driver: str, engine: ScriptedEngine, server: SqlServerEmulator) -> None:
    def script(s: Any, p: Any, c: Any) -> Iterator[Event]:
        yield rows_of({"a": INT}, [[1], [2]])
        yield RowCount(3)
        yield StatementDone()
        yield rows_of({"b": SqlType("nvarchar", 5)}, [])
        yield rows_of({"c": INT, "": INT}, [[4, 5]])

    engine.script("q", script)
    with connect(driver, server, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("q")
        found: list[tuple[list[str], list[tuple[Any, ...]]]] = []
        while True:
            if cursor.description:
                rows = [tuple(row) for row in cursor.fetchall()]
                names = [d[0] for d in cursor.description]
                # python-tds keeps the last description where a statement has no rows.
                if not found or found[-1][0] != names:
                    found.append((names, rows))
            if not cursor.nextset():
                break
    assert found == [(["a"], [(1,), (2,)]), (["b"], []), (["c", ""], [(4, 5)])]


@pytest.mark.parametrize("driver", DRIVERS)
def test_row_counts_reach_the_client(driver: str, engine: ScriptedEngine, server: SqlServerEmulator) -> None:
    engine.on("update", RowCount(5))
    engine.on("quiet", StatementDone())
    with connect(driver, server, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("update")
        assert cursor.rowcount == 5
        cursor.execute("quiet")
        assert cursor.rowcount == -1


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_batch_without_any_event_is_answered(driver: str, engine: ScriptedEngine, server: SqlServerEmulator) -> None:
    engine.on("nothing")
    engine.script("q", numbers(1))
    with connect(driver, server, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("nothing")
        cursor.execute("q")
        assert [tuple(r) for r in cursor.fetchall()] == [(1,)]


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_exec_in_a_batch_returns_its_status_and_the_batch_goes_on(
    driver: str, engine: ScriptedEngine, server: SqlServerEmulator
) -> None:
    engine.script("q", lambda s, p, c: iter([ReturnStatus(0), rows_of({"n": INT}, [[9]])]))
    with connect(driver, server, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("q")
        while not cursor.description:
            assert cursor.nextset()
        assert [tuple(r) for r in cursor.fetchall()] == [(9,)]


def test_print_reaches_the_message_handler(engine: ScriptedEngine, server: SqlServerEmulator) -> None:
    engine.on("print", Info(0, "hello \u4e2d"), StatementDone())
    heard = []
    with connect("pymssql", server, autocommit=True) as connection:
        connection._conn.set_msghandler(lambda state, severity, srv, proc, line, text: heard.append((srv, text)))
        connection.cursor().execute("print")
        connection._conn.set_msghandler(None)
    assert heard == [(b"DSTREAM-EMULATOR", "hello \u4e2d".encode())]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("size", [0, 1, 4084, 4085, 4086, 1024 * 1024])
def test_big_values_cross_packet_borders(
    driver: str, size: int, engine: ScriptedEngine, server: SqlServerEmulator
) -> None:
    text, data = "\u4e2d" * size, b"\x01" * size
    columns = {"t": SqlType("nvarchar", MAX), "b": SqlType("varbinary", MAX), "n": INT}
    engine.script("big", lambda s, p, c: iter([rows_of(columns, [[text, data, 7]] * 2)]))
    with connect(driver, server, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("big")
        assert [tuple(r) for r in cursor.fetchall()] == [(text, data, 7)] * 2


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("size", [512, 32767])
def test_the_server_may_choose_the_packet_size(driver: str, size: int, engine: ScriptedEngine) -> None:
    engine.script("many", numbers(*range(10000)))
    with (
        SqlServerEmulator(engine, packet_size=size) as server,
        connect(driver, server, autocommit=True) as connection,
    ):
        cursor = connection.cursor()
        for _ in range(2):
            cursor.execute("many")
            assert [r[0] for r in cursor.fetchall()] == list(range(10000))
        cursor.execute("many" + " " * 40000)  # a request of several packets, too
        assert len(cursor.fetchall()) == 10000


# Errors


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_error_has_number_and_text_and_the_session_goes_on(
    driver: str, engine: ScriptedEngine, server: SqlServerEmulator
) -> None:
    def fail(s: Any, p: Any, c: Any) -> Iterator[Event]:
        raise SqlError(208, "Invalid object name 'x'.", 16, 1)

    engine.script("fail", fail)
    engine.script("q", numbers(1))
    with connect(driver, server, autocommit=True) as connection:
        cursor = connection.cursor()
        with pytest.raises((pymssql.Error, pytds.Error), match="Invalid object name 'x'") as raised:
            cursor.execute("fail")
        number = raised.value.args[0] if driver == "pymssql" else raised.value.number
        assert number == 208
        cursor.execute("q")
        assert [tuple(r) for r in cursor.fetchall()] == [(1,)]


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_error_in_the_middle_of_rows_comes_after_the_rows_before_it(
    driver: str, engine: ScriptedEngine, server: SqlServerEmulator
) -> None:
    def rows() -> Iterator[list[Value]]:
        for n in range(1000):
            yield [n]
        raise SqlError(8134, "Divide by zero error encountered.")

    def script(s: Any, p: Any, c: Any) -> Iterator[Event]:
        result = rows_of({"n": INT}, [])
        yield type(result)(result.columns, rows())

    engine.script("fail", script)
    engine.script("q", numbers(1))
    with connect(driver, server, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("fail")
        seen: list[int] = []
        with pytest.raises((pymssql.Error, pytds.Error), match="Divide by zero"):
            seen.extend(row[0] for row in iter(cursor.fetchone, None))
        assert seen == list(range(1000))
        cursor.execute("q")
        assert [tuple(r) for r in cursor.fetchall()] == [(1,)]


def test_an_error_that_does_not_end_the_batch_lets_the_next_statement_speak(
    engine: ScriptedEngine, server: SqlServerEmulator
) -> None:
    def script(s: Any, p: Any, c: Any) -> Iterator[Event]:
        yield ErrorMessage(547, "The INSERT statement conflicted.")
        yield Info(3621, "The statement has been terminated.")
        yield rows_of({"n": INT}, [[2]])

    engine.script("q", script)
    with connect("pytds", server, autocommit=True) as connection:
        cursor = connection.cursor()
        with pytest.raises(pytds.IntegrityError, match="conflicted"):
            cursor.execute("q")
        assert cursor.nextset()
        assert cursor.fetchall() == [(2,)]


def test_a_defect_of_the_engine_is_told_and_the_session_goes_on(
    engine: ScriptedEngine, server: SqlServerEmulator, caplog: pytest.LogCaptureFixture
) -> None:
    def defect(s: Any, p: Any, c: Any) -> Iterator[Event]:
        yield rows_of({"n": INT}, [[1], ["no integer"]])

    engine.script("defect", defect)
    engine.script("q", numbers(1))
    with connect("pymssql", server, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("defect")
        with pytest.raises(pymssql.Error, match="Defect of the emulator"):
            cursor.fetchall()
        cursor.execute("q")
        assert cursor.fetchall() == [(1,)]
    assert "defect of the emulator" in caplog.text


# Transactions and state


def test_python_tds_runs_its_transactions_by_transaction_manager_requests(
    engine: ScriptedEngine, server: SqlServerEmulator
) -> None:
    engine.script("q", numbers(1))
    with connect("pytds", server, isolation_level=5) as connection:
        connection.cursor().execute("q")
        session = engine.sessions[0]
        assert session.began_with == [("SNAPSHOT", "")]
        connection.commit()
        assert session.ended == ["commit"]
        connection.cursor().execute("q")
        connection.rollback()
        assert session.ended == ["commit", "rollback"]


def test_pymssql_runs_its_transactions_by_batches(engine: ScriptedEngine, server: SqlServerEmulator) -> None:
    with connect("pymssql", server) as connection:
        connection.commit()
        connection.rollback()
    assert engine.sessions[0].ended == ["commit", "rollback"]


def test_use_changes_the_database_the_client_sees(server: SqlServerEmulator) -> None:
    with connect("pytds", server, autocommit=True) as connection:
        connection.cursor().execute("use [master]")
        assert connection._tds_socket.env.database == "master"


def test_every_text_is_logged(engine: ScriptedEngine) -> None:
    texts: list[str] = []
    engine.script("q", numbers(1))
    engine.script("q @P1", numbers(1))
    with (
        SqlServerEmulator(engine, statement_log=texts.append) as server,
        connect("pytds", server, autocommit=True) as connection,
    ):
        connection.cursor().execute("q")
        connection.cursor().execute("q %s", (3,))
    assert texts == ["q", "q @P1"]


def test_a_client_killed_in_the_middle_of_a_result_has_its_session_closed(
    engine: ScriptedEngine, server: SqlServerEmulator
) -> None:
    def endless(s: Any, p: Any, c: Any) -> Iterator[Event]:
        yield from s.begin()

        def rows() -> Iterator[list[Value]]:
            while not c():
                yield ["x" * 1000]

        result = rows_of({"t": SqlType("nvarchar", 1000)}, [])
        yield type(result)(result.columns, rows())

    engine.script("endless", endless)
    client = (
        "import os, pymssql\n"
        f"c = pymssql.connect(server='127.0.0.1', port='{server.port}', user='sa', password='secret')\n"
        "k = c.cursor(); k.execute('endless'); k.fetchone(); os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", client], timeout=30, check=False)
    assert killed.returncode == -9
    assert engine.closed.wait(10)
    assert engine.sessions[0].transaction == 0


def test_stopping_ends_connections_and_frees_the_port(engine: ScriptedEngine) -> None:
    before = set(threading.enumerate())
    port = free_port()
    server = SqlServerEmulator(engine, port=port)
    server.start()
    connection = connect("pymssql", server)
    server.stop()
    server.stop()
    assert engine.sessions[0].is_closed
    assert set(threading.enumerate()) <= before
    with pytest.raises(pymssql.Error):
        connection.cursor().execute("SET NOCOUNT ON")
    with SqlServerEmulator(engine, port=port) as again:
        assert again.port == port


def _ignoring_its_end(connection: Any, text: str) -> None:
    with contextlib.suppress(pytds.Error, OSError):
        connection.cursor().execute(text)


def test_stopping_ends_a_wait_inside_the_engine(engine: ScriptedEngine) -> None:
    waiting = threading.Event()

    def wait(s: Any, p: Any, cancelled: Any) -> Iterator[Event]:
        waiting.set()
        pause = threading.Event()
        while not cancelled():
            pause.wait(0.01)
        yield StatementDone()

    engine.script("wait", wait)
    with SqlServerEmulator(engine) as server:
        connection = connect("pytds", server, autocommit=True)
        client = threading.Thread(target=_ignoring_its_end, args=(connection, "wait"))
        client.start()
        assert waiting.wait(10)
    client.join(10)
    assert not client.is_alive()
    assert engine.sessions[0].is_closed
    connection.close()


def test_the_answer_to_a_reset_connection_tells_that_it_was_done(
    engine: ScriptedEngine, server: SqlServerEmulator
) -> None:
    engine.script("q", numbers(1))
    with connect("pytds", server, autocommit=True) as connection:
        transport = connection._tds_socket.sock
        headers = struct.pack("<IIHQI", 22, 18, 2, 0, 1)
        body = headers + "q".encode("utf-16-le")
        transport.sendall(struct.pack(">BBHHBB", 1, 0x09, len(body) + 8, 0, 1, 0) + body)
        answer = transport.recv(4096)
        assert answer[8:14] == b"\xe3\x03\x00\x12\x00\x00"
        assert engine.sessions[0].resets == 1


def test_a_defect_in_the_engines_login_ends_that_connection_only(
    server: SqlServerEmulator, engine: ScriptedEngine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(engine, "login", None)
        with pytest.raises((pytds.Error, OSError)):
            connect("pytds", server)
    assert "defect of the emulator" in caplog.text
    connect("pytds", server).close()


def test_a_column_name_of_128_characters_arrives_whole(engine: ScriptedEngine, server: SqlServerEmulator) -> None:
    name = "\u4e2d" * 128
    engine.script("q", lambda s, p, c: iter([rows_of({name: INT}, [[1]])]))
    with connect("pytds", server, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("q")
        assert cursor.description[0][0] == name
