"""A Source that reads the window's next page while the current one is sent, so that waiting for the database and for the bus overlaps.

A page is a value: rows that were committed when they were read, and the low watermark read after them. The caller (drain.py) decides
whether the page is sent, and commits the one before it first. A page that is not asked for is dropped, and so is an error in reading it. At
most one page is held, no larger than any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from common.names import Ordering, TableName
from ingester.position import Position
from ingester.source import CaptureInstance, Hints, Page, PageQuery, Probe, ProbeRequest, Source, Stride, TableState

_T = TypeVar("_T")


class ReadAhead:
    """`inner` must have its own connection: only one thread of this object uses it."""

    def __init__(self, inner: Source) -> None:
        self._inner = inner
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        self._ahead: tuple[PageQuery, Future[Page]] | None = None

    def states(
        self, tables: Sequence[TableName], sources: Mapping[TableName, str] | None = None
    ) -> Mapping[TableName, TableState]:
        return self._in_thread(lambda: self._inner.states(tables, sources))

    def passed(self, position: Position, moment: str) -> bool:
        return self._in_thread(lambda: self._inner.passed(position, moment))

    def probe(self, requests: Sequence[ProbeRequest]) -> Probe:
        return self._in_thread(lambda: self._inner.probe(requests))

    @property
    def hints(self) -> Hints:
        return self._inner.hints

    def shared_by(self, instance: CaptureInstance, ordering: Ordering) -> tuple[str, ...]:
        return self._inner.shared_by(instance, ordering)

    def stride(self, instance: CaptureInstance, *, after: Position, upto: Position, rows: int) -> Stride | None:
        return self._in_thread(lambda: self._inner.stride(instance, after=after, upto=upto, rows=rows))

    def page(self, query: PageQuery) -> Page:
        """See the port. A prefetched page has the size requested for the previous one; the port only promises about `rows`."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and replace(ahead[0], rows=query.rows) == query:
            page = ahead[1].result()
        else:
            if ahead is not None:
                ahead[1].cancel()
            page = self._in_thread(lambda: self._inner.page(query))
        if page.full and (end := page.end) is not None and end < query.upto:
            following = replace(query, after=end)
            self._ahead = following, self._thread.submit(self._inner.page, following)
        return page

    def busy(self) -> bool:
        """Whether the inner source's connection must be left alone until the next call: a page is being read over it, or reading it failed."""
        if self._ahead is None:
            return False
        page = self._ahead[1]
        return not page.done() or page.exception() is not None

    def close(self) -> None:
        """Returns at once. The connection is closed when the page that is being read has ended."""
        self._ahead = None
        self._thread.submit(self._inner.close)
        self._thread.shutdown(wait=False)

    def _in_thread(self, call: Callable[[], _T]) -> _T:
        return self._thread.submit(call).result()
