"""Looks at tables for the next rounds of their snapshots, beside the loop: somebody may have locked a table, or it takes the server long to
find where the next chunks end, and no other table waits for that.

A look is a value: about one snapshot, from one key on. The loop decides whether it still fits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.errors import DStreamError, TransientError, unforeseen
from common.names import TableName
from ingester.driver.history.rounds import RoundOver, chunk_rows, tasks
from ingester.history.rows import BaseTable, RowKey, Rows, RowsQuery
from ingester.history.snapshot import Snapshot
from ingester.source import CaptureInstance

_AT_ONCE = 4
"""Looks at a time, each with a connection of its own."""

Beside = Callable[[Callable[[], None]], None]
"""Runs something in a thread that may hang."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be looked at. `snapshot`: its `done` is where the round begins. `most`: rows of a chunk; `rate`, `room`: see `rounds.py`.

    `row_bytes`: recent size of a row, None if not known. `bounds`: whether to look for the ends of chunks; one chunk needs none.
    """

    snapshot: Snapshot
    instance: CaptureInstance
    most: int
    rate: int | None
    room: int
    row_bytes: float | None
    bounds: bool = True


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was found: the table, how many rows a chunk has, and the keys that chunks end at. `error`: nothing was found, because of this."""

    request: Request
    table: BaseTable | None = None
    rows: int = 0
    bounds: Sequence[RowKey] = ()
    error: DStreamError | None = None

    def fits(self, snapshot: Snapshot, instance: CaptureInstance) -> bool:
        """Whether a round of `snapshot` may begin with it, where the stream reads `instance`.

        Rows with the columns of an older one would come behind changes with those of the present one, and lack what these have.
        """
        asked = self.request.snapshot
        return (
            asked.id == snapshot.id
            and self.request.instance.name == instance.name
            and (asked.done == snapshot.done or (self.error is None and not self.request.bounds))
        )


class Preparing:
    """`rows`: makes what a look reads with, one for each at a time. Only the loop calls it; looks run elsewhere."""

    def __init__(self, rows: Callable[[], Rows], beside: Beside) -> None:
        self._rows, self._beside = rows, beside
        self._guard = threading.Lock()
        self._idle: list[Rows] = []
        self._waiting: deque[tuple[TableName, Request]] = deque()
        self._asked: set[TableName] = set()
        self._answers: list[tuple[TableName, Prepared]] = []
        self._running = 0
        self._closed = False

    def ask(self, table: TableName, request: Request) -> None:
        """Look at `table`, unless that is under way."""
        with self._guard:
            if table in self._asked:
                return
            self._asked.add(table)
            self._waiting.append((table, request))
            begins = self._running < _AT_ONCE
            self._running += begins
        if begins:
            self._beside(self._work)

    def asks(self, table: TableName) -> bool:
        """Whether an answer about `table` is to come."""
        return table in self._asked

    def answers(self) -> list[tuple[TableName, Prepared]]:
        """Those since the last call."""
        with self._guard:
            found, self._answers = self._answers, []
            self._asked.difference_update(table for table, _ in found)
        return found

    def close(self) -> None:
        """Begin no further look. Connections close with the looks that use them."""
        with self._guard:
            self._closed = True
            self._waiting.clear()
            idle, self._idle = self._idle, []
        for rows in idle:
            rows.close()

    def _work(self) -> None:
        with self._guard:
            rows = self._idle.pop() if self._idle else None
        rows = rows or self._rows()
        while True:
            with self._guard:
                if not self._waiting:
                    self._running -= 1
                    if not self._closed:
                        self._idle.append(rows)
                        return
                    break
                table, request = self._waiting.popleft()
            found = _prepared(rows, request)
            with self._guard:
                self._answers.append((table, found))
        rows.close()


def _prepared(rows: Rows, asked: Request) -> Prepared:
    try:
        return _looked(rows, asked)
    except DStreamError as error:
        return Prepared(asked, error=error)
    except Exception as error:  # the snapshot must hear of any failure, or it would wait for ever
        return Prepared(asked, error=TransientError(f"looking at {asked.instance.table.key}: {unforeseen(error)}"))


def _looked(rows: Rows, asked: Request) -> Prepared:
    snapshot, table = asked.snapshot, rows.table(asked.instance)
    if snapshot.where is not None:
        rows.check(table, snapshot.where)
    size = chunk_rows(asked.most, asked.row_bytes or table.row_bytes, asked.rate)
    wanted = tasks(asked.room, size, asked.rate)
    bounds: Sequence[RowKey] = ()
    if (
        asked.bounds and table.order and (wanted > 1 or snapshot.where is not None)
    ):  # a condition may choose few of many rows
        bounds = rows.bounds(RowsQuery(table, size, after=snapshot.done, where=snapshot.where), wanted)
    return Prepared(asked, table, size, bounds)


def again(snapshot: Snapshot | None, found: RoundOver) -> Prepared | None:
    """What the chunks that were not recorded are begun with once more: the same ones, so that all of their rows are sent again."""
    if snapshot is None:
        return None
    first = found.rest[0]
    request = Request(snapshot, first.table.instance, first.rows, None, len(found.rest), None)
    bounds = [chunk.upto for chunk in found.rest if chunk.upto is not None]
    return Prepared(request, first.table, first.rows, bounds)
