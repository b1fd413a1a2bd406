"""Sends the result of a slice whose bundle still runs from the worker to the driver, over a connection of its own.

Spark returns what a task yields only when the task has ended, so the slowest slice of a bundle would hold up its neighbours
(docs/decisions/0016-results-slice-by-slice.md). Nothing depends on this path: a result that it does not deliver comes with the bundle. So a
worker tries once, briefly, and after a failure not again for some minutes.

A result is one frame, `HMAC-SHA256 | pickle`, on one connection. The key travels with the task. The driver drops a frame without the key,
frames beyond a number at a time, and a frame that takes too long.
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
"""For one frame and its answer, connecting included."""
_PAUSE = 300.0
"""Seconds until a worker that could not reach the driver tries again."""
_AT_ONCE = 64
"""Frames read at the same time. A worker sends one after another, so this is a number of workers, each for a moment."""
_TAKEN, _CLOSED = b"!", b"?"
_MOST = 1 << 20
"""Bytes of a frame; a result has some hundreds."""
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True, slots=True)
class Driver:
    """Where the results of one bundle go. Travels with its task."""

    host: str
    port: int
    key: bytes = field(repr=False)
    bundle: int

    def tell(self, result: SliceResult) -> bool:
        """Whether the driver took it; False when its bundle is over. Raises OSError, within seconds, when the driver cannot be reached."""
        body = pickle.dumps((self.bundle, result))
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
    """One for each worker process: reports to the driver, unless that has failed lately. Thread-safe."""

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
        """Why the driver could not be reached: returned once for each failed attempt."""
        news, self._news = self._news, None
        return news


class EarlyResults:
    """Listens on `host` and `port` (0: any free one), and passes results to the callback of their bundle. Close it with `close`."""

    def __init__(self, host: str, told: str, port: int = 0) -> None:
        """`told`: the host name that workers connect to. Raises OSError."""
        self._key = os.urandom(32)
        self._told = told
        self._open: dict[int, Early] = {}
        self._server = _Server((host, port), _Frame)
        self._server.results = self
        threading.Thread(target=self._server.serve_forever, name="early-results", daemon=True).start()

    def open(self, bundle: int, early: Early) -> Driver:
        """Pass the bundle's results to `early` from now on."""
        self._open[bundle] = early
        return Driver(self._told, self._server.server_address[1], self._key, bundle)

    def done(self, bundle: int) -> None:
        """Pass none of its results any more."""
        self._open.pop(bundle, None)

    def take(self, frame: bytes) -> bytes:
        """The answer to `frame`: empty if it is not a result, else whether its bundle is open."""
        body = frame[_DIGEST:]
        if not hmac.compare_digest(frame[:_DIGEST], _sign(self._key, body)):
            return b""
        bundle, result = cast(tuple[int, SliceResult], pickle.loads(body))
        early = self._open.get(bundle)
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
        """Ignore it: a client that disconnects harms nobody."""


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
