"""The TCP side of the SQL Server emulator: one thread a connection, TDS 7.4 in, events of an Engine out.

`SqlServerEmulator(engine).start()` listens; the engine stays the caller's, who closes it after `stop()`. The rules of the
protocol live in wire/, those of SQL in the engine; here is only what needs a socket or a thread. It has no TDS 8.0 and
no MARS, and says so to clients that ask.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from emulators.sqlserver.connections.connection import Connection
from emulators.sqlserver.connections.settings import Settings
from emulators.sqlserver.injection import Fault, Faults
from emulators.sqlserver.results import Engine
from emulators.sqlserver.tls import TlsSettings

log = logging.getLogger(__name__)

_STOP_SECONDS = 10.0


class SqlServerEmulator:
    """A listening server.

    `port` 0 takes a free one (see `.port`). `statement_log` is called with the text of every batch and every sp_executesql,
    on the connection's thread. `packet_size` makes the server choose the packet size after login (512..32767) instead of
    taking the client's wish. With `tls` clients may encrypt their login or everything; without, those that insist are let go.
    `federated`: take logins by token; which tokens, the engine knows. Leaving the context, or `stop`, ends every connection and thread.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        server_name: str = "DSTREAM-EMULATOR",
        statement_log: Callable[[str], None] | None = None,
        packet_size: int | None = None,
        tls: TlsSettings | None = None,
        federated: bool = False,
    ) -> None:
        self._engine = engine
        self._address = (host, port)
        self._settings = Settings(
            server_name, statement_log or (lambda text: None), packet_size, tls, Faults(), federated
        )
        self._listener: socket.socket | None = None
        self._waker: socket.socket | None = None
        self._acceptor: threading.Thread | None = None
        self._lock = threading.Lock()
        self._connections: dict[Connection, threading.Thread] = {}
        self._stopping = False

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def host(self) -> str:
        return self._address[0]

    @property
    def port(self) -> int:
        """The port listened on; the asked-for one before `start`."""
        return self._address[1]

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        with self._lock:
            return len(self._connections)

    def start(self) -> None:
        """Listen and return. Raises OSError when the address is taken, RuntimeError when already started."""
        if self._listener is not None:
            raise RuntimeError("the server is already started")
        self._listener = socket.create_server(self._address, backlog=128)
        self._address = (self._address[0], self._listener.getsockname()[1])
        self._waker, wakened = socket.socketpair()
        self._stopping = False
        self._engine.on_kill = self._disconnect
        self._acceptor = threading.Thread(
            target=self._accept, args=(self._listener, wakened), name=f"sqlserver-accept-{self.port}", daemon=True
        )
        self._acceptor.start()

    def stop(self) -> None:
        """End listening and every connection, rolling back what is open; may be called twice."""
        with self._lock:
            self._stopping = True
            connections = dict(self._connections)
        if self._waker is not None:
            self._waker.close()
            self._waker = None
        if self._acceptor is not None:
            self._acceptor.join(_STOP_SECONDS)
            self._acceptor = None
        self._listener = None
        for connection in connections:
            connection.abort()
        for thread in connections.values():
            thread.join(_STOP_SECONDS)
            if thread.is_alive():
                log.warning("ending connection thread %s: still busy after %s s", thread.name, _STOP_SECONDS)

    def _disconnect(self, session_id: int) -> None:
        """End the connection of a session that was killed; its thread rolls back and closes the session."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            if connection.session_id == session_id:
                connection.abort()

    @contextmanager
    def inject(self, fault: Fault) -> Iterator[None]:
        """Let this fault (see faults/catalogue.py) act as long as the block lasts; several may."""
        fault.begin(self)
        self._settings.faults.add(fault)
        try:
            yield
        finally:
            self._settings.faults.remove(fault)
            fault.end()

    def __enter__(self) -> SqlServerEmulator:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _accept(self, listener: socket.socket, wakened: socket.socket) -> None:
        with listener, wakened, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(wakened, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if wakened in ready:
                    return
                try:
                    client, _ = listener.accept()
                except OSError as error:  # the client is gone again, or no descriptor is free: keep listening
                    log.warning("accepting a connection: %s", error)
                    continue
                self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        connection = Connection(client, self._engine, self._settings)
        thread = threading.Thread(target=self._run, args=(connection,), name="sqlserver-connection", daemon=True)
        with self._lock:
            if self._stopping:
                client.close()
                return
            self._connections[connection] = thread
            thread.start()

    def _run(self, connection: Connection) -> None:
        try:
            connection.run()
        finally:
            with self._lock:
                self._connections.pop(connection, None)
