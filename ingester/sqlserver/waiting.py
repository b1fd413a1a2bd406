"""Bounds for every wait on a SQL Server: for a login, for an answer's first packet, and for the rest of it.

A thread that waits in C runs no signal handler, and the main thread is the one that polls: a server that hangs would hold up a stop, and
even the second signal, for as long as a query may take. So the first packet of an answer is waited for here, in place of the driver; what
the driver does after that is watched by a thread, which shuts the socket when the time is up. A login has no socket that could be
reached: it runs in a thread of its own, and is left to the driver's timeout when it is given up.
https://pymssql.readthedocs.io/en/stable/ref/pymssql.html (set_wait_callback)
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from common.errors import ConnectionLost

TICK = 0.5
"""Seconds after which a stop is noticed at the latest."""

GRACE = 3.0
"""Seconds that a question may still take when the stop comes: most are answered in a fraction, and an offset is stored."""

_MOST_GIVEN_UP = 8
"""Logins that were given up and have not ended. More are not begun: a peer that sends a byte now and then holds each for as long."""


class Wire:
    """The socket of one of the driver's connections, once a statement has shown it; ours to shut, the driver's to close.

    It has to be closed with the connection: the peer sees none of both ends before.
    """

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    @property
    def known(self) -> bool:
        return self._socket is not None

    def show(self, descriptor: int) -> None:
        if self._socket is None:
            self._socket = socket.socket(fileno=os.dup(descriptor))

    def shut(self) -> None:
        """Whoever reads or writes finds the connection closed by the server."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        """With a connection that nobody closed, as the driver does."""
        self.close()


class Patience:
    """For one statement and all of its answer: `seconds` altogether, and GRACE from the moment that `stop` is seen to be set.

    `over`: why it was given up; None while it was not.
    """

    def __init__(self, seconds: float, stop: threading.Event | None, wire: Wire | None = None) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._stop = stop
        self._stopping = False
        self.wire = wire or Wire()
        self.over: str | None = None

    def wait(self, descriptor: int) -> None:
        """Until there is something to read. After that the connection is shut, and the driver finds it closed by the server."""
        self.wire.show(descriptor)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while not poll.poll(min(TICK, max(0.0, self._end - time.monotonic())) * 1000):
            if self.spent():
                return

    def spent(self) -> bool:
        """Whether the time is up; the connection is shut then."""
        if self._stop is not None and self._stop.is_set() and not self._stopping:
            self._stopping = True
            self._end = min(self._end, time.monotonic() + GRACE)
        if time.monotonic() < self._end:
            return False
        self.over = "no answer before the stop" if self._stopping else f"no answer within {self._seconds:g} s"
        self.wire.shut()
        return True


class _Watch:
    """A thread that looks after those who may be waiting in C; it sleeps while there are none."""

    def __init__(self) -> None:
        self._watched: set[Patience] = set()
        self._guard = threading.Lock()
        self._some = threading.Event()
        self._process = 0

    def add(self, patience: Patience) -> None:
        with self._guard:
            self._watched.add(patience)
            self._some.set()
            if self._process != os.getpid():  # a fork takes no threads along
                self._process = os.getpid()
                threading.Thread(target=self._run, name="sqlserver-watch", daemon=True).start()

    def remove(self, patience: Patience) -> None:
        """From here on its socket is left alone."""
        with self._guard:
            self._watched.discard(patience)

    def _run(self) -> None:
        while True:
            self._some.wait()
            time.sleep(TICK)
            with self._guard:
                for patience in self._watched:
                    patience.spent()
                if not self._watched:
                    self._some.clear()


_watch = _Watch()
_of_this_thread = threading.local()


@contextmanager
def patient(patience: Patience) -> Iterator[None]:
    """Statements of this thread are waited for with `patience`, and so are their answers."""
    _of_this_thread.patience = patience
    if patience.wire.known:  # what is left of the answer before is read first
        _watch.add(patience)
    try:
        yield
    finally:
        _of_this_thread.patience = None
        _watch.remove(patience)


def wait(descriptor: int) -> None:
    """What the driver is to call, from any thread, when it has sent a statement."""
    patience: Patience | None = getattr(_of_this_thread, "patience", None)
    if patience is not None:
        patience.wait(descriptor)
        _watch.add(patience)


class _Attempt:
    """Something in a thread of its own, that makes what can be closed."""

    given_up = 0
    guard = threading.Lock()

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._late = False
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:
            self.error = error
        with self.guard:
            self.done.set()
            late = self._late
            _Attempt.given_up -= late
        if late and self.result is not None:
            with suppress(Exception), closing(self.result):
                return

    def give_up(self) -> bool:
        """Whether it was not done; whatever comes of it is closed."""
        with self.guard:
            self._late = not self.done.is_set()
            _Attempt.given_up += self._late
            return self._late


def given_up() -> int:
    """How many logins were given up and have not ended."""
    return _Attempt.given_up


def login_in_time(work: Callable[[], Any], seconds: float, stop: threading.Event | None, doing: str) -> Any:
    """What `work` returns or raises, in `seconds` and a little; ConnectionLost after that, or soon after the stop.

    Not common.in_time: a login that comes late is closed here, a stop leaves it GRACE, and those given up are counted.
    """
    if given_up() >= _MOST_GIVEN_UP:
        raise ConnectionLost(f"{doing}: {given_up()} earlier logins are still waiting for an answer")
    attempt = _Attempt(work)
    patience = Patience(seconds + TICK, stop)
    threading.Thread(target=attempt.run, name="sqlserver-login", daemon=True).start()
    while not attempt.done.wait(TICK):
        if patience.spent() and attempt.give_up():
            raise ConnectionLost(
                f"{doing}: {_said(patience, seconds)}", hint="does the server hang, or is it overloaded?"
            )
    if attempt.error is not None:
        raise attempt.error
    return attempt.result


def _said(patience: Patience, seconds: float) -> str:
    return patience.over if patience.over == "no answer before the stop" else f"no answer within {seconds:g} s"
