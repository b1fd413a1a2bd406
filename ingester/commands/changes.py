"""What the change tables say of changes that are old: for those who look at dead letters, and at the way of a change. Changes nothing."""

from __future__ import annotations

from ingester.operating.newer import NewerChanges
from ingester.settings import IngesterSettings
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.operating.desk import SqlServerDesk
from ingester.sqlserver.operating.newer import SqlServerNewer
from ingester.sqlserver.transactions.source import sql_server_source

_QUERY_SECONDS = 10.0


def newer_changes(settings: IngesterSettings) -> NewerChanges:
    """Connects at the first question; for one thread at a time."""
    connection = Connection(settings.db, query_seconds=_QUERY_SECONDS)
    source = sql_server_source(connection, transactions=False, tables=lambda: settings.tables)
    return SqlServerNewer(connection, source, SqlServerDesk(connection))
