"""What Change Data Capture knows of one database: its LSN source, its capture instances, and whether work waits in its log.

The log, the capture and the cleanup work on it; it runs nothing, parses nothing and knows no procedure (database.py has the jobs). The
instances are replaced as a whole, and only under the database's writer lock, so that no statement is logged by one list and committed
by another.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from emulators.sqlserver.cdc import errors, metadata
from emulators.sqlserver.cdc.capture.hold import NO_HOLD
from emulators.sqlserver.cdc.capture.scan_sessions import ScanSessions
from emulators.sqlserver.cdc.capture.scan_turn import ScanTurn
from emulators.sqlserver.cdc.instance import CapturedColumn, CaptureInstance
from emulators.sqlserver.cdc.lsn import LsnSource
from emulators.sqlserver.cdc.options import CdcOptions
from emulators.sqlserver.engine.extension import Database
from emulators.sqlserver.results import Cancel, SqlError


class CaptureState:
    """Of a database whose changes are captured. Empty before `take_up`."""

    def __init__(self, database: Database, options: CdcOptions) -> None:
        self.database = database
        self.options = options
        self.lsns = LsnSource()
        self.sessions = ScanSessions(database.now())
        self.turn = ScanTurn()
        self.hold = NO_HOLD
        self._instances: tuple[CaptureInstance, ...] = ()
        self._by_source: dict[int, tuple[CaptureInstance, ...]] = {}
        self._work = threading.Event()

    def take_up(self, connection: sqlite3.Connection) -> None:
        """Go on from what the database holds."""
        self.lsns = LsnSource(metadata.last_lsn(self.database, connection))
        self._set(metadata.load_instances(self.database, connection))

    @property
    def instances(self) -> tuple[CaptureInstance, ...]:
        return self._instances

    def tracks(self, object_id: int) -> bool:
        return object_id in self._by_source

    def instances_of(self, object_id: int) -> tuple[CaptureInstance, ...]:
        return self._by_source.get(object_id, ())

    def instance(self, name: str) -> CaptureInstance | None:
        """Names compare by the database's collation."""
        fold = self.database.fold
        return next((i for i in self._instances if fold(i.name) == fold(name)), None)

    @contextmanager
    def changing_instances(self) -> Iterator[sqlite3.Connection]:
        """A write transaction that adds or removes instances, and after whose end they are those that its rows describe."""
        before: tuple[CaptureInstance, ...] | None = None
        try:
            with self.database.writer() as connection:
                before = self._instances
                yield connection
                self._set(metadata.load_instances(self.database, connection, self._instances))
        except BaseException:
            # Without them it was the wait for the lock that ended, and another thread may have set them meanwhile.
            if before is not None:
                self._set(before)
            raise

    @contextmanager
    def keeping_instances(self, gives_way: Cancel | None = None) -> Iterator[sqlite3.Connection]:
        """A write transaction that leaves the instances alone, or takes back what `retype` did to them when it fails.

        `gives_way`: as for `Database.writer`.
        """
        before: tuple[CaptureInstance, ...] | None = None
        try:
            with self.database.writer(gives_way) as connection:
                before = self._instances
                yield connection
        except BaseException:
            if before is not None:
                self._set(before)
            raise

    def retype(
        self, connection: sqlite3.Connection, instance: CaptureInstance, columns: Sequence[CapturedColumn]
    ) -> None:
        """Give captured columns the types that `columns` say, in the change table and in what is known of the instance. Raises 22976."""
        for column in columns:
            change_table = metadata.table(self.database, instance.change_table)
            try:
                self.database.alter_system_table(connection, change_table, column.name, column.captured_type)
            except SqlError as wrong:
                name = change_table.name
                raise errors.change_table_not_altered(column.name, name, name.removesuffix("_CT")) from wrong
            metadata.set_column_type(self.database, connection, instance, column)
        self._set(metadata.load_instances(self.database, connection))

    def remove_instances_of(
        self, connection: sqlite3.Connection, object_ids: Sequence[int]
    ) -> tuple[CaptureInstance, ...]:
        """Drop the capture instances of dropped tables, inside the transaction that drops them; returns them."""
        removed = tuple(i for object_id in object_ids for i in self.instances_of(object_id))
        for instance in removed:
            metadata.remove_instance(self.database, connection, instance)
        self._set(tuple(i for i in self._instances if i not in removed))
        return removed

    def restore_instances(self, removed: Sequence[CaptureInstance]) -> None:
        """The transaction that dropped them did not commit after all."""
        self._set((*self._instances, *removed))

    def _set(self, instances: tuple[CaptureInstance, ...]) -> None:
        by_source: dict[int, tuple[CaptureInstance, ...]] = {}
        for instance in instances:
            by_source[instance.source_object_id] = (*by_source.get(instance.source_object_id, ()), instance)
        self._instances, self._by_source = instances, by_source

    def work_waits(self) -> None:
        """A transaction is about to commit: the next scan, which has to wait for that commit, finds it."""
        self._work.set()

    def take_waiting_work(self) -> bool:
        """Whether a scan may find anything; asked before the scan, so that what comes during it is not missed."""
        waiting = self._work.is_set()
        self._work.clear()
        return waiting

    # -- capture on demand, for tests

    def hold_back(self, *, seconds: float = 0.0, transactions: int = 0) -> None:
        """From the next scan on leave commits younger than `seconds`, and the newest `transactions`, in the log; zeros: none."""
        self.hold = replace(self.hold, seconds=seconds, transactions=transactions)
        self.work_waits()

    def fail_scans(self, message: str | None = None) -> None:
        """Let every scan end with error 22859, seen in sys.dm_cdc_errors, and move nothing. `message`: another text."""
        self.hold = replace(self.hold, error=errors.scan_failed(message))

    def let_scans_pass(self) -> None:
        self.hold = replace(self.hold, error=None)
        self.work_waits()
