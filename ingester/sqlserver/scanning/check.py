"""`dstream check` of `low_latency`: whether this login may scan the log, and whether the capture job lets it. Scans nothing."""

from __future__ import annotations

from collections.abc import Iterator

from common.check import BY_EDITING, Finding, by_sql, fail, ok, warn
from ingester.sqlserver.capture import SqlServerCapture
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.findings import Session
from ingester.sqlserver.hints import BESIDE_THE_JOB, SCAN_LOG
from ingester.sqlserver.sql import rights
from ingester.sqlserver.sql import scans as queries

_SUBJECT = "low latency"


def findings(connection: Connection, session: Session) -> Iterator[Finding]:
    """Only where the setting is on."""
    if connection.rows(queries.MAY_SCAN)[0][0] != 1:
        text = f"the user {session.user} is not in the role db_owner, so it may not scan the log: capture has its own rhythm"
        yield fail(_SUBJECT, text, SCAN_LOG, fix=by_sql(rights.join_role(session.user, rights.SCANNER)))
        return
    jobs = None if session.azure else SqlServerCapture(connection).jobs()
    if jobs is not None and jobs.capture and jobs.polling is not None:
        text = "the capture job of SQL Server Agent has the log to itself while it runs, so low_latency does nothing beside it"
        yield warn(_SUBJECT, text, BESIDE_THE_JOB, fix=BY_EDITING)
    else:
        yield ok(_SUBJECT, "this login may scan the log")
