"""AMQP inside a WebSocket: the messages' octets, one after the other, are the connection's byte stream.

Refuses with an HTTP status: another path (404), no upgrade (426), no subprotocol that is known here (400); what is no HTTP/1.1
request is hung up on. Closes with a code: text (1003),
a frame larger than `MAX_FRAGMENT` (1009), whatever breaks RFC 6455 (1002). How messages are cut is the client's affair: an AMQP
frame may span several, and a message hold several. No extension is agreed on.
The protocol itself is the `websockets` library's (docs/decisions/0005-amqp-over-websocket.md).

Sources: RFC 6455; OASIS "AMQP Version 1.0 WebSocket Binding"; learn.microsoft.com "AMQP 1.0 in Azure Service Bus: protocol guide";
the subprotocol's name and the path as Azure's clients ask for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote, urlsplit

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

PATH: Final = "/$servicebus/websocket"
SUBPROTOCOLS: Final = (Subprotocol("AMQPWSB10"), Subprotocol("amqp"))
"""What Azure's clients say, and what the binding's specification says."""
MAX_FRAGMENT: Final = 16 << 20
CLOSE_TIMEOUT: Final = 10.0
"""Seconds a client has to answer our close frame."""
_DATA: Final = (Opcode.BINARY, Opcode.CONT)


class WebSocket(asyncio.Protocol):
    """One WebSocket. `arrived()` makes the protocol that its contents go to; `left` is told when it is lost without one."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, arrived: Callable[[], asyncio.Protocol], left: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._arrived = arrived
        self._left = left
        self._protocol = ServerProtocol(subprotocols=SUBPROTOCOLS, max_size=(None, MAX_FRAGMENT))
        self._contents: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._answer(event)
            elif isinstance(event, Frame) and not self._take(event):
                break
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._contents is None:
            self._left()
        else:
            self._contents.connection_lost(exc)
        self._contents = self._transport = None

    def pause_writing(self) -> None:
        if self._contents is not None:
            self._contents.pause_writing()

    def resume_writing(self) -> None:
        if self._contents is not None:
            self._contents.resume_writing()

    def send(self, data: bytes) -> None:
        """One binary message."""
        if self._protocol.state is OPEN:
            self._protocol.send_binary(data)
            self._flush()

    def close(self) -> None:
        """Say so, and wait for the client to say it too."""
        if self._protocol.state is OPEN:
            self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
            self._flush()
            if self._transport is not None:
                self._deadline = self._loop.call_later(CLOSE_TIMEOUT, self._transport.abort)

    def _answer(self, request: Request) -> None:
        protocol = self._protocol
        if unquote(urlsplit(request.path).path).rstrip("/") != PATH:
            response = protocol.reject(HTTPStatus.NOT_FOUND, f"the only WebSocket here is at {PATH}\n")
        else:
            response = protocol.accept(request)
        protocol.send_response(response)
        if protocol.state is OPEN:
            assert self._transport is not None
            self._flush()
            self._contents = self._arrived()
            self._contents.connection_made(_Inside(self, self._transport))

    def _take(self, frame: Frame) -> bool:
        """Whether to go on."""
        if frame.opcode is Opcode.TEXT:
            self._protocol.fail(CloseCode.UNSUPPORTED_DATA, "AMQP is binary")
            return False
        if frame.opcode in _DATA and self._contents is not None:
            self._contents.data_received(bytes(frame.data))
        return True

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if self._transport is None:
                return
            if data:
                self._transport.write(data)
            else:
                self._transport.close()


class _Inside(asyncio.Transport):
    """What the AMQP side takes for its socket."""

    def __init__(self, websocket: WebSocket, outer: asyncio.Transport) -> None:
        super().__init__()
        self._websocket = websocket
        self._outer = outer

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._websocket.send(bytes(data))

    def close(self) -> None:
        self._websocket.close()

    def abort(self) -> None:
        self._outer.abort()

    def is_closing(self) -> bool:
        return self._outer.is_closing()

    def pause_reading(self) -> None:
        self._outer.pause_reading()

    def resume_reading(self) -> None:
        self._outer.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._outer.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._outer.set_write_buffer_limits(high, low)
