"""The pauses of SQL Server's tables, in dbo.cdc_pauses: they fail over with the offsets, and outlive every process.

The table is made by the first pause. Whoever only looks makes nothing, and waits no longer than a second for somebody who holds the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from common.errors import DStreamError, PermanentError, TransientError
from common.names import TableName
from ingester.operating.pauses import Pause, PausesHidden
from ingester.sqlserver.connection import Connection, is_error, lacks_rights, needing
from ingester.sqlserver.hints import MAKE_PAUSES, READ_PAUSES, SEE_PAUSES, USE_PAUSES
from ingester.sqlserver.sql import pauses as queries
from ingester.sqlserver.sql.operating import SEES_ALL_TABLES

_TABLE_THERE, _LOCK_TIMEOUT = 2714, 1222
_HELD = (
    "most often a transaction that nobody commits; sys.dm_tran_locks shows its session: commit it, roll it back, or end the session. "
    "An ingester does not start before, because it must not read a table that may be paused"
)
_REASON = 1000
_HIDDEN = "reading pauses: dbo.cdc_pauses does not exist, or this login may not see it"


class SqlServerPauses:
    """To look needs SELECT on dbo.cdc_pauses. The server hides the table from a login without any right on it: that is no answer."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def paused(self) -> Mapping[str, Pause] | None:
        with _seeing():
            found = self._connection.result_sets(queries.PAUSED)
        if found:
            return {str(row[0]).lower(): _pause(row) for rows in found for row in rows}
        if self._sees_all():
            return None
        raise PausesHidden(_HIDDEN, hint=SEE_PAUSES)

    def _sees_all(self) -> bool:
        """Whether a table that this login does not see is certainly not there."""
        return bool(self._connection.rows(SEES_ALL_TABLES)[0][0])

    def ended(self, key: str) -> Pause | None:
        with _seeing():
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
            if not self._sees_all():
                raise PausesHidden(_HIDDEN, hint=MAKE_PAUSES)
            return False
        with needing(USE_PAUSES):
            return self._connection.execute(*queries.resume(table.key, _short(reason))) > 0

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _seeing() -> Iterator[None]:
    """A refusal for want of a right, with the right; a wait for another session, with how to find it."""
    try:
        yield
    except TransientError as error:
        if is_error(error, _LOCK_TIMEOUT):
            raise TransientError(
                "reading pauses: another session holds dbo.cdc_pauses", hint=_HELD
            ) from error.__cause__
        raise
    except PermanentError as error:
        if lacks_rights(error):
            raise PausesHidden(f"reading pauses: {error.message}", hint=READ_PAUSES) from error.__cause__
        raise


def _short(reason: str | None) -> str | None:
    return None if reason is None else reason[:_REASON]


def _pause(row: Sequence[Any]) -> Pause:
    _, at, login, host, reason = row
    return Pause(
        f"{at}Z", str(login) if host is None else f"{login} on {host}", None if reason is None else str(reason)
    )
