"""Waits for the first packet of an answer in place of the driver, which would do so in C.

A thread that waits in C runs no signal handler, and the main thread is the one that polls: a server that hangs would hold up a stop, and
even the second signal, for as long as a query may take. So it waits here, a little at a time. An answer that stops in the middle is the
driver's own matter, by its query timeout.
https://pymssql.readthedocs.io/en/stable/ref/pymssql.html (set_wait_callback)
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

TICK = 0.5
"""Seconds after which a stop is noticed at the latest."""

GRACE = 3.0
"""Seconds that a question may still take when the stop comes: most are answered in a fraction, and an offset is stored."""


class Patience:
    """For one statement: `seconds` altogether, and GRACE from the moment that `stop` is seen to be set.

    `over`: why it was given up; None while it was not.
    """

    def __init__(self, seconds: float, stop: threading.Event | None) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._stop = stop
        self._stopping = False
        self.over: str | None = None

    def wait(self, descriptor: int) -> None:
        """Until there is something to read. After that the connection is shut, and the driver finds it closed by the server."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while not poll.poll(TICK * 1000):
            if self._stop is not None and self._stop.is_set() and not self._stopping:
                self._stopping = True
                self._end = min(self._end, time.monotonic() + GRACE)
            if time.monotonic() >= self._end:
                self.over = "no answer before the stop" if self._stopping else f"no answer within {self._seconds:g} s"
                with socket.socket(fileno=os.dup(descriptor)) as ours:
                    ours.shutdown(socket.SHUT_RDWR)
                return


_of_this_thread = threading.local()


@contextmanager
def patient(patience: Patience) -> Iterator[None]:
    """Statements of this thread are waited for with `patience`."""
    _of_this_thread.patience = patience
    try:
        yield
    finally:
        _of_this_thread.patience = None


def wait(descriptor: int) -> None:
    """What the driver is to call, from any thread, when it has sent a statement."""
    patience: Patience | None = getattr(_of_this_thread, "patience", None)
    if patience is not None:
        patience.wait(descriptor)
