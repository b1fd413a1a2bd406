"""Where faults get in: the hooks of a Fault, and the set of those in force on a server.

It knows no fault by name (see catalogue.py). Everything here happens on the event loop. A fault that is not in force costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol

from emulators.servicebus.amqp.connection import Connection
from emulators.servicebus.amqp.frames import Frame
from emulators.servicebus.amqp.values import AmqpError, Value


class Client(Protocol):
    """A client's connection."""

    def detach(self, path: str, failure: AmqpError) -> None:
        """Detach its links to an entity; the path in lower case, empty for all."""
        ...

    def abort(self) -> None:
        """Hang up without a word."""
        ...


class Server(Protocol):
    """What a fault may do to a server beyond its hooks."""

    loop: asyncio.AbstractEventLoop

    @property
    def clients(self) -> Collection[Client]:
        """Those connected now."""
        ...

    async def close_ports(self) -> None:
        """Hang up on everybody and stop listening; everything else stays."""
        ...

    async def open_ports(self) -> None:
        """Listen again, on the same ports."""
        ...


class Fault:
    """One thing that goes wrong while it is in force. These hooks do nothing. Paths are in lower case."""

    def begin(self, server: Server) -> None:
        """It comes into force on this server."""

    async def end(self) -> None:
        """It is over: what it kept back is sent."""

    def arriving(self, secure: bool) -> bool:
        """A client has connected, or begins its TLS handshake (`secure`): True when nothing that it says is ever heard."""
        return False

    def reading(self, connection: Connection, item: bytes | Frame) -> bool:
        """A protocol header or a frame has come in: True when the fault sees to it, and nobody else hears of it."""
        return False

    def managing(self) -> float | None:
        """A request to the management API is to be answered: how much of the answer is said, as a share; None for all of it."""
        return None

    def sending(self, path: str, ids: Collection[Value] = ()) -> AmqpError | None:
        """A client sends the messages with these ids to an entity, or schedules some: why it may not."""
        return None

    def taking(self, path: str, octets: int) -> None:
        """An entity has taken so many octets that a client sent at once; what is written next to that client answers it."""

    def asking(self, path: str) -> AmqpError | None:
        """A client asks an entity for messages, or for something of its `$management`: why it may not."""
        return None

    def settling(self, path: str, session: bool) -> AmqpError | None:
        """A client settles a message, under a session's lock or the message's own: why that lock is lost."""
        return None

    def writing(self, connection: Connection, frame: bytes) -> bool:
        """A frame is about to be sent: True when the fault sees to it, by `connection.emit`, later, in part or never."""
        return False


class Faults:
    """The faults in force on a server."""

    def __init__(self) -> None:
        self._active: tuple[Fault, ...] = ()

    def begin(self, fault: Fault, server: Server) -> None:
        """Put in force."""
        fault.begin(server)
        self._active = (*self._active, fault)

    async def end(self, fault: Fault) -> None:
        """Take out of force."""
        self._active = tuple(other for other in self._active if other is not fault)
        await fault.end()

    def arriving(self, secure: bool) -> bool:
        """True when a fault keeps this client from being heard."""
        return any(fault.arriving(secure) for fault in self._active)

    def reading(self, connection: Connection, item: bytes | Frame) -> bool:
        """True when a fault sees to what came in; the first that does is the last that is asked."""
        return bool(self._active) and any(fault.reading(connection, item) for fault in self._active)

    def managing(self) -> float | None:
        """How much of an answer of the management API is said, as a share; None for all of it."""
        return next((share for fault in self._active if (share := fault.managing()) is not None), None)

    def sending(self, path: str, ids: Collection[Value] = ()) -> None:
        """Raises AmqpError when a fault refuses."""
        for fault in self._active:
            if (failure := fault.sending(path, ids)) is not None:
                raise failure

    def taking(self, path: str, octets: int) -> None:
        """Tell that an entity has taken so many octets."""
        for fault in self._active:
            fault.taking(path, octets)

    def asking(self, path: str) -> None:
        """Raises AmqpError when a fault refuses."""
        for fault in self._active:
            if (failure := fault.asking(path)) is not None:
                raise failure

    def settling(self, path: str, session: bool = False) -> AmqpError | None:
        """Why the lock is lost; None when it is not."""
        for fault in self._active:
            if (failure := fault.settling(path, session)) is not None:
                return failure
        return None

    def writing(self, connection: Connection, frame: bytes) -> bool:
        """True when a fault sees to the frame; the first that does is the last that is asked."""
        return bool(self._active) and any(fault.writing(connection, frame) for fault in self._active)
