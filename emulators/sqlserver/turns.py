"""Whose thread works: one at a time where it can be, for the sake of speed alone.

SQLite lets go of the interpreter's lock at every row and takes it again. With several threads at work each row then changes threads: on two
processors four readers cost the server four times as much a row as one. A thread that works for a client therefore has a turn, which it gives up
while it writes to a socket, and for good where it waits for anything else. Nothing depends on having one: a turn that has lasted for
`PATIENCE` seconds is over for those who wait, who come in their order. So a turn can neither lock nor starve anybody. It protects no data.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE: Final = 0.1


class Turns:
    """Of one process. A turn is the lock that its thread waits for."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._owner: threading.Lock | None = None
        self._since = 0.0

    def take(self) -> threading.Lock:
        """A turn, after those who have asked before."""
        turn = threading.Lock()
        with self._guard:
            if self._owner is None:
                self._begin(turn)
                return turn
            turn.acquire()
            self._waiting.append(turn)
        while not turn.acquire(timeout=PATIENCE):
            with self._guard:
                if self._owner is turn:
                    break
                if turn not in self._waiting:
                    break  # it came meanwhile, and lasted so long that it is over for those behind it
                if self._waiting[0] is turn and time.monotonic() - self._since >= PATIENCE:
                    self._begin(self._waiting.popleft())
                    break
        return turn

    def give(self, turn: threading.Lock) -> None:
        """It is over; the next one begins, unless one has begun since somebody lost patience."""
        with self._guard:
            if self._owner is turn:
                self._owner = None
                if self._waiting:
                    next_one = self._waiting.popleft()
                    self._begin(next_one)
                    next_one.release()

    def _begin(self, turn: threading.Lock) -> None:
        self._owner, self._since = turn, time.monotonic()


class _Own(threading.local):
    """The turn of this thread."""

    turn: threading.Lock | None = None


_turns = Turns()
_own = _Own()


@contextmanager
def mine() -> Iterator[None]:
    """A turn for what is done here."""
    _own.turn = _turns.take()
    try:
        yield
    finally:
        give_up()


@contextmanager
def elsewhere() -> Iterator[None]:
    """No turn for what is done here, and one again afterwards, where this thread has one."""
    if _own.turn is None:
        yield
        return
    give_up()
    try:
        yield
    finally:
        _own.turn = _turns.take()


def give_up() -> None:
    """Before a wait: this thread's turn, if it has one, is over."""
    turn, _own.turn = _own.turn, None
    if turn is not None:
        _turns.give(turn)
