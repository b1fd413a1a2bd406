"""`dstream check` of `low_latency`: whether this login may scan the log, and whether the capture job lets it. Scans nothing."""

from __future__ import annotations

from collections.abc import Iterator

from common.check import BY_EDITING, Finding, by_sql, ok, warn
from common.errors import PermanentError
from ingester.sqlserver.capture import SqlServerCapture
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.findings import Session
from ingester.sqlserver.hints import BESIDE_THE_JOB, SCANS_ALONE, scan_log
from ingester.sqlserver.sql import rights
from ingester.sqlserver.sql import scans as queries

_SUBJECT = "low latency"


def findings(connection: Connection, session: Session) -> Iterator[Finding]:
    """Only where the setting is on."""
    if connection.rows(queries.MAY_SCAN)[0][0] != 1:
        text = (
            f"the user {session.user} is not a member of {rights.SCANNER}, so the server captures at its own interval"
        )
        fix = by_sql(rights.join_role(session.user, rights.SCANNER))
        yield warn(_SUBJECT, text, scan_log(session.user), fix=fix)
        return
    jobs = None if session.azure else SqlServerCapture(connection).jobs()
    if jobs is None or not jobs.capture or jobs.polling is None:
        yield ok(_SUBJECT, "this login may scan the log")
        return
    runs = _runs(connection)
    if runs is False:
        text = "the capture job does not run; only this ingester's scans capture changes"
        yield warn(_SUBJECT, text, SCANS_ALONE, fix=by_sql(rights.START_JOB))
        return
    text = "low_latency does nothing beside the capture job of SQL Server Agent, which has the log to itself"
    doubt = "" if runs else " while it runs (this login may not see in msdb.dbo.sysjobactivity whether it does)"
    yield warn(_SUBJECT, text + doubt, BESIDE_THE_JOB, fix=BY_EDITING)


def _runs(connection: Connection) -> bool | None:
    """Whether the capture job runs. None: msdb does not let this login know."""
    try:
        found = connection.rows(queries.JOB_RUNS)
    except PermanentError:
        return None
    return bool(found[0][0]) if found else None
