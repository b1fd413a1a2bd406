"""The log injector: transactions as the real log can hold them and a database with one writer never makes them.

For tests of readers: interleaved transactions (T1 begins first, T2 commits first: T1 has the smaller seqvals and the larger
commit LSN; Debezium PR #746), the delete and insert of a key update in every known form (KB 3030352, Debezium PR #7728).
No statement of T-SQL leads here, and no table's rows are changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emulators.sqlserver.cdc import errors, log_store
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.instance import LogRecord
from emulators.sqlserver.cdc.log_store import LoggedTransaction
from emulators.sqlserver.results import Value


@dataclass(frozen=True, slots=True)
class InjectedChange:
    """One log record: `values` by column name, `changed` the columns that an update marks in its mask."""

    table: str
    operation: int
    seqval: bytes
    values: Mapping[str, Value]
    command_id: int = 1
    changed: frozenset[str] = frozenset()
    schema: str = "dbo"


def reserve(cdc: DatabaseCdc, count: int) -> list[bytes]:
    """Record LSNs taken now, for changes that are injected later."""
    with cdc.database.writer():
        return [cdc.lsns.record() for _ in range(count)]


def inject(cdc: DatabaseCdc, changes: Sequence[InjectedChange], begin_lsn: bytes | None = None) -> bytes:
    """Append a committed transaction to the log, in the given order; returns its commit LSN. Raises 22931, 22930."""
    with cdc.database.writer() as connection:
        records = [_record(cdc, change) for change in changes]
        now = cdc.database.now()
        first = min((change.seqval for change in changes), default=b"")
        lsn = cdc.lsns.commit()
        transaction = LoggedTransaction(lsn, now, now, lsn[-6:], begin_lsn or first or lsn, records)
        log_store.append(connection, transaction)
        cdc.work_waits()
    return lsn


def _record(cdc: DatabaseCdc, change: InjectedChange) -> LogRecord:
    table = cdc.database.table(change.schema, change.table)
    if table is None:
        raise errors.unknown_table(change.schema, change.table)
    ids = {column.name: column.column_id for column in table.columns}
    for name in (*change.values, *change.changed):
        if name not in ids:
            raise errors.unknown_column(name, change.schema, change.table)
    return LogRecord(
        object_id=table.object_id,
        command_id=change.command_id,
        seqval=change.seqval,
        operation=change.operation,
        values={ids[name]: value for name, value in change.values.items()},
        changed=frozenset(ids[name] for name in change.changed),
    )
