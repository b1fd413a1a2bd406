"""Results of slices whose bucket still runs: from the worker to the driver by a connection of their own.

Spark hands over what a task yields when the task has ended, so the slowest slice of a bucket would hold up its neighbours
(docs/decisions/results-slice-by-slice.md). Nothing depends on this way: what it does not deliver comes with the bucket. So it tries
once, briefly, and a worker that cannot reach the driver does not try again.

A result is one frame, `HMAC-SHA256 | pickle`, on one connection. The key travels with the task; a frame without it is not looked at.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pickle
import socket
import socketserver
import threading
from dataclasses import dataclass, field
from typing import cast

from ingester.executor import Early
from ingester.slices import SliceResult

_SECONDS = 2.0
"""For one frame to arrive."""
_MOST = 1 << 20
"""Bytes of a frame; a result is some hundreds."""
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True, slots=True)
class Driver:
    """Where the results of one bucket go: a value that travels with its task."""

    host: str
    port: int
    key: bytes = field(repr=False)
    bucket: int

    def tell(self, result: SliceResult) -> bool:
        """Whether the driver has taken it. Raises nothing."""
        body = pickle.dumps((self.bucket, result))
        try:
            with socket.create_connection((self.host, self.port), _SECONDS) as way:
                way.sendall(_sign(self.key, body) + body)
                way.shutdown(socket.SHUT_WR)
                return way.recv(1) == b"!"
        except OSError:
            return False


class EarlyResults:
    """Listens on `host`, and tells each bucket's results to whoever has opened it. Closed with `close`."""

    def __init__(self, host: str, told: str) -> None:
        """`told`: the host by which workers reach it. Raises OSError."""
        self._key = os.urandom(32)
        self._told = told
        self._open: dict[int, Early] = {}
        self._server = _Server((host, 0), _Frame)
        self._server.results = self
        threading.Thread(target=self._server.serve_forever, name="early-results", daemon=True).start()

    def open(self, bucket: int, early: Early) -> Driver:
        """From now on `early` hears of the bucket's results."""
        self._open[bucket] = early
        return Driver(self._told, self._server.server_address[1], self._key, bucket)

    def done(self, bucket: int) -> None:
        """Nothing more is heard of it."""
        self._open.pop(bucket, None)

    def take(self, frame: bytes) -> bool:
        """Whether `frame` is a result, of a bucket that is open."""
        body = frame[_DIGEST:]
        if not hmac.compare_digest(frame[:_DIGEST], _sign(self._key, body)):
            return False
        bucket, result = cast(tuple[int, SliceResult], pickle.loads(body))
        early = self._open.get(bucket)
        if early is not None:
            early(result)
        return early is not None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    results: EarlyResults

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever connects and breaks off is nobody's trouble."""


class _Frame(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        way = cast(socket.socket, self.request)
        way.settimeout(_SECONDS)
        frame = b""
        while len(frame) <= _MOST and (part := way.recv(65536)):
            frame += part
        if len(frame) <= _MOST and cast(_Server, self.server).results.take(frame):
            way.sendall(b"!")


def _sign(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")
