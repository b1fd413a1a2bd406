"""When transactions were committed, in UTC: cdc.lsn_time_mapping has the server's local time, without a zone.

Only the server knows the rules of its zone, and AT TIME ZONE costs more than the rest of a row. So it is asked once for
each minute of local time, however many rows were committed in it: no zone changes its offset within a minute. In the
hour that occurs twice in autumn, the answer is that of AT TIME ZONE.
https://learn.microsoft.com/sql/t-sql/queries/at-time-zone-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from common.errors import DStreamError
from ingester.sqlserver.connection import Connection, is_error
from ingester.sqlserver.sql import changes as queries

_UNKNOWN_FUNCTION = 195
_MINUTE = len("2026-01-02 03:04")
_HOUR = 60
"""Minutes: no zone is set back by more."""
_KEPT = 10_000
"""How many minutes' offsets are cached: about a week of them."""


class CommitTimes:
    """For one server. Not thread-safe, as its connection is not."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._zone: str | None = None
        self._zone_known = False
        self._minutes: dict[str, timedelta] = {}

    def utc(self, local: Iterable[str | None]) -> Mapping[str, str]:
        """Each local time in style 121 ("2026-01-02 03:04:05.677") with its UTC, "2026-01-02T02:04:05.677Z"."""
        times = {time for time in local if time is not None}
        self._learn({time[:_MINUTE] for time in times})
        return {time: self._moved(time) for time in times}

    def doubt(self, local: str) -> int:
        """By how many minutes a local time must be later than `local`, in style 126, to be certainly later.

        In autumn an hour occurs twice, and its first pass looks later than the second. If the server does not report
        its zone, any hour could be that one.
        """
        if self.zone() is None:
            return _HOUR
        hours = [datetime.fromisoformat(local) + timedelta(hours=hours) for hours in (-1, 0, 1)]
        minutes = [hour.isoformat(" ")[:_MINUTE] for hour in hours]
        self._learn(set(minutes))
        return 0 if len({self._minutes[minute] for minute in minutes}) == 1 else _HOUR

    def _moved(self, time: str) -> str:
        moved = datetime.fromisoformat(time) - self._minutes[time[:_MINUTE]]
        return moved.isoformat(timespec="milliseconds") + "Z"

    def _learn(self, minutes: set[str]) -> None:
        new = sorted(minutes - self._minutes.keys())
        if not new:
            return
        if len(self._minutes) + len(new) > _KEPT:
            self._minutes = {minute: self._minutes[minute] for minute in minutes & self._minutes.keys()}
        self._minutes.update(zip(new, self._offsets(new), strict=True))

    def _offsets(self, minutes: list[str]) -> list[timedelta]:
        zone = self.zone()
        if zone is None:
            return [timedelta(minutes=self._connection.rows(queries.OFFSET_NOW)[0][0])] * len(minutes)
        answers = self._connection.batch([(queries.OFFSET_IN_ZONE, (minute, zone)) for minute in minutes])
        return [timedelta(minutes=rows[0][0]) for rows in answers]

    def zone(self) -> str | None:
        """None if the server does not report it: then only today's offset is known."""
        if not self._zone_known:
            try:
                self._zone = self._connection.rows(queries.SERVER_TIME_ZONE)[0][0]
            except DStreamError as error:
                if not is_error(error, _UNKNOWN_FUNCTION):
                    raise
            self._zone_known = True
        return self._zone
