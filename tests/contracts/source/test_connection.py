"""What the ingester's connections promise when the server is slow, away, moving or full of others' locks (pymssql on the emulator)."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from common.errors import ConnectionLost, PermanentError, TransientError
from common.sqladdress import SqlAddress
from dstream.emulators import Login
from emulators.sqlserver.faults import catalogue as faults
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.server import SqlServerEmulator
from ingester.sqlserver import waiting as sqlserver_waiting
from ingester.sqlserver.connection import Connection
from tests.fakes.sql_engine import ScriptedEngine
from tests.worlds.databases import drop
from tests.worlds.ports import free_port

Connections = Callable[..., Connection]

ONE_SECOND = {"connect_timeout": "1"}


def address(login: Login) -> SqlAddress:
    return SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))


@pytest.fixture
def connections(login: Login) -> Iterator[Connections]:
    """Connections of the product's to the test's database; closed afterwards."""
    with contextlib.ExitStack() as made:

        def make(**options: object) -> Connection:
            return made.enter_context(contextlib.closing(Connection(address(login), **options)))  # type: ignore[arg-type]

        yield make


def seconds(what: Callable[[], object]) -> float:
    began = time.monotonic()
    what()
    return time.monotonic() - began


# sessions


def test_a_session_is_in_read_committed_and_in_no_transaction(connections: Connections) -> None:
    connection = connections()
    sql = "SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID"
    assert connection.rows(sql) == [(2,)]
    assert connection.rows("SELECT @@TRANCOUNT") == [(0,)]


def test_a_new_session_after_a_lost_one_is_set_up_again(sqlserver: SqlServerEmulator, connections: Connections) -> None:
    connection = connections()
    connection.rows("SELECT 1")
    with sqlserver.inject(faults.SessionKilled(pattern="SELECT 7")), pytest.raises(TransientError):
        connection.rows("SELECT 7")
    test_a_session_is_in_read_committed_and_in_no_transaction(lambda: connection)


@pytest.mark.parametrize("wrong", ["SELECT 1/0", "INSERT INTO dbo.t VALUES (1), (1)", "SELECT * FROM dbo.nothing"])
def test_nothing_is_held_after_an_error(connections: Connections, wrong: str) -> None:
    """Another session takes the whole table at once, which any lock left behind would keep it from."""
    ours, other = connections(), connections()
    ours.result_sets("CREATE TABLE dbo.t (n INT PRIMARY KEY)")
    with pytest.raises((TransientError, PermanentError)):
        ours.execute(wrong)
    assert ours.rows("SELECT @@TRANCOUNT") == [(0,)]
    other.result_sets("SET LOCK_TIMEOUT 0; BEGIN TRAN; SELECT * FROM dbo.t WITH (TABLOCKX, HOLDLOCK); COMMIT")


def test_what_a_statement_did_before_it_was_given_up_is_undone(
    sqlserver: SqlServerEmulator, connections: Connections
) -> None:
    ours, other = connections(query_seconds=0.2), connections()
    other.result_sets("CREATE TABLE dbo.t (n INT PRIMARY KEY)")
    with (
        sqlserver.inject(faults.QueryThatHangs(pattern="HERE")),
        pytest.raises(TransientError, match=r"no answer within 0\.2 s"),
    ):
        ours.result_sets("INSERT INTO dbo.t VALUES (1) /* HERE */")
    assert other.rows("SELECT COUNT(*) FROM dbo.t") == [(0,)]


# statements


@pytest.mark.parametrize("opened_last", ["hasty", "patient"])
def test_each_connection_has_a_patience_of_its_own(
    sqlserver: SqlServerEmulator, connections: Connections, opened_last: str
) -> None:
    """The driver's query timeout is one for the whole process: the last that was given to any connection."""
    both = {"hasty": connections(query_seconds=1), "patient": connections()}
    for name in sorted(both, key=lambda name: name == opened_last):
        both[name].rows("SELECT 1")
    with sqlserver.inject(faults.AnswerDelayed(2.5, "SELECT 2")):
        assert both["patient"].rows("SELECT 2") == [(2,)]
        with pytest.raises(TransientError, match="no answer within 1 s"):
            both["hasty"].rows("SELECT 2")


def test_a_stop_is_noticed_although_the_server_hangs(
    sqlserver: SqlServerEmulator, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlserver_waiting, "GRACE", 0.0)
    stop, hang = threading.Event(), faults.QueryThatHangs(pattern="SELECT 3")
    connection = connections(stop=stop)
    connection.rows("SELECT 1")
    with sqlserver.inject(hang):
        threading.Thread(target=lambda: stop.set() if hang.hanging.wait(10) else None).start()
        with pytest.raises(TransientError, match="no answer before the stop"):
            connection.rows("SELECT 3")


def test_a_statement_that_is_answered_in_time_is_not_disturbed_by_a_stop(connections: Connections) -> None:
    stop = threading.Event()
    stop.set()
    assert connections(stop=stop).rows("SELECT 1") == [(1,)]


def test_signals_are_handled_while_the_main_thread_waits_for_the_server() -> None:
    """Waiting in the driver's C it would run no handler before the answer."""
    assert threading.current_thread() is threading.main_thread()
    silent, ours = socket.socketpair()
    wire = sqlserver_waiting.Wire()
    patience = sqlserver_waiting.Patience(0.2, None, wire)
    with silent, ours, contextlib.closing(wire):
        assert seconds(lambda: patience.wait(ours.fileno())) < 60
        assert patience.over == "no answer within 0.2 s"
        assert ours.recv(1) == b""


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        *(
            (number, TransientError)
            for number in (1205, 1222, 3960, 601, 701, 976, 983, 3906, 40197, 40501, 49918, 9002)
        ),
        *((number, PermanentError) for number in (229, 916, 15247, 207, 208, 2812)),
    ],
)
def test_the_servers_number_decides_and_the_next_statement_works(number: int, kind: type[Exception]) -> None:
    engine = ScriptedEngine()
    once = [SqlError(number, "it says", 14)]

    def fail(*_: object) -> Iterator[object]:
        if once:
            raise once.pop()
        yield from ()

    engine.script("SELECT 1", fail)  # type: ignore[arg-type]
    with SqlServerEmulator(engine) as server:
        connection = Connection(_scripted(server))
        with pytest.raises(kind, match="it says") as raised:
            connection.result_sets("SELECT 1")
        assert f"127.0.0.1:{server.port}" in str(raised.value)
        assert connection.result_sets("SELECT 1") == []
        connection.close()


@pytest.mark.parametrize(("number", "sessions"), [(1205, 1), (1222, 1), (3960, 1), (596, 2), (40197, 2)])
def test_a_session_outlives_a_statement_that_was_a_victim(number: int, sessions: int) -> None:
    engine = ScriptedEngine()
    engine.on("SELECT 1")

    def fail(*_: object) -> Iterator[object]:
        yield from ()
        raise SqlError(number, "it says", 13)

    engine.script("SELECT 2", fail)  # type: ignore[arg-type]
    with SqlServerEmulator(engine) as server:
        connection = Connection(_scripted(server))
        with pytest.raises(TransientError) as raised:
            connection.result_sets("SELECT 2")
        assert isinstance(raised.value, ConnectionLost) == (sessions == 2)
        connection.result_sets("SELECT 1")
        assert len(engine.sessions) == sessions
        connection.close()


def _scripted(server: SqlServerEmulator) -> SqlAddress:
    return SqlAddress("127.0.0.1", server.port, None, "demo", "sa", SecretStr("secret"))


@pytest.mark.parametrize("cut_after", range(0, 900, 60))
def test_a_batch_of_several_results_may_be_cut_anywhere(
    sqlserver: SqlServerEmulator, connections: Connections, cut_after: int
) -> None:
    connection = connections()
    batch = "SELECT REPLICATE('x', 200) AS a; SELECT REPLICATE('y', 200) AS b; SELECT 3 AS c"
    whole = connection.result_sets(batch)
    with sqlserver.inject(faults.ConnectionCutAfter(cut_after)), contextlib.suppress(TransientError):
        assert connection.result_sets(batch) == whole
        assert connection.rows_until(batch, (), lambda row: False) == (whole, True)
    assert connection.result_sets(batch) == whole


@pytest.mark.parametrize("sets", [1, 2])
def test_an_answer_that_is_broken_off_without_an_error_is_not_taken_for_a_whole_one(
    sqlserver: SqlServerEmulator, connections: Connections, sets: int
) -> None:
    """A killed session's: the driver reports neither an error nor that rows are missing."""
    connection = connections()
    sql = ";".join(["SELECT name FROM sys.types"] * sets)
    some = connection.rows("SELECT name FROM sys.types")[:3]
    broken = faults.AnswerBrokenOff(rows=3, pattern="sys.types")
    for read in (
        lambda: connection.result_sets(sql),
        lambda: connection.batch([(sql, ())]),
        lambda: connection.rows_until(sql, (), None),
        lambda: connection.rows_until(sql, (), lambda row: False),
        lambda: connection.execute(sql),
        lambda: _streamed(connection, sql, some),
    ):
        with sqlserver.inject(broken), pytest.raises(ConnectionLost, match="the answer ended in the middle"):
            read()
        broken = faults.AnswerBrokenOff(rows=3, pattern="sys.types")
        assert connection.rows("SELECT 1") == [(1,)]


def _streamed(connection: Connection, sql: str, some: list[tuple[Any, ...]]) -> None:
    with connection.streamed(sql) as more:
        for row in some:
            assert more(lambda row: True) == ([row], False)
        more(lambda row: True)


# logins


@pytest.mark.parametrize(
    ("number", "proven"),
    [*((number, False) for number in (40613, 40197, 49918, 17142, 18401)), (40613, True), (40532, True), (40615, True)],
)
def test_a_server_that_is_not_ready_is_tried_again(
    sqlserver: SqlServerEmulator, connections: Connections, number: int, proven: bool
) -> None:
    """By the number of this refusal: the driver keeps that of the gravest that its process ever met."""
    connection = connections(proven=proven)
    with sqlserver.inject(faults.LoginRefusedFor(60, number)), pytest.raises(TransientError):
        connection.rows("SELECT 1")
    assert connection.rows("SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (40532, "user@server"),
        (40615, "firewall"),
        (18487, "new password"),
        (18456, "user and password"),
    ],
)
def test_a_first_login_that_a_person_must_help_names_the_remedy(
    sqlserver: SqlServerEmulator, connections: Connections, number: int, remedy: str
) -> None:
    with (
        sqlserver.inject(faults.LoginRefusedFor(60, number)),
        pytest.raises(PermanentError, match=f"error {number}: .*{remedy}"),
    ):
        connections().rows("SELECT 1")


def test_a_login_that_worked_before_is_tried_again_with_what_to_do_about_a_new_password(
    sqlserver: SqlServerEmulator, connections: Connections
) -> None:
    connection = connections()
    connection.rows("SELECT 1")
    connection.close()
    with (
        sqlserver.inject(faults.LoginRefusedFor(60, 18456)),
        pytest.raises(TransientError, match="restart with the new"),
    ):
        connection.rows("SELECT 1")


@pytest.mark.parametrize(
    ("change", "said"), [({"password": "wrong"}, "login refused"), ({"database": "gone"}, "online")]
)
def test_a_first_login_that_is_refused_names_the_remedy(login: Login, change: dict[str, str], said: str) -> None:
    with pytest.raises(PermanentError, match=said) as refused:
        Connection(address(replace(login, **change))).rows("SELECT 1")  # type: ignore[arg-type]
    assert "wrong" not in str(refused.value)


def test_a_database_that_cannot_be_opened_for_a_while_is_opened_again(login: Login, connections: Connections) -> None:
    """As 4060 says of one that is offline, restoring or on its way to another replica; here it is not there at all."""
    connection = connections()
    connection.rows("SELECT 1")
    connection.close()
    with replace(login, database="master").connect() as client, client.cursor() as cursor:
        drop(cursor, login.database)
        for _ in range(2):
            with pytest.raises(TransientError):
                connection.rows("SELECT 1")
        cursor.execute(f"CREATE DATABASE {login.database}")
    assert connection.rows("SELECT 1") == [(1,)]


def test_a_silent_server_is_given_up_after_the_login_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = SqlAddress("127.0.0.1", silent.getsockname()[1], None, "d", "u", SecretStr("p"), options=ONE_SECOND)
        with pytest.raises(TransientError, match="no answer within 1 s"):
            Connection(there).rows("SELECT 1")


@pytest.mark.parametrize(("proven", "hinted"), [(False, True), (True, False)])
def test_a_server_that_has_answered_before_and_is_silent_is_not_taken_for_something_else(
    proven: bool, hinted: bool
) -> None:
    """Where the connection broke is the first hint of an outage; a guess at the next login would be a second line about it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = SqlAddress("127.0.0.1", silent.getsockname()[1], None, "d", "u", SecretStr("p"), options=ONE_SECOND)
        with pytest.raises(ConnectionLost, match="no answer within 1 s") as lost:
            Connection(there, proven=proven).rows("SELECT 1")
    assert (lost.value.hint is not None) is hinted


def test_an_address_that_refuses_and_then_serves_is_used_again() -> None:
    engine = ScriptedEngine()
    engine.on("SELECT 1")
    server = SqlServerEmulator(engine, port=free_port())
    server.start()
    connection = Connection(_scripted(server))
    connection.result_sets("SELECT 1")
    server.stop()
    for _ in range(2):
        with pytest.raises(TransientError):
            connection.result_sets("SELECT 1")
    server.start()
    assert connection.result_sets("SELECT 1") == []
    connection.close()
    server.stop()


def test_a_name_that_does_not_resolve_is_tried_again() -> None:
    with pytest.raises(TransientError, match="the host name cannot be resolved"):
        Connection(SqlAddress("no-such-host.invalid", 1433, None, "d", "u", SecretStr("p"))).rows("SELECT 1")


def test_every_address_of_a_name_is_tried(login: Login) -> None:
    """Where localhost is ::1 as well, where nobody listens; a listener's name has an address in each subnet."""
    connection = Connection(address(replace(login, host="localhost")))
    assert connection.rows("SELECT 1") == [(1,)]
    connection.close()
