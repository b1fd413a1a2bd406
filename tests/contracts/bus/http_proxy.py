"""An HTTP proxy that does CONNECT and nothing else, with a login or without, and sends connections where the test says."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self


class HttpProxy:
    """`routes`: host:port as clients ask for it, to the local port that it leads to; anything else is refused with 502."""

    def __init__(self, routes: Mapping[str, int], *, login: tuple[str, str] | None = None) -> None:
        self._routes = routes
        self._login = login
        self.asked: list[str] = []
        """What clients wanted to be connected to, in order."""
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="http-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        for each in (self._listener, *self._sockets):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            request = b""
            while b"\r\n\r\n" not in request:
                if not (more := client.recv(4096)):
                    return
                request += more
            answer, server = self._answer(request.decode())
            client.sendall(f"HTTP/1.1 {answer}\r\n\r\n".encode())
            if server is not None:
                threading.Thread(target=_pass_on, args=(server, client), daemon=True).start()
                _pass_on(client, server)
        except OSError:
            return  # the test is over
        finally:
            _end(client)

    def _answer(self, request: str) -> tuple[str, socket.socket | None]:
        target = request.split(" ")[1]
        self.asked.append(target)
        if self._login is not None:
            wanted = base64.b64encode(":".join(self._login).encode()).decode()
            if f"Proxy-Authorization: Basic {wanted}" not in request:
                return "407 Proxy Authentication Required", None
        if target not in self._routes:
            return "502 Bad Gateway", None
        server = socket.create_connection(("127.0.0.1", self._routes[target]))
        self._sockets.append(server)
        return "200 Connection established", server


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
    except OSError:
        pass  # either end has gone
    finally:
        _end(target)


def _end(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended
