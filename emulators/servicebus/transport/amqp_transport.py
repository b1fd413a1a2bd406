"""A client's connection between its socket and the AMQP state machine.

Writes are grouped: whatever a turn of the event loop produced for a connection leaves in one call, and nothing leaves before
the journal has committed what it tells of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from emulators.servicebus.amqp.connection import MOST_QUEUED, Application, Connection
from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.faults.injection import Faults


class Broker(Application, Protocol):
    """What stands behind one connection."""

    def tick(self) -> None:
        """Time passes."""
        ...

    def detach(self, path: str, failure: AmqpError) -> None:
        """Detach the links to an entity; the path in lower case, empty for all."""
        ...


class AmqpTransport(asyncio.Protocol):
    """A byte stream around a `Connection`; in `open_transports` from when it is made until it is lost.

    `commit` makes safe what the answers tell of; False when that failed, and nothing leaves. `now` is a monotonic clock in
    seconds, for what happens to the idle.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        commit: Callable[[], bool],
        broker: Broker,
        open_transports: set[AmqpTransport],
        faults: Faults,
        now: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._now = now
        self._commit = commit
        self._open_transports = open_transports
        self._scheduled = False
        self._transport: asyncio.Transport | None = None
        self.broker = broker
        self.connection = Connection(lambda _: broker, self._wake, now(), divert=faults.writing, heed=faults.reading)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=MOST_QUEUED)
        self._open_transports.add(self)

    def data_received(self, data: bytes) -> None:
        self.connection.receive(data, self._now())

    def pause_writing(self) -> None:
        self.connection.pause()

    def resume_writing(self) -> None:
        self.connection.resume()

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
        data = self.connection.output(self._now())
        if data:
            transport.write(data)
            self.connection.flushed()
        if self.connection.closed:
            transport.close()

    def tick(self) -> None:
        """Time passes."""
        self.connection.tick(self._now())
        self.broker.tick()

    def detach(self, path: str, failure: AmqpError) -> None:
        """Detach the client's links to an entity; the path in lower case, empty for all."""
        self.broker.detach(path, failure)

    def abort(self) -> None:
        """Hang up without a word."""
        if self._transport is not None:
            self._transport.abort()
