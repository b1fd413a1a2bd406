"""Bytes no driver sends: the server answers or closes, never hangs, and goes on serving others."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from emulators.sqlserver.results import Event, ResultSet, Value
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.sqltypes import SqlType
from tests.emulators.sqlserver.wire.raw_client import (
    ATTENTION,
    BATCH,
    BULK,
    DONE,
    HEADERS,
    LOGIN,
    PRELOGIN,
    RPC,
    TRANSACTION,
    Client,
    batch,
    login_body,
    packet,
)
from tests.fakes.sql_engine import Column, ScriptedEngine, rows_of


@pytest.fixture
def engine() -> ScriptedEngine:
    engine = ScriptedEngine()
    engine.script("one", lambda s, p, c: iter([rows_of({"n": SqlType("int")}, [[1]])]))
    engine.script("endless", _endless)
    return engine


def _endless(session: Any, parameters: Any, cancelled: Any) -> Iterator[Event]:
    def rows() -> Iterator[list[Value]]:
        while True:
            yield ["some text"]

    yield ResultSet([Column("t", SqlType("nvarchar", 50))], rows())


@pytest.fixture
def server(engine: ScriptedEngine) -> Iterator[SqlServerEmulator]:
    with SqlServerEmulator(engine) as running:
        yield running


@pytest.fixture
def client(server: SqlServerEmulator) -> Iterator[Client]:
    made = Client(server.port)
    with made.socket:
        yield made


def test_a_login_without_prelogin_is_accepted(client: Client) -> None:
    client.send(packet(LOGIN, login_body()))
    assert b"Microsoft SQL Server".decode().encode("utf-16-le") in client.message()
    client.send(batch("one"))
    assert client.message()[-13] == DONE


@pytest.mark.parametrize("encryption", [1, 3])
def test_a_client_that_insists_on_encryption_is_told_and_let_go(client: Client, encryption: int) -> None:
    client.send(packet(PRELOGIN, struct.pack(">BHHBB", 1, 6, 1, 0xFF, encryption)))
    assert client.message()[-3:] == b"\x02\x00\x00"
    assert client.closed()


@pytest.mark.parametrize(
    "data",
    [
        packet(BATCH, HEADERS),
        packet(ATTENTION, b""),
        packet(0x99, b"x"),
        packet(4, b"x"),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        packet(PRELOGIN, b""),
        packet(PRELOGIN, b"\x00\xff\xff\xff\xff\xff"),
        packet(PRELOGIN, b"\x00\x00"),
        packet(LOGIN, b"short"),
        packet(LOGIN, b"\xff" * 94),
        packet(LOGIN, login_body()[:-1]),
        struct.pack(">BBHHBB", LOGIN, 1, 7, 0, 1, 0),
        struct.pack(">BBHHBB", LOGIN, 1, 0xFFFF, 0, 1, 0),
        packet(LOGIN, bytes(4000), status=0) * 40,
        packet(LOGIN, b"x", status=0) + packet(BATCH, b"x"),
    ],
)
def test_a_handshake_that_makes_no_sense_ends_the_connection(client: Client, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        client.send(data)
    assert client.closed()


@pytest.mark.parametrize("field", ["user", "password", "database"])
def test_half_a_surrogate_pair_in_a_login_is_18456(client: Client, engine: ScriptedEngine, field: str) -> None:
    client.send(packet(LOGIN, login_body(**{field: "sa\udc00"})))
    assert struct.pack("<i", 18456) in client.message()
    assert client.closed()
    assert engine.sessions == []


@pytest.mark.parametrize(
    "data",
    [
        packet(BATCH, b""),
        packet(BATCH, b"\xff\xff\xff\xff"),
        packet(BATCH, b"\x00\x00\x00\x00"),
        packet(BATCH, struct.pack("<II", 8, 3)),
        packet(BATCH, HEADERS + b"odd"),
        packet(RPC, HEADERS),
        packet(RPC, HEADERS + b"\xff\xff\x63\x00\x00\x00"),
        packet(RPC, HEADERS + b"\xff\xff\x0a\x00\x00\x00\x00\x00\xe7"),
        packet(RPC, HEADERS + b"\xff\xff\x0a\x00\x00\x00\x00\x00\x77"),
        packet(TRANSACTION, HEADERS),
        packet(TRANSACTION, HEADERS + b"\x63\x00"),
        packet(TRANSACTION, HEADERS + b"\x05\x00\x63\x00"),
        packet(TRANSACTION, HEADERS + b"\x09\x00\x09"),
        packet(BULK, b"\x81"),
        packet(BULK, b"\x81\xff\xff"),
        packet(BULK, b"\xd1\x00"),
        packet(BULK, b"\x81\x01\x00\x00\x00\x00\x00\x00\x00\x38\x00\xd1\x01\x00"),
        packet(BULK, b"\x81\x01\x00\x00\x00\x00\x00\x00\x00\x38\x00\x42"),
    ],
)
def test_a_malformed_request_ends_the_connection_and_closes_the_session(
    client: Client, engine: ScriptedEngine, data: bytes
) -> None:
    client.logged_in().send(data)
    assert client.closed()
    assert engine.closed.wait(10)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (packet(TRANSACTION, HEADERS + b"\x00\x00\x00\x00"), "TM_GET_DTC_ADDRESS"),
        (packet(RPC, HEADERS + b"\xff\xff\x0a\x00\x00\x00\x00\x00\x62\x00"), "sql_variant"),
        (packet(RPC, HEADERS + b"\xff\xff\x0a\x00\x00\x00\x00\x00\xf3\x00"), "table-valued parameter"),
        (packet(RPC, HEADERS + b"\xff\xff\x02\x00\x00\x00"), "sp_cursoropen"),
    ],
)
def test_what_is_not_supported_is_refused_by_name_and_the_session_goes_on(
    client: Client, data: bytes, text: str
) -> None:
    client.logged_in().send(data)
    assert text.encode("utf-16-le") in client.message()
    client.send(batch("one"))
    assert client.message()[0] == 0x81


def test_an_attention_is_acknowledged_in_a_message_of_its_own_after_whole_rows(client: Client) -> None:
    client.logged_in().send(batch("endless"))
    client.send(packet(ATTENTION, b""))
    answer = client.message()
    metadata = 3 + 6 + 8 + 1 + 2
    row = b"\xd1\x12\x00" + "some text".encode("utf-16-le")
    rows, last = answer[metadata:-13], answer[-13:]
    assert rows == row * (len(rows) // len(row))
    assert (last[0], last[1] & 0x21) == (DONE, 0)
    assert client.message() == struct.pack("<BHHQ", DONE, 0x20, 0, 0)
    client.send(batch("one"))
    assert client.message()[0] == 0x81


def test_requests_sent_ahead_are_answered_one_after_the_other(client: Client) -> None:
    client.logged_in().send(batch("one") * 50)
    assert len({client.message() for _ in range(50)}) == 1


def test_a_request_marked_ignore_is_not_run(client: Client) -> None:
    client.logged_in().send(packet(BATCH, HEADERS + "endless".encode("utf-16-le"), status=3))
    assert client.message() == struct.pack("<BHHQ", DONE, 0x02, 0, 0)


def test_packet_ids_count_from_one_in_each_message(client: Client, engine: ScriptedEngine) -> None:
    engine.script("long", lambda s, p, c: iter([rows_of({"n": SqlType("int")}, [[n] for n in range(300_000)])]))
    client.logged_in().send(batch("long"))
    seen = []
    status = 0
    while not status & 1:
        _, status, length, session, number, _ = struct.unpack(">BBHHBB", client._exactly(8))
        client._exactly(length - 8)
        seen.append(number)
        assert session == 51
    assert len(seen) > 256
    assert seen == [n & 255 for n in range(1, len(seen) + 1)]


def test_random_bytes_neither_hang_nor_kill_the_server(server: SqlServerEmulator) -> None:
    source = random.Random(20180713)
    kinds = [BATCH, RPC, ATTENTION, TRANSACTION, BULK]
    for _ in range(60):
        client = Client(server.port)
        with client.socket:
            client.logged_in()
            with contextlib.suppress(OSError):  # closed already
                client.send(packet(source.choice(kinds), HEADERS + source.randbytes(source.randrange(200))))
                client.send(source.randbytes(source.randrange(100)))
                client.socket.shutdown(socket.SHUT_WR)
            assert client.closed()
    client = Client(server.port)
    with client.socket:
        client.logged_in().send(batch("one"))
        assert client.message()[0] == 0x81


def test_the_login_answer_tells_database_language_and_packet_size_in_the_servers_order(client: Client) -> None:
    client.send(packet(LOGIN, login_body()))
    answer = client.message()
    marks = [b"\xe3\x17\x00\x01\x04", struct.pack("<i", 5701), b"\xe3\x08\x00\x07\x05", struct.pack("<i", 5703)]
    marks += [b"\x01\x74\x00\x00\x04\x14", b"\x04\x04" + "4096".encode("utf-16-le"), b"\xfd\x00\x00"]
    places = [answer.find(mark) for mark in marks]
    assert -1 not in places
    assert places == sorted(places)
