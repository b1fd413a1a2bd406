"""sys.sp_cdc_scan through pymssql: what its errors mean, and whether it has captured anything. Decides nothing about when.

A session that has scanned is the log's only reader until it says that it is not, or ends. So nothing is left of a scan when it returns: after
an error, and wherever the server does not confirm the release, the connection is closed.
"""

from __future__ import annotations

from typing import Final

import structlog

from common.errors import DStreamError, PermanentError, TransientError
from ingester.capture_status import Scanned
from ingester.sqlserver.connection import Connection, is_error
from ingester.sqlserver.hints import SCAN_LOG
from ingester.sqlserver.sql import scans as queries

log = structlog.get_logger("ingester")

_BUSY: Final = (22903, 18752)
"""Another session is the log's reader: for Change Data Capture, or for whatever else reads the log."""
_NOT_OWNER: Final = (22902, 22904, 21050)
_REPLICATED: Final = 22911
"""The database is enabled for transactional replication, whose Log Reader Agent has the log."""
_WHERE: Final = "scanning the log"


class SqlServerLogScan:
    """`connection` must not be used for anything else: a scan may take minutes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reached: bytes | None = None

    def scan(self) -> Scanned:
        try:
            *_, ((said, reached, transactions),), ((released,),) = self._connection.result_sets(queries.SCAN)
        except DStreamError as error:
            self._connection.close()
            if any(is_error(error, number) for number in _BUSY):
                return Scanned.BUSY
            raise _explained(error) from error.__cause__
        if transactions or not released:
            log.debug("log reader released by closing its connection", transactions=transactions)
            self._connection.close()
        if transactions:
            raise TransientError(f"{_WHERE}: sys.sp_cdc_scan left a transaction open, which was rolled back")
        if said not in (None, "0"):
            raise TransientError(f"{_WHERE}: sys.sp_cdc_scan returned {said}")
        before, self._reached = self._reached, None if reached is None else bytes(reached)
        return Scanned.EMPTY if self._reached == before else Scanned.CAPTURED

    def close(self) -> None:
        self._connection.close()


def _explained(error: DStreamError) -> DStreamError:
    """`error` of a scan, with what to do about it."""
    message = f"{_WHERE}: {error.message}"
    if any(is_error(error, number) for number in _NOT_OWNER):
        return PermanentError(message, hint=SCAN_LOG)
    if is_error(error, _REPLICATED):
        hint = "the agent of transactional replication reads the log here; remove low_latency"
        return PermanentError(message, hint=hint)
    return type(error)(message, hint=error.hint)
