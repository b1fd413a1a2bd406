"""What follows when the table that had a configured name is gone, and another has the name now."""

from __future__ import annotations

from common.clock import SteadyClock
from common.errors import ConnectionLost, PermanentError, TransientError
from ingester.driver.history.gaps import Gaps
from ingester.driver.ownership import Ownership
from ingester.driver.roster import Roster
from ingester.driver.tables import TrackedTable


class Succession:
    """Both methods raise ConnectionLost."""

    def __init__(self, gaps: Gaps, ownership: Ownership, roster: Roster, clock: SteadyClock) -> None:
        self._gaps = gaps
        self._ownership = ownership
        self._roster = roster
        self._clock = clock

    def lost(self, table: TrackedTable) -> bool:
        """Whether `table` cannot be read now because the table that had its name is gone, with its unread changes."""
        if table.successor is None or not table.successor.lost or table.lease is None:
            return False
        return not (self._gaps.goes_over(table) and self.gone_over(table))

    def gone_over(self, table: TrackedTable) -> bool:
        """Go over to the table that has the name now. False: that cannot be now."""
        try:
            over = self._ownership.gone_over(table)
        except ConnectionLost:
            raise
        except (PermanentError, TransientError) as error:
            self._roster.failed(table, error)
            return False
        table.stored_at = self._clock()
        return over
