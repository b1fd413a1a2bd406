"""The tables under Change Data Capture, from SQL Server's catalog: one statement that waits shortly for locks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.names import TableName
from ingester.finding.matches import UnderCdc
from ingester.sqlserver.connection import Connection, needing
from ingester.sqlserver.login.opening import QUICK_SECONDS
from ingester.sqlserver.sql import under_cdc as queries
from ingester.sqlserver.sql.changes import CDC_ENABLED
from ingester.sqlserver.sql.offsets import former_name

_GRANT = "GRANT SELECT ON SCHEMA::cdc to the login's user (docs/install.md)"


def tables_under_cdc(connection: Connection) -> UnderCdc:
    """No table where the database has no Change Data Capture. Raises PermanentError, TransientError, ConnectionLost."""
    enabled = connection.batch([(CDC_ENABLED, ())], within=QUICK_SECONDS)[-1]
    if not enabled or not enabled[0][0]:
        return UnderCdc()
    with needing(_GRANT):
        rows, [[has_offsets]] = connection.batch(
            [(queries.TABLES, ()), (queries.OFFSETS_THERE, ())], within=QUICK_SECONDS
        )
    offsets = connection.batch([(queries.OFFSETS, ())], within=QUICK_SECONDS)[-1] if has_offsets else []
    seen = {TableName(schema, table): source for schema, table, source in rows if schema and table}
    return UnderCdc(tuple(seen), len(rows) - len(seen), *_read_before(seen, offsets))


def _read_before(
    seen: Mapping[TableName, str], offsets: Sequence[tuple[str, str | None]]
) -> tuple[frozenset[TableName], dict[TableName, str]]:
    """The tables with an offset, and those that have it under another name, with that name. `offsets`: key and source, the oldest first."""
    keys = {key.lower() for key, _ in offsets}
    names = {source: former_name(key, source) for key, source in offsets if source}
    with_offset = frozenset(table for table in seen if table.key.lower() in keys)
    return with_offset, {
        table: names[source] for table, source in seen.items() if source in names and table not in with_offset
    }
