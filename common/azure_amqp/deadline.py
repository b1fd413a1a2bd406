"""A limit for every call over AMQP that really ends it: when the time is up, the call's socket is shut down.

azure-servicebus 7.15 and azure-eventhub 5.15 have no timeout for their TLS handshake and their sign-in, and they check their other timeouts
only between frames. A peer that stops within a frame, or sends an octet now and then, prevents those checks. So one thread watches all calls of
a process. It wakes when a call is overdue, shuts down that call's socket, and the SDK's own wait ends with an error.

A call that has returned is never cut: leaving the guard and cutting exclude each other. Costs about a microsecond a call.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from common.errors import DStreamError, TransientError

_NAP = 5.0
"""The most seconds that the watching thread sleeps while calls come and go; only a nearer deadline wakes it."""

_AT_ONCE = struct.pack("ii", 1, 0)
"""Close with a reset. socket(7), SO_LINGER."""
_HINT = (
    "if this repeats, something on the way (a firewall, a proxy, a load balancer) accepts connections and drops what is sent, or the service "
    "is in trouble"
)


class Guard:
    """Limits the calls of one link, which are made one after the other.

    `where`: the namespace. An error names it by its text, and links that have the same object are cut together (`cut_calls`).
    `handle`: the SDK's sender or receiver whose socket is shut down; None before there is one.
    """

    __slots__ = ("_doing", "_over", "_seconds", "_until", "connecting", "handle", "where")

    def __init__(self, where: object) -> None:
        self.where = where
        self._doing = ""
        self._seconds = self._until = 0.0
        self._over = False
        self.handle: Any = None
        self.connecting: socket.socket | None = None
        """A socket that no handle knows yet."""

    def within(self, seconds: float, doing: str) -> Self:
        """For a `with` block: the call in it ends within `seconds`. `doing`: a participle with facts ("sending to orders").

        A TransientError replaces the error of a call that was cut off. A call that returned all the same has returned.
        """
        self._seconds, self._doing = seconds, doing
        return self

    @property
    def over(self) -> bool:
        """Whether the last call was cut off by the guard."""
        return self._over

    def left(self) -> float:
        """Seconds that the call has left. Raises TransientError when none are left."""
        seconds = self._until - time.monotonic()
        if self._over or seconds <= 0:
            raise self.overdue()
        return seconds

    def overdue(self) -> TransientError:
        return TransientError(f"{self._doing}: {self.where} did not answer within {self._seconds:g} s", hint=_HINT)

    def __enter__(self) -> Self:
        self._over = False
        self._until = time.monotonic() + self._seconds
        _watch.begin(self, self._until)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _watch.end(self)
        if self._over and isinstance(error, Exception) and not _explained(error):
            raise self.overdue() from error

    def cut(self) -> None:
        """Called by the watching thread, at the latest when the call is about to return."""
        self._over = True
        for one in (self.connecting, _socket_of(self.handle)):
            if one is not None:
                try:
                    # What was not acknowledged is dropped when the socket is closed: it must not arrive when nobody expects it any more.
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                    # The plain one's: an SSLSocket's own would drop its TLS, and the SDK would go on in clear text.
                    socket.socket.shutdown(one, socket.SHUT_RDWR)
                except OSError:
                    continue  # it is closed, or was never connected


def _explained(error: Exception) -> bool:
    """Whether it holds an error of DStream's own, of a name or an address that did not answer; the SDK wraps whatever it catches."""
    return isinstance(error, DStreamError) or isinstance(getattr(error, "inner_exception", None), DStreamError)


def _socket_of(handle: Any) -> socket.socket | None:
    """The socket of one of the SDK's senders or receivers, at whatever stage of opening it is."""
    found = handle
    for name in ("_handler", "_connection", "_transport", "sock"):
        found = getattr(found, name, None)
    found = getattr(found, "sock", found)  # a WebSocket has one of its own
    return found if isinstance(found, socket.socket) else None


class _Watch:
    """The calls under way, and the thread that ends those that are overdue; it starts with the first call."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._calls: dict[Guard, float] = {}
        self._wakes_at = math.inf
        self._thread: threading.Thread | None = None

    def begin(self, guard: Guard, until: float) -> None:
        with self._changed:
            if self._thread is None:
                watching = threading.Thread(target=self._run, name="amqp-deadlines", daemon=True)
                watching.start()  # may fail where threads are short: then the next call tries it again
                self._thread = watching
            elif until < self._wakes_at:
                self._changed.notify()
            self._calls[guard] = until

    def end(self, guard: Guard) -> None:
        with self._changed:
            self._calls.pop(guard, None)

    def cut_at(self, where: object) -> None:
        with self._changed:
            for guard in [guard for guard in self._calls if guard.where is where]:
                del self._calls[guard]
                guard.cut()

    def cut(self, guards: Iterable[Guard]) -> None:
        with self._changed:
            for guard in guards:
                if self._calls.pop(guard, None) is not None:
                    guard.cut()

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for guard in [guard for guard, until in self._calls.items() if until <= now]:
                    del self._calls[guard]
                    guard.cut()
                if not self._calls:
                    self._wakes_at = math.inf
                    self._changed.wait()
                else:
                    nap = min(_NAP, min(self._calls.values()) - now)
                    self._wakes_at = now + nap
                    self._changed.wait(nap)


_watch = _Watch()


def cut_calls(where: object) -> None:
    """End every call that is under way on links that were made with this very object, as if its time were up."""
    _watch.cut_at(where)


def cut_calls_of(guards: Iterable[Guard]) -> None:
    """End those calls of these guards that are under way, as if their time were up."""
    _watch.cut(guards)


def _start_over() -> None:
    """After a fork: the thread and the calls are the parent's."""
    global _watch
    _watch = _Watch()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)
