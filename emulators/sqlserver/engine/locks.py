"""The writer lock of a database: one owner at a time, whatever thread speaks for it. Knows no SQLite."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from emulators.sqlserver import turns
from emulators.sqlserver.results import Cancel
from emulators.sqlserver.tsql.errors import lock_timeout

CANCEL_CHECK = 0.05
"""Seconds between two looks at whether the client has gone."""


class Cancelled(Exception):
    """The client sent an ATTENTION or went away while a statement waited."""


class WriterLock:
    """Waiters are served in no particular order, as the capture thread and sessions are few."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._owner: object | None = None

    def owned_by(self, owner: object) -> bool:
        return self._owner is owner

    def acquire(self, owner: object, timeout: float | None, cancelled: Cancel) -> None:
        """Waits `timeout` seconds at most, None without end. Raises SqlError 1222, Cancelled."""
        with self._changed:
            self._wait_while(lambda: self._owner is not None, timeout, cancelled)
            self._owner = owner

    def wait_while(self, busy: Callable[[], bool], timeout: float | None, cancelled: Cancel) -> None:
        """The same without taking the lock; `busy` is asked whenever the lock was released."""
        with self._changed:
            self._wait_while(busy, timeout, cancelled)

    def _wait_while(self, busy: Callable[[], bool], timeout: float | None, cancelled: Cancel) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while busy():
            left = CANCEL_CHECK if deadline is None else min(CANCEL_CHECK, deadline - time.monotonic())
            if left <= 0:
                raise lock_timeout()
            turns.give_up()
            if not self._changed.wait(left) and cancelled():
                raise Cancelled

    def release(self, owner: object) -> None:
        with self._changed:
            if self._owner is owner:
                self._owner = None
                self._changed.notify_all()
