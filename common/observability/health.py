"""One HTTP port that reports whether this process is healthy: `/healthz`, `/readyz` and `/metrics`, with GET or HEAD.

Each request asks the stage, in a thread of its own, so a stage that hangs is seen to hang. A request changes nothing. A client can hold few threads,
each for a limited time, so no client keeps a probe from its answer.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Self

from common.errors import PermanentError
from common.observability.health_settings import HealthSettings
from common.observability.metrics import CONTENT_TYPE, Sample, exposition

Ailment = Callable[[], str | None]
"""Returns what is wrong, in words for a person, or None."""

_TEXT = "text/plain; charset=utf-8"
SERVER_NAME = "dstream"
"""The server's name in every answer. By it `dstream check` recognizes a running stage on its port."""
REQUEST_SECONDS = 10.0
"""From a client's connection until it is closed, whatever has been sent or read by then. No client holds a thread for longer."""
MOST_AT_ONCE = 16
"""Requests answered at once, each by a thread. A further one disconnects the oldest: probes and Prometheus ask and leave."""
_FREED_SECONDS = 0.05
"""How long a further request waits for a thread; most need less."""


class HealthEndpoint:
    """Listens from its creation, serves from `__enter__` to `__exit__`.

    `alive`: what it returns is a 503 at `/healthz`, for which an orchestrator restarts the process. `ready`: the same at `/readyz`, for
    which others wait. `samples`: the metrics of `/metrics`. Several threads call all three.
    Raises PermanentError when it cannot listen at the address.
    """

    def __init__(
        self,
        settings: HealthSettings,
        *,
        alive: Ailment,
        ready: Ailment,
        samples: Callable[[], Iterable[Sample]],
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        pages: dict[str, _Page] = {"/healthz": lambda: _verdict(alive()), "/readyz": lambda: _verdict(ready())}
        pages["/metrics"] = lambda: (HTTPStatus.OK, exposition(samples()))
        self._server = _listening(settings, pages, request_seconds)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="health", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self.close()

    def close(self) -> None:
        """Release the port; for an endpoint that was never entered."""
        self._server.server_close()


_Page = Callable[[], tuple[HTTPStatus, bytes]]


def _verdict(ailment: str | None) -> tuple[HTTPStatus, bytes]:
    status = HTTPStatus.OK if ailment is None else HTTPStatus.SERVICE_UNAVAILABLE
    return status, f"{ailment or 'ok'}\n".encode()


def _listening(settings: HealthSettings, pages: Mapping[str, _Page], request_seconds: float) -> _Server:
    try:
        return _Server(settings, pages, request_seconds)
    except OSError as error:
        raise PermanentError(
            f"listening at {settings.host} port {settings.port} for health and metrics: {error.strerror or error}",
            hint="choose another port or host in the health block; each stage on a machine needs a port of its own",
        ) from error


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, settings: HealthSettings, pages: Mapping[str, _Page], request_seconds: float) -> None:
        """Raises OSError when it cannot listen."""
        self.pages = pages
        self._request_seconds = request_seconds
        self._room = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._held: deque[socket.socket] = deque()
        self.address_family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        super().__init__((settings.host, settings.port), _Handler)

    def server_bind(self) -> None:
        """Without the library's look for this host's name, which nobody reads: where DNS does not answer it takes many seconds."""
        TCPServer.server_bind(self)

    def verify_request(self, request: Any, client_address: object) -> bool:
        """Runs before a thread is started, in the thread that accepts. When all threads are taken, the oldest connection makes room: probes ask
        and leave, so it is one that somebody keeps open in silence."""
        if not self._room.acquire(blocking=False):
            with suppress(IndexError):
                _hang_up(self._held.popleft())
            if not self._room.acquire(timeout=_FREED_SECONDS):
                return False
        self._held.append(request)
        return True

    def process_request(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started now
            self._leaves(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        deadline = threading.Timer(self._request_seconds, _hang_up, (request,))
        deadline.daemon = True
        try:
            deadline.start()
            super().process_request_thread(request, client_address)
        finally:
            deadline.cancel()
            self._leaves(request)

    def _leaves(self, request: Any) -> None:
        with suppress(ValueError):  # it has made room for another
            self._held.remove(request)
        self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore it: a client may hang up."""


def _hang_up(connection: socket.socket) -> None:
    """Wake the thread that reads from it or writes to it; that thread closes it."""
    with suppress(OSError):  # it is closed already
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = SERVER_NAME, ""

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _refuse(self) -> None:
        self._write(HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"only GET and HEAD\n", body=True)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refuse  # noqa: N815 - the library looks for these names
    """HTTP's other methods (RFC 9110, 9.1, and RFC 5789). The library answers 501 for any word that is not a method."""

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        page = self.server.pages.get(path)
        if page is None:
            self._write(
                HTTPStatus.NOT_FOUND, _TEXT, f"the pages are {', '.join(self.server.pages)}\n".encode(), body=body
            )
            return
        try:
            status, content = page()
        except Exception as error:  # a defect: the answer names it, and the connection does not break
            status, content = HTTPStatus.INTERNAL_SERVER_ERROR, f"unexpected {type(error).__name__}\n".encode()
        kind = CONTENT_TYPE if path == "/metrics" and status is HTTPStatus.OK else _TEXT
        self._write(status, kind, content, body=body)

    def _write(self, status: HTTPStatus, kind: str, content: bytes, *, body: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: probes come every few seconds."""
