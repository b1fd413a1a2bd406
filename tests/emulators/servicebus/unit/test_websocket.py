"""A WebSocket as the server sees it, octet by octet: RFC 6455 and what is left of it for AMQP."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, cast

import pytest

from emulators.servicebus.transport.doorway import HANDSHAKE_TIMEOUT, Doorway
from emulators.servicebus.transport.websocket import CLOSE_TIMEOUT, MAX_FRAGMENT

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FIN, RESERVED = 0x80, 0x40
ACCEPTED = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
"""What section 1.3 of the RFC answers to its own key."""


def request(path: str = "/$servicebus/websocket", **changed: str | None) -> bytes:
    """The handshake of an Azure client; `changed` headers, None to leave one out."""
    headers: dict[str, str | None] = {
        "Host": "localhost",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "AMQPWSB10",
    }
    headers |= {f"{'' if name == 'Upgrade' else 'Sec-WebSocket-'}{name}": value for name, value in changed.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode()


def frame(opcode: int, payload: bytes = b"", *, flags: int = FIN, mask: bytes | None = b"\x05\x0a\x50\xa0") -> bytes:
    """A client's frame, section 5.2; with `mask` None, one of a client that breaks the rules."""
    length = len(payload)
    size = bytes([length]) if length < 126 else struct.pack(">BH", 126, length)
    if mask is None:
        return bytes([flags | opcode]) + size + payload
    masked = bytes(octet ^ mask[at % 4] for at, octet in enumerate(payload))
    return bytes([flags | opcode, size[0] | 0x80]) + size[1:] + mask + masked


def server_frame(opcode: int, payload: bytes = b"") -> bytes:
    return frame(opcode, payload, mask=None)


def closing(code: int, reason: bytes = b"") -> bytes:
    return struct.pack(">H", code) + reason


class Timer:
    def __init__(self, delay: float, call: Callable[[], object]) -> None:
        self.delay = delay
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Timers:
    """The part of an event loop that is asked for here."""

    def __init__(self) -> None:
        self.set: list[Timer] = []

    def call_later(self, delay: float, call: Callable[[], object]) -> Timer:
        self.set.append(Timer(delay, call))
        return self.set[-1]

    def running(self) -> list[float]:
        return [timer.delay for timer in self.set if not timer.cancelled]


class Amqp(asyncio.Protocol):
    """What a WebSocket's contents go to."""

    def __init__(self) -> None:
        self.heard = b""
        self.lost = False
        self.paused = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False


class Client(asyncio.Transport):
    """The other end of the wire, and the transport that leads there."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = b""
        self.closed = self.aborted = False
        self.timers = Timers()
        self.arriving: set[Doorway] = set()
        self.amqp: Amqp | None = None
        self.set_protocol(Doorway(cast(Any, self.timers), self._arrive, self.arriving, lambda secure: False))
        self.protocol.connection_made(self)

    def _arrive(self) -> Amqp:
        self.amqp = Amqp()
        return self.amqp

    @property
    def protocol(self) -> asyncio.Protocol:
        return cast(asyncio.Protocol, self._protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def send(self, *data: bytes) -> None:
        for each in data:
            self.protocol.data_received(each)

    def connected(self) -> Client:
        self.send(request())
        assert self.amqp is not None
        self.heard = b""
        return self

    @property
    def contents(self) -> bytes:
        assert self.amqp is not None
        return self.amqp.heard

    @property
    def inside(self) -> asyncio.Transport:
        assert self.amqp is not None
        assert self.amqp.transport is not None
        return self.amqp.transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.heard += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


@pytest.fixture
def client() -> Client:
    return Client()


def test_the_request_is_answered_as_the_rfc_shows(client: Client) -> None:
    client.send(request())
    status, *headers = client.heard.split(b"\r\n")
    assert status == b"HTTP/1.1 101 Switching Protocols"
    assert b"Sec-WebSocket-Accept: " + ACCEPTED in headers
    assert b"Sec-WebSocket-Protocol: AMQPWSB10" in headers
    assert client.heard.endswith(b"\r\n\r\n")
    assert client.arriving == set()
    assert client.timers.running() == []


@pytest.mark.parametrize("path", ["/$servicebus/websocket/", "/%24servicebus/websocket", "/$servicebus/websocket?a=b"])
def test_the_path_is_known_in_every_spelling(client: Client, path: str) -> None:
    client.send(request(path))
    assert client.amqp is not None


@pytest.mark.parametrize("offered", ["amqp", "mqtt, amqp", "amqp, AMQPWSB10"])
def test_a_subprotocol_that_is_known_is_agreed_on(client: Client, offered: str) -> None:
    client.send(request(Protocol=offered))
    assert client.heard.count(b"Sec-WebSocket-Protocol: ") == 1
    assert client.amqp is not None


def test_no_extension_is_agreed_on(client: Client) -> None:
    client.send(request(Extensions="permessage-deflate"))
    assert b"Extensions" not in client.heard
    assert client.amqp is not None


@pytest.mark.parametrize(("asked", "status"), [
    (request("/"), b"404"), (request("/$servicebus"), b"404"), (request("/queue/messages"), b"404"),
    (request(Protocol=None), b"400"), (request(Protocol="mqtt"), b"400"),
    (request(Version="8"), b"400"), (request(Key="short"), b"400"), (request(Key=None), b"400"),
    (request(Upgrade=None), b"426"), (request(Upgrade="h2c"), b"426"),
])  # fmt: skip
def test_another_request_is_refused(client: Client, asked: bytes, status: bytes) -> None:
    client.send(asked)
    assert client.heard.startswith(b"HTTP/1.1 " + status)
    assert client.closed
    assert client.amqp is None


@pytest.mark.parametrize("asked", [b"GET / HTTP/1.0\r\n\r\n", b"GET /" + b"x" * 9000, b"GET \r\n\r\n"])
def test_what_is_no_request_is_hung_up_on(client: Client, asked: bytes) -> None:
    client.send(asked)
    assert client.closed
    assert client.amqp is None


def test_octets_may_come_one_by_one(client: Client) -> None:
    data = request() + frame(BINARY, b"hello") + frame(PING, b"?")
    client.send(*(data[at : at + 1] for at in range(len(data))))
    assert client.contents == b"hello"
    assert client.heard.endswith(server_frame(PONG, b"?"))


def test_octets_behind_the_request_are_not_lost(client: Client) -> None:
    client.send(request() + frame(BINARY, b"one") + frame(BINARY, b"two"))
    assert client.contents == b"onetwo"


def test_amqp_as_it_is_passes_by(client: Client) -> None:
    client.send(b"A")
    client.send(b"MQP\x03\x01\x00\x00")
    assert client.contents == b"AMQP\x03\x01\x00\x00"
    assert client.inside is client
    assert client.timers.running() == []


@pytest.mark.parametrize("data", [b"\x16\x03\x01", b"GO AWAY", b"POST / HTTP/1.1\r\n"])
def test_anything_else_is_the_amqp_sides_to_refuse(client: Client, data: bytes) -> None:
    client.send(data)
    assert client.contents == data


def test_fragments_are_one_stream_and_a_ping_may_come_between(client: Client) -> None:
    client.connected().send(
        frame(BINARY, b"a" * 200, flags=0), frame(PING, b"now"), frame(CONTINUATION, b"b", flags=0), frame(CONTINUATION)
    )
    assert client.contents == b"a" * 200 + b"b"
    assert client.heard == server_frame(PONG, b"now")


def test_a_pong_and_an_empty_message_are_nothing(client: Client) -> None:
    client.connected().send(frame(PONG, b"unasked"), frame(BINARY))
    assert client.contents == b""
    assert client.heard == b""


@pytest.mark.parametrize(("sent", "code"), [
    (frame(BINARY, b"x", mask=None), 1002),
    (frame(BINARY, b"x", flags=FIN | RESERVED), 1002),
    (frame(3, b"x"), 1002),
    (frame(11), 1002),
    (frame(CONTINUATION, b"x"), 1002),
    (frame(BINARY, b"x", flags=0) + frame(BINARY, b"y"), 1002),
    (frame(PING, b"x", flags=0), 1002),
    (frame(PING, b"x" * 126), 1002),
    (frame(CLOSE, b"x"), 1002),
    (frame(CLOSE, closing(1005)), 1002),
    (frame(CLOSE, closing(1000, b"\xff")), 1007),
    (frame(TEXT, b"x"), 1003),
    (frame(TEXT, b"\xff\xfe"), 1003),
    (bytes([FIN | BINARY, 0x80 | 127]) + struct.pack(">Q", MAX_FRAGMENT + 1), 1009),
])  # fmt: skip
def test_what_breaks_the_rules_is_closed_with_a_code(client: Client, sent: bytes, code: int) -> None:
    client.connected().send(sent)
    assert client.heard[0] == FIN | CLOSE
    assert client.heard[2:4] == struct.pack(">H", code)
    assert client.closed
    client.protocol.connection_lost(None)
    assert client.amqp is not None
    assert client.amqp.lost


def test_after_a_breach_nothing_more_is_heard(client: Client) -> None:
    client.connected().send(frame(BINARY, b"good") + frame(TEXT, b"bad") + frame(BINARY, b"late"))
    client.send(frame(BINARY, b"later"))
    assert client.contents == b"good"


def test_a_close_is_answered_and_then_hung_up_on(client: Client) -> None:
    client.connected().send(frame(CLOSE, closing(1000, b"bye")))
    assert client.heard == server_frame(CLOSE, closing(1000, b"bye"))
    assert client.closed


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
def test_what_amqp_writes_is_one_binary_message(client: Client, size: int) -> None:
    client.connected().inside.write(b"x" * size)
    header = {0: b"\x00", 1: b"\x01", 125: b"\x7d", 126: b"\x7e\x00\x7e", 65_535: b"\x7e\xff\xff"}.get(
        size, b"\x7f" + struct.pack(">Q", size)
    )
    assert client.heard == bytes([FIN | BINARY]) + header + b"x" * size


def test_our_close_waits_for_the_clients(client: Client) -> None:
    client.connected().inside.close()
    client.inside.close()
    client.inside.write(b"too late")
    assert client.heard == server_frame(CLOSE, closing(1000))
    assert not client.closed
    assert client.timers.running() == [CLOSE_TIMEOUT]
    client.send(frame(CLOSE, closing(1000)))
    assert client.closed
    client.protocol.connection_lost(None)
    assert client.timers.running() == []


def test_a_client_that_does_not_answer_our_close_is_hung_up_on(client: Client) -> None:
    client.connected().inside.close()
    client.timers.set[-1].call()
    assert client.aborted


def test_a_lost_connection_and_a_full_buffer_are_told(client: Client) -> None:
    client.connected()
    assert client.amqp is not None
    client.protocol.pause_writing()
    assert client.amqp.paused
    client.protocol.resume_writing()
    assert not client.amqp.paused
    client.inside.abort()
    assert client.aborted
    client.protocol.connection_lost(None)
    assert client.amqp.lost


@pytest.mark.parametrize("sent", [b"", b"G", b"GET", request()[:-2]])
def test_who_does_not_say_what_it_wants_is_hung_up_on(client: Client, sent: bytes) -> None:
    client.send(*([sent] if sent else []))
    assert client.timers.running() == [HANDSHAKE_TIMEOUT]
    client.timers.set[0].call()
    assert client.aborted
    client.protocol.connection_lost(None)
    assert client.arriving == set()
    assert client.timers.running() == []


def test_newcomers_can_be_hung_up_on(client: Client) -> None:
    for newcomer in client.arriving:
        newcomer.abort()
    assert client.aborted
