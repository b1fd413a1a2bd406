"""The writer lock of a database, waits for it and for what its tables are held by, and who of those that wait in a circle gives up.

One owner at a time has the lock, whatever thread speaks for it. Knows no SQLite. Who waits says for whom: a circle of them is a deadlock,
which ends with error 1205 for the one that has done the least, as SQL Server ends it. Application locks are not looked at.
Source: https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-locking-and-row-versioning-guide (Deadlocks)
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection
from typing import Protocol, runtime_checkable

from emulators.sqlserver import turns
from emulators.sqlserver.results import Cancel, Cancelled
from emulators.sqlserver.tsql.errors import deadlock_victim, lock_timeout

CANCEL_CHECK = 0.05
"""Seconds between two looks at whether the client has gone, and whether those who wait are a circle."""
Blockers = Callable[[], Collection[object]]
"""Those that have to end something first; empty when there is nothing to wait for."""


class Patience:
    """How long to wait for a condition at once: until the next look at whether the client has gone, or the end of the wait.

    By the clock: where much is released, the condition is notified so often that no wait of it lasts until its timeout.
    """

    def __init__(self, timeout: float | None) -> None:
        """`timeout`: seconds, None without end."""
        now = time.monotonic()
        self._look = now + CANCEL_CHECK
        self._end = math.inf if timeout is None else now + timeout

    def looks_up(self) -> bool:
        """Whether it is time for a look; the next one comes CANCEL_CHECK seconds later."""
        now = time.monotonic()
        if now < self._look:
            return False
        self._look = now + CANCEL_CHECK
        return True

    def over(self) -> bool:
        return time.monotonic() >= self._end

    def left(self) -> float:
        return max(0.0, min(self._look, self._end) - time.monotonic())


@runtime_checkable
class Victim(Protocol):
    """Who can be chosen to give up."""

    @property
    def session_id(self) -> int: ...

    def work(self) -> int:
        """How much would be rolled back."""
        ...


class _Waits:
    """Who waits for whom, in all databases of the process."""

    def __init__(self) -> None:
        self._blockers: dict[object, Blockers] = {}

    def begin(self, owner: object, blockers: Blockers) -> None:
        self._blockers[owner] = blockers

    def end(self, owner: object) -> None:
        self._blockers.pop(owner, None)

    def gives_up(self, owner: object) -> bool:
        """Whether `owner` waits in a circle, and is the one of it that has done the least."""
        circle = self._circle(owner)
        victims = [each for each in circle if isinstance(each, Victim)]
        return bool(victims) and min(victims, key=lambda each: (each.work(), -each.session_id)) is owner

    def _circle(self, owner: object) -> list[object]:
        """Everyone on a way from `owner` back to it; empty without one."""
        paths: list[list[object]] = [[owner]]
        seen: set[int] = set()
        while paths:
            path = paths.pop()
            blockers = self._blockers.get(path[-1])
            for other in blockers() if blockers is not None else ():
                if other is owner:
                    return path
                if id(other) not in seen:
                    seen.add(id(other))
                    paths.append([*path, other])
        return []


_waits = _Waits()


class WriterLock:
    """Waiters are served in no particular order, as the capture thread and sessions are few."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._owner: object | None = None

    def acquire(self, owner: object, timeout: float | None, cancelled: Cancel) -> None:
        """Waits `timeout` seconds at most, None without end. Raises SqlError 1205, 1222, Cancelled."""
        with self._changed:
            self._wait_while(owner, lambda: () if self._owner is None else (self._owner,), timeout, cancelled)
            self._owner = owner

    def wait_while(
        self,
        owner: object,
        blockers: Blockers,
        timeout: float | None,
        cancelled: Cancel,
        then: Callable[[], None] | None = None,
    ) -> None:
        """The same without taking the lock; `blockers` is asked whenever something was released. `then` runs before anybody else."""
        with self._changed:
            self._wait_while(owner, blockers, timeout, cancelled)
            if then is not None:
                then()

    def unless(self, blockers: Blockers, then: Callable[[], None]) -> bool:
        """`then`, before anybody else can do anything, and without a wait: False when there are blockers."""
        with self._changed:
            if blockers():
                return False
            then()
            return True

    def released(self, act: Callable[[], None]) -> None:
        """Release something, and let those who wait look again."""
        with self._changed:
            act()
            self._changed.notify_all()

    def _wait_while(self, owner: object, blockers: Blockers, timeout: float | None, cancelled: Cancel) -> None:
        if not blockers():
            return
        patience = Patience(timeout)
        _waits.begin(owner, blockers)
        try:
            while blockers():
                if patience.looks_up():
                    if cancelled():
                        raise Cancelled
                    if _waits.gives_up(owner):
                        raise deadlock_victim(owner.session_id if isinstance(owner, Victim) else 0)
                if patience.over():
                    raise lock_timeout()
                turns.give_up()
                self._changed.wait(patience.left())
        finally:
            _waits.end(owner)

    def release(self, owner: object) -> None:
        with self._changed:
            if self._owner is owner:
                self._owner = None
                self._changed.notify_all()
