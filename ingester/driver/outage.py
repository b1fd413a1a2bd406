"""Whether SQL Server can be asked: what its silence means to the tables, said once, and its end. Asks nothing itself."""

from __future__ import annotations

import structlog

from common.clock import SteadyClock
from common.errors import ConnectionLost, DStreamError
from ingester.watch.stats import SILENT_SECONDS, IngesterStats

log = structlog.get_logger("ingester")

_PATIENCE_SECONDS = 60.0
"""After so long without the database tables are left to ingesters that may reach it."""

UNREACHABLE = (
    "see whether the server is up, and whether this machine can reach it by the address in db_connection_string"
)
REFUSED = "see whether the login still has its rights (docs/install.md), and whether Change Data Capture is on in the database"
"""What is to be done where an error does not say it."""

_AFTERMATH_SECONDS = 10.0
"""Workers keep a connection from one slice to the next: the first slices after an outage meet those that it has cost."""


class Outage:
    """True while there is one. `clock`: the steady clock."""

    def __init__(self, stats: IngesterStats, clock: SteadyClock) -> None:
        self._stats = stats
        self._clock = clock
        self._since: float | None = None
        self._unanswered = False
        self._slow = False
        self._ended_at = float("-inf")

    def __bool__(self) -> bool:
        return self.disconnected or self._unanswered

    @property
    def disconnected(self) -> bool:
        """Whether the server cannot be reached, so that others may do better."""
        return self._since is not None

    @property
    def lately(self) -> bool:
        """Whether there is one, or was until a moment ago: slices that began before its end come back with the connections it has cost."""
        return self.disconnected or self._clock() - self._ended_at < _AFTERMATH_SECONDS

    def lost(self, error: ConnectionLost) -> bool:
        """Nothing can be asked; whether that has been so for so long that the tables are to be left to others."""
        self._stats.connected(False, error.with_hint(UNREACHABLE))
        now = self._clock()
        if self._since is None:
            self._since = now
            log.warning("connection to SQL Server lost, retrying", error=error.message, hint=error.hint or UNREACHABLE)
        return now - self._since >= _PATIENCE_SECONDS

    def refused(self, error: DStreamError) -> None:
        """The server can be reached, and does not answer a question about all tables."""
        self._stats.unanswered(error.with_hint(REFUSED))
        if not self._unanswered:
            self._unanswered = True
            log.warning(
                "SQL Server does not answer for the tables, retrying",
                error=error.message,
                hint=error.hint or REFUSED,
            )

    def over(self) -> bool:
        """Everything was answered; whether that ends an outage."""
        ended = bool(self)
        self._stats.connected(True)
        self._stats.unanswered(None)
        if self._since is not None:
            self._ended_at = self._clock()
            log.info("reconnected to SQL Server")
        if self._unanswered:
            log.info("SQL Server answers for the tables again")
        self._since, self._unanswered = None, False
        self._tell_slowness(self._stats.waited)
        return ended

    def _tell_slowness(self, seconds: float) -> None:
        slow = seconds > SILENT_SECONDS
        if slow and not self._slow:
            log.warning(
                "SQL Server was slow to answer, tables were not read meanwhile",
                seconds=round(seconds),
                hint="is it overloaded, or does something on the way hold packets back?",
            )
        self._slow = slow
