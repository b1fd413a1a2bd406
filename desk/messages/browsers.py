"""Browsers that are kept open between questions: opening one takes longer than a page. A browser is lent to one thread at a time.

Knows the port of browsing alone. Closes what nobody has used for a minute; refuses to keep more than a few.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from common.bus.browsing import Browser, Shelf, Shelves
from common.bus.settings import BusSettings
from common.errors import DStreamError
from desk.messages.places import Place

IDLE_SECONDS = 60.0
MOST_IDLE = 8

ShelvesOf = Callable[[BusSettings], Shelves]


@dataclass(slots=True)
class _Idle:
    bus: BusSettings
    shelf: Shelf
    browser: Browser
    since: float


class Browsers:
    """Callable from any thread. `shelves_of`: `common.buses.shelves_of`."""

    def __init__(self, shelves_of: ShelvesOf, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._shelves_of = shelves_of
        self._clock = clock
        self._lock = threading.Lock()
        self._shelves: list[tuple[BusSettings, Shelves]] = []
        self._idle: list[_Idle] = []

    @contextmanager
    def lent(self, place: Place, *, dead: bool) -> Iterator[Browser]:
        """A browser of the place, or of its dead letters. One that has raised is not lent again. Raises ConfigurationError."""
        shelf = place.looked_at(dead=dead)
        browser = self._taken(place.bus, shelf)
        try:
            yield browser
        except DStreamError:
            browser.close()
            raise
        except BaseException:
            browser.close()
            raise
        self._kept(_Idle(place.bus, shelf, browser, self._clock()))

    def _taken(self, bus: BusSettings, shelf: Shelf) -> Browser:
        with self._lock:
            found = next((each for each in self._idle if each.shelf == shelf and each.bus == bus), None)
            if found is not None:
                self._idle.remove(found)
                if self._clock() - found.since < IDLE_SECONDS:
                    return found.browser
        if found is not None:
            found.browser.close()
        return self._of(bus).browser(shelf)

    def _of(self, bus: BusSettings) -> Shelves:
        with self._lock:
            for settings, shelves in self._shelves:
                if settings == bus:
                    return shelves
            made = self._shelves_of(bus)
            self._shelves.append((bus, made))
            return made

    def _kept(self, idle: _Idle) -> None:
        with self._lock:
            self._idle.append(idle)
            now = self._clock()
            surplus = [each for each in self._idle[:-MOST_IDLE] if each is not idle]
            surplus += [
                each for each in self._idle if now - each.since >= IDLE_SECONDS and not any(each is s for s in surplus)
            ]
            self._idle = [each for each in self._idle if not any(each is s for s in surplus)]
        for each in surplus:
            each.browser.close()

    def close(self) -> None:
        """Never raises."""
        with self._lock:
            idle, shelves = self._idle, self._shelves
            self._idle, self._shelves = [], []
        for each in idle:
            each.browser.close()
        for _, made in shelves:
            made.close()
