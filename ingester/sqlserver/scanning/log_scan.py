"""sys.sp_cdc_scan through pymssql: what its errors mean, and whether it has captured anything. Decides nothing about when."""

from __future__ import annotations

from typing import Final

from common.errors import PermanentError, TransientError
from ingester.capture_status import Scanned
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.errors import meaning
from ingester.sqlserver.hints import SCAN_LOG
from ingester.sqlserver.sql import scans as queries

_BUSY: Final = 22903
"""Another connection is already running sp_replcmds for Change Data Capture in the database."""
_NOT_OWNER: Final = frozenset({22902, 22904})
_REPLICATED: Final = frozenset({18752, 22911})
"""The database is enabled for transactional replication, whose Log Reader Agent has the log."""
_WHERE: Final = "scanning the log"


class SqlServerLogScan:
    """`connection` must not be used for anything else: a scan may take minutes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reached: bytes | None = None

    def scan(self) -> Scanned:
        ((number, said, reached),) = self._connection.result_sets(queries.SCAN)[-1]
        if number == _BUSY:
            return Scanned.BUSY
        if number in _NOT_OWNER:
            raise PermanentError(f"{_WHERE}: error {number}: {said}", hint=SCAN_LOG)
        if number in _REPLICATED:
            raise PermanentError(
                f"{_WHERE}: error {number}: {said}",
                hint="the agent of transactional replication reads the log here; remove low_latency",
            )
        if number:
            raise meaning(number, said, _WHERE)
        if said not in (None, "0"):
            raise TransientError(f"{_WHERE}: sys.sp_cdc_scan returned {said}")
        before, self._reached = self._reached, None if reached is None else bytes(reached)
        return Scanned.EMPTY if self._reached == before else Scanned.CAPTURED

    def close(self) -> None:
        self._connection.close()
