"""Whose turn it is to use something shared: first come, first served. Those that wait may do something meanwhile, and may give up.

It does not know what is shared.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOOK = 0.5
"""Seconds between two calls of `meanwhile`."""


def nothing() -> None:
    """To be done meanwhile."""


class _Ticket:
    def __init__(self) -> None:
        self.granted = threading.Event()
        self.away = False


class Turns:
    """One at a time; others wait in the order in which they came."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: list[_Ticket] = []

    @contextmanager
    def mine(self, meanwhile: Callable[[], None] = nothing, *, every: float = LOOK) -> Iterator[bool]:
        """Hold the turn for a `with` block, which learns whether it had to wait.

        `meanwhile` is called every so many seconds of the wait; its exception ends the wait. It may take long: a caller inside it does not keep
        others from their turn, and keeps its own place.
        """
        waited = self._take(meanwhile, every)
        try:
            yield waited
        finally:
            self._leave()

    @contextmanager
    def if_free(self) -> Iterator[bool]:
        """Hold the turn for a `with` block if nobody has it or waits for it; the block learns whether it has the turn."""
        with self._guard:
            free = not self._taken
            self._taken = True
        try:
            yield free
        finally:
            if free:
                self._leave()

    def _take(self, meanwhile: Callable[[], None], every: float) -> bool:
        with self._guard:
            if not self._taken:
                self._taken = True
                return False
            self._waiting.append(ticket := _Ticket())
        while not ticket.granted.wait(every):
            with self._guard:
                if ticket.granted.is_set():
                    break
                ticket.away = True
            try:
                meanwhile()
            except BaseException:
                with self._guard:
                    self._waiting.remove(ticket)
                raise
            if self._free_for(ticket):
                break
        return True

    def _free_for(self, ticket: _Ticket) -> bool:
        """It is back from `meanwhile`: whether the turn became free in that time and is its own now."""
        with self._guard:
            ticket.away = False
            if self._taken:
                return False
            self._waiting.remove(ticket)
            self._taken = True
            return True

    def _leave(self) -> None:
        with self._guard:
            following = next((ticket for ticket in self._waiting if not ticket.away), None)
            if following is None:
                self._taken = False
                return
            self._waiting.remove(following)
            following.granted.set()
