"""The first octets of a connection: they tell whether AMQP is spoken on it as it is or inside a WebSocket.

One port serves both, plain or behind TLS. Who says nothing, or never finishes the request for a WebSocket, is hung up on.
Anything that is no HTTP request is left to the AMQP side, which answers a wrong protocol header as AMQP has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

HANDSHAKE_TIMEOUT: Final = 60.0
"""Seconds a client has to say what it speaks, TLS and the opening of a WebSocket included."""
_HTTP: Final = b"GET "


class Doorway(asyncio.Protocol):
    """Stands in until it is known who to hand the transport to; in `arriving` until AMQP is spoken on it, or it is lost."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        amqp: Callable[[], asyncio.Protocol],
        arriving: set[Doorway],
        unheard: Callable[[bool], bool],
    ) -> None:
        """`unheard`: whether nothing is to be heard of whoever connects now; a TLS handshake (True) has been asked already."""
        self._loop = loop
        self._unheard = unheard
        self._hushed = False
        self._amqp = amqp
        self._arriving = arriving
        self._heard = b""
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._arriving.add(self)
        if transport.get_extra_info("sslcontext") is None and self._unheard(False):
            self._hushed = True
        else:
            self._deadline = self._loop.call_later(HANDSHAKE_TIMEOUT, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._hushed:
            return
        self._heard += data
        if self._heard.startswith(_HTTP):
            self._hand_over(self._websocket())
        elif not _HTTP.startswith(self._heard):
            self._hand_over(self.arrived())

    def connection_lost(self, exc: Exception | None) -> None:
        self.left()

    def arrived(self) -> asyncio.Protocol:
        """The AMQP side of this connection, which is in nobody's way here from now on."""
        self.left()
        return self._amqp()

    def left(self) -> None:
        """The connection is lost, or has arrived."""
        self._arriving.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()

    def abort(self) -> None:
        """Hang up without a word."""
        if self._transport is not None:
            self._transport.abort()

    def _websocket(self) -> asyncio.Protocol:
        # Only now: most clients never ask for it, and loading it takes longer than all the rest of the emulator.
        from .websocket import WebSocket

        return WebSocket(self._loop, self.arrived, self.left)

    def _hand_over(self, protocol: asyncio.Protocol) -> None:
        transport = self._transport
        assert transport is not None
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(self._heard)
