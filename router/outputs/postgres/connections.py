"""A few connections that all senders of an output share. Every wait ends: a connection that is late is closed for good.

psycopg waits in slices, so a deadline needs no thread; only opening a connection has one, since resolving a name cannot be interrupted.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen

from common.errors import ConnectionLost, TransientError
from common.in_time import begun
from router.outputs.postgres.errors import keeps_connection, translated
from router.outputs.postgres.settings import PostgresSettings, parameters

_T = TypeVar("_T")

_GLANCE: Final = 0.1
"""Seconds between two looks at the time while the server says nothing."""
_LONGEST_OPEN: Final = 15.0
_IDLE: Final = psycopg.pq.TransactionStatus.IDLE


class Timed(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose waits end at `until`, a moment of `time.monotonic`. It is closed then: nobody knows its state."""

    until: float = 0.0

    def wait(self, gen: PQGen[_T], interval: float = _GLANCE, timeout: float | None = None) -> _T:
        left = max(0.0, self.until - time.monotonic())
        try:
            return super().wait(gen, _GLANCE, left)
        except psycopg.errors._WaitTimeout:
            self.pgconn.finish()
            raise psycopg.OperationalError("the server did not answer in time") from None

    def hang_up(self) -> None:
        """From any thread: whoever waits for it gets an error."""
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.pgconn.socket)) as handle:
            handle.shutdown(socket.SHUT_RDWR)


class Connections:
    """At most `most` at a time, the last used one first. Thread-safe."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._where = settings.where
        self._room = threading.BoundedSemaphore(settings.connections)
        self._guard = threading.Lock()
        self._free: list[Timed] = []
        self._all: set[Timed] = set()

    def __repr__(self) -> str:
        return f"<Connections to {self._where}>"

    @contextmanager
    def one(self, until: float) -> Iterator[Timed]:
        """A connection until this moment. Raises TransientError, EntityUnavailable; psycopg's errors are the caller's to translate."""
        if not self._room.acquire(timeout=max(0.0, until - time.monotonic())):
            raise TransientError(
                f"waiting for a connection to {self._where}: all are in use", hint="raise `connections` of the output"
            )
        try:
            connection = self._taken() or self._opened(until)
            connection.until = until
            try:
                yield connection
            except psycopg.Error as error:
                if not keeps_connection(error):
                    connection.pgconn.finish()  # it may lead to a server that has become a standby
                raise
            finally:
                self._back(connection)
        finally:
            self._room.release()

    def cut(self) -> None:
        with self._guard:
            busy = [each for each in self._all if each not in self._free]
        for each in busy:
            each.hang_up()

    def close(self) -> None:
        """Those that are in use are closed when they come back, as they are broken then."""
        self.cut()
        with self._guard:
            free, self._free = self._free, []
        for each in free:
            self._forget(each)

    def _taken(self) -> Timed | None:
        """A free one that the server has not closed."""
        while True:
            with self._guard:
                if not self._free:
                    return None
                found = self._free.pop()
            if not found.closed and not _hung_up(found):
                return found
            self._forget(found)

    def _back(self, connection: Timed) -> None:
        if connection.closed or connection.info.transaction_status != _IDLE:
            self._forget(connection)
            return
        with self._guard:
            self._free.append(connection)

    def _forget(self, connection: Timed) -> None:
        with self._guard:
            self._all.discard(connection)
        connection.pgconn.finish()

    def _opened(self, until: float) -> Timed:
        seconds = min(_LONGEST_OPEN, until - time.monotonic())
        doing = f"connecting to {self._where}"
        if seconds <= 0:
            raise ConnectionLost(f"{doing}: no time is left")
        opening = begun(lambda: _open(self._settings, seconds), name="postgres-open")
        try:
            found = opening.result(seconds + 1)
        except TimeoutError as error:
            opening.add_done_callback(_close_late)
            raise ConnectionLost(f"{doing}: no answer within {seconds:.0f} s", hint="check host and port") from error
        except psycopg.Error as error:
            raise translated(error, doing, "the database", self._settings.user) from error
        with self._guard:
            self._all.add(found)
        return found


def _open(settings: PostgresSettings, seconds: float) -> Timed:
    """`connect_timeout` is for each address, in whole seconds."""
    return Timed.connect(
        **parameters(settings),
        connect_timeout=max(2, int(seconds)),
        autocommit=True,
        prepare_threshold=None,  # a pooler in transaction mode has no prepared statements
        cursor_factory=psycopg.RawCursor,
    )


def _close_late(opening: Future[Timed]) -> None:
    with suppress(BaseException):
        opening.result(0).pgconn.finish()


def _hung_up(connection: Timed) -> bool:
    """Whether the server has said something while it was free, where nothing was asked: why it closes it, or that it has."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.pgconn.socket)) as handle:
        handle.setblocking(False)
        try:
            handle.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
    return True


def run(connection: Timed, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[psycopg.Cursor[tuple[Any, ...]]]:
    """Run `statements` in one round trip; the first that fails ends it. Raises psycopg.Error."""
    with connection.pipeline():
        return [connection.execute(text, given or None) for text, given in statements]
