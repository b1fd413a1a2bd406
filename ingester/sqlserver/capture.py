"""The state of SQL Server's capture, through pymssql. A view that this login may not see is None, not an error."""

from __future__ import annotations

from typing import Any

from common.errors import PermanentError
from ingester.capture_status import CaptureError, Explanation, LogTimes, OffsetTimes, Retention
from ingester.sqlserver.connection import Connection, is_error, lacks_rights
from ingester.sqlserver.silence import CaptureFacts, CaptureJobs, Scan, explain, retention
from ingester.sqlserver.sql import capture as queries

_UNKNOWN_OBJECT = 208
_BUSY = 22903
"""Another session has the log. With `low_latency` two scans meet now and then, and one of them gives way: no fault of capture. If it lasts, the
scans themselves report it (`low_latency has no effect`)."""
_SCHEDULER_SECONDS = 20.0
"""How often Azure SQL Database scans.
https://learn.microsoft.com/azure/azure-sql/database/change-data-capture-overview"""


class SqlServerCapture:
    """Needs the rights of the ingester, and some more for `jobs` and the scans of `facts`: docs/install.md.

    `beside_scans`: whether ingesters have the log scanned, too."""

    def __init__(self, connection: Connection, *, beside_scans: bool = False) -> None:
        self._connection = connection
        self._passing = (_BUSY,) if beside_scans else ()
        self._of_service: bool | None = None
        self._jobs: CaptureJobs | None = None

    def times(self) -> LogTimes:
        newest = self._connection.rows(queries.NEWEST)
        offsets = self._connection.rows(queries.OFFSETS)
        return LogTimes(
            newest=None if not newest else max(0.0, float(newest[0][0])),
            offsets={
                name: OffsetTimes(max(0.0, float(age)), None if waiting is None else max(0.0, float(waiting)))
                for name, age, waiting in offsets
                if age is not None
            },
        )

    def retention(self) -> Retention:
        self._jobs = self.jobs()
        return retention(self._jobs)

    def silence(self, newest: float | None) -> Explanation:
        """With the jobs as `retention` saw them last: they are changed by hand."""
        return explain(self.facts(), self._jobs, newest)

    def jobs(self) -> CaptureJobs | None:
        """None where this login may not see them."""
        if self._of_service is None:
            self._of_service = bool(self._connection.rows(queries.SERVICE_HAS_NO_AGENT)[0][0])
        found = self._seen(queries.JOBS_OF_SERVICE if self._of_service else queries.JOBS_OF_AGENT)
        if found is None:
            return None
        jobs = {kind: (interval, continuous, retention) for kind, interval, continuous, retention in found}
        cleanup = jobs.get("cleanup")
        retention = None if cleanup is None else cleanup[2] * 60.0
        if self._of_service:  # the service's scheduler runs regardless of this table
            return CaptureJobs(True, _SCHEDULER_SECONDS, retention)
        if (capture := jobs.get("capture")) is None:
            return CaptureJobs(False, None, retention)
        return CaptureJobs(True, float(capture[0]) if capture[1] else None, retention)

    def facts(self) -> CaptureFacts:
        enabled, log_wait, tracked = self._connection.rows(queries.DATABASE)[0]
        scans = self._seen(queries.SCANS)
        errors = None if scans is None else self._seen(queries.ERRORS)
        return CaptureFacts(
            enabled=bool(enabled),
            log_wait=log_wait or "",
            scans=None
            if scans is None
            else tuple(
                Scan(
                    began=max(0.0, float(began or 0)),
                    ended=None if ended is None else max(0.0, float(ended)),
                    transactions=transactions or 0,
                    latency=float(latency or 0),
                    failed=bool(failures),
                )
                for began, ended, transactions, latency, failures in scans
            ),
            errors=tuple(
                CaptureError(number, text or "") for number, text in errors or () if number not in self._passing
            ),
            tracked=bool(tracked) or self._captures_any(),
        )

    def _captures_any(self) -> bool | None:
        """The server's list of tables leaves out those on which this login has no right; the list of captures has them all."""
        found = self._seen(queries.ANY_CAPTURE)
        return None if found is None else bool(found)

    def _seen(self, sql: str) -> list[tuple[Any, ...]] | None:
        try:
            return self._connection.rows(sql)
        except PermanentError as error:
            if lacks_rights(error):
                return None
            if is_error(error, _UNKNOWN_OBJECT):  # a server's first job creates the table of jobs
                return []
            raise

    def close(self) -> None:
        self._connection.close()
