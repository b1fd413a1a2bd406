"""Databases made and dropped at once, with capture jobs, readers of other databases, KILL, ATTENTION and clients that just go.

Whatever happens, every statement is answered or its connection ended, and afterwards nothing is left: no session, no thread, no
file. What the statements answer does not matter here: who comes second is told 3702, 911, 1222 or the like.
"""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import ErrorMessage, LoginRequest, ResultSet, Session, SqlError
from emulators.sqlserver.server import SqlServerEmulator
from tests.emulators.sqlserver.wire.raw_client import ATTENTION, LOGIN, Client, batch, login_body, packet

OWNERS, WANDERERS, KILLERS = 3, 4, 1
_PATIENCE = 60.0
"""Seconds for one answer; a statement waits for locks 0.2 s at most."""
_SYSTEM = {"master", "tempdb", "model", "msdb"}
_LOST = (EOFError, ConnectionError)
_MAKE = """\
IF DB_NAME() = N'{name}'
BEGIN
    CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(20)); EXEC sys.sp_cdc_enable_db
    EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL
END"""
_FILL = "INSERT dbo.t SELECT ISNULL(MAX(id), 0) + 1, N'a' FROM dbo.t; UPDATE dbo.t SET name = N'b'"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[SqlEngine]:
    made = build_engine(users={"sa": "secret"}, capture_interval=0.01, data_dir=tmp_path)
    assert isinstance(made, SqlEngine)
    yield made
    made.close()


@pytest.fixture
def server(engine: SqlEngine) -> Iterator[SqlServerEmulator]:
    with SqlServerEmulator(engine) as running:
        yield running


class Guest:
    """One client after another: a new one whenever the last was lost or went."""

    def __init__(self, port: int, seed: int) -> None:
        self.random = random.Random(seed)
        self._port = port
        self._client: Client | None = None

    def do_one_of(self, *choices: tuple[Callable[[str], None], str]) -> None:
        act, sql = self.random.choice(choices)
        act(sql)

    def say(self, sql: str) -> None:
        """Send a batch and take the answer. Raises one of _LOST, TimeoutError."""
        self._sent(sql).message()

    def cancel(self, sql: str) -> None:
        """Send a batch and an ATTENTION after it, which is answered by a message of its own."""
        client = self._sent(sql)
        client.send(packet(ATTENTION, b""))
        client.message()
        client.message()

    def _sent(self, sql: str) -> Client:
        client = self._client = self._client or self._connected()
        client.send(batch(sql))
        return client

    def _connected(self) -> Client:
        client = Client(self._port)
        client.socket.settimeout(_PATIENCE)
        try:
            client.send(packet(LOGIN, login_body(database="master")))
            client.message()
            client.send(batch("SET LOCK_TIMEOUT 200"))
            client.message()
        except _LOST:
            client.socket.close()
            raise
        return client

    def go(self, sql: str = "") -> None:
        """Hang up, in the middle of a batch if there is one."""
        client, self._client = self._client, None
        if client is not None:
            with client.socket, contextlib.suppress(ConnectionError):
                client.send(batch(sql) if sql else b"")


def own(guest: Guest, names: Iterator[str]) -> None:
    """Make a database with capture, work in it, drop it; again and again."""
    for name in names:
        with contextlib.suppress(*_LOST):
            guest.say(f"CREATE DATABASE {name}")
            guest.say(f"USE {name}")
            guest.say(_MAKE.format(name=name))
            for _ in range(3):
                guest.say(_FILL)
            guest.do_one_of(
                (guest.say, "EXEC sys.sp_cdc_scan"),
                (guest.say, "EXEC sys.sp_cdc_stop_job; EXEC sys.sp_cdc_start_job; EXEC sys.sp_cdc_scan"),
                (guest.say, "SELECT * FROM cdc.dbo_t_CT; SELECT sys.fn_cdc_get_max_lsn()"),
                (guest.cancel, "BEGIN TRAN; UPDATE dbo.t SET name = N'c'; WAITFOR DELAY '00:10:00'"),
                (guest.go, "BEGIN TRAN; UPDATE dbo.t SET name = N'c'; WAITFOR DELAY '00:10:00'"),
            )
            guest.say(f"IF @@TRANCOUNT > 0 ROLLBACK; USE {name}; EXEC sys.sp_cdc_disable_db")
            guest.say(f"USE master; DROP DATABASE {name}")
            continue
        guest.go()
    guest.go()


def wander(guest: Guest, engine: SqlEngine, over: threading.Event) -> None:
    """Look into the databases of others, and get into their way."""
    while not over.is_set():
        there = [database.name for database in engine.databases() if database.name not in _SYSTEM]
        name = guest.random.choice(there or ["nowhere"])
        table = f"{name}.dbo.t"
        with contextlib.suppress(*_LOST):
            guest.do_one_of(
                (guest.say, f"SELECT COUNT(*) FROM {table} a CROSS JOIN {table} b WHERE UPPER(a.name) = LOWER(b.name)"),
                (guest.say, "SELECT name, is_cdc_enabled FROM sys.databases; SELECT * FROM sys.dm_exec_sessions"),
                (guest.say, f"BEGIN TRAN; UPDATE {table} SET name = N'w'; SELECT * FROM {table}; ROLLBACK"),
                (guest.say, f"SELECT * FROM {table} WITH (TABLOCKX); EXEC {name}.sys.sp_cdc_scan"),
                (guest.say, f"USE {name}; CREATE TABLE #t (id int); INSERT #t SELECT id FROM dbo.t; USE master"),
                (guest.cancel, f"BEGIN TRAN; UPDATE {table} SET name = N'x'; WAITFOR DELAY '00:10:00'"),
                (guest.say, "IF @@TRANCOUNT > 0 ROLLBACK"),
                (guest.go, f"BEGIN TRAN; UPDATE {table} SET name = N'y'; WAITFOR DELAY '00:10:00'"),
                (guest.say, f"DROP DATABASE {name}"),
            )
            continue
        guest.go()
    guest.go()


def kill(guest: Guest, engine: SqlEngine, over: threading.Event) -> None:
    while not over.wait(0.02):
        victims = [session.session_id for session in engine.sessions()]
        with contextlib.suppress(*_LOST):
            guest.say(f"KILL {guest.random.choice(victims or [51])}")
            continue
        guest.go()
    guest.go()


@pytest.mark.parametrize(
    ("seed", "rounds"), [(1, 4), *(pytest.param(seed, 200, marks=pytest.mark.soak) for seed in range(2, 6))]
)
def test_nothing_hangs_and_nothing_is_left_when_databases_come_and_go(
    engine: SqlEngine,
    server: SqlServerEmulator,
    seed: int,
    rounds: int,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    threads = threading.active_count()
    over = threading.Event()
    with caplog.at_level(logging.ERROR), ThreadPoolExecutor(OWNERS + WANDERERS + KILLERS) as pool:
        guests = [Guest(server.port, seed * 100 + number) for number in range(OWNERS + WANDERERS + KILLERS)]
        owners = [
            pool.submit(own, guest, (f"d{seed}_{number}_{turn}" for turn in range(rounds)))
            for number, guest in enumerate(guests[:OWNERS])
        ]
        others = [pool.submit(wander, guest, engine, over) for guest in guests[OWNERS : OWNERS + WANDERERS]]
        others += [pool.submit(kill, guest, engine, over) for guest in guests[OWNERS + WANDERERS :]]
        try:
            for owner in owners:
                owner.result()
        finally:
            over.set()
        for other in others:
            other.result()
    end = time.monotonic() + _PATIENCE
    while server.connections or engine.sessions():
        assert time.monotonic() < end, (server.connections, engine.sessions())
        time.sleep(0.005)
    last = Guest(server.port, 0)
    for name in sorted(database.name for database in engine.databases() if database.name not in _SYSTEM):
        last.say(f"USE {name}; EXEC sys.sp_cdc_disable_db")
        last.say(f"USE master; DROP DATABASE {name}")
    last.go()
    assert {database.name for database in engine.databases()} == _SYSTEM
    while threading.active_count() > threads:
        assert time.monotonic() < end, threading.enumerate()
        time.sleep(0.005)
    assert "defect" not in caplog.text
    assert {file.name.partition(".")[0] for file in tmp_path.iterdir()} <= {"1", "2", "3", "4", "lock", "server"}


def test_a_database_that_a_statement_of_another_reads_is_in_use(engine: SqlEngine) -> None:
    """D: 3702. SQL Server: whoever reads from a database holds a shared lock on it."""
    owner, reader = (engine.login(LoginRequest("sa", "secret", "master")) for _ in range(2))

    def run(sql: str) -> None:
        assert not [event for event in owner.batch(sql, {}, lambda: False) if isinstance(event, ErrorMessage)]

    run("CREATE DATABASE d CREATE TABLE d.dbo.t (id int) INSERT d.dbo.t VALUES (1)")
    reading = iter(reader.batch("SELECT id FROM d.dbo.t", {}, lambda: False))
    assert isinstance(next(reading), ResultSet)
    with pytest.raises(SqlError, match="currently in use") as refused:
        run("DROP DATABASE d")
    assert refused.value.number == 3702
    list(reading)
    run("DROP DATABASE d")


def test_a_client_that_goes_while_it_is_logged_in_leaves_no_session(
    engine: SqlEngine, server: SqlServerEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(server.port)
    login, went = engine.login, threading.Event()

    def late(request: LoginRequest) -> Session:
        session = login(request)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.socket.close()
        went.set()
        return session

    monkeypatch.setattr(engine, "login", late)
    client.send(packet(LOGIN, login_body(database="master")))
    assert went.wait(_PATIENCE)
    while server.connections:
        time.sleep(0.001)
    assert engine.sessions() == []
