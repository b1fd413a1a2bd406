"""An ordinary application: two connections that write side by side at a given pace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from dstream.demo.ledger import Ledger
from dstream.demo.order_desk import OrderDesk
from dstream.demo.type_bench import TypeBench
from dstream.emulators import Login


@dataclass(frozen=True)
class Pace:
    """Spreads `changes` over `seconds`, or longer on a machine that cannot keep up.

    `large`: rows of the one large transaction, which are among the changes but are given no time; 0: there is none.
    """

    changes: int
    seconds: float
    large: int = 1000

    def delay(self, small: int, elapsed: float) -> float:
        """Seconds to wait after `small` changes outside the large transaction."""
        return max(0.0, self.seconds * small / max(1, self.changes - self.large) - elapsed)


class Workload:
    """Both parts at once, until `pace.changes` changes are committed or `stop` is called. `error`: what ended it early.

    `after`: the highest Version that an earlier workload on the same tables may have used.
    """

    def __init__(self, login: Login, ledger: Ledger, pace: Pace, *, seed: int = 1, after: int = 0) -> None:
        self._login = login
        self._ledger = ledger
        self._pace = pace
        self._seed = seed
        self._after = after
        self._stop = threading.Event()
        self._started = 0.0
        self._large = 0
        self._threads = [
            threading.Thread(target=self._run, args=(self._orders,), name="orders"),
            threading.Thread(target=self._run, args=(self._types,), name="types"),
        ]
        self.error: Exception | None = None

    def start(self) -> None:
        """Begin, and return at once."""
        self._started = time.monotonic()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the present transactions."""
        self._stop.set()

    @property
    def running(self) -> bool:
        """Whether changes are still being made."""
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        """Wait for the end. Raises what ended the workload early."""
        for thread in self._threads:
            thread.join()
        if self.error is not None:
            raise self.error

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.error = error
            self._stop.set()

    def _orders(self) -> None:
        desk = OrderDesk(self._login, self._ledger, self._seed, after=self._after)
        try:
            while self._more():
                if self._large == 0 and self._done() >= (self._pace.changes - self._pace.large) // 3:
                    desk.new_customers(self._pace.large)
                    self._large = self._pace.large
                desk.step()
        finally:
            desk.close()

    def _types(self) -> None:
        bench = TypeBench(self._login, self._ledger, self._seed + 1, after=self._after)
        try:
            while self._more():
                bench.step()
        finally:
            bench.close()

    def _done(self) -> int:
        return sum(self._ledger.counts().values())

    def _more(self) -> bool:
        done = self._done()
        if done >= self._pace.changes or self._stop.is_set():
            return False
        return not self._stop.wait(self._pace.delay(done - self._large, time.monotonic() - self._started))
