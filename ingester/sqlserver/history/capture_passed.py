"""Whether capture has read the log past a moment: then every change that was committed before it is in the change tables.

Two proofs, either is enough:

- cdc.lsn_time_mapping has a transaction that ended later than the moment. Capture reads the log in order, and adds an entry for each
  transaction that it captures, and a dummy one every five minutes while there are none.
  https://learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server
- A scan of the log that began after the moment found nothing to capture. sys.dm_cdc_log_scan_sessions has one row for a run of such
  scans, which counts them. Where the start in the row is that of the first of them, two more than were counted after the moment prove it:
  the second of these began after the first had ended. So a database without changes does not wait for five minutes.
  https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/change-data-capture-sys-dm-cdc-log-scan-sessions

sys.dm_db_log_stats has the end of the log, but nothing has how far capture has scanned in it where it found nothing.
All times are the server's local ones: see times.py.
"""

from __future__ import annotations

from common.errors import PermanentError
from ingester.sqlserver.connection import Connection, lacks_rights
from ingester.sqlserver.sql.history import rows as queries
from ingester.sqlserver.times import CommitTimes

_KEPT = 64
"""How many moments are remembered; a caller waits for one at a time."""


class CapturePassed:
    """Not thread-safe, as its connection is not."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._times = CommitTimes(connection)
        self._counted: dict[str, tuple[int, int]] = {}
        """By moment: the last scan's session and how many scans without transactions it counted, when first asked."""

    def passed(self, moment: str) -> bool:
        doubt = self._times.doubt(moment)
        if self._connection.rows(*queries.quick(queries.CAPTURED_AFTER, doubt, moment))[0][0]:
            return True
        last = self._last_scan(doubt, moment)
        if last is None:
            return False
        session, empty, later = last
        first = self._counted.setdefault(moment, (session, empty))
        if len(self._counted) > _KEPT:
            del self._counted[next(iter(self._counted))]
        return empty > 0 and (later or (session == first[0] and empty >= first[1] + 2))

    def _last_scan(self, doubt: int, moment: str) -> tuple[int, int, bool] | None:
        """(session, its scans without transactions, whether it began after the moment); None without the right to see it."""
        try:
            found = self._connection.rows(*queries.quick(queries.LAST_SCAN, doubt, moment))
        except PermanentError as error:
            if lacks_rights(error):
                return None
            raise
        return next(((session, empty or 0, bool(later)) for session, empty, later in found), None)
