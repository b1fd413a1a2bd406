"""Who routes in this process: what is in force now, and what takes its place once it has finished or given back everything in flight.

The two never route at once, so a session keeps its order: the slots of the one have ended before those of the other begin. Opens nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import structlog

from common.errors import TransientError

_GLANCE: Final = 1.0
"""Seconds after which a thread that waits for a stop sees that there is nothing to stop any more."""

log = structlog.get_logger(__name__)


class Routing(Protocol):
    """Settings with everything open."""

    over: threading.Event
    """Set: it ends."""

    def run(self) -> int:
        """Route until `over`: 0 when everything in flight was settled or given back in time."""
        ...

    def hand_over(self) -> None:
        """It ends, and another one waits for that."""
        ...

    def cut(self) -> None:
        """End every call in flight."""
        ...

    def close(self) -> None: ...


@contextmanager
def passed_on(stop: threading.Event, end: Callable[[], None]) -> Iterator[None]:
    """Inside, `end` is called as soon as `stop` is set."""
    over = threading.Event()

    def wait() -> None:
        while not over.is_set():
            if stop.wait(_GLANCE):
                end()
                return

    threading.Thread(target=wait, name="stop-routing", daemon=True).start()
    try:
        yield
    finally:
        over.set()


class Succession:
    """`stop` ends it, by `end`. `run` is for the thread that routes; `succeed` for another."""

    def __init__(self, first: Routing, stop: threading.Event, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._now, self._stop, self._clock = first, stop, clock
        self._next: Routing | None = None
        self._guard = threading.Condition()
        self._ended = False

    def run(self) -> int:
        """Route until `stop`, as `Routing.run`. Raises what it raises, and then `stop` is set."""
        try:
            while True:
                status = self._now.run()
                if not self._changed_hands(status):
                    return status
        except BaseException:
            self._stop.set()
            raise
        finally:
            with self._guard:
                self._ended = True
                self._guard.notify_all()

    def _changed_hands(self, status: int) -> bool:
        with self._guard:
            old, new = self._now, self._next
            if new is None or self._stop.is_set():
                return False
            if status:
                raise TransientError(
                    "taking over the changed configuration: slots did not end in time",
                    hint="start the router again, which the orchestrator does: it begins with the changed configuration. A call that does not end, "
                    "though it was cut, holds the sessions of those slots, and no other slot may have them before the process has ended: the "
                    "stacks of all threads, above, show it",
                )
            old.cut()
            self._now, self._next = new, None
            self._guard.notify_all()
        threading.Thread(target=old.close, name="close-previous", daemon=True).start()
        return True

    def succeed(self, new: Routing) -> bool:
        """Let `new` take over; returns once it routes. False: the process stops, and `new` stays the caller's."""
        with self._guard:
            if self._ended or self._stop.is_set():
                return False
            began, self._next = self._clock(), new
            self._now.hand_over()
            while self._next is not None and not self._ended:
                self._guard.wait()
            if self._next is not None:
                return False
        log.debug("slots started again", seconds=round(self._clock() - began, 2))
        return True

    @property
    def now(self) -> Routing:
        return self._now

    def end(self) -> None:
        """Once `stop` is set: whoever routes ends."""
        with self._guard:
            self._now.over.set()
            if self._next is not None:
                self._next.over.set()
