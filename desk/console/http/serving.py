"""uvicorn, with the limits that it lacks: how long a client may take for a head, for reading an answer, and how many may be connected.

uvicorn by itself waits for ever for the first byte of a connection, for the rest of a head, and for a client that does not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from common.errors import ConfigurationError, PermanentError
from desk.console.http.accepting import BACKLOG, Listener, Loop, Troubles

HEAD_SECONDS: Final = 10.0
"""From a connection, or the first byte after an answer, until the head is complete."""
READ_SECONDS: Final = 30.0
"""How long a client may leave an answer unread."""
MOST_CONNECTIONS: Final = 512
MOST_OF_A_CLIENT: Final = 128
"""Connections of an address, or of an IPv6 network, that is not shared by many people."""
CONNECTION: Final = "connection"
"""In the state of each request: a dict that all requests of its connection share."""
_HEAD_BYTES: Final = 32 * 1024
_STOP_SECONDS: Final = 5
"""For answers under way; streams end at once."""
_GLANCE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Tls:
    certificate: Path
    key: Path | None = None


def tls_of(certificate: Path, key: Path | None) -> Tls:
    """Raises ConfigurationError for files that no server can use."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: b"")
    except OSError as error:  # SSLError is one
        raise ConfigurationError(
            [f"--tls-cert {certificate}: {error.strerror or error}"], hint="PEM files, the key without a passphrase"
        ) from error
    return Tls(certificate, key)


class GuardedProtocol(H11Protocol):
    """Closes a connection whose client keeps it waiting. Rests on three public attributes of uvicorn's: see tests/console/test_clients.py."""

    head_seconds = HEAD_SECONDS
    read_seconds = READ_SECONDS
    most_connections = MOST_CONNECTIONS
    most_of_a_client = MOST_OF_A_CLIENT
    since = 0.0
    """When it began to wait for a request."""

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.arrived(transport.get_extra_info("socket").fileno())
        self.app_state = {**self.app_state, CONNECTION: {}}
        self.since = self.loop.time()
        if not self._has_room():
            transport.abort()
            return
        self._await_head()

    @staticmethod
    def counted_as(address: str) -> str | None:
        """The client whose connections are counted together; None where nobody can say whose they are."""
        return None

    @staticmethod
    def arrived(descriptor: int) -> None:
        """The listener counts it no longer."""

    def _has_room(self) -> bool:
        """A client that has too many connections is refused another one. If there are too many in all, the one that has waited longest
        without a request is closed, so silent connections cannot keep others out."""
        guarded = (each for each in self.connections if isinstance(each, GuardedProtocol) and each is not self)
        others = [each for each in guarded if not each.transport.is_closing()]
        client = self._client()
        if client is not None and sum(each._client() == client for each in others) >= self.most_of_a_client:
            return False
        if len(others) < self.most_connections:
            return True
        idle = [each for each in others if each._between_requests()]
        if idle:
            min(idle, key=lambda each: each.since).transport.abort()
        return bool(idle)

    def _client(self) -> str | None:
        return None if self.client is None else self.counted_as(self.client[0])

    def data_received(self, data: bytes) -> None:
        if self._between_requests() and self._head is None:
            self._await_head()
        super().data_received(data)
        if not self._between_requests():
            self._drop_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.since = self.loop.time()
        self._drop_unread()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.read_seconds, self._abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._drop_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_head()
        self._drop_unread()
        super().connection_lost(exc)

    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        self._head = self.loop.call_later(self.head_seconds, self._abort)

    def _abort(self) -> None:
        if not self.transport.is_closing() or self._unread is not None:
            self.transport.abort()

    def _drop_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _drop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


class _Server(uvicorn.Server):
    """Signals are the process's own affair."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listening(host: str, port: int) -> Listener:
    """Raises PermanentError where nobody can listen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = Listener(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen()
        found.setblocking(False)
    except OSError as error:
        found.close()
        raise PermanentError(
            f"listening at {host}:{port}: {error.strerror or error}", hint="choose another --port or --host"
        ) from error
    return found


def serve(
    app: ASGIApp,
    listener: Listener,
    stop: threading.Event,
    *,
    stopping: Callable[[], None],
    tls: Tls | None = None,
    protocol: type[GuardedProtocol] = GuardedProtocol,
    counted_as: Callable[[str], str | None] = lambda address: None,
) -> None:
    """Until `stop` is set. `stopping`: called at the stop, before answers under way are waited for; it must end streams. `counted_as`: the client
    at an address, None where many share it."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # the gate has logged what it would say, without a traceback
    listener.counted_as = counted_as
    own = {"counted_as": staticmethod(counted_as), "arrived": staticmethod(listener.arrived)}
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=type("Protocol", (protocol,), own),
        backlog=BACKLOG,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=_STOP_SECONDS,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        **_tls(tls),
    )
    server = _Server(config)
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(_serve(server, listener, stop, stopping))


def _tls(tls: Tls | None) -> dict[str, Any]:
    return {} if tls is None else {"ssl_certfile": tls.certificate, "ssl_keyfile": tls.key}


async def _serve(
    server: uvicorn.Server, listener: Listener, stop: threading.Event, stopping: Callable[[], None]
) -> None:
    asyncio.get_running_loop().set_exception_handler(Troubles())
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not stop.is_set() and not serving.done():
        await asyncio.sleep(_GLANCE)
    stopping()
    server.should_exit = True
    await serving
