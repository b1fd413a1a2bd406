"""What a worker and the driver say to each other while a bundle runs, over connections of their own.

- The result of a slice whose bundle still runs. Spark returns what a task yields only when the task has ended, so the slowest slice would
  hold up its neighbours (docs/decisions/0016-results-slice-by-slice.md).
- The time and the shape that the slices of a bundle have. A bundle may wait for its executor or its Python worker for longer than the time
  that it was sent with, and its table's shape may be another one by then, so a worker on another machine asks as it begins.
- Whether to stop, which workers on another machine ask twice a second.

Nothing depends on this path. Without it results come with their bundles, slices keep the time and the shape that they were sent with, a slice
that waited long is given back (ingester/worker.py), and a stop waits for the slices' end. So a worker tries once, briefly, and after a failure
not again for a minute.

A request is one sealed frame (seal.py) on one connection, with a number used once, which its answer repeats. The key travels with the
bundle. The driver drops a frame that was sealed with another key, frames beyond a number at a time, and a frame that takes too long.
"""

from __future__ import annotations

import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, cast

from common.clock import UnixTime
from ingester.executor import Begins, Early
from ingester.shape.table_shape import TableShape
from ingester.slices import Slice, SliceResult
from ingester.spark.seal import Seal, Unsealed

_SECONDS = 2.0
"""For one frame and its answer, connecting included."""
_AT_ONCE = 64
"""Frames read at the same time. A worker sends one after another, so this is a number of workers, each for a moment."""
_MOST = 1 << 20
"""Bytes of a frame that comes to the driver; a result has some hundreds."""
_MOST_ANSWERED = 1 << 26
"""The same of an answer: it may have the shapes of 64 wide tables."""


class Asks(Enum):
    """BEGIN: the worker begins the bundle. STOP: whether to stop."""

    BEGIN = "begin"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver of one bundle. Travels with it. `elsewhere`: its machine may be another one than the worker's.

    Each method raises OSError, within seconds, when the driver cannot be reached.
    """

    host: str
    port: int
    key: bytes = field(repr=False)
    bundle: int
    elsewhere: bool = False

    def tell(self, result: SliceResult) -> bool:
        """Whether the driver took it; False when its bundle is over."""
        return bool(self._ask(result))

    def begin(self, bundle: Sequence[Slice]) -> list[Slice] | None:
        """`bundle` with the time and the shape that its slices have now; None when none of them may begin."""
        now = cast(list[_Now] | None, self._ask(Asks.BEGIN))
        return None if now is None else [each.given(todo) for todo, each in zip(bundle, now, strict=True)]

    def stops(self) -> bool:
        """Whether no further page should begin."""
        return bool(self._ask(Asks.STOP))

    def _ask(self, said: SliceResult | Asks) -> object:
        seal, once = Seal(self.key), os.urandom(16)
        frame = seal.closed((once, self.bundle, said))
        end = time.monotonic() + _SECONDS
        with socket.create_connection((self.host, self.port), _SECONDS) as way:
            way.settimeout(_left(end))
            way.sendall(frame)
            way.shutdown(socket.SHUT_WR)
            answer = _frame(way, end, most=_MOST_ANSWERED)
        if not answer:
            raise ConnectionAbortedError(f"{self.host}:{self.port} hung up without an answer")
        try:
            repeated, answered = seal.opened(answer)
        except Unsealed as error:
            raise self._foreign() from error
        if repeated != once:
            raise self._foreign()
        return cast(object, answered)

    def _foreign(self) -> ConnectionAbortedError:
        return ConnectionAbortedError(f"{self.host}:{self.port} is not the driver")


@dataclass(frozen=True, slots=True)
class _Now:
    """The part of a slice that may have changed while it waited: when it must end, and what of its table is sent."""

    sent_at: UnixTime
    send_before: UnixTime | None
    lease_seconds: float | None
    shape: TableShape

    @classmethod
    def of(cls, todo: Slice) -> _Now:
        return cls(todo.sent_at, todo.send_before, todo.lease_seconds, todo.shape)

    def given(self, todo: Slice) -> Slice:
        return replace(
            todo,
            sent_at=self.sent_at,
            send_before=self.send_before,
            lease_seconds=self.lease_seconds,
            shape=self.shape,
        )


class DriverLine:
    """Listens on `host` and `port` (0: any free one), and passes what workers say to the callbacks of their bundle. Close it with `close`."""

    def __init__(self, host: str, told: str, port: int = 0, *, elsewhere: bool = False) -> None:
        """`told`: the host name that workers connect to. `elsewhere`: they may be on other machines. Raises OSError."""
        self._key = Seal.new_key()
        self._seal = Seal(self._key)
        self._told = told
        self._elsewhere = elsewhere
        self._open: dict[int, tuple[Early, Begins]] = {}
        self._stopping = False
        self._server = _Server((host, port), _Frame)
        self._server.take = self.take
        threading.Thread(target=self._server.serve_forever, name="driver-line", daemon=True).start()

    def open(self, bundle: int, early: Early, begins: Begins) -> Driver:
        """Pass what the bundle's worker says to `early` and `begins` from now on."""
        self._open[bundle] = early, begins
        return Driver(self._told, self._server.server_address[1], self._key, bundle, self._elsewhere)

    def done(self, bundle: int) -> None:
        """Pass nothing of it any more."""
        self._open.pop(bundle, None)

    def stop(self) -> None:
        """From now on workers begin no page."""
        self._stopping = True

    def take(self, frame: bytes) -> bytes:
        """The answer to `frame`; empty if it is not a worker's."""
        try:
            once, bundle, said = cast(tuple[bytes, int, SliceResult | Asks], self._seal.opened(frame))
        except Unsealed:
            return b""
        return self._seal.closed((once, self._answer(bundle, said)))

    def _answer(self, bundle: int, said: SliceResult | Asks) -> bool | list[_Now] | None:
        if said is Asks.STOP:
            return self._stopping
        known = self._open.get(bundle)
        if isinstance(said, SliceResult):
            if known is not None:
                known[0](said)
            return known is not None
        slices = None if known is None or self._stopping else known[1]()
        return None if slices is None else [_Now.of(todo) for todo in slices]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    take: Callable[[bytes], bytes]

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
        if frame := _frame(way, end):
            way.settimeout(_left(end))
            way.sendall(cast(_Server, self.server).take(frame))


def _frame(way: socket.socket, end: float, *, most: int = _MOST) -> bytes:
    """All that comes until the other side ends it; nothing if that is more than `most`. Raises TimeoutError after `end`."""
    frame = bytearray()
    while len(frame) <= most and (part := _received(way, end)):
        frame += part
    return bytes(frame) if len(frame) <= most else b""


def _received(way: socket.socket, end: float) -> bytes:
    way.settimeout(_left(end))
    return way.recv(65536)


def _left(end: float) -> float:
    if (left := end - time.monotonic()) <= 0:
        raise TimeoutError("it took too long")
    return left
