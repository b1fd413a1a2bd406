"""The HTTP server of the management API, with threads of its own: a slow caller never holds up the broker's event loop.

Every change goes through `EntityAdmin`. It speaks plain HTTP (behind TLS: `https_server`), and takes bodies whose length is
stated, up to 1 MiB.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, cast

from emulators.servicebus.description import EntityAdmin

from .api import AdminApi, Answer, Query, SasCheck, refusal

MAX_BODY: Final = 1 << 20
NAMESPACE: Final = "emulator"
"""What the namespace is called: it has no other name than its address."""

_log = logging.getLogger(__name__)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        server = cast(_Server, self.server)
        said = server.said()
        answer = self._answer() if said is None or said > 0 else None
        if answer is not None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body if said is None else answer.body[: int(len(answer.body) * said)])
        if said is not None:
            self.close_connection = True
            while self.connection.recv(1 << 16):  # until the client leaves, or the server stops
                continue

    def _answer(self) -> Answer:
        stated = self.headers.get("Content-Length", "0")
        if self.headers.get("Transfer-Encoding") is not None:
            self.close_connection = True
            return refusal(411, "a body needs a Content-Length: transfer encodings are not supported by this emulator")
        if not stated.isdecimal() or int(stated) > MAX_BODY:
            self.close_connection = True
            return refusal(413 if stated.isdecimal() else 400, f"a body may have {MAX_BODY} bytes, not {stated!r}")
        api = cast(_Server, self.server).api
        body = self.rfile.read(int(stated))
        try:
            return api.answer(self.command, self.path, dict(self.headers.items()), body)
        except Exception:
            _log.exception("%s %s", self.command, self.path)
            return refusal(500, "the emulator failed: its log says how")

    # BaseHTTPRequestHandler finds a method by the verb's name.
    do_GET = do_PUT = do_DELETE = do_POST = _serve  # noqa: N815

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The `Date` of an answer, by the emulator's clock."""
        return super().date_time_string(cast(_Server, self.server).clock() if timestamp is None else timestamp)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the caller sees every answer."""


class _Server(ThreadingHTTPServer):
    """Knows its open connections, so that closing does not wait for clients that keep theirs alive."""

    daemon_threads = False

    def __init__(
        self,
        address: tuple[str, int],
        api: AdminApi,
        said: Callable[[], float | None],
        clock: Callable[[], float],
    ) -> None:
        self.api = api
        self.said = said
        self.clock = clock
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._guard:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news here."""

    def hang_up(self) -> None:
        with self._guard:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue


class AdminServer:
    """The management API on `host`:`port` (0: any free port; Microsoft's emulator uses 5300).

    `keys`: policy name to key; `manage`: the policies with the Manage right (None: all of them). `page`: what `GET /` shows.
    `said`: how much of the next answer is said, as a share (0: its request is not heeded), before the connection falls silent; None: all.
    `clock`: seconds since the Unix epoch, by which tokens expire and answers are dated.
    """

    scheme = "http"

    def __init__(
        self,
        admin: EntityAdmin,
        *,
        keys: Mapping[str, str],
        manage: Collection[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        namespace: str = NAMESPACE,
        page: Callable[[Query], str] | None = None,
        said: Callable[[], float | None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._said = said
        self._clock = clock
        self._api = AdminApi(admin, SasCheck(keys, manage, clock), namespace=namespace, scheme=self.scheme, page=page)
        self._address = (host, port)
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port in use; raises RuntimeError before `start`."""
        if self._server is None:
            raise RuntimeError("the management server is not running")
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Raises OSError, which names the address, when it cannot be listened on."""
        try:
            self._server = _Server(self._address, self._api, self._said, self._clock)
        except OSError as error:
            host, port = self._address
            raise OSError(error.errno, f"management API at {host}:{port}: {error.strerror}") from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="servicebus-admin", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Hang up on everybody and free the port; safe to call twice."""
        server, thread, self._server, self._thread = self._server, self._thread, None, None
        if server is None or thread is None:
            return
        server.shutdown()
        thread.join()
        server.hang_up()
        server.server_close()
