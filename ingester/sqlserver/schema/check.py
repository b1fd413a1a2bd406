"""`dstream check` of dbo.cdc_schemas, where some table has `schema_events`. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from common.check import Finding, by_sql, fail, ok
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.findings import Session
from ingester.sqlserver.hints import MAKE_SCHEMAS, USE_SCHEMAS
from ingester.sqlserver.sql import rights
from ingester.sqlserver.sql import schemas as queries

_SUBJECT = "schemas"


def findings(connection: Connection, session: Session) -> Iterator[Finding]:
    fix = by_sql(rights.MAKE_SCHEMAS, rights.use_schemas(session.user))
    if connection.rows(queries.TABLE_MISSING)[0][0]:
        if all(connection.rows(queries.MAY_MAKE)[0]):
            yield ok(_SUBJECT, "dbo.cdc_schemas does not exist yet and is created at the first start")
            return
        text = "dbo.cdc_schemas does not exist, or this login may not see it, and it may not create and use it: the ingester does not start"
        yield fail(_SUBJECT, text, MAKE_SCHEMAS, fix=fix)
    elif connection.rows(queries.MAY_USE)[0][0]:
        yield ok(_SUBJECT, "dbo.cdc_schemas may be read and written")
    else:
        text = "this login may not read dbo.cdc_schemas, or not write to it: the ingester does not start"
        yield fail(_SUBJECT, text, USE_SCHEMAS, fix=by_sql(rights.use_schemas(session.user)))
