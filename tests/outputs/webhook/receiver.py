"""A real HTTP/1.1 server in threads: it takes changes at every path that was opened, and answers as it is told to."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from tests.outputs.contract.world import Arrival
from tests.worlds.ports import free_port


class Receiver:
    """Keeps what it accepted when it is stopped and started. Checks credentials, the signature, and that a session has one request at a time.

    `answers`: statuses with headers for the next requests, in turn; then everything is accepted.
    """

    def __init__(self, *, token: str, key: bytes) -> None:
        self.token, self.key = token, key
        self.paths: set[str] = set()
        self.arrivals: dict[str, list[Arrival]] = {}
        self.requests: list[Mapping[str, str]] = []
        self.answers: list[tuple[int, Mapping[str, str]]] = []
        self.busy = False
        self.overlapping = 0
        self.guard = threading.Lock()
        self.under_way: set[tuple[str, str | None]] = set()
        self.port = free_port()
        self._server: _Server | None = None

    def start(self) -> None:
        self._server = _Server(("127.0.0.1", self.port), _Handler)
        self._server.receiver = self
        threading.Thread(target=self._server.serve_forever, args=(0.02,), name="receiver", daemon=True).start()

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.drop()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    receiver: Receiver

    def __init__(self, *arguments: Any) -> None:
        self._open: set[socket.socket] = set()
        self._ended = False
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def drop(self) -> None:
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is none."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_HEAD(self) -> None:
        self._answer(self._right() or (200 if self._path() in self.server.receiver.paths else 404))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if len(body) < int(self.headers["content-length"]):
            self.close_connection = True
            return
        receiver, where = self.server.receiver, (self._path(), self.headers["x-dstream-session"])
        with receiver.guard:
            receiver.overlapping += where in receiver.under_way
            receiver.under_way.add(where)
        status, headers = self._judge(body)
        with receiver.guard:
            receiver.under_way.discard(where)
        with suppress(OSError):
            self._answer(status, headers)

    def _judge(self, body: bytes) -> tuple[int, Mapping[str, str]]:
        receiver = self.server.receiver
        if (wrong := self._right()) is not None:
            return wrong, {}
        if self._path() not in receiver.paths:
            return 404, {}
        if b"never taken" in body:
            return 422, {}
        if receiver.busy:
            return 429, {"retry-after": "0"}
        with receiver.guard:
            if receiver.answers:
                return receiver.answers.pop(0)
            receiver.requests.append({name.lower(): value for name, value in self.headers.items()})
            receiver.arrivals.setdefault(self._path(), []).extend(self._changes(body))
        return 200, {}

    def _changes(self, body: bytes) -> Sequence[Arrival]:
        session = self.headers["x-dstream-session"]
        session = None if session is None else unquote(session)
        if body.startswith(b"["):
            return [Arrival(each["id"], each["session"], _text(each["body"])) for each in json.loads(body)]
        return [Arrival(unquote(self.headers["webhook-id"]), session, body)]

    def _right(self) -> int | None:
        if self.headers["authorization"] != f"Bearer {self.server.receiver.token}":
            return 401
        return None

    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _answer(self, status: int, headers: Mapping[str, str] = {}) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Nothing."""


def verified(headers: Mapping[str, str], body: bytes, key: bytes) -> bool:
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return any(
        hmac.compare_digest(each.removeprefix("v1,"), expected) for each in headers["webhook-signature"].split(" ")
    )


def _text(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
