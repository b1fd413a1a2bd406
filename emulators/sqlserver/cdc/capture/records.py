"""A statement's row changes, turned into the records that the transaction log would hold for them. Pure.

An update that changes a column of the primary key or of a unique index is logged as a delete and an insert (KB 238254):
of one row with one seqval and consecutive command ids, of several rows as all deletes under one command id and all
inserts under the next, each with a seqval of its own (Debezium documentation and PR #7728). Rows whose values stay the
same leave no record. Whether SET named a column does not matter: the log holds values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from emulators.sqlserver.cdc.instance import AFTER_UPDATE, BEFORE_UPDATE, DELETE, INSERT, LogRecord
from emulators.sqlserver.engine.extension import Row, RowChange, Table


@dataclass(frozen=True, slots=True)
class _Update:
    before: Row
    after: Row
    changed: frozenset[int]


def statement_records(
    table: Table, changes: Sequence[RowChange], command_id: int, record_lsn: Callable[[], bytes]
) -> list[LogRecord]:
    """The log records of one statement, its first command id being `command_id`; each log record takes one LSN."""
    return _Statement(table, command_id, record_lsn).records(changes)


class _Statement:
    def __init__(self, table: Table, command_id: int, record_lsn: Callable[[], bytes]) -> None:
        self._object_id = table.object_id
        self._ids = tuple(column.column_id for column in table.columns)
        self._computed = frozenset(column.column_id for column in table.columns if column.computed)
        self._key_ids = frozenset(column_id for key in table.keys for column_id in key.column_ids)
        self._command_id = command_id
        self._record_lsn = record_lsn

    def records(self, changes: Sequence[RowChange]) -> list[LogRecord]:
        parts = [part for part in map(self._part, changes) if part is not None]
        moves = [part for part in parts if isinstance(part, _Update) and part.changed & self._key_ids]
        if not moves:
            return [record for part in parts for record in self._in_place(part)]
        if len(parts) == 1:
            return self._single_move(moves[0])
        return self._moves(parts, moves)

    def _part(self, change: RowChange) -> RowChange | _Update | None:
        if change.before is None or change.after is None:
            return change
        different = (
            column_id
            for column_id, old, new in zip(self._ids, change.before, change.after, strict=True)
            if old != new and column_id not in self._computed
        )
        changed = frozenset(different)
        return _Update(change.before, change.after, changed) if changed else None

    def _in_place(self, part: RowChange | _Update) -> list[LogRecord]:
        seqval = self._record_lsn()
        if isinstance(part, _Update):
            return [
                self._image(BEFORE_UPDATE, seqval, part.before, changed=part.changed),
                self._image(AFTER_UPDATE, seqval, part.after, changed=part.changed),
            ]
        if part.after is not None:
            return [self._image(INSERT, seqval, part.after)]
        return [self._image(DELETE, seqval, part.before or ())]

    def _single_move(self, move: _Update) -> list[LogRecord]:
        seqval = self._record_lsn()
        return [self._image(DELETE, seqval, move.before), self._image(INSERT, seqval, move.after, later=1)]

    def _moves(self, parts: Sequence[RowChange | _Update], moves: Sequence[_Update]) -> list[LogRecord]:
        """Inserts come last, those of a MERGE too: each may use a key that another row of the statement gives up."""
        records: list[LogRecord] = []
        inserts: list[Row] = []
        for part in parts:
            if isinstance(part, _Update) and part.changed & self._key_ids:
                records.append(self._image(DELETE, self._record_lsn(), part.before))
                inserts.append(part.after)
            elif isinstance(part, RowChange) and part.after is not None:
                inserts.append(part.after)
            else:
                records += self._in_place(part)
        return records + [self._image(INSERT, self._record_lsn(), row, later=1) for row in inserts]

    def _image(
        self, operation: int, seqval: bytes, row: Row, *, later: int = 0, changed: frozenset[int] = frozenset()
    ) -> LogRecord:
        values = dict(zip(self._ids, row, strict=True))
        return LogRecord(self._object_id, self._command_id + later, seqval, operation, values, changed)
