"""A Source that reads a window's next page while the present one is sent: waiting for the database and for the bus overlap.

A page is a value: rows that were committed when they were read, and the low watermark from after that. Whether it is sent, and that the
one before it was committed first, is decided by whoever asked for it (drain.py). A page that nobody asks for is dropped, an error of its
with it. At most one is held, as bounded as any page is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from common.names import Ordering, TableName
from ingester.position import Position
from ingester.source import CaptureInstance, Hints, Page, Part, Probe, ProbeRequest, Source, Stride, TableState

_T = TypeVar("_T")
_Wanted = tuple[CaptureInstance, Position, Position, Part | None]


class ReadAhead:
    """`inner` has a connection of its own: it is used in one thread of this object, and by nobody else."""

    def __init__(self, inner: Source) -> None:
        self._inner = inner
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        self._ahead: tuple[_Wanted, Future[Page]] | None = None

    def states(
        self, tables: Sequence[TableName], sources: Mapping[TableName, str] | None = None
    ) -> Mapping[TableName, TableState]:
        return self._in_turn(lambda: self._inner.states(tables, sources))

    def passed(self, position: Position, moment: str) -> bool:
        return self._in_turn(lambda: self._inner.passed(position, moment))

    def probe(self, requests: Sequence[ProbeRequest]) -> Probe:
        return self._in_turn(lambda: self._inner.probe(requests))

    @property
    def hints(self) -> Hints:
        return self._inner.hints

    def shared_by(self, instance: CaptureInstance, ordering: Ordering) -> tuple[str, ...]:
        return self._inner.shared_by(instance, ordering)

    def stride(self, instance: CaptureInstance, *, after: Position, upto: Position, rows: int) -> Stride | None:
        return self._in_turn(lambda: self._inner.stride(instance, after=after, upto=upto, rows=rows))

    def page(
        self, instance: CaptureInstance, *, after: Position, upto: Position, rows: int, part: Part | None = None
    ) -> Page:
        """As the port says. `rows` is what was asked for a page before where the page stands ready: it says "about"."""
        wanted = (instance, after, upto, part)
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == wanted:
            page = ahead[1].result()
        else:
            if ahead is not None:
                ahead[1].cancel()
            page = self._in_turn(lambda: self._inner.page(instance, after=after, upto=upto, rows=rows, part=part))
        if page.full and (end := page.end) is not None and end < upto:
            future = self._thread.submit(self._inner.page, instance, after=end, upto=upto, rows=rows, part=part)
            self._ahead = (instance, end, upto, part), future
        return page

    def busy(self) -> bool:
        """Whether the inner source's connection may not be used beside it until the next call: a page is being read over it, or failed to be."""
        if self._ahead is None:
            return False
        page = self._ahead[1]
        return not page.done() or page.exception() is not None

    def close(self) -> None:
        """Returns at once: what is being read ends first, then the connection is closed."""
        self._ahead = None
        self._thread.submit(self._inner.close)
        self._thread.shutdown(wait=False)

    def _in_turn(self, call: Callable[[], _T]) -> _T:
        return self._thread.submit(call).result()
