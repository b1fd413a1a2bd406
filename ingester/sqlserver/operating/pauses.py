"""The pauses of SQL Server's tables, in dbo.cdc_pauses: they fail over with the offsets, and outlive every process.

The table is made by the first pause. Whoever only looks makes nothing, and waits no longer than a second for somebody who holds the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from common.errors import DStreamError
from common.names import TableName
from ingester.operating.pauses import Pause
from ingester.sqlserver.connection import Connection, is_error, needing
from ingester.sqlserver.hints import MAKE_PAUSES, READ_PAUSES, USE_PAUSES
from ingester.sqlserver.sql import pauses as queries
from ingester.sqlserver.sql.operating import SEES_ALL_TABLES

_TABLE_THERE = 2714
_REASON = 1000


class SqlServerPauses:
    """`paused` needs SELECT on dbo.cdc_pauses; a login without any right on it finds no pauses."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def paused(self) -> Mapping[str, Pause]:
        with needing(READ_PAUSES):
            found = self._connection.result_sets(queries.PAUSED)
        return {str(row[0]).lower(): _pause(row) for rows in found for row in rows}

    def hidden(self) -> bool:
        missing = bool(self._connection.rows(queries.TABLE_MISSING)[0][0])
        return missing and not self._connection.rows(SEES_ALL_TABLES)[0][0]

    def ended(self, key: str) -> Pause | None:
        with needing(READ_PAUSES):
            rows = self._connection.rows(*queries.ended(key))
        return _pause(rows[0]) if rows else None

    def pause(self, table: TableName, reason: str | None) -> bool:
        if self._connection.rows(queries.TABLE_MISSING)[0][0]:
            with needing(MAKE_PAUSES):
                self._create()
        with needing(USE_PAUSES):
            return self._connection.execute(*queries.pause(table.key, _short(reason))) == 1

    def _create(self) -> None:
        try:
            self._connection.execute(queries.CREATE)
        except DStreamError as error:
            if not is_error(error, _TABLE_THERE):
                raise

    def resume(self, table: TableName, reason: str | None) -> bool:
        if self._connection.rows(queries.TABLE_MISSING)[0][0]:
            return False
        with needing(USE_PAUSES):
            return self._connection.execute(*queries.resume(table.key, _short(reason))) > 0

    def close(self) -> None:
        self._connection.close()


def _short(reason: str | None) -> str | None:
    return None if reason is None else reason[:_REASON]


def _pause(row: Sequence[Any]) -> Pause:
    _, at, login, host, reason = row
    return Pause(
        f"{at}Z", str(login) if host is None else f"{login} on {host}", None if reason is None else str(reason)
    )
