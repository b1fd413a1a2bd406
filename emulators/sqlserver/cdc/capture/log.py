"""The transaction log of one database: told of every change by the engine, it keeps a transaction's records until its end.

At commit the records go to log_store in the user's own SQLite transaction, so that both commit or neither does. All calls come on
the thread that holds the writer lock. Writes no change table: that is the capture job's work, and it comes later.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field

from emulators.sqlserver.cdc import log_store
from emulators.sqlserver.cdc.capture import large_objects, schema_change
from emulators.sqlserver.cdc.capture.capture_state import CaptureState
from emulators.sqlserver.cdc.capture.records import statement_records
from emulators.sqlserver.cdc.instance import CaptureInstance, LogRecord
from emulators.sqlserver.cdc.log_store import DdlRecord, LoggedTransaction
from emulators.sqlserver.engine.extension import RowChange, Table, Transaction

_NOTE = "cdc"


@dataclass(slots=True)
class _Open:
    """What an open transaction has logged so far."""

    begin_lsn: bytes
    command_id: int = 1
    records: list[LogRecord] = field(default_factory=list)
    ddl: list[DdlRecord] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    removed: tuple[CaptureInstance, ...] = ()
    savepoints: dict[str, tuple[int, int, int]] = field(default_factory=dict)


class TransactionLog:
    """The ChangeObserver of a database under Change Data Capture."""

    def __init__(self, cdc: CaptureState) -> None:
        self._cdc = cdc

    def tracks(self, object_id: int) -> bool:
        return self._cdc.tracks(object_id)

    def statement(
        self, transaction: Transaction, table: Table, changes: Sequence[RowChange], updated: frozenset[int]
    ) -> None:
        """Log a statement's changes. Raises 7139. `updated` is not asked: a column whose value stays the same has not changed."""
        instances = self._cdc.instances_of(table.object_id)
        if not changes or not instances:
            return
        large_objects.check(table, changes, instances, self._cdc.options.max_text_repl_size)
        log = self._open(transaction)
        records = statement_records(table, changes, log.command_id, self._cdc.lsns.record)
        if records:
            log.records += records
            log.command_id = max(record.command_id or 0 for record in records) + 1

    def saved(self, transaction: Transaction, savepoint: str) -> None:
        log = self._noted(transaction)
        if log is not None:
            log.savepoints[savepoint.casefold()] = (len(log.records), len(log.ddl), len(log.dropped))

    def rolled_back_to(self, transaction: Transaction, savepoint: str) -> None:
        """Forget what came after the savepoint: everything, when it was set before the first record was logged.

        LSNs and command ids are not used again.
        """
        log = self._noted(transaction)
        if log is None:
            return
        records, ddl, dropped = log.savepoints.get(savepoint.casefold(), (0, 0, 0))
        del log.records[records:], log.ddl[ddl:], log.dropped[dropped:]

    def committing(self, transaction: Transaction, connection: sqlite3.Connection) -> None:
        log = self._noted(transaction)
        if log is None or not (log.records or log.ddl or log.dropped):
            return
        if log.dropped:
            log.removed = self._cdc.remove_instances_of(connection, log.dropped)
        if log.records or log.ddl:
            log_store.append(connection, self._logged(transaction, log))
            self._cdc.work_waits()

    def rolled_back(self, transaction: Transaction) -> None:
        log = self._noted(transaction)
        transaction.notes.pop(_NOTE, None)
        if log is not None and log.removed:
            self._cdc.restore_instances(log.removed)

    def table_changed(self, before: Table, after: Table | None, ddl: str, transaction: Transaction | None) -> None:
        instances = self._cdc.instances_of(before.object_id)
        if not instances:
            return
        schema_change.check(instances, before, after, ddl)
        if transaction is None:
            raise ValueError("a change of a tracked table needs its transaction, or its log record would be lost")
        log = self._open(transaction)
        if after is None:
            log.dropped.append(before.object_id)
        elif before.columns != after.columns:
            retyped = schema_change.retyped(before, after)
            log.ddl.append(DdlRecord(before.object_id, ddl, self._cdc.database.now(), retyped))

    def _noted(self, transaction: Transaction) -> _Open | None:
        note = transaction.notes.get(_NOTE)
        return note if isinstance(note, _Open) else None

    def _open(self, transaction: Transaction) -> _Open:
        log = self._noted(transaction)
        if log is None:
            log = _Open(begin_lsn=self._cdc.lsns.record())
            transaction.notes[_NOTE] = log
        return log

    def _logged(self, transaction: Transaction, log: _Open) -> LoggedTransaction:
        return LoggedTransaction(
            start_lsn=self._cdc.lsns.commit(),
            begin_time=transaction.begin_time,
            end_time=self._cdc.database.now(),
            tran_id=transaction.number.to_bytes(6, "big"),
            begin_lsn=log.begin_lsn,
            records=log.records,
            ddl=log.ddl,
        )
