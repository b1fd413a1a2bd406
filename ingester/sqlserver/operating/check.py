"""`dstream check` of pauses: whether an ingester with this login notices that a table is paused. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from common.check import Finding, by_sql, ok, warn
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.findings import Session
from ingester.sqlserver.hints import SEE_PAUSES, USE_PAUSES
from ingester.sqlserver.sql import operating, rights
from ingester.sqlserver.sql import pauses as queries

_SUBJECT = "pauses"


def findings(connection: Connection, session: Session) -> Iterator[Finding]:
    """Nothing where the table is certainly not there: the first pause makes it."""
    if connection.rows(queries.TABLE_MISSING)[0][0]:
        if not connection.rows(operating.SEES_ALL_TABLES)[0][0]:
            text = (
                "dbo.cdc_pauses does not exist, or this login may not see it: its ingester reads a paused table all the same, "
                "and warns of that at its start"
            )
            yield ok(_SUBJECT, f"{text} ({SEE_PAUSES})")
        return
    reads, *writes = (bool(right) for right in connection.rows(queries.RIGHTS)[0])
    if not reads:
        text = "this login may not read dbo.cdc_pauses: its ingester reads a paused table on"
        yield warn(_SUBJECT, text, USE_PAUSES, fix=by_sql(rights.use_pauses(session.user)))
    elif all(writes):
        yield ok(_SUBJECT, "dbo.cdc_pauses may be read and written")
    else:
        yield ok(
            _SUBJECT, "dbo.cdc_pauses may be read; this login may not write to it, so `dstream pause` needs another one"
        )
