"""Results of slices whose bucket still runs: from the worker to the driver by a connection of their own.

Spark hands over what a task yields when the task has ended, so the slowest slice of a bucket would hold up its neighbours
(docs/decisions/0016-results-slice-by-slice.md). Nothing depends on this way: what it does not deliver comes with the bucket. So it tries
once, briefly, and a process that cannot reach the driver leaves it alone for some minutes.

A result is one frame, `HMAC-SHA256 | pickle`, on one connection. The key travels with the task; a frame without it is not looked at,
and neither are more than some at a time, or one that comes in drips.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pickle
import socket
import socketserver
import threading
import time
from dataclasses import dataclass, field
from typing import Any, cast

from common.clock import SteadyClock, steady
from ingester.executor import Early
from ingester.slices import SliceResult

_SECONDS = 2.0
"""For one frame and its answer, with the connection that they go over."""
_PAUSE = 300.0
"""Seconds for which a worker that could not reach the driver does not try it."""
_AT_ONCE = 64
"""Frames that are taken at once. A worker sends one after the other, so that is as many workers, each for a moment."""
_TAKEN, _CLOSED = b"!", b"?"
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
        """Whether the driver has taken it: its bucket may be over. Raises OSError when the driver cannot be reached, within a few seconds."""
        body = pickle.dumps((self.bucket, result))
        end = time.monotonic() + _SECONDS
        with socket.create_connection((self.host, self.port), _SECONDS) as way:
            way.settimeout(_left(end))
            way.sendall(_sign(self.key, body) + body)
            way.shutdown(socket.SHUT_WR)
            way.settimeout(_left(end))
            answer = way.recv(1)
        if not answer:
            raise ConnectionAbortedError(f"{self.host}:{self.port} hung up without an answer")
        return answer == _TAKEN


class Reach:
    """Of one worker process: tells the driver, unless that has failed lately. Thread-safe."""

    def __init__(self, clock: SteadyClock = steady) -> None:
        self._clock = clock
        self._again_at = float("-inf")
        self._news: str | None = None

    def tell(self, driver: Driver, result: SliceResult) -> None:
        """Raises nothing."""
        if self._clock() < self._again_at:
            return
        try:
            driver.tell(result)
        except OSError as error:
            self._again_at = self._clock() + _PAUSE
            self._news = f"{socket.gethostname()} cannot reach {driver.host}:{driver.port}: {error}"

    def news(self) -> str | None:
        """Why the driver could not be reached, once after each attempt that failed."""
        news, self._news = self._news, None
        return news


class EarlyResults:
    """Listens on `host` and `port` (0: one that is free), and tells each bucket's results to whoever has opened it. Closed with `close`."""

    def __init__(self, host: str, told: str, port: int = 0) -> None:
        """`told`: the host by which workers reach it. Raises OSError."""
        self._key = os.urandom(32)
        self._told = told
        self._open: dict[int, Early] = {}
        self._server = _Server((host, port), _Frame)
        self._server.results = self
        threading.Thread(target=self._server.serve_forever, name="early-results", daemon=True).start()

    def open(self, bucket: int, early: Early) -> Driver:
        """From now on `early` hears of the bucket's results."""
        self._open[bucket] = early
        return Driver(self._told, self._server.server_address[1], self._key, bucket)

    def done(self, bucket: int) -> None:
        """Nothing more is heard of it."""
        self._open.pop(bucket, None)

    def take(self, frame: bytes) -> bytes:
        """The answer to `frame`: empty when it is not a result, else whether its bucket is open."""
        body = frame[_DIGEST:]
        if not hmac.compare_digest(frame[:_DIGEST], _sign(self._key, body)):
            return b""
        bucket, result = cast(tuple[int, SliceResult], pickle.loads(body))
        early = self._open.get(bucket)
        if early is None:
            return _CLOSED
        early(result)
        return _TAKEN

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    results: EarlyResults

    def __init__(self, address: tuple[str, int], handler: type[socketserver.BaseRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever connects and breaks off is nobody's trouble."""


class _Frame(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        way = cast(socket.socket, self.request)
        end = time.monotonic() + _SECONDS
        frame = b""
        while len(frame) <= _MOST and (part := _received(way, end)):
            frame += part
        if len(frame) <= _MOST:
            way.settimeout(_left(end))
            way.sendall(cast(_Server, self.server).results.take(frame))


def _received(way: socket.socket, end: float) -> bytes:
    way.settimeout(_left(end))
    return way.recv(65536)


def _left(end: float) -> float:
    if (left := end - time.monotonic()) <= 0:
        raise TimeoutError("it took too long")
    return left


def _sign(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")
