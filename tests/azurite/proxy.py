"""Stands between a client and Azurite: passes requests on until it is told to break, or to fall mute.

Signatures cover a request's path and headers, not its host, so they hold behind it.
"""

from __future__ import annotations

import http.client
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_LOOK_MILLISECONDS = 100


@dataclass(frozen=True)
class Answer:
    """An answer in Azurite's place. `status` None: the connection ends without one. `after`: the request is carried out before.

    `mute`: nothing is said and the connection stays open, until its client hangs up.
    """

    status: int | None
    code: str = ""
    after: bool = False
    mute: bool = False


@dataclass
class Proxy:
    """`answer`: what every request gets instead of Azurite's answer; `only`: requests whose address and headers hold this text.

    `meet`: told every request, in those words, before it is passed on; what it returns is in `answer`'s place.
    """

    port_behind: int
    answer: Answer | None = None
    only: str = ""
    seen: list[str] = field(default_factory=list)
    meet: Callable[[str], Answer | None] = lambda told: None

    def __post_init__(self) -> None:
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def say_nothing(self, client: socket.socket) -> None:
        """Until the client hangs up, or the proxy stops."""
        poll = select.poll()
        poll.register(client, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        while not self._closed.is_set() and not poll.poll(_LOOK_MILLISECONDS):
            pass


class _Handler(BaseHTTPRequestHandler):
    proxy: Proxy
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def _pass(self) -> None:
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told = f"{self.command} {self.path} {dict(self.headers)}"
        self.proxy.seen.append(told)
        answer = self.proxy.meet(told) or (self.proxy.answer if self.proxy.only in told else None)
        if answer is None or answer.after:
            status, headers, content = self._behind(body)
        if answer is not None:
            if answer.mute:
                self.proxy.say_nothing(self.connection)
            if answer.status is None or answer.mute:
                return
            status, headers, content = answer.status, [("x-ms-error-code", answer.code)], b""
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("connection", "keep-alive", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        length = dict(headers).get("content-length", "0") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length)
        self.send_header("Connection", "close")
        with suppress(ConnectionError):  # whoever asked may have been killed meanwhile
            self.end_headers()
            self.wfile.write(content)

    def _behind(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy.port_behind, timeout=10)
        try:
            connection.request(self.command, self.path, body, dict(self.headers))
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass  # noqa: N815  # the names that the base class looks for
