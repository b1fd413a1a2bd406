"""sys.sp_cdc_scan through pymssql: what its errors mean, and whether it has captured anything. Decides nothing about when.

A session that has scanned is the log's only reader until it says that it is not, or ends. So nothing is left of a scan when it returns: after
an error, and wherever the server does not confirm the release, the connection is closed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import structlog

from common.errors import DStreamError, PermanentError, TransientError
from ingester.capture_status import Scanned
from ingester.sqlserver.connection import Connection, is_error
from ingester.sqlserver.hints import scan_log
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
        self._knows_reached = False

    def scan(self) -> Scanned:
        try:
            if not self._knows_reached:
                self._look_how_far()
            *_, ((said, reached, transactions),), ((released,),) = self._connection.result_sets(queries.SCAN)
        except DStreamError as error:
            self._connection.close()
            if any(is_error(error, number) for number in _BUSY):
                return Scanned.BUSY
            raise self._explained(error) from error.__cause__
        if transactions or not released:
            log.debug("log reader released by closing its connection", transactions=transactions)
            self._connection.close()
        if transactions:
            raise TransientError(f"{_WHERE}: sys.sp_cdc_scan left a transaction open, which was rolled back")
        if said not in (None, "0"):
            raise TransientError(f"{_WHERE}: sys.sp_cdc_scan returned {said}")
        before, self._reached = self._reached, _position(reached)
        known, self._knows_reached = self._knows_reached, True
        return Scanned.CAPTURED if known and self._reached != before else Scanned.EMPTY

    def close(self) -> None:
        self._connection.close()

    def _look_how_far(self) -> None:
        """Before the first scan, which could not say otherwise whether it has captured anything."""
        with suppress(PermanentError):  # the scan reports what is wrong
            self._reached = _position(self._connection.rows(queries.REACHED)[0][0])
            self._knows_reached = True

    def _explained(self, error: DStreamError) -> DStreamError:
        """`error` of a scan, with what to do about it."""
        message = f"{_WHERE}: {error.message}"
        if any(is_error(error, number) for number in _NOT_OWNER):
            return PermanentError(message, hint=scan_log(self._user()))
        if is_error(error, _REPLICATED):
            hint = "the agent of transactional replication reads the log here; remove low_latency"
            return PermanentError(message, hint=hint)
        return type(error)(message, hint=error.hint)

    def _user(self) -> str:
        """For the hint alone."""
        try:
            return str(self._connection.rows(queries.WHO)[0][0])
        except DStreamError:
            return "USER"


def _position(reached: object) -> bytes | None:
    return bytes(reached) if isinstance(reached, bytes | bytearray) else None
