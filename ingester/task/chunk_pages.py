"""Reads a chunk page by page, the next one while the present one is sent, so that waiting for the database and for the bus overlaps.

A page is a value. A page that is not asked for is dropped, and so is an error in reading it. At most one page is held, no larger than any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ingester.history.rows import BaseTable, RowPage, RowPages, Rows, RowsQuery
from ingester.history.snapshot import Chunk
from ingester.position import Position

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ChunkPage:
    """A page of a chunk. `more`: the chunk has more; `ended`: there is no row behind it, in the chunk or elsewhere."""

    page: RowPage
    more: bool
    ended: bool


class ChunkPages(Protocol):
    """The pages of a chunk, in order."""

    def next(self, rows: int) -> ChunkPage:
        """The next page, of about `rows` rows: what was read ahead has the size of the page before. Raises as Rows does."""
        ...


class ChunkReader:
    """`rows` must have a connection of its own: only one thread of this object uses it."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rows-ahead")

    @contextmanager
    def pages(self, chunk: Chunk, columns: tuple[str, ...] | None = None) -> Iterator[ChunkPages]:
        """The pages of `chunk`, with these columns. Leaving the context ends the reading, without waiting for a page that is being read."""
        pages = (
            _Ordered(self._rows, chunk, columns, self._thread)
            if chunk.table.order
            else _OnePass(self._rows, chunk, columns, self._thread)
        )
        try:
            yield pages
        finally:
            pages.end()

    def changed_since(self, table: BaseTable, position: Position, moment: str) -> frozenset[tuple[object, ...]] | None:
        """See Rows."""
        return self._thread.submit(self._rows.changed_since, table, position, moment).result()

    def close(self) -> None:
        """Returns at once. The connection is closed when the page that is being read has ended."""
        self._thread.submit(self._rows.close)
        self._thread.shutdown(wait=False)


class _Ahead:
    """One page that is read ahead at most."""

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self._thread = thread
        self._page: Future[RowPage] | None = None

    def _next(self, read: Callable[[], RowPage]) -> RowPage:
        """The page that was read ahead, else what `read` returns."""
        ahead, self._page = self._page, None
        return (ahead or self._thread.submit(read)).result()

    def _read_ahead(self, read: Callable[[], RowPage]) -> None:
        self._page = self._thread.submit(read)

    def end(self) -> None:
        if self._page is not None:
            self._page.cancel()


class _Ordered(_Ahead):
    """The pages of a chunk whose rows have an order."""

    def __init__(self, rows: Rows, chunk: Chunk, columns: tuple[str, ...] | None, thread: ThreadPoolExecutor) -> None:
        super().__init__(thread)
        self._rows, self._chunk, self._columns = rows, chunk, columns
        self._after = chunk.after
        self._left = chunk.rows if chunk.upto is None else None

    def next(self, rows: int) -> ChunkPage:
        page = self._next(self._reading(rows))
        if page.rows:
            self._after = page.rows[-1].at
        if self._left is not None:
            self._left -= len(page.rows)
        more = page.full and bool(page.rows) and self._left != 0
        if more:
            self._read_ahead(self._reading(rows))
        return ChunkPage(page, more, ended=self._chunk.upto is None and not (page.full and self._goes_on()))

    def _goes_on(self) -> bool:
        """Whether there is a row behind a chunk that is read to its end: if not, its last row is the snapshot's."""
        if self._left != 0 or not self._chunk.last:
            return True
        query = RowsQuery(self._chunk.table, 1, after=self._after, where=self._chunk.where, columns=self._columns)
        return bool(self._thread.submit(self._rows.page, query).result().rows)

    def _reading(self, rows: int) -> Callable[[], RowPage]:
        chunk, most = self._chunk, rows if self._left is None else min(rows, self._left)
        query = RowsQuery(chunk.table, most, self._after, chunk.upto, chunk.where, self._columns)
        return lambda: self._rows.page(query)


class _OnePass(_Ahead):
    """The pages of a whole table without an order. They have the size of the first."""

    def __init__(self, rows: Rows, chunk: Chunk, columns: tuple[str, ...] | None, thread: ThreadPoolExecutor) -> None:
        super().__init__(thread)
        self._rows, self._chunk, self._columns = rows, chunk, columns
        self._pass: AbstractContextManager[RowPages] | None = None
        self._pages: RowPages | None = None

    def next(self, rows: int) -> ChunkPage:
        page = self._next(lambda: self._read(rows))
        if page.full:
            self._read_ahead(lambda: self._read(rows))
        return ChunkPage(page, page.full, ended=not page.full)

    def end(self) -> None:
        super().end()
        self._thread.submit(self._leave)

    def _read(self, rows: int) -> RowPage:
        if self._pages is None:
            query = RowsQuery(self._chunk.table, rows, where=self._chunk.where, columns=self._columns)
            begun = self._rows.in_one_pass(query)
            self._pages = begun.__enter__()
            self._pass = begun
        return self._pages.next()

    def _leave(self) -> None:
        if self._pass is not None:
            self._pass.__exit__(None, None, None)
