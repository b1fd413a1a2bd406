"""A worker process's side of the line to its driver: reports results, asks for time and for a stop, and leaves alone a driver out of reach."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from common.clock import SteadyClock, steady
from ingester.slices import Slice, SliceResult
from ingester.spark.driver_line import Driver

_T = TypeVar("_T")

_PAUSE = 60.0
"""Seconds until a worker that could not reach the driver tries again."""
_ASK_SECONDS = 0.5
"""Between two questions whether to stop."""
_UNREACHED_SECONDS = 5.0
"""The same after a question without an answer."""


class Reach:
    """One for each worker process: talks to the driver, unless that has failed lately. Thread-safe; raises no OSError."""

    def __init__(self, clock: SteadyClock = steady) -> None:
        self._clock = clock
        self._again_at = float("-inf")
        self._news: str | None = None
        self._guard = threading.Lock()
        self._busy = 0
        self._over = threading.Event()
        self.stopping = False
        """Whether the driver said that it stops."""

    def tell(self, driver: Driver, result: SliceResult) -> None:
        self._reached(driver, lambda: driver.tell(result), otherwise=False)

    def begin(self, driver: Driver, bundle: Sequence[Slice]) -> Sequence[Slice] | None:
        """`bundle` with the time and the shapes that it has now, or `bundle` itself if the driver is out of reach; None: begin nothing."""
        unasked: Sequence[Slice] | None = bundle
        return self._reached(driver, lambda: driver.begin(bundle), otherwise=unasked)

    @contextmanager
    def listening(self, driver: Driver) -> Iterator[None]:
        """Meanwhile `stopping` follows the driver."""
        with self._guard:
            self._busy += 1
            if self._busy == 1:
                self._over = over = threading.Event()
                threading.Thread(target=self._follow, args=(driver, over), name="stopping", daemon=True).start()
        try:
            yield
        finally:
            with self._guard:
                self._busy -= 1
                if self._busy == 0:
                    self._over.set()

    def news(self) -> str | None:
        """Why the driver could not be reached: returned once for each failed attempt."""
        news, self._news = self._news, None
        return news

    def _follow(self, driver: Driver, over: threading.Event) -> None:
        pause = _ASK_SECONDS
        while not self.stopping and not over.wait(pause):
            try:
                self.stopping, pause = driver.stops(), _ASK_SECONDS
            except OSError:
                pause = _UNREACHED_SECONDS

    def _reached(self, driver: Driver, ask: Callable[[], _T], *, otherwise: _T) -> _T:
        if self._clock() < self._again_at:
            return otherwise
        try:
            return ask()
        except OSError as error:
            self._again_at = self._clock() + _PAUSE
            self._news = f"{socket.gethostname()} cannot reach {driver.host}:{driver.port}: {error}"
            return otherwise
