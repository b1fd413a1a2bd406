"""The AMQP side of an emulator, on one event loop: its ports, its clients, the clock that ticks, and what must be kept.

When what was noted cannot be kept, everybody is hung up on before anything is answered, and the loop stops.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Collection
from typing import Final, Protocol

from .faults.injection import Faults
from .transport.amqp_transport import AmqpTransport, Broker
from .transport.doorway import HANDSHAKE_TIMEOUT, Doorway
from .transport.handshake import handshakes

BACKLOG: Final = 1024
"""Connections waiting to be accepted: a client program may open hundreds at once."""
TICK: Final = 0.05
"""Seconds between two looks at what is due; locks and the like are checked exactly whenever they are used."""

_log = logging.getLogger(__name__)


class Service(Protocol):
    """What is served: a namespace with its rights."""

    def broker(self, faults: Faults) -> Broker:
        """For one more connection."""
        ...

    def sweep(self) -> None:
        """Do everything that is due."""
        ...

    def commit(self) -> None:
        """Make everything noted safe, all of it or nothing. Raises OSError when that cannot be."""
        ...


class AmqpServer:
    """Clients of one namespace. `name`: of the service, for the log. `monotonic`, in seconds, is the clock of what is idle."""

    def __init__(
        self, name: str, service: Service, monotonic: Callable[[], float], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.loop = loop
        self.faults = Faults()
        self.transports: set[AmqpTransport] = set()
        self._name = name
        self._service = service
        self._monotonic = monotonic
        self._ports: list[tuple[str, int, ssl.SSLContext | None]] = []
        self._ticker: asyncio.TimerHandle | None = None
        self._arriving: set[Doorway] = set()
        self._servers: list[asyncio.Server] = []
        self.failure: OSError | None = None
        self._closing = False

    def _amqp(self) -> AmqpTransport:
        broker = self._service.broker(self.faults)
        return AmqpTransport(self.loop, self._commit, broker, self.transports, self.faults, self._monotonic)

    @property
    def clients(self) -> Collection[AmqpTransport]:
        """Those connected now."""
        return self.transports

    async def listen(self, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
        """On one more port, behind TLS when there is a context for it; returns the port in use. Raises OSError."""
        if context is not None:
            context.sslobject_class = handshakes(self.faults.arriving)
        server = await self.loop.create_server(
            lambda: Doorway(self.loop, self._amqp, self._arriving, self.faults.arriving),
            host,
            port,
            backlog=BACKLOG,
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT if context else None,
        )
        self._servers.append(server)
        if self._ticker is None:
            self._ticker = self.loop.call_later(TICK, self._tick)
        bound = int(server.sockets[0].getsockname()[1])
        if (host, bound, context) not in self._ports:
            self._ports.append((host, bound, context))
        return bound

    async def close_ports(self) -> None:
        """Hang up on everybody and stop listening; everything else stays."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        self.drop()

    async def open_ports(self) -> None:
        """Listen again, on the same ports. Raises OSError when one was taken meanwhile."""
        for port in list(self._ports):
            await self.listen(*port)

    def _tick(self) -> None:
        self._ticker = self.loop.call_later(TICK, self._tick)
        self._service.sweep()
        if not self._commit():
            return
        for transport in list(self.transports):
            transport.tick()

    def _commit(self) -> bool:
        """Make safe what was noted. When that fails everybody is hung up on before anything is answered, and the loop stops."""
        try:
            self._service.commit()
        except OSError as error:
            if self.failure is None:
                self.failure = error
                _log.critical("the %s emulator stops: %s", self._name, error)
                self.drop()
                self.halt()
            return False
        return True

    def halt(self) -> None:
        """Leave the loop. While it hangs up on everybody that is left to `close`, which a stop would cut short."""
        if not self._closing:
            self.loop.stop()

    async def close(self) -> None:
        """Stop listening and hang up on everybody, those in the middle of a TLS handshake included."""
        self._closing = True
        if self._ticker is not None:
            self._ticker.cancel()
        for server in self._servers:
            server.close()
        accepting = asyncio.all_tasks(self.loop) - {asyncio.current_task()}
        for task in accepting:
            task.cancel()
        await asyncio.gather(*accepting, return_exceptions=True)
        self.drop()
        while self.transports or self._arriving:
            await asyncio.sleep(0)
        for _ in range(2):  # a connection whose acceptance was cancelled is closed by the loop's next turns
            await asyncio.sleep(0)
        # One whose acceptance was cut off before its first step is in no list of ours, but asyncio's own.
        for left in list(getattr(self.loop, "_transports", {}).values()):
            left.abort()
        await asyncio.sleep(0)
        for server in self._servers:
            await server.wait_closed()

    def drop(self) -> None:
        """Hang up on everybody."""
        for transport in list(self.transports):
            transport.abort()
        for newcomer in list(self._arriving):
            newcomer.abort()
