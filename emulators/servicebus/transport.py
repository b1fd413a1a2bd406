"""A client's connection between its socket and the AMQP state machine.

Writes are grouped: whatever a turn of the event loop produced for a connection leaves in one call, and nothing leaves before
the journal has committed what it tells of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .amqp.connection import Connection
from .broker import ClientBroker


class AmqpTransport(asyncio.Protocol):
    """A byte stream around a `Connection`; in `open_transports` from when it is made until it is lost.

    `commit` makes safe what the answers tell of; False when that failed, and nothing leaves.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        commit: Callable[[], bool],
        broker: ClientBroker,
        open_transports: set[AmqpTransport],
    ) -> None:
        self._loop = loop
        self._commit = commit
        self._open_transports = open_transports
        self._scheduled = False
        self._transport: asyncio.Transport | None = None
        self.broker = broker
        self.connection = Connection(lambda _: broker, self._wake, loop.time())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open_transports.add(self)

    def data_received(self, data: bytes) -> None:
        self.connection.receive(data, self._loop.time())

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_transports.discard(self)
        self._transport = None
        self.connection.lost()

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        transport = self._transport
        if transport is None:
            return
        if not self._commit():
            return
        data = self.connection.output(self._loop.time())
        if data:
            transport.write(data)
        if self.connection.closed:
            transport.close()

    def abort(self) -> None:
        """Hang up without a word."""
        if self._transport is not None:
            self._transport.abort()
