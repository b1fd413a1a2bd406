"""The tables under Change Data Capture, from SQL Server's catalog: one statement that waits shortly for locks."""

from __future__ import annotations

from common.names import TableName
from ingester.finding.matches import UnderCdc
from ingester.sqlserver.connection import Connection, needing
from ingester.sqlserver.login.opening import QUICK_SECONDS
from ingester.sqlserver.sql import under_cdc as queries
from ingester.sqlserver.sql.changes import CDC_ENABLED

_GRANT = "GRANT SELECT ON SCHEMA::cdc to the login's user (docs/install.md)"


def tables_under_cdc(connection: Connection) -> UnderCdc:
    """No table where the database has no Change Data Capture. Raises PermanentError, TransientError, ConnectionLost."""
    enabled = connection.batch([(CDC_ENABLED, ())], within=QUICK_SECONDS)[-1]
    if not enabled or not enabled[0][0]:
        return UnderCdc()
    with needing(_GRANT):
        rows = connection.batch([(queries.TABLES, ())], within=QUICK_SECONDS)[-1]
    seen = tuple(TableName(schema, table) for schema, table in rows if schema and table)
    return UnderCdc(seen, len(rows) - len(seen))
