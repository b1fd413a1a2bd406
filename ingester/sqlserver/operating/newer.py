"""Newer changes of a row, looked for in SQL Server's change tables. Reads only, in short statements; no value of a row leaves the server.

An answer of NO is given only when every change that is captured behind the asked one was looked at. Nothing is guessed: what was removed by cleanup,
or lies beyond the bounds below, is UNKNOWN. docs/decisions/0044-newer-changes.md has the reasons.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.errors import ConnectionLost, DStreamError
from common.names import TRANSACTIONS, TableName
from ingester.operating.newer import ChangeRef, Newer, Sent
from ingester.operating.offset_desk import OffsetDesk, StoredOffset
from ingester.source import Source, TableState
from ingester.sqlserver.change_table import ChangeTable, change_table
from ingester.sqlserver.connection import Connection, is_error, lacks_rights
from ingester.sqlserver.hints import READ_SCHEMA_CDC
from ingester.sqlserver.position import LogPosition, Lsn, in_the_log
from ingester.sqlserver.sql import newer as queries
from ingester.sqlserver.sql.changes import Parameters
from ingester.sqlserver.sql.newer import Asked

WINDOW = 20_000
"""Rows that one statement reads: a fraction of a second, so that nobody waits for it."""
MOST_ROWS = 1_000_000
"""Rows that are looked at for the changes of one table in one call."""
SECONDS = 10.0
"""How long one call may take; what was not looked at by then is UNKNOWN."""
MOST_NAMED = 50
"""Newer changes of a row that are named, so that someone who sends all of them again knows it."""
_CATALOG_SECONDS = 30.0
_LOCK_TIMEOUT = 1222
_AGAIN_AFTER = 0.2

_ROW_OPERATIONS = (1, 2, 4)
_READ = 0

_WAITS = "a newer change of the row is captured, and is about to be sent, or being sent"
_GONE = (
    "cleanup has removed it from its change table, or its capture instance was dropped: so its row cannot be looked for"
)
_NO_KEY = "its table has no key in the capture instance, so its changes cannot be told from those of other rows"
_NULL_KEY = "a column of its key is NULL, so its changes cannot be told from those of other rows"
_SNAPSHOT = "a snapshot read it, so it has no place in the change table; its table has changed since"
_EVENT = "it is about no row, and its table has changed since"
_NO_OFFSET = "its table has no offset, so it is not known what was sent"
_OTHER_TABLE = "its table was dropped and created again since"
_NO_TIME = "too many tables were asked about at once, and the time for it was over"
_ENOUGH = "too many changes came after it: those after LSN {} were not looked at"


@dataclass(slots=True)
class _Asked:
    """A change that is looked for. `lsn`: of the newest change up to the offset; `waiting`: beyond it. `rows`, `named`: of those up to the offset."""

    ref: ChangeRef
    asked: Asked
    lsn: bytes | None = None
    waiting: bytes | None = None
    rows: int = 0
    named: set[ChangeRef] = field(default_factory=set)

    @property
    def countless(self) -> bool:
        """Whether there are too many to name. Each may be found four times: by both images of both changes."""
        return self.rows > 4 * MOST_NAMED or len(self.named) > MOST_NAMED

    def add(self, lsn: bytes, command: int, seqval: bytes, operation: int) -> None:
        ref = self.ref
        self.named.add(
            ChangeRef(ref.schema, ref.table, _hex(lsn), _hex(seqval), operation, ref.capture_instance, command)
        )


@dataclass(slots=True)
class _Budget:
    clock: Callable[[], float]
    ends: float
    rows: int = field(default=0)

    @property
    def over(self) -> bool:
        return self.rows >= MOST_ROWS or self.clock() >= self.ends


class SqlServerNewer:
    """`NewerChanges` of `ingester.operating.newer`. Needs SELECT on schema cdc and on dbo.cdc_offsets, as `dstream status` does."""

    def __init__(
        self, connection: Connection, source: Source, desk: OffsetDesk, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection = connection
        self._source = source
        self._desk = desk
        self._clock = clock
        self._ends = 0.0
        self._states: dict[TableName, tuple[float, TableState]] = {}

    def newer_sent(self, changes: Sequence[ChangeRef]) -> Mapping[ChangeRef, Newer]:
        offsets = self._desk.stored()
        by_table: dict[TableName | None, list[ChangeRef]] = {}
        for ref in dict.fromkeys(changes):
            by_table.setdefault(_table(ref), []).append(ref)
        found: dict[ChangeRef, Newer] = {}
        ends = self._ends = self._clock() + SECONDS
        self._look_up([each for each in by_table if each is not None and each != TRANSACTIONS and each.key in offsets])
        for table, refs in by_table.items():
            if table is None or table == TRANSACTIONS:
                found |= {ref: _unknown("it is about no table that has rows") for ref in refs}
                continue
            if self._clock() >= ends:
                found |= {ref: _unknown(_NO_TIME) for ref in refs}
                continue
            try:
                found |= self._of_table(table, refs, offsets.get(table.key), ends) if table.key in offsets else {}
            except ConnectionLost:
                raise
            except DStreamError as error:
                hint = f" ({READ_SCHEMA_CDC})" if lacks_rights(error) else ""
                found |= {ref: _unknown(f"{error.message}{hint}") for ref in refs if ref not in found}
            found |= {ref: _unknown(_NO_OFFSET) for ref in refs if ref not in found}
        return found

    def close(self) -> None:
        self._connection.close()

    def _rows(self, asked: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Again, while there is time, where a lock was in the way: capture and cleanup hold theirs for seconds."""
        while True:
            try:
                return self._connection.rows(asked, parameters)
            except DStreamError as error:
                if not is_error(error, _LOCK_TIMEOUT) or self._clock() + _AGAIN_AFTER >= self._ends:
                    raise
            time.sleep(_AGAIN_AFTER)

    def _of_table(
        self, table: TableName, refs: Sequence[ChangeRef], offset: StoredOffset | None, ends: float
    ) -> dict[ChangeRef, Newer]:
        if offset is None or offset.position is None:
            return {}
        state = self._state(table)
        if not state.instances:
            return {ref: _unknown(_GONE) for ref in refs}
        if offset.source not in (None, "", state.instances[0].source):
            return {ref: _unknown(_OTHER_TABLE) for ref in refs}
        sent = in_the_log(offset.position)
        found: dict[ChangeRef, Newer] = {}
        by_instance: dict[str, tuple[ChangeTable, list[_Asked]]] = {}
        for ref in refs:
            asked = _asked(ref)
            chosen = None if asked is None else _instance(state, ref, Lsn(asked.lsn))
            if asked is None:
                found[ref] = _unknown("its message has no valid LSN and sequence value")
            elif chosen is None:
                found[ref] = _unknown(_GONE)
            else:
                by_instance.setdefault(chosen.name, (chosen, []))[1].append(_Asked(ref, asked))
        for instance, these in by_instance.values():
            these.sort(key=lambda each: (each.asked.lsn, each.asked.command_id, each.asked.seqval))
            for some in _some(these):
                found |= self._of_instance(instance, some, sent, ends)
        return found

    def _look_up(self, tables: Sequence[TableName]) -> None:
        """All at once. Where that fails each is asked for itself, and says why."""
        unknown = [table for table in tables if not self._knows(table)]
        if len(unknown) < 2:
            return
        now = self._clock()
        try:
            self._states |= {table: (now, state) for table, state in self._source.states(unknown).items()}
        except ConnectionLost:
            raise
        except DStreamError:
            return

    def _knows(self, table: TableName) -> bool:
        return (known := self._states.get(table)) is not None and known[0] >= self._clock() - _CATALOG_SECONDS

    def _state(self, table: TableName) -> TableState:
        if not self._knows(table):
            self._states[table] = (self._clock(), self._source.states([table])[table])
        return self._states[table][1]

    def _of_instance(
        self, instance: ChangeTable, some: Sequence[_Asked], sent: LogPosition, ends: float
    ) -> dict[ChangeRef, Newer]:
        rows = [each for each in some if each.ref.operation_id in _ROW_OPERATIONS]
        found: dict[ChangeRef, Newer] = {}
        for each in some:
            if each not in rows:
                found[each.ref] = self._rowless(instance, each)
        if not rows:
            return found
        there: dict[int, list[tuple[int, int]]] = {}
        for number, command, nulls in self._rows(*queries.rows_asked(instance, [one.asked for one in rows])):
            there.setdefault(number, []).append((command, nulls))
        keyed = queries.sorted_key(instance)
        looked = list[_Asked]()
        for number, each in enumerate(rows):
            if number not in there:
                found[each.ref] = _unknown(_GONE)
            elif not keyed or any(nulls for _, nulls in there[number]):
                why = _NULL_KEY if keyed else _NO_KEY
                found[each.ref] = self._unless_last(instance, each, there[number], why)
            else:
                looked.append(each)
        end = self._look(instance, looked, sent, ends) if looked else None
        [[low]] = self._rows(*queries.low_watermark(instance))
        return found | {each.ref: _answer(each, end, low) for each in looked}

    def _look(self, instance: ChangeTable, some: Sequence[_Asked], sent: LogPosition, ends: float) -> Lsn | None:
        """Fill in what is newer. The LSN up to which was looked; None: all."""
        start, left = LogPosition.before(Lsn(some[0].asked.lsn)), list(some)
        budget = _Budget(self._clock, ends)
        while left:
            ended = self._rows(*queries.window_end(instance, start, WINDOW))
            if not ended:
                return None
            lsn, command, seqval, operation, rows = ended[0]
            self._look_at(instance, left, start, sent)
            start = LogPosition(Lsn(bytes(lsn)), command, bytes(seqval), operation)
            budget.rows += rows
            left = [each for each in left if each.waiting is None and not each.countless]
            if rows < WINDOW:
                return None
            if budget.over:
                return start.lsn
        return start.lsn

    def _look_at(self, instance: ChangeTable, left: Sequence[_Asked], start: LogPosition, sent: LogPosition) -> None:
        """One window. What is beyond the offset comes last, so behind it nothing is left to name."""
        asked, few = [each.asked for each in left], list[_Asked]()
        found = self._rows(*queries.newer(instance, asked, start, WINDOW, sent))
        for number, newest, known, rows, all_rows in found:
            if number < 0:
                continue
            each = left[number]
            each.rows += rows
            each.lsn = each.lsn if newest is None else bytes(newest)
            each.waiting = bytes(known) if all_rows > rows else None
            if rows and not each.countless and each.waiting is None:
                few.append(each)
        if few:
            these = [each.asked for each in few]
            for number, *place in self._rows(*queries.named(instance, these, start, WINDOW, sent)):
                if number >= 0:
                    few[number].add(*place)

    def _rowless(self, instance: ChangeTable, each: _Asked) -> Newer:
        """Of what has no row in the change table: nothing is newer where nothing of its table came after it."""
        reads = each.ref.operation_id == _READ
        start = LogPosition.end_of(Lsn(each.asked.lsn)) if reads else LogPosition.before(Lsn(each.asked.lsn))
        return self._any_after(instance, each, start, _SNAPSHOT if reads else _EVENT)

    def _unless_last(self, instance: ChangeTable, each: _Asked, rows: Sequence[tuple[int, int]], why: str) -> Newer:
        asked, command = each.asked, max(command for command, _ in rows)
        return self._any_after(instance, each, LogPosition(Lsn(asked.lsn), command, asked.seqval, asked.operation), why)

    def _any_after(self, instance: ChangeTable, each: _Asked, start: LogPosition, why: str) -> Newer:
        later = self._rows(*queries.any_after(instance, start))
        [[low]] = self._rows(*queries.low_watermark(instance))
        if low is None or bytes(low) > each.asked.lsn:
            return _unknown(_GONE)
        return _unknown(why, bytes(later[0][0])) if later else Newer(Sent.NO)


def _answer(each: _Asked, end: Lsn | None, low: object) -> Newer:
    gone = not isinstance(low, bytes) or low > each.asked.lsn  # while it was looked for, perhaps with what was newer
    if each.lsn is not None:
        whole = not gone and end is None and each.waiting is None and not each.countless
        return Newer(Sent.YES, _hex(each.lsn), changes=tuple(each.named) if whole else None)
    if each.waiting is not None:
        return _unknown(_WAITS, bytes(each.waiting))
    if gone:
        return _unknown(_GONE)
    return Newer(Sent.NO) if end is None else _unknown(_ENOUGH.format(end))


def _unknown(why: str, lsn: bytes | None = None) -> Newer:
    return Newer(Sent.UNKNOWN, None if lsn is None else _hex(lsn), why)


def _hex(lsn: bytes) -> str:
    return bytes(lsn).hex()


def _table(ref: ChangeRef) -> TableName | None:
    try:
        return TableName(ref.schema, ref.table)
    except ValueError:
        return None


def _asked(ref: ChangeRef) -> Asked | None:
    try:
        lsn, seqval = (bytes.fromhex(text.lower().removeprefix("0x")) for text in (ref.lsn, ref.seqval))
        Lsn(lsn), Lsn(seqval)
    except ValueError:
        return None
    return Asked(lsn, -1 if ref.command_id is None else ref.command_id, seqval, ref.operation_id)


def _instance(state: TableState, ref: ChangeRef, lsn: Lsn) -> ChangeTable | None:
    """One that still has the change: that of the message, or another of its table, which has the same rows at the same positions."""
    whole = [change_table(each) for each in state.instances if in_the_log(each.start) <= LogPosition.before(lsn)]
    named = [each for each in whole if each.name == ref.capture_instance]
    return next(iter([*named, *whole]), None)


def _some(asked: Sequence[_Asked]) -> Iterator[Sequence[_Asked]]:
    most = queries.LENGTHS[-1]
    for first in range(0, len(asked), most):
        yield asked[first : first + most]
