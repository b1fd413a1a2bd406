"""Pages of changes and of snapshots as spans: from the request until the page's first message is sent. For workers that make spans alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from common.bus.ports import Sender
from common.bus.traced import TracedSender
from common.names import TableName
from common.observability.spans import Attributes, Span, Spans
from ingester.history.snapshot import Chunk
from ingester.source import Page, PageQuery, Source
from ingester.task.chunk_pages import ChunkPage, ChunkPages, ChunkReader

_T = TypeVar("_T")


class TracedPages:
    """A source of pages; everything else is the inner source's. Used by one thread, as a source is."""

    def __init__(self, inner: Source, spans: Spans) -> None:
        self._inner, self._spans = inner, spans
        self._span: Span | None = None
        self._context: str | None = None
        self._changes = 0

    @property
    def source(self) -> Source:
        return cast(Source, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def page(self, query: PageQuery) -> Page:
        """See the port."""
        return self.read(query.instance.table, {}, lambda: self._inner.page(query), lambda page: page.changes)

    def read(
        self,
        table: TableName,
        attributes: Attributes,
        page: Callable[[], _T],
        rows: Callable[[_T], Sequence[object]],
    ) -> _T:
        """The result of `page`, as a span. `rows`: what of it becomes messages."""
        self.forget()
        about = {"db.system.name": "microsoft.sql_server", "db.collection.name": table.key, **attributes}
        span = self._spans.begin(f"page {table.key}", "internal", about)
        try:
            found = page()
        except BaseException as error:
            span.end(error=type(error).__name__)
            raise
        self._changes = len(rows(found))
        if self._changes:
            self._span, self._context = span, span.traceparent
        else:
            span.end(more={"dstream.changes": 0})
        return found

    def sending(self) -> str | None:
        """The context of the page whose messages are sent now: it is read and encoded."""
        self._end()
        return self._context

    def forget(self) -> None:
        """What is sent from now on is of no page."""
        self._end()
        self._context = None

    def close(self) -> None:
        self.forget()
        self._inner.close()

    def _end(self) -> None:
        if self._span is not None:
            self._span.end(more={"dstream.changes": self._changes})
            self._span = None


class TracedChunks:
    """A reader of chunks whose pages are spans as well; everything else is the inner reader's. `pages`: those of the same thread."""

    def __init__(self, inner: ChunkReader, pages: TracedPages) -> None:
        self._inner, self._pages = inner, pages

    @property
    def reader(self) -> ChunkReader:
        return cast(ChunkReader, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @contextmanager
    def pages(self, chunk: Chunk, columns: tuple[str, ...] | None = None) -> Iterator[ChunkPages]:
        """See ChunkReader."""
        with self._inner.pages(chunk, columns) as found:
            yield _TracedChunkPages(found, chunk, self._pages)


class _TracedChunkPages:
    def __init__(self, inner: ChunkPages, chunk: Chunk, pages: TracedPages) -> None:
        self._inner, self._chunk, self._pages = inner, chunk, pages

    def next(self, rows: int) -> ChunkPage:
        chunk = self._chunk
        about: Attributes = {"dstream.snapshot": chunk.snapshot, "dstream.chunk": chunk.number}
        return self._pages.read(
            chunk.table.instance.table, about, lambda: self._inner.next(rows), lambda found: found.page.rows
        )


def traced_sender(inner: Sender, spans: Spans, queue: str, pages: TracedPages) -> Sender:
    """Each batch to the queue as a span of the page that its changes are from."""
    attributes = {
        "messaging.system": "servicebus",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": queue,
    }
    return TracedSender(inner, spans, f"send {queue}", attributes, pages.sending)
