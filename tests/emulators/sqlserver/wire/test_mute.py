"""A server that is there and says nothing more, at each stage of a connection: what a client sees, what is held, and what frees it."""

from __future__ import annotations

import contextlib
import ssl
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pymssql
import pytest
from pydantic import SecretStr

from common.errors import TransientError
from common.sqladdress import SqlAddress
from dstream.emulators import Login
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.faults.catalogue import Mute, QueryThatHangs
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.tls import TlsSettings
from ingester.sqlserver.connection import Connection
from tests.emulators.sqlserver.wire.raw_client import ATTENTION, LOGIN, PRELOGIN, Client, batch, login_body, packet
from tests.worlds.world import wait_until

USER, PASSWORD = "sa", "a-Password-1"
_QUIET, _LONG = 0.3, 60.0
"""Seconds of silence after which a server is taken for silent, and those in which what must come has come."""
_NO_TLS = packet(PRELOGIN, struct.pack(">BHHBB", 1, 6, 1, 0xFF, 2))
_TLS_FOR_ALL = packet(PRELOGIN, struct.pack(">BHHBB", 1, 6, 1, 0xFF, 1))
_LOGIN = packet(LOGIN, login_body(USER, PASSWORD))


@pytest.fixture(scope="module")
def tls() -> TlsSettings:
    return TlsSettings.self_made()


@pytest.fixture
def server(tls: TlsSettings) -> Iterator[SqlServerEmulator]:
    engine = build_engine(users={USER: PASSWORD}, databases=["demo"])
    with SqlServerEmulator(engine, tls=tls) as running:
        yield running
    engine.close()


@pytest.fixture
def client(server: SqlServerEmulator) -> Iterator[Client]:
    made = Client(server.port)
    with made.socket:
        yield made


@pytest.fixture
def other(server: SqlServerEmulator) -> Iterator[Any]:
    """The cursor of somebody whom no silence concerns, with the table t."""
    with contextlib.closing(Login("127.0.0.1", server.port, USER, PASSWORD, "demo").connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE dbo.t (n INT NOT NULL PRIMARY KEY)")
        yield cursor


def silent(client: Client) -> bool:
    """Whether neither an octet nor the connection's end comes."""
    client.socket.settimeout(_QUIET)
    try:
        client.socket.recv(1)
    except TimeoutError:
        return True
    finally:
        client.socket.settimeout(_LONG)
    return False


def logged_in(client: Client) -> Client:
    client.send(_LOGIN)
    client.message()
    return client


def freed(server: SqlServerEmulator, connections: int = 0) -> None:
    wait_until(lambda: server.connections == connections, "the server notices that its client left", 20)


# The handshake


@pytest.mark.parametrize(
    ("stage", "sent"),
    [("accept", _NO_TLS), ("prelogin", _NO_TLS), ("login", _LOGIN)],
    ids=["accept", "prelogin", "login"],
)
def test_a_handshake_is_not_answered_until_the_client_leaves(
    server: SqlServerEmulator, stage: str, sent: bytes
) -> None:
    with contextlib.ExitStack() as held:
        with server.inject(Mute(stage)):
            client = _connected(server, held)
            client.send(sent)
            assert silent(client)
            assert server.connections == 1
            with contextlib.closing(Login("127.0.0.1", server.port, USER, PASSWORD, "demo").connect()):
                assert server.connections == 2
        assert silent(client)
        client.socket.close()
        freed(server)


def _connected(server: SqlServerEmulator, held: contextlib.ExitStack) -> Client:
    """Connected only now: the server takes a connection on a thread of its own, maybe before a fault comes into force."""
    made = Client(server.port)
    held.enter_context(made.socket)
    return made


def test_accepted_and_not_read_although_the_client_hangs_up(server: SqlServerEmulator) -> None:
    with contextlib.ExitStack() as held, server.inject(Mute("accept")):
        client = _connected(server, held)
        client.send(_LOGIN)
        assert silent(client)
        client.socket.close()
        freed(server)


@pytest.mark.parametrize(("octets", "arriving"), [(None, None), (0, 0), (100, 100)])
def test_the_tls_handshake_stops_in_the_middle(
    server: SqlServerEmulator, client: Client, octets: int | None, arriving: int | None
) -> None:
    with server.inject(Mute("tls", 1, octets)):
        client.send(_TLS_FOR_ALL)
        client.message()
        client.send(packet(PRELOGIN, _client_hello()))
        came = _everything(client, 1 if arriving is None else arriving)
        assert len(came) == arriving if arriving is not None else len(came) < _declared(came)
        client.socket.close()
        freed(server)


def _client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def _everything(client: Client, least: int) -> bytes:
    """What arrives until it is quiet, and at least so many octets, whenever they come."""
    came = b""
    client.socket.settimeout(_LONG)
    while len(came) < least:
        data = client.socket.recv(65536)
        assert data, "the server hung up"
        came += data
    client.socket.settimeout(_QUIET)
    with contextlib.suppress(TimeoutError):
        while data := client.socket.recv(65536):
            came += data
    client.socket.settimeout(_LONG)
    return came


def _declared(came: bytes) -> int:
    """The length of the first packet, by its own header."""
    return int(struct.unpack(">BBH", came[:4])[2])


# Requests


def test_a_batch_that_is_not_answered_does_not_run_and_holds_the_transaction_and_its_locks(
    server: SqlServerEmulator, client: Client, other: Any
) -> None:
    logged_in(client).send(batch("USE demo BEGIN TRAN INSERT INTO dbo.t VALUES (1)"))
    client.message()
    with server.inject(Mute("query")):
        client.send(batch("INSERT INTO dbo.t VALUES (2)"))
        assert silent(client)
        client.send(packet(ATTENTION, b""))
        assert silent(client)
    other.execute("SET LOCK_TIMEOUT 200")
    with pytest.raises(pymssql.Error, match="1222"):
        other.execute("INSERT INTO dbo.t VALUES (3)")
    client.socket.close()
    freed(server, 1)
    other.execute("INSERT INTO dbo.t VALUES (4) SELECT n FROM dbo.t")
    assert other.fetchall() == [(4,)]


def test_only_so_many_statements_of_a_pattern_are_not_answered(
    server: SqlServerEmulator, client: Client, other: Any
) -> None:
    logged_in(client)
    with server.inject(Mute("query", 1, None, "dbo.t")):
        client.send(batch("SELECT 1"))
        assert client.message()
        client.send(batch("SELECT * FROM demo.dbo.t"))
        assert silent(client)
        other.execute("SELECT COUNT(*) FROM dbo.t")
        assert other.fetchall() == [(0,)]


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("octets", [None, 0, 1, 11, 6000])
def test_an_answer_stops_in_the_middle_of_a_packet_and_what_it_answers_has_run(
    server: SqlServerEmulator, client: Client, other: Any, tls: TlsSettings, octets: int | None, encrypted: bool
) -> None:
    if encrypted:
        client.encrypt(tls.authority, wish=1)
    logged_in(client)
    with server.inject(Mute("answer", 1, octets)):
        client.send(batch("INSERT INTO demo.dbo.t VALUES (1) SELECT REPLICATE('x', 8000)"))
        _hears_a_packet(client, whole=octets is not None and octets >= 4096)
        other.execute("SELECT COUNT(*) FROM dbo.t")
        assert other.fetchall() == [(1,)]


def _hears_a_packet(client: Client, *, whole: bool) -> None:
    """`whole`: the first one arrives from its first octet to its last, whenever that is. No further one does."""
    client.socket.settimeout(_LONG)
    if whole:
        header = client._exactly(8)
        client._exactly(struct.unpack(">BBH", header[:4])[2] - 8)
    client.socket.settimeout(_QUIET)
    with pytest.raises(TimeoutError):
        client.message()


def test_a_server_that_stops_reading_blocks_the_client_once_its_buffers_are_full(
    server: SqlServerEmulator, client: Client
) -> None:
    with server.inject(Mute("reading")):
        logged_in(client).socket.settimeout(_QUIET)
        with pytest.raises(TimeoutError):
            client.send(batch(" " * 8000) * 4096)
        assert server.connections == 1
    client.socket.close()
    freed(server)


def test_an_attention_is_not_acknowledged(server: SqlServerEmulator, client: Client) -> None:
    hang = QueryThatHangs()
    logged_in(client)
    with server.inject(hang), server.inject(Mute("attention")):
        client.send(batch("SELECT 1"))
        assert hang.hanging.wait(10)
        client.send(packet(ATTENTION, b""))
        assert silent(client)


def test_an_attention_between_requests_is_not_acknowledged(server: SqlServerEmulator, client: Client) -> None:
    with server.inject(Mute("attention")):
        logged_in(client).send(packet(ATTENTION, b""))
        assert silent(client)


def test_the_server_stops_although_connections_are_silent(server: SqlServerEmulator) -> None:
    clients = [Client(server.port) for _ in range(3)]
    with server.inject(Mute("accept", 1)), server.inject(Mute("login")), server.inject(Mute("reading")):
        for client in clients:
            client.send(_LOGIN)
        wait_until(lambda: server.connections == 3, "all are connected", 20)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        stopping.join(30)
        assert not stopping.is_alive()
        assert server.connections == 0
    for client in clients:
        client.socket.close()


# The driver


def read_often(connection: Connection, times: int) -> None:
    for _ in range(times):
        connection.rows("SELECT 1")


@pytest.mark.parametrize("stage", ["accept", "prelogin", "login"])
def test_pymssql_gives_up_a_login_and_gets_in_the_next_time(server: SqlServerEmulator, stage: str) -> None:
    def connect() -> Any:
        return pymssql.connect(
            server="127.0.0.1", port=str(server.port), user=USER, password=PASSWORD, database="demo", login_timeout=1
        )

    with server.inject(Mute(stage)):
        with pytest.raises(pymssql.OperationalError):
            connect()
        connect().close()


@pytest.mark.parametrize("stage", ["query", "answer", "reading"])
def test_our_connection_gives_up_a_statement_and_opens_another(server: SqlServerEmulator, stage: str) -> None:
    address = SqlAddress("127.0.0.1", server.port, None, "demo", USER, SecretStr(PASSWORD))
    hasty = Connection(address, query_seconds=2)
    try:
        assert hasty.rows("SELECT 1") == [(1,)]
        with server.inject(Mute(stage)):
            with pytest.raises(TransientError):
                read_often(hasty, 3)
            assert hasty.rows("SELECT 1") == [(1,)]
        freed(server, 1)
    finally:
        hasty.close()
