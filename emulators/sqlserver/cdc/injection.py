"""The log injector: transactions as the real log can hold them and a database with one writer never makes them.

For tests of readers. What is injected is committed, and captured by the next scan like any other transaction; no statement of T-SQL
leads here, and no row of a source table is changed. The shapes that real servers have been seen to make:

- interleaved transactions: T1 begins first and T2 commits first, so T1 has the smaller seqvals and the larger commit LSN (Debezium
  PR #746): two InjectedTransactions whose changes alternate;
- the delete and insert of a key update in every known form: one seqval or two, one command id or two, the insert before the delete
  (KB 3030352, Debezium PR #7728): `seqval` and `command_id` of the changes;
- change tables of databases that were never upgraded, without `__$command_id`: `without_command_ids`; and rows that were captured
  before such an upgrade, whose `__$command_id` is NULL: `command_id=None`;
- any commit LSN that is larger than all before it, any operation, any mask.

Get the capture state from emulators.sqlserver.build.capture_of(engine, database).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from emulators.sqlserver.cdc import errors, log_store, metadata
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.instance import LogRecord
from emulators.sqlserver.cdc.log_store import LoggedTransaction
from emulators.sqlserver.results import Value


@dataclass(frozen=True, slots=True)
class InjectedChange:
    """One log record: `values` by column name, in storage form (sqltypes.py); `changed`: the columns that an update marks.

    `mask` stands in the change table as it is, instead of what `changed` says.
    """

    table: str
    operation: int
    seqval: bytes
    values: Mapping[str, Value]
    command_id: int | None = 1
    changed: frozenset[str] = frozenset()
    schema: str = "dbo"
    mask: bytes | None = None


class InjectedTransaction:
    """A transaction that is open beside others: each change takes its record LSN when it is made, the commit's comes last."""

    def __init__(self, cdc: DatabaseCdc) -> None:
        """It begins now: `tran_begin_lsn` is smaller than the seqvals of its changes."""
        self._cdc = cdc
        self._changes: list[InjectedChange] = []
        (self._begin_lsn,) = reserve(cdc, 1)

    def change(
        self,
        table: str,
        operation: int,
        values: Mapping[str, Value],
        *,
        command_id: int | None = 1,
        seqval: bytes | None = None,
        changed: Sequence[str] = (),
    ) -> bytes:
        """Log a change of a table in schema dbo; returns its seqval, for another change to share."""
        seqval = seqval or reserve(self._cdc, 1)[0]
        self._changes.append(InjectedChange(table, operation, seqval, values, command_id, frozenset(changed)))
        return seqval

    def commit(self) -> bytes:
        """Append it to the log; returns its commit LSN."""
        return inject(self._cdc, self._changes, self._begin_lsn)


def reserve(cdc: DatabaseCdc, count: int) -> list[bytes]:
    """Record LSNs taken now, for changes that are injected later."""
    with cdc.database.writer():
        return [cdc.lsns.record() for _ in range(count)]


def inject(
    cdc: DatabaseCdc,
    changes: Sequence[InjectedChange],
    begin_lsn: bytes | None = None,
    commit_lsn: bytes | None = None,
) -> bytes:
    """Append a committed transaction to the log; returns its commit LSN, which is `commit_lsn` if that is given.

    Raises 22931 and 22930 for unknown tables and columns, ValueError for a commit LSN that is not larger than all before it.
    """
    with cdc.database.writer() as connection:
        records = [_record(cdc, change) for change in changes]
        now = cdc.database.now()
        first = min((change.seqval for change in changes), default=b"")
        if commit_lsn is not None:
            if commit_lsn <= metadata.last_lsn(cdc.database, connection):
                raise ValueError(f"commit LSN 0x{commit_lsn.hex()} is not larger than every one before it")
            cdc.lsns.go_on_after(commit_lsn)
        lsn = commit_lsn or cdc.lsns.commit()
        transaction = LoggedTransaction(lsn, now, now, lsn[-6:], begin_lsn or first or lsn, records)
        log_store.append(connection, transaction)
        cdc.work_waits()
    return lsn


@contextmanager
def without_command_ids(cdc: DatabaseCdc) -> Iterator[None]:
    """Tables that are enabled inside the block get change tables without `__$command_id`."""
    before = cdc.options
    cdc.options = replace(before, command_id_column=False)
    try:
        yield
    finally:
        cdc.options = before


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
        mask=change.mask,
    )
