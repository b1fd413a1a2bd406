"""Has the source capture what is committed, again and again, while this ingester holds the lock for it. A thread of its own.

Nothing waits for it: a scan that fails or hangs hinders neither the reading of tables nor their locks. The lock only spares the source
useless requests. Two ingesters that both believe to have it harm nobody: the source refuses the second scan.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from common.clock import SteadyClock
from common.errors import ConnectionLost, DStreamError
from common.periodic import repeat
from ingester.capture_status import LogScan, Scanned
from ingester.driver.lease_keeper import LeaseKeeper
from ingester.driver.scanning.pace import News, Pace
from ingester.watch.stats import IngesterStats

log = structlog.get_logger("ingester")

_STANDBY_SECONDS = 1.0
"""Between two looks for the lock. The lease keeper takes it meanwhile."""
_FAILED = "failed"


class LogScanner:
    """`scans` belongs to this object's thread, which closes it. `leases` keeps the lock of this name and no other. `look` has the loop look at
    all tables: it is called after each scan that captured something, and after one that lost its connection, so that the loop finds out
    whether the server is away. `busy_hint`: what a person can do where another session scans all the time.
    """

    def __init__(
        self,
        scans: LogScan,
        leases: LeaseKeeper,
        lock: str,
        pace: Pace,
        *,
        stats: IngesterStats,
        look: Callable[[], None],
        busy_hint: str,
        clock: SteadyClock,
    ) -> None:
        self._scans = scans
        self._leases = leases
        self._lock = lock
        self._pace = pace
        self._stats = stats
        self._look = look
        self._busy_hint = busy_hint
        self._clock = clock
        self._ours = self._told = False
        self._pause = 0.0
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """While its context is open, the log is scanned whenever the lock is held."""
        thread = threading.Thread(target=self._run, name="log-scan", daemon=True)
        self._leases.want([self._lock])
        self._leases.start()
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(1.0)  # a scan that is under way ends with its connection, soon after a stop
            self._leases.close(1.0)

    def _run(self) -> None:
        repeat(self._next, "scans of the log", self._stop, every=lambda: self._pause)
        self._scans.close()

    def _next(self) -> None:
        self._pause = _STANDBY_SECONDS  # after a defect
        self._pause = self.turn()

    def turn(self) -> float:
        """Scan once if the lock is held. Returns the seconds until the next turn."""
        if not self._holds():
            self._scans.close()  # also where the lock was lost because its session found no place in the database
            return _STANDBY_SECONDS
        if self._stats.cut_off:
            self._rest()
            return _STANDBY_SECONDS
        began = self._clock()
        outcome: Scanned | DStreamError
        try:
            outcome = self._scans.scan()
        except DStreamError as error:
            outcome = error
        if self._stop.is_set():
            return 0.0
        pause, news = self._pace.after(outcome, self._clock() - began)
        self._stats.scanned(_FAILED if isinstance(outcome, DStreamError) else outcome.value)
        if outcome in (Scanned.CAPTURED, Scanned.EMPTY):
            self._stats.scans(self._pace.good_for)
            self._begun(news)
        elif not self._pace.works:
            self._stats.scans(0.0)
        self._tell(news, outcome)
        if outcome is Scanned.CAPTURED or isinstance(outcome, ConnectionLost):
            self._look()
        return pause

    def _rest(self) -> None:
        """The loop reports that the server is away, and nobody here could read what a scan captures. No session is kept: it might be the one
        that a database in single-user mode lets in."""
        self._scans.close()
        self._stats.scans(0.0)

    def _holds(self) -> bool:
        try:
            ours = self._leases.lease(self._lock) is not None
        except DStreamError as error:  # the lock service refuses; the keeper tries again
            log.debug("lock of the log not held", error=error.message)
            ours = False
        if ours != self._ours:
            self._ours = ours
            self._stats.scans(0.0 if ours else None)
            if self._told and not ours:
                log.info("scanning the log is left to another ingester", lock=self._lock)
                self._told = False
        return ours

    def _begun(self, news: News) -> None:
        """Say so after the first scan that succeeds: whether this login may scan is not known before."""
        if not self._told and news is not News.WORKS:
            log.info("scanning the log", lock=self._lock)
        self._told = True

    def _tell(self, news: News, outcome: Scanned | DStreamError) -> None:
        effect = "changes are captured at the server's own interval"
        if news is News.BUSY:
            log.warning(
                "low_latency has no effect",
                why="another session scans the log all the time",
                effect=effect,
                hint=self._busy_hint,
            )
        elif news is News.WORKS:
            log.info("the log can be scanned again")
        elif isinstance(outcome, DStreamError) and news is News.REFUSED:
            log.warning("the log may not be scanned", error=outcome.message, effect=effect, hint=outcome.hint)
        elif isinstance(outcome, DStreamError) and news is News.FAILED:
            log.warning("scanning the log failed, retrying", error=outcome.message, effect=effect, hint=outcome.hint)
