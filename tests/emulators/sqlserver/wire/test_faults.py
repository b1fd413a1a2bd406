"""Each named fault, as pymssql meets it and as our own connection does: what breaks, what remains, and that the next use works."""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pymssql
import pytest
from pydantic import SecretStr

from common.errors import ConnectionLost, TransientError
from common.sqladdress import SqlAddress
from dstream.emulators import Login
from emulators.sqlserver import faults as package
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.faults import catalogue as faults
from emulators.sqlserver.faults.capture import CaptureFault
from emulators.sqlserver.injection import Fault
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tls import TlsSettings
from ingester.sqlserver.connection import Connection
from tests.emulators.sqlserver.wire.raw_client import ATTENTION, LOGIN, Client, batch, login_body, packet
from tests.fakes.sql_engine import ScriptedEngine, rows_of
from tests.worlds.ports import free_port

USER, PASSWORD = "sa", "a-Password-1"


@pytest.fixture(scope="module")
def server() -> Iterator[SqlServerEmulator]:
    engine = build_engine(users={USER: PASSWORD}, databases=["demo"], capture_interval=0.05)
    with SqlServerEmulator(engine, port=free_port(), tls=TlsSettings.self_made()) as running:
        yield running
    engine.close()


@pytest.fixture
def login(server: SqlServerEmulator) -> Login:
    return Login("127.0.0.1", server.port, USER, PASSWORD, "demo")


@pytest.fixture
def application(login: Login) -> Iterator[Any]:
    """A connection with the table t, empty."""
    with contextlib.closing(login.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("DROP TABLE IF EXISTS dbo.t")
        cursor.execute("CREATE TABLE dbo.t (n INT NOT NULL PRIMARY KEY, s NVARCHAR(200) NULL)")
        yield connection


@pytest.fixture
def ours(login: Login, application: Any) -> Iterator[Connection]:
    """The ingester's connection, in use."""
    address = SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))
    connection = Connection(address)
    assert connection.rows("SELECT COUNT(*) FROM dbo.t") == [(0,)]
    yield connection
    connection.close()


def count(login: Login) -> int:
    """The rows of t, as a new client counts them."""
    with contextlib.closing(login.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT COUNT(*) FROM dbo.t")
        return int(cursor.fetchone()[0])


def eventually(answer: Any, wanted: object) -> None:
    """For what another thread of the server does a moment later."""
    end = time.monotonic() + 60
    while answer() != wanted:
        assert time.monotonic() < end, f"{answer()} and not {wanted}"
        time.sleep(0.01)


# connection_cut_after


@pytest.mark.parametrize("bytes_sent", [0, 1, 7, 8, 100, 5000])
@pytest.mark.parametrize("encryption", ["off", "request", "require"])
def test_a_cut_connection_loses_its_transaction_and_nothing_else(
    server: SqlServerEmulator, login: Login, application: Any, bytes_sent: int, encryption: str
) -> None:
    victim = pymssql.connect(
        server=login.host, port=str(login.port), user=USER, password=PASSWORD, database="demo", encryption=encryption
    )
    cursor = victim.cursor()
    cursor.execute("INSERT INTO dbo.t VALUES (1, N'never')")
    with server.inject(faults.ConnectionCutAfter(bytes_sent)), pytest.raises(pymssql.Error):
        _read_much(cursor)
    with contextlib.suppress(pymssql.Error):
        victim.close()
    assert count(login) == 0
    application.cursor().execute("INSERT INTO dbo.t VALUES (2, NULL)")


def _read_much(cursor: Any) -> None:
    cursor.execute("SELECT REPLICATE(N'x', 4000) AS x, REPLICATE(N'y', 4000) AS y")
    cursor.fetchall()
    cursor.execute("SELECT 1")
    cursor.fetchall()


def _read_often(connection: Connection, times: int) -> None:
    for _ in range(times):
        connection.rows("SELECT COUNT(*) FROM dbo.t")


def test_our_connection_survives_cuts_wherever_they_fall(server: SqlServerEmulator, ours: Connection) -> None:
    for bytes_sent in range(0, 60, 7):
        with server.inject(faults.ConnectionCutAfter(bytes_sent)):
            with pytest.raises(TransientError):
                _read_often(ours, 10)
            assert ours.rows("SELECT COUNT(*) FROM dbo.t") == [(0,)]


def test_a_cut_may_come_more_than_once(server: SqlServerEmulator, ours: Connection) -> None:
    with server.inject(faults.ConnectionCutAfter(10, times=2)):
        for _ in range(2):
            with pytest.raises(TransientError):
                ours.rows("SELECT 1")
        assert ours.rows("SELECT 1") == [(1,)]


# answer_delayed, query_that_hangs


def test_a_delayed_answer_comes_late_and_whole(server: SqlServerEmulator, ours: Connection) -> None:
    with server.inject(faults.AnswerDelayed(0.15)):
        began = time.monotonic()
        assert ours.rows("SELECT 7") == [(7,)]
        assert time.monotonic() - began >= 0.15


def test_a_delay_touches_only_what_it_is_for_and_ends_with_its_fault(
    server: SqlServerEmulator, login: Login, application: Any
) -> None:
    cursor = application.cursor()
    with server.inject(faults.AnswerDelayed(60, "dbo.t")):
        cursor.execute("SELECT 1")
        thread = threading.Thread(target=lambda: count(login))
        thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_a_query_that_hangs_ends_our_patience_and_the_next_use_works(
    server: SqlServerEmulator, ours: Connection, login: Login
) -> None:
    ours.close()
    connections = server.connections
    address = SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))
    hasty = Connection(address, query_seconds=2)
    with server.inject(faults.QueryThatHangs()), pytest.raises(TransientError):
        hasty.execute("INSERT INTO dbo.t VALUES (1, NULL)")
    assert hasty.rows("SELECT COUNT(*) FROM dbo.t") == [(0,)]
    eventually(lambda: server.connections <= connections + 1, True)
    hasty.close()


def test_a_hanging_query_can_be_cancelled_and_its_session_used_again() -> None:
    engine = ScriptedEngine()
    engine.script("SELECT 1", lambda s, p, c: iter([rows_of({"n": SqlType("int")}, [[1]])]))
    hang = faults.QueryThatHangs()
    with SqlServerEmulator(engine) as server, server.inject(hang):
        client = Client(server.port)
        with client.socket:
            client.logged_in().send(batch("SELECT 1"))
            assert hang.hanging.wait(10)
            client.send(packet(ATTENTION, b""))
            assert client.message() == struct.pack("<BHHQ", 0xFD, 0x02, 0, 0)
            assert client.message() == struct.pack("<BHHQ", 0xFD, 0x20, 0, 0)
            client.send(batch("SELECT 1"))
            assert client.message()[0] == 0x81


def test_a_query_runs_after_all_when_the_fault_ends(server: SqlServerEmulator, application: Any, login: Login) -> None:
    hang = faults.QueryThatHangs(pattern="INTO dbo.t")
    with server.inject(hang):
        worker = threading.Thread(target=_failing, args=(application, "INSERT INTO dbo.t VALUES (1, NULL)"))
        worker.start()
        assert hang.hanging.wait(10)
        assert count(login) == 0
    worker.join(10)
    assert count(login) == 1


def test_the_server_stops_although_a_query_hangs() -> None:
    engine = ScriptedEngine()
    engine.on("SELECT 1")
    hang = faults.QueryThatHangs()
    server = SqlServerEmulator(engine)
    server.start()
    with server.inject(hang):
        client = pymssql.connect(server="127.0.0.1", port=str(server.port), user="sa", password="secret")
        thread = threading.Thread(target=_failing, args=(client, "SELECT 1"))
        thread.start()
        assert hang.hanging.wait(10)
        began = time.monotonic()
        server.stop()
    assert time.monotonic() - began < 60
    thread.join(10)
    assert server.connections == 0


def _failing(client: Any, text: str) -> None:
    with contextlib.suppress(pymssql.Error):
        client.cursor().execute(text)


# deadlock_victim, session_killed


def test_a_deadlock_victim_loses_its_transaction_and_keeps_its_connection(
    server: SqlServerEmulator, login: Login, application: Any
) -> None:
    cursor = application.cursor()
    with server.inject(faults.DeadlockVictim(2, "VALUES .2,")):
        for _ in range(2):
            cursor.execute("BEGIN TRAN INSERT INTO dbo.t VALUES (1, NULL)")
            with pytest.raises(pymssql.Error) as raised:
                cursor.execute("INSERT INTO dbo.t VALUES (2, NULL)")
            assert raised.value.args[0] == 1205
            cursor.execute("SELECT @@TRANCOUNT")
            assert cursor.fetchone() == (0,)
        assert count(login) == 0
        cursor.execute("INSERT INTO dbo.t VALUES (2, NULL)")
    assert count(login) == 1


def test_our_connection_takes_a_deadlock_for_something_to_try_again(
    server: SqlServerEmulator, ours: Connection
) -> None:
    with server.inject(faults.DeadlockVictim()):
        with pytest.raises(TransientError, match=r"error 1205: Transaction .Process ID [0-9]+. was deadlocked"):
            ours.execute("INSERT INTO dbo.t VALUES (1, NULL)")
        assert ours.execute("INSERT INTO dbo.t VALUES (1, NULL)") == 1


def test_a_killed_session_ends_with_its_transaction_and_others_go_on(
    server: SqlServerEmulator, login: Login, application: Any
) -> None:
    other = login.connect()
    cursor = application.cursor()
    cursor.execute("BEGIN TRAN INSERT INTO dbo.t VALUES (1, NULL)")
    with server.inject(faults.SessionKilled()):
        with pytest.raises(pymssql.Error) as raised:
            cursor.execute("INSERT INTO dbo.t VALUES (2, NULL)")
        assert raised.value.args[0] == 596
        with pytest.raises(pymssql.Error):
            cursor.execute("SELECT 1")
        other.cursor().execute("SELECT 1")
    other.close()
    assert count(login) == 0


def test_our_connection_is_opened_again_after_its_session_was_killed(
    server: SqlServerEmulator, ours: Connection
) -> None:
    with server.inject(faults.SessionKilled()):
        with pytest.raises(TransientError, match="596"):
            ours.rows("SELECT COUNT(*) FROM dbo.t")
        assert ours.rows("SELECT COUNT(*) FROM dbo.t") == [(0,)]


# answer_broken_off


def test_an_answer_that_is_broken_off_looks_whole_to_the_driver_and_ends_the_connection(
    server: SqlServerEmulator, application: Any
) -> None:
    cursor = application.cursor()
    with server.inject(faults.AnswerBrokenOff(rows=2)):
        cursor.execute("SELECT name FROM sys.types; SELECT 1")
        assert len(cursor.fetchall()) == 2
        assert not cursor.nextset()
        with pytest.raises(pymssql.Error):
            cursor.execute("SELECT 1")


def test_our_connection_refuses_an_answer_that_was_broken_off(server: SqlServerEmulator, ours: Connection) -> None:
    with server.inject(faults.AnswerBrokenOff(rows=2)):
        with pytest.raises(ConnectionLost, match="the answer ended in the middle"):
            ours.rows("SELECT name FROM sys.types")
        assert len(ours.rows("SELECT name FROM sys.types")) > 2


# login_refused_for, server_restart


@pytest.mark.parametrize("number", [17142, 18401, 18456, 40613])
def test_logins_are_refused_for_a_while_and_sessions_go_on(
    server: SqlServerEmulator, login: Login, application: Any, number: int
) -> None:
    now = 100.0
    with server.inject(faults.LoginRefusedFor(5, number, clock=lambda: now)):
        client = Client(login.port)  # pymssql would tell the number of the first failed login in its process, for ever
        with client.socket:
            client.send(packet(LOGIN, login_body(USER, PASSWORD)))
            assert struct.pack("<i", number) in client.message()
            assert client.closed()
        application.cursor().execute("SELECT 1")
        now = 105.0
        assert count(login) == 0


def test_pymssql_is_refused_and_let_in_afterwards(server: SqlServerEmulator, login: Login) -> None:
    with server.inject(faults.LoginRefusedFor(60, 18456)), pytest.raises(pymssql.Error):
        login.connect()
    login.connect().close()


def test_a_refusal_without_a_text_of_its_own_is_not_made_up() -> None:
    with pytest.raises(ValueError, match=r"17142, 18401, 18456, .*, not 4711"):
        faults.LoginRefusedFor(1, 4711)


def test_our_connection_takes_a_refusal_after_it_worked_for_a_failover(
    server: SqlServerEmulator, ours: Connection
) -> None:
    now = 0.0
    with server.inject(faults.LoginRefusedFor(5, 18456, clock=lambda: now)):
        ours.close()
        with pytest.raises(TransientError, match="worked before"):
            ours.rows("SELECT 1")
        now = 5.0
        assert ours.rows("SELECT 1") == [(1,)]


def test_a_restart_keeps_port_and_committed_rows_and_ends_every_session(
    server: SqlServerEmulator, login: Login, ours: Connection, application: Any
) -> None:
    port = server.port
    cursor = application.cursor()
    cursor.execute("INSERT INTO dbo.t VALUES (1, NULL)")
    cursor.execute("BEGIN TRAN INSERT INTO dbo.t VALUES (2, NULL)")
    restart = faults.ServerRestart()
    with server.inject(restart):
        assert restart.done.wait(10)
        assert server.port == port
        with pytest.raises(TransientError):
            ours.rows("SELECT 1")
        assert ours.rows("SELECT COUNT(*) FROM dbo.t") == [(1,)]
    with pytest.raises(pymssql.Error):
        cursor.execute("SELECT 1")
    assert count(login) == 1


def test_while_the_server_is_away_nobody_is_there(server: SqlServerEmulator, ours: Connection) -> None:
    restart = faults.ServerRestart(away=60)
    with server.inject(restart):
        eventually(lambda: server.connections, 0)
        ours.close()
        with pytest.raises(TransientError, match="cannot be reached"):
            _read_often(ours, 100)
    assert restart.done.is_set()
    assert ours.rows("SELECT 1") == [(1,)]


# Capture


def test_the_faults_of_capture_reach_databases_that_get_cdc_later(server: SqlServerEmulator, login: Login) -> None:
    for number, fault in enumerate((faults.CaptureStopped(), faults.CaptureLagging(3600), faults.CaptureFailing())):
        place = _new_database(login, f"captured{number}")
        with contextlib.closing(place.connect()) as connection:
            cursor = connection.cursor()
            with server.inject(fault):
                cursor.execute("EXEC sys.sp_cdc_enable_db")
                cursor.execute("CREATE TABLE dbo.c (n INT PRIMARY KEY)")
                cursor.execute("EXEC sys.sp_cdc_enable_table N'dbo', N'c', @role_name = NULL")
                cursor.execute("INSERT INTO dbo.c VALUES (1)")
                time.sleep(0.2)  # several times the interval of a capture job, should there be one
                assert _captured(cursor) == 0
            eventually(lambda cursor=cursor: _captured(cursor), 1)
            cursor.execute("EXEC sys.sp_cdc_disable_db")


def _new_database(login: Login, name: str) -> Login:
    with contextlib.closing(login.connect()) as connection:
        connection.cursor().execute(f"CREATE DATABASE {name}")
    return Login(login.host, login.port, login.user, login.password, name)


def _captured(cursor: Any) -> int:
    cursor.execute("SELECT COUNT(*) FROM cdc.dbo_c_CT")
    return int(cursor.fetchone()[0])


def test_a_server_without_cdc_has_no_capture_to_break() -> None:
    with (
        SqlServerEmulator(ScriptedEngine()) as server,
        pytest.raises(ValueError, match="without Change Data Capture"),
        server.inject(faults.CaptureFailing()),
    ):
        pass


# Names


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("connection_cut_after:1000", faults.ConnectionCutAfter),
        ("connection_cut_after:1000,3", faults.ConnectionCutAfter),
        ("answer_delayed:0.5", faults.AnswerDelayed),
        ("query_that_hangs", faults.QueryThatHangs),
        ("mute:accept", faults.Mute),
        ("mute:answer,2,100", faults.Mute),
        ("mute:query,3,,UPDATE (a|b), c", faults.Mute),
        ("deadlock_victim:3,UPDATE (a|b), c", faults.DeadlockVictim),
        ("session_killed:1", faults.SessionKilled),
        ("answer_broken_off:2,100,UPDATE (a|b), c", faults.AnswerBrokenOff),
        ("login_refused_for:10,18456", faults.LoginRefusedFor),
        ("server_restart:5,1", faults.ServerRestart),
        ("capture_stopped", faults.CaptureStopped),
        ("capture_lagging:30", faults.CaptureLagging),
        ("capture_failing", faults.CaptureFailing),
        ("change_table_locked:dbo_t_CT", faults.ChangeTableLocked),
        ("table_locked:t", faults.TableLocked),
        ("table_locked:sales.t,2.5", faults.TableLocked),
        ("log_times_locked", faults.LogTimesLocked),
        ("lock_timeout:3,UPDATE (a|b), c", faults.LockTimeout),
    ],
)
def test_every_fault_has_a_name(text: str, kind: type[Fault]) -> None:
    assert type(faults.parse(text)) is kind


def test_no_fault_is_without_a_name_and_an_explanation() -> None:
    named = {make for make, _, _ in faults.NAMES.values()}
    modules = [import_module(found.name) for found in iter_modules(package.__path__, f"{package.__name__}.")]
    found = [value for module in modules for value in vars(module).values()]
    kinds = {kind for kind in found if isinstance(kind, type) and issubclass(kind, Fault)}
    assert kinds - {Fault, CaptureFault} == named
    assert all(kind.__doc__ for kind in named)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("deadlock", "there is no fault 'deadlock'; the faults are connection_cut_after:BYTES"),
        ("connection_cut_after", "is written connection_cut_after:BYTES"),
        ("connection_cut_after:many", "is written connection_cut_after:BYTES"),
        ("mute", "is written mute:STAGE"),
        (
            "mute:later",
            "falls silent at accept, prelogin, tls, login, reading, query, answer, attention, not at 'later'",
        ),
        ("mute:login,1,100", "at the stage login no octets get out"),
        ("mute:login,1,,UPDATE", "at the stage login there is no statement"),
        ("deadlock_victim:1,(", r"is written deadlock_victim:\[TIMES"),
        ("capture_failing:now", "is written capture_failing$"),
        ("login_refused_for:1,4711", "logins are refused with one of"),
    ],
)
def test_what_is_no_fault_is_refused_with_what_is(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        faults.parse(text)


# table_locked


def test_a_locked_table_keeps_its_readers_waiting_and_nobody_else(
    server: SqlServerEmulator, login: Login, application: Any
) -> None:
    cursor = application.cursor()
    cursor.execute("SET LOCK_TIMEOUT 50")
    with server.inject(faults.TableLocked("t")):
        with pytest.raises(pymssql.OperationalError) as refused:
            cursor.execute("SELECT COUNT(*) FROM dbo.t")
        assert refused.value.args[0] == 1222
        cursor.execute("INSERT INTO dbo.t VALUES (1, N'a'); SELECT COUNT(*) FROM dbo.t WITH (NOLOCK)")
        assert cursor.fetchall() == [(1,)]
    assert count(login) == 1


def test_a_table_is_locked_for_so_long_in_a_schema_that_comes_later_too(
    server: SqlServerEmulator, application: Any
) -> None:
    cursor = application.cursor()
    with server.inject(faults.TableLocked("later.u", 1.5)):
        cursor.execute("IF SCHEMA_ID(N'later') IS NULL EXEC(N'CREATE SCHEMA later')")
        cursor.execute(
            "DROP TABLE IF EXISTS later.u; CREATE TABLE later.u (n INT NOT NULL); INSERT INTO later.u VALUES (7)"
        )
        cursor.execute("SET LOCK_TIMEOUT 0")
        with pytest.raises(pymssql.OperationalError):
            cursor.execute("SELECT n FROM later.u")
        cursor.execute("SET LOCK_TIMEOUT 30000; SELECT n FROM later.u")
        assert cursor.fetchall() == [(7,)]


# change_table_locked


def test_a_locked_change_table_keeps_its_readers_waiting_until_their_lock_timeout_and_no_others(
    server: SqlServerEmulator, login: Login, application: Any
) -> None:
    cursor = application.cursor()
    cursor.execute("DROP TABLE IF EXISTS dbo.u; CREATE TABLE dbo.u (n INT NOT NULL PRIMARY KEY)")
    cursor.execute("IF (SELECT is_cdc_enabled FROM sys.databases WHERE name = N'demo') = 0 EXEC sys.sp_cdc_enable_db")
    for table in ("t", "u"):
        cursor.execute(f"EXEC sys.sp_cdc_enable_table N'dbo', N'{table}', @role_name = NULL")
    cursor.execute("SET LOCK_TIMEOUT 50")
    answer: list[Any] = []

    def wait() -> None:
        with contextlib.closing(login.connect()) as other:
            waiting = other.cursor()
            waiting.execute("SELECT COUNT(*) FROM cdc.dbo_t_CT")
            answer.extend(waiting.fetchall())

    reader = threading.Thread(target=wait)
    with server.inject(faults.ChangeTableLocked("dbo_t_ct")):
        with pytest.raises(pymssql.OperationalError) as refused:
            cursor.execute("SELECT COUNT(*) FROM cdc.dbo_t_CT")
        assert refused.value.args[0] == 1222
        cursor.execute(
            "BEGIN TRY SELECT COUNT(*) FROM cdc.dbo_t_CT END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"
        )
        assert cursor.fetchall() == [(1222,)]
        cursor.execute("SELECT COUNT(*) FROM cdc.dbo_u_CT; SELECT COUNT(*) FROM cdc.dbo_t_CT WITH (NOLOCK)")
        assert cursor.fetchall() == [(0,)]
        reader.start()
        reader.join(0.3)
        assert reader.is_alive()
    reader.join(10)
    assert answer == [(0,)]
    cursor.execute("SELECT COUNT(*) FROM cdc.dbo_t_CT")
    assert cursor.fetchall() == [(0,)]
    cursor.execute("EXEC sys.sp_cdc_disable_db; DROP TABLE dbo.u")


def test_the_locked_end_of_the_logs_times_keeps_those_waiting_who_look_for_the_max_lsn_and_no_others(
    server: SqlServerEmulator, application: Any
) -> None:
    cursor = application.cursor()
    cursor.execute("EXEC sys.sp_cdc_enable_db; EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL")
    cursor.execute("SET LOCK_TIMEOUT 50")
    with server.inject(faults.LogTimesLocked()):
        cursor.execute(
            "BEGIN TRY DECLARE @last binary(10) = sys.fn_cdc_get_max_lsn() END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"
        )
        assert cursor.fetchall() == [(1222,)]
        cursor.execute("SELECT COUNT(*) FROM cdc.lsn_time_mapping WHERE start_lsn = 0x00000000000000000001")
        assert cursor.fetchall() == [(0,)]
    cursor.execute("SELECT COUNT(sys.fn_cdc_get_max_lsn())")
    assert len(cursor.fetchall()) == 1
    cursor.execute("EXEC sys.sp_cdc_disable_db")


def test_a_lock_timeout_ends_a_statement_and_neither_its_transaction_nor_its_session(
    server: SqlServerEmulator, application: Any
) -> None:
    cursor = application.cursor()
    cursor.execute("BEGIN TRANSACTION")
    with server.inject(faults.LockTimeout(1, "OBJECT_ID")):
        with pytest.raises(pymssql.OperationalError) as refused:
            cursor.execute("SELECT OBJECT_ID(N'dbo.t')")
        assert refused.value.args[0] == 1222
        cursor.execute("SELECT @@TRANCOUNT; ROLLBACK")
        assert cursor.fetchall() == [(1,)]


def test_what_a_dynamic_text_sets_is_as_it_was_when_it_has_ended(application: Any) -> None:
    """https://learn.microsoft.com/sql/t-sql/statements/set-statements-transact-sql (Considerations)"""
    cursor = application.cursor()
    cursor.execute("SET LOCK_TIMEOUT 70; EXEC sys.sp_executesql N'SET LOCK_TIMEOUT 50'; SELECT @@LOCK_TIMEOUT")
    assert cursor.fetchall() == [(70,)]
    cursor.execute("BEGIN TRY EXEC (N'SET LOCK_TIMEOUT 50; THROW 50001, N''x'', 1') END TRY BEGIN CATCH END CATCH")
    cursor.execute("SELECT @@LOCK_TIMEOUT")
    assert cursor.fetchall() == [(70,)]
