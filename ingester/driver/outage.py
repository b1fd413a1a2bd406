"""Whether SQL Server can be reached and answers. Logs an outage once for each hint, and its end once. Asks nothing itself."""

from __future__ import annotations

import structlog

from common.clock import SteadyClock
from common.errors import ConnectionLost, DStreamError
from common.hints import Hints
from ingester.source import UNREACHABLE
from ingester.watch.stats import SILENT_SECONDS, IngesterStats

log = structlog.get_logger("ingester")

_PATIENCE_SECONDS = 60.0
"""After so long without the database, tables are left to ingesters that may reach it."""

REFUSED = "check that the login still has its rights (docs/install.md) and that Change Data Capture is enabled in the database"
"""Hints for errors that have none."""

_AFTERMATH_SECONDS = 10.0
"""Workers keep connections from slice to slice, so the first slices after an outage find broken ones."""


class Outage:
    """True while there is an outage."""

    def __init__(self, stats: IngesterStats, clock: SteadyClock) -> None:
        self._stats = stats
        self._clock = clock
        self._since: float | None = None
        self._hints = Hints()
        self._unanswered = False
        self._slow = False
        self._ended_at = float("-inf")

    def __bool__(self) -> bool:
        return self.disconnected or self._unanswered

    @property
    def disconnected(self) -> bool:
        """Whether this ingester cannot reach the server; others perhaps can."""
        return self._since is not None

    @property
    def lately(self) -> bool:
        """Whether there is an outage or one has just ended. Earlier slices still return with broken connections."""
        return self.disconnected or self._clock() - self._ended_at < _AFTERMATH_SECONDS

    def lost(self, error: ConnectionLost, *, stopping: bool = False) -> bool:
        """The server cannot be reached. Returns whether that has lasted so long that others should have the tables. `stopping`: a stop was asked
        for, which cuts off what waits for an answer; nothing is retried."""
        if stopping:
            return False
        self._stats.connected(False, error.with_hint(UNREACHABLE))
        now = self._clock()
        hint = error.hint or UNREACHABLE
        if self._since is None:
            self._since = now
            self._hints.clear()
        if self._hints.news(hint):
            log.warning("connection to SQL Server lost, retrying", error=error.message, hint=hint)
        return now - self._since >= _PATIENCE_SECONDS

    def refused(self, error: DStreamError) -> None:
        """The server can be reached, but does not answer a query about all tables."""
        self._stats.unanswered(error.with_hint(REFUSED))
        if not self._unanswered:
            self._unanswered = True
            log.warning(
                "SQL Server does not answer for the tables, retrying",
                error=error.message,
                hint=error.hint or REFUSED,
            )

    def over(self) -> bool:
        """Every query was answered. Returns whether that ends an outage."""
        ended = bool(self)
        self._stats.connected(True)
        self._stats.unanswered(None)
        if self._since is not None:
            self._ended_at = self._clock()
            log.info("reconnected to SQL Server")
        if self._unanswered:
            log.info("SQL Server answers for the tables again")
        self._since, self._unanswered = None, False
        self._report_slowness(self._stats.waited)
        return ended

    def _report_slowness(self, seconds: float) -> None:
        slow = seconds > SILENT_SECONDS
        if slow and not self._slow:
            log.warning(
                "SQL Server was slow to answer, tables were not read meanwhile",
                seconds=round(seconds),
                hint="check whether the server is overloaded or the network drops packets",
            )
        self._slow = slow
