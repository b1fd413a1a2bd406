"""Deadlines for every wait on a SQL Server: for a login, for an answer's first packet, and for the rest of it.

A thread that waits in C runs no signal handler, and the main thread is the one that polls: a hanging server would delay
a stop, and even the second signal, for as long as a query may take. So this module waits for the first packet of an
answer in place of the driver, and a thread watches the driver after that: it shuts the socket when the time is up. The
socket of a login cannot be reached: a login runs in a thread of its own, and an abandoned one ends with the driver's
timeout.
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
"""Seconds that a question may still take after a stop: most answers take a fraction of that, and an offset gets
stored."""

_MOST_GIVEN_UP = 8
"""How many abandoned logins may be pending. No more are begun: a peer that sends a byte now and then keeps each from
ending."""

HANGS = "check whether the server hangs or is overloaded"


class Wire:
    """The socket of one of the driver's connections, known after its first statement. This class shuts it, the driver
    closes it.

    It must be closed with the connection: the peer sees the end only when both are closed.
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
        """A thread that reads or writes finds the connection closed by the server."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        """For a connection that was never closed, as the driver does."""
        self.close()


class Patience:
    """The deadline of one statement and its whole answer: `seconds`, or GRACE once `stop` is set.

    `over`: why the statement was abandoned; None while it was not.
    """

    def __init__(self, seconds: float, stop: threading.Event | None, wire: Wire | None = None) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._stop = stop
        self._stopping = False
        self.wire = wire or Wire()
        self.over: str | None = None

    def wait(self, descriptor: int) -> None:
        """Return when there is something to read, or at the deadline: then the connection is shut, and the driver sees
        it closed by the server."""
        self.wire.show(descriptor)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while not poll.poll(min(TICK, max(0.0, self._end - time.monotonic())) * 1000):
            if self.spent():
                return

    def spent(self) -> bool:
        """Whether the time is up; if so, the connection is shut."""
        if self._stop is not None and self._stop.is_set() and not self._stopping:
            self._stopping = True
            self._end = min(self._end, time.monotonic() + GRACE)
        if time.monotonic() < self._end:
            return False
        self.over = "no answer before the stop" if self._stopping else f"no answer within {self._seconds:g} s"
        self.wire.shut()
        return True


class _Watch:
    """A thread that watches statements whose answer is read in C. It sleeps while there are none."""

    def __init__(self) -> None:
        self._watched: set[Patience] = set()
        self._guard = threading.Lock()
        self._some = threading.Event()
        self._process = 0

    def add(self, patience: Patience) -> None:
        with self._guard:
            self._watched.add(patience)
            self._some.set()
            if self._process != os.getpid():  # a fork does not copy threads
                self._process = os.getpid()
                threading.Thread(target=self._run, name="sqlserver-watch", daemon=True).start()

    def remove(self, patience: Patience) -> None:
        """From now on its socket is not shut."""
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
    """`patience` is the deadline of this thread's statements and their answers."""
    _of_this_thread.patience = patience
    if patience.wire.known:  # the driver first reads the rest of the previous answer
        _watch.add(patience)
    try:
        yield
    finally:
        _of_this_thread.patience = None
        _watch.remove(patience)


def wait(descriptor: int) -> None:
    """The driver calls this, from any thread, when it has sent a statement."""
    patience: Patience | None = getattr(_of_this_thread, "patience", None)
    if patience is not None:
        patience.wait(descriptor)
        _watch.add(patience)


class _Attempt:
    """A call in a thread of its own, whose result can be closed."""

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
        """Abandon it, unless it has ended: whether it has not. A late result is closed."""
        with self.guard:
            self._late = not self.done.is_set()
            _Attempt.given_up += self._late
            return self._late


def given_up() -> int:
    """How many abandoned logins have not ended."""
    return _Attempt.given_up


def login_in_time(work: Callable[[], Any], seconds: float, stop: threading.Event | None, doing: str) -> Any:
    """The result or error of `work`; ConnectionLost shortly after `seconds`, or soon after the stop.

    Not common.in_time: here a late login is closed, a stop grants it GRACE, and abandoned logins are counted.
    """
    if given_up() >= _MOST_GIVEN_UP:
        raise ConnectionLost(f"{doing}: {given_up()} earlier logins still have no answer")
    attempt = _Attempt(work)
    patience = Patience(seconds + TICK, stop)
    threading.Thread(target=attempt.run, name="sqlserver-login", daemon=True).start()
    while not attempt.done.wait(TICK):
        if patience.spent() and attempt.give_up():
            raise ConnectionLost(f"{doing}: {_said(patience, seconds)}", hint=HANGS)
    if attempt.error is not None:
        raise attempt.error
    return attempt.result


def _said(patience: Patience, seconds: float) -> str:
    return patience.over if patience.over == "no answer before the stop" else f"no answer within {seconds:g} s"
