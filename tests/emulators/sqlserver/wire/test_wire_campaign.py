"""The hostile-input campaign: whatever comes, the server answers or closes; it never hangs, dies, or keeps what a client left.

The cases are the same in every run. `make test-emulators` runs some of them and `make soak` all.
"""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pymssql
import pytds
import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.tls import TlsSettings
from tests.emulators.sqlserver.wire.hostile_cases import Packets, case, recorded
from tests.emulators.sqlserver.wire.raw_client import ATTENTION, LOGIN, PRELOGIN, Client, batch, login_body, packet

USER, PASSWORD = "sa", "secret"
SHORT, FULL = 1200, 10_000
SHORT_TLS, FULL_TLS = 300, 1_000
_PATIENCE = 20.0
_DEFECTS = "defect of the emulator"


@pytest.fixture(scope="module")
def tls() -> TlsSettings:
    return TlsSettings.self_made()


@pytest.fixture(scope="module")
def engine() -> Iterator[SqlEngine]:
    made = build_engine(users={USER: PASSWORD}, databases=["demo"], capture_interval=3600)
    assert isinstance(made, SqlEngine)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(engine: SqlEngine, tls: TlsSettings) -> Iterator[SqlServerEmulator]:
    with SqlServerEmulator(engine, tls=tls) as running:
        yield running


@pytest.fixture(scope="module")
def conversations(server: SqlServerEmulator) -> list[Packets]:
    """What two drivers say, after a login that is the same everywhere (theirs name process and machine), and what none of them does."""
    prelogin = packet(PRELOGIN, struct.pack(">BHHBB", 1, 6, 1, 0xFF, 2))
    start = [prelogin, packet(LOGIN, login_body(USER, PASSWORD))]
    found: list[Packets] = []
    for talk in (_python_tds, _pymssql):
        said = recorded(server.port, talk)
        assert [said[0][0], said[1][0]] == [PRELOGIN, LOGIN]
        found.append([*start, *said[2:]])
    ahead = [batch("SELECT TOP (50) name, object_id FROM sys.all_columns"), packet(ATTENTION, b""), batch("SELECT 1")]
    return [*found, [*start, *ahead]]


def _python_tds(port: int) -> None:
    with pytds.connect("127.0.0.1", "demo", USER, PASSWORD, port=port) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT %s, %s, %s, %s", (1, "text", b"\x00\x01", 2.5))
        cursor.fetchall()
        cursor.callproc("sp_executesql", ("SELECT @a", "@a int", 5))
        cursor.fetchall()
        connection.rollback()


def _pymssql(port: int) -> None:
    options: dict[str, Any] = {"user": USER, "password": PASSWORD, "database": "demo", "encryption": "off"}
    with pymssql.connect(server="127.0.0.1", port=str(port), **options) as connection:
        cursor = connection.cursor()
        cursor.execute("DECLARE @n INT = 1; WHILE @n < 4 BEGIN SELECT @n AS n, N'text' AS s; SET @n += 1 END")
        cursor.fetchall()
        cursor.execute("SELECT name FROM sys.databases ORDER BY name")
        cursor.fetchall()
        connection.commit()


def attack(client: Client, data: bytes, *, patient: bool) -> None:
    """Send, look what comes, hang up, and wait for the server to do the same; TimeoutError when it does not."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        client.send(data)
        if patient:
            client.socket.settimeout(0.02)
            with contextlib.suppress(TimeoutError):
                while client.socket.recv(65536):
                    pass
    client.socket.settimeout(_PATIENCE)
    with contextlib.suppress(OSError):  # the server has closed, and it is known here already
        client.socket.shutdown(socket.SHUT_WR)
    with contextlib.suppress(ConnectionError):
        while client.socket.recv(65536):
            pass


def assert_well(server: SqlServerEmulator, engine: SqlEngine, threads: int) -> None:
    """Nothing of the earlier clients is left, and a new one is served."""
    end = time.monotonic() + _PATIENCE
    while server.connections or engine._sessions or threading.active_count() > threads:
        assert time.monotonic() < end, (server.connections, list(engine._sessions), threading.enumerate())
        time.sleep(0.005)
    client = Client(server.port)
    with client.socket:
        client.send(packet(LOGIN, login_body(USER, PASSWORD)))
        client.message()
        client.send(batch("SELECT 1"))
        assert client.message()[0] == 0x81
    while server.connections:
        time.sleep(0.001)


def run(
    cases: Sequence[int],
    server: SqlServerEmulator,
    engine: SqlEngine,
    conversations: list[Packets],
    tls: str | None = None,
) -> None:
    threads = threading.active_count()
    for place, number in enumerate(cases):
        client = Client(server.port)
        with client.socket:
            if tls is not None:
                client.encrypt(tls, 1)
            try:
                attack(client, case(number, conversations), patient=number % 5 == 0)
            except TimeoutError:
                pytest.fail(f"case {number}: neither an answer nor an end within {_PATIENCE} s")
        if place % 100 == 99:
            assert_well(server, engine, threads)
    assert_well(server, engine, threads)


@pytest.mark.parametrize(
    "cases", [pytest.param(range(SHORT), id="short"), pytest.param(range(FULL), id="full", marks=pytest.mark.soak)]
)
def test_bent_conversations_neither_hang_nor_kill_nor_leak(
    cases: Sequence[int],
    server: SqlServerEmulator,
    engine: SqlEngine,
    conversations: list[Packets],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        run(cases, server, engine, conversations)
    assert _DEFECTS not in caplog.text


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(range(50_000, 50_000 + SHORT_TLS), id="short"),
        pytest.param(range(50_000, 50_000 + FULL_TLS), id="full", marks=pytest.mark.soak),
    ],
)
def test_nor_do_they_behind_tls(
    cases: Sequence[int],
    server: SqlServerEmulator,
    engine: SqlEngine,
    conversations: list[Packets],
    tls: TlsSettings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    behind = [packets[1:] for packets in conversations]  # PRELOGIN was before TLS
    with caplog.at_level(logging.ERROR):
        run(cases, server, engine, behind, tls.authority)
    assert _DEFECTS not in caplog.text


def test_a_bent_handshake_of_tls_ends_or_goes_on(
    server: SqlServerEmulator, engine: SqlEngine, tls: TlsSettings, caplog: pytest.LogCaptureFixture
) -> None:
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = ssl.create_default_context(cadata=tls.authority).wrap_bio(received, sent, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    client_hello = sent.read()
    talk = [packet(PRELOGIN, struct.pack(">BHHBB", 1, 6, 1, 0xFF, 1)), packet(PRELOGIN, client_hello)]
    with caplog.at_level(logging.ERROR):
        run(range(70_000, 70_200), server, engine, [talk])
    assert _DEFECTS not in caplog.text


def test_bent_records_of_tls_end_the_connection(
    server: SqlServerEmulator, engine: SqlEngine, tls: TlsSettings, caplog: pytest.LogCaptureFixture
) -> None:
    threads = threading.active_count()
    for number in range(100):
        source = random.Random(80_000 + number)
        client = Client(server.port)
        with client.socket, caplog.at_level(logging.ERROR):
            client.encrypt(tls.authority, source.choice((0, 1)))
            record = bytearray(client.record(packet(LOGIN, login_body(USER, PASSWORD))))
            for _ in range(source.randrange(1, 4)):
                record[source.randrange(len(record))] ^= 1 << source.randrange(8)
            client.drop_tls()
            attack(client, bytes(record), patient=False)
    assert_well(server, engine, threads)
    assert _DEFECTS not in caplog.text
