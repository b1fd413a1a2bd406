"""The driver's side of a hot table: cuts its window into strides, gathers their shares' results, and commits what all of them sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import structlog

from common.errors import DStreamError, PermanentError
from common.names import Ordering
from ingester.lsn import Position
from ingester.offsets import Offsets
from ingester.slices import Slice, SliceResult, failed
from ingester.source import Source
from ingester.spread import share_rows, shared_by, slices, whole
from ingester.table_state import TrackedTable

log = structlog.get_logger("ingester")


@dataclass(slots=True)
class _Pending:
    """A stride on its way. `window_end`: where the window ends that it is cut from."""

    one: Slice
    window_end: Position
    shares: int
    results: list[SliceResult] = field(default_factory=list)


class Strides:
    """`source` and `offsets` are the driver's own. `ordering`: the queue's, or "table" where every table is to be read by one task.

    `most`: shares of a stride that are worth having; None: as many as there are slots.
    """

    def __init__(self, source: Source, offsets: Offsets, ordering: Ordering, *, most: int | None = None) -> None:
        self._source = source
        self._offsets = offsets
        self._ordering = ordering
        self._most = most
        self._numbers: Iterator[int] = count()
        self._pending: dict[int, _Pending] = {}

    def slices(self, todo: Slice, table: TrackedTable, *, room: int) -> list[Slice]:
        """What is to be done for `todo`: by shares if its table has a backlog, at most `room` of them, or by one task.

        Raises TransientError.
        """
        columns = shared_by(todo.instance, self._ordering)
        room = room if self._most is None else min(room, self._most)
        if not table.backlog or room < 2 or table.offset is None or table.page_rows is None or not columns:
            return [todo]
        wanted, todo = room * share_rows(table.page_rows), replace(todo, start=table.offset)
        try:
            stride = self._source.stride(todo.instance, after=table.offset, upto=todo.upto, rows=wanted)
        except PermanentError:  # the task will meet it as well, and its result stops the table
            stride = None
        if stride is None:
            return [todo]
        number = next(self._numbers)
        parts = slices(todo, columns, stride, wanted=wanted, page_rows=table.page_rows, number=number)
        if parts[0].share is not None:
            self._pending[number] = _Pending(parts[0], todo.upto, len(parts))
            log.debug("stride", table=table.name.key, tasks=len(parts), rows=stride.rows)
        return parts

    def settled(self, result: SliceResult) -> SliceResult | None:
        """What `result` comes to: itself for a slice that is no share, that of the stride for the last share, None for those before."""
        if result.share is None:
            return result
        pending = self._pending[result.share.stride]
        pending.results.append(result)
        if len(pending.results) < pending.shares:
            return None
        del self._pending[result.share.stride]
        found = whole(pending.results)
        return found if found.trouble is not None else self._committed(pending, found)

    def _committed(self, pending: _Pending, sent: SliceResult) -> SliceResult:
        todo = replace(pending.one, share=None)
        try:
            self._offsets.commit(todo.table, todo.epoch, seen=todo.start, position=todo.upto)
        except DStreamError as error:
            return failed(todo, error)
        return replace(sent, position=todo.upto, more=todo.upto < pending.window_end)
