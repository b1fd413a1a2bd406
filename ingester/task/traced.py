"""A source whose pages are spans: from the request to the moment when the page's first message is sent. For workers that make spans alone."""

from __future__ import annotations

from typing import Any, cast

from common.bus.ports import Sender
from common.bus.traced import TracedSender
from common.observability.spans import Span, Spans
from ingester.source import Page, PageQuery, Source


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
        self.forget()
        table = query.instance.table.key
        span = self._spans.begin(
            f"page {table}", "internal", {"db.system.name": "microsoft.sql_server", "db.collection.name": table}
        )
        try:
            page = self._inner.page(query)
        except BaseException as error:
            span.end(error=type(error).__name__)
            raise
        self._changes = len(page.changes)
        if page.changes:
            self._span, self._context = span, span.traceparent
        else:
            span.end(more={"dstream.changes": 0})
        return page

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


def traced_sender(inner: Sender, spans: Spans, queue: str, pages: TracedPages) -> Sender:
    """Each batch to the queue as a span of the page that its changes are from."""
    attributes = {
        "messaging.system": "servicebus",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": queue,
    }
    return TracedSender(inner, spans, f"send {queue}", attributes, pages.sending)
