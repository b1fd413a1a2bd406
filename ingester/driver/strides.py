"""The driver's side of a hot table: cuts its window into strides, gathers the results of their parts, and commits.

A stride is not committed if its parts sent more or fewer changes than it has rows. One task then reads it, and sends
all of it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import structlog

from common.errors import DStreamError, PermanentError, TransientError
from common.names import Ordering, TableName
from ingester.driver.spread import part_rows, slices, whole
from ingester.driver.tables import TrackedTable
from ingester.offsets import Offsets
from ingester.position import Position
from ingester.slices import Slice, SliceResult, Trouble, failed
from ingester.source import Part, Source

log = structlog.get_logger("ingester")


@dataclass(slots=True)
class _Pending:
    """A stride whose parts are out. `window_end`: the end of the window that it was cut from."""

    one: Slice
    window_end: Position
    part: Part
    results: list[SliceResult] = field(default_factory=list)


class Strides:
    """`source` and `offsets` belong to the driver. `ordering`: the queue's, or "table" if one task reads every table.

    `most`: the most parts of a stride; None: as many as there are slots.
    """

    def __init__(self, source: Source, offsets: Offsets, ordering: Ordering, *, most: int | None = None) -> None:
        self._source = source
        self._offsets = offsets
        self._ordering = ordering
        self._most = most
        self._numbers: Iterator[int] = count()
        self._pending: dict[int, _Pending] = {}
        self._undivided: dict[TableName, Position] = {}
        """Up to where one task reads a table, because its parts did not add up to the stride or a worker died."""

    def slices(self, todo: Slice, table: TrackedTable, *, room: int) -> list[Slice]:
        """The slices to run for `todo`: at most `room` parts if its table has a backlog, else one slice.

        Raises TransientError.
        """
        columns = () if self._whole(table) else self._source.shared_by(todo.instance, self._ordering)
        room = room if self._most is None else min(room, self._most)
        if not table.backlog or room < 2 or table.offset is None or table.page_rows is None or not columns:
            return [todo]
        wanted, todo = room * part_rows(table.page_rows), replace(todo, start=table.offset)
        try:
            stride = self._source.stride(todo.instance, after=table.offset, upto=todo.upto, rows=wanted)
        except PermanentError:  # the task will get the same error, and its result stops the table
            stride = None
        if stride is None:
            return [todo]
        number = next(self._numbers)
        made = slices(todo, columns, stride, wanted=wanted, page_rows=table.page_rows, number=number)
        if (part := made[0].part) is not None:
            self._pending[number] = _Pending(made[0], todo.upto, part)
            log.debug("stride", table=table.name.key, tasks=len(made), rows=stride.rows)
        return made

    def settled(self, result: SliceResult) -> SliceResult | None:
        """`result` itself if it is not of a part; for the last part of a stride the stride's result; else None."""
        if result.part is None:
            return result
        pending = self._pending[result.part.stride]
        pending.results.append(result)
        if len(pending.results) < pending.part.of:
            return None
        del self._pending[result.part.stride]
        found = whole(pending.results)
        if found.trouble is Trouble.WORKER_LOST:
            self._undivided[result.table] = pending.one.upto
        if found.trouble is not None:
            return found
        if (read := found.changes + found.dropped) != pending.part.rows:
            return self._refused(pending, read)
        return self._committed(pending, found)

    def _whole(self, table: TrackedTable) -> bool:
        upto = self._undivided.get(table.name)
        if upto is None or table.offset is None:
            return False
        if table.offset < upto:
            return True
        del self._undivided[table.name]
        return False

    def _refused(self, pending: _Pending, changes: int) -> SliceResult:
        table, rows = pending.one.table, pending.part.rows
        self._undivided[table] = pending.one.upto
        return failed(
            pending.one,
            TransientError(
                f"reading {table.key}: {rows} rows were shared out among {pending.part.of} tasks, "
                f"and {changes} changes were read",
                hint="nothing is lost, and one task reads the rows again; if it repeats without a cleanup between, set "
                f'ordering = "table" for now and report it with the key\'s types: {", ".join(pending.part.columns)}',
            ),
        )

    def _committed(self, pending: _Pending, sent: SliceResult) -> SliceResult:
        todo = replace(pending.one, part=None)
        try:
            self._offsets.commit(todo.table, todo.epoch, seen=todo.start, position=todo.upto)
        except DStreamError as error:
            return failed(todo, error)
        return replace(sent, position=todo.upto, more=todo.upto < pending.window_end)
