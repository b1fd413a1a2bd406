"""Faults of Change Data Capture: capture is stopped, late or failing, or holds what its readers ask for.

They break capture through what its own module of faults offers, in every database, and never touch a change that was captured.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, ExitStack

from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.extension import CdcExtension
from emulators.sqlserver.cdc.faults import capture_failing, capture_lagging, capture_stopped
from emulators.sqlserver.injection import Fault, Server


class CaptureFault(Fault):
    """Breaks the capture of every database, those included that get CDC while it is in force; its end mends them.

    What remains: changes wait in the log, and are captured afterwards. Subclasses say how.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._broken: list[DatabaseCdc] = []
        self._mending = ExitStack()
        self._extension: CdcExtension | None = None

    def begin(self, server: Server) -> None:
        extension = getattr(server.engine, "extension", None)
        if not isinstance(extension, CdcExtension):
            raise ValueError("a server without Change Data Capture has no capture to break")
        self._extension = extension
        self.finished()

    def finished(self) -> None:
        with self._lock:
            for cdc in self._extension.states() if self._extension is not None else ():
                if cdc not in self._broken:
                    self._broken.append(cdc)
                    self._mending.enter_context(self.broken(cdc))

    def end(self) -> None:
        with self._lock:
            self._extension = None
            self._mending.close()

    def broken(self, cdc: DatabaseCdc) -> AbstractContextManager[None]:
        """A block in which this database's capture is broken."""
        raise NotImplementedError


class CaptureLagging(CaptureFault):
    """Capture stays `seconds` behind the log."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def broken(self, cdc: DatabaseCdc) -> AbstractContextManager[None]:
        return capture_lagging(cdc, seconds=self._seconds)


class CaptureFailing(CaptureFault):
    """Every scan of the log fails, and says so in sys.dm_cdc_errors."""

    def broken(self, cdc: DatabaseCdc) -> AbstractContextManager[None]:
        return capture_failing(cdc)


class ChangeTableLocked(CaptureFault):
    """The capture of a large transaction holds its change table exclusively: who reads it waits, or meets 1222 after LOCK_TIMEOUT.

    From about 5,000 row locks on SQL Server takes one on the whole table instead, until the transaction of the scan commits. `table`:
    the change table's name, as "dbo_Persons_CT". Readers under READ_COMMITTED_SNAPSHOT or SNAPSHOT do not wait. What remains:
    everything; nothing of the capture itself is delayed here.
    https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-locking-and-row-versioning-guide (lock escalation)
    """

    def __init__(self, table: str) -> None:
        super().__init__()
        self._table = table

    def broken(self, cdc: DatabaseCdc) -> AbstractContextManager[None]:
        return cdc.database.held("cdc", self._table)


class LogTimesLocked(CaptureFault):
    """The capture of a large transaction has added to cdc.lsn_time_mapping and has not committed: sys.fn_cdc_get_max_lsn, which looks for
    the last row, waits, or meets 1222 after LOCK_TIMEOUT.

    Rows that were there before are free, and readers under READ_COMMITTED_SNAPSHOT or SNAPSHOT do not wait. What remains: everything;
    nothing of the capture itself is delayed here.
    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-lsn-time-mapping-transact-sql
    """

    def broken(self, cdc: DatabaseCdc) -> AbstractContextManager[None]:
        return cdc.database.held_end("cdc", "lsn_time_mapping")


class CaptureStopped(CaptureFault):
    """The capture job is stopped: the first table under CDC starts one, and it is stopped again."""

    def finished(self) -> None:
        super().finished()
        with self._lock:
            for cdc in self._broken if self._extension is not None else ():
                if cdc.stop_job():
                    self._mending.callback(cdc.start_job)

    def broken(self, cdc: DatabaseCdc) -> AbstractContextManager[None]:
        return capture_stopped(cdc)
