"""A sender whose batches are spans. What a message was created in is never replaced: a span is part of that context, or has links to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from common.bus.ports import OpenableSender, Sender, TimeLeft
from common.message import Message
from common.observability.spans import Attributes, Spans
from common.observability.trace_context import TRACEPARENT, traceparent


class TracedSender:
    """A `common.bus.ports.Sender`. `within`: the context that the messages of a batch are made in, where this process makes them: those without a
    context get it, or the span's own. None: they were made elsewhere, and stay as they are."""

    def __init__(
        self,
        inner: Sender,
        spans: Spans,
        name: str,
        attributes: Attributes,
        within: Callable[[], str | None] | None = None,
    ) -> None:
        self._inner, self._spans, self._name, self._attributes, self._within = inner, spans, name, attributes, within

    def batch_bytes(self) -> int:
        return self._inner.batch_bytes()

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        """See the port."""
        contexts = list(dict.fromkeys(filter(None, (traceparent(_given(each)) for each in messages))))
        shared = contexts[0] if len(contexts) == 1 and all(_given(each) for each in messages) else None
        parent = shared if self._within is None else self._within()
        count = {"messaging.batch.message_count": len(messages)}
        span = self._spans.begin(self._name, "producer", {**self._attributes, **count}, parent=parent, links=contexts)
        if self._within is not None:
            messages = [_created(each, parent or span.traceparent) for each in messages]
        try:
            self._inner.send(messages, left=left)
        except BaseException as error:
            span.end(error=type(error).__name__)
            raise
        span.end()

    def close(self) -> None:
        self._inner.close()


class TracedOpenableSender(TracedSender):
    """A `common.bus.ports.OpenableSender`."""

    def __init__(self, inner: OpenableSender, spans: Spans, name: str, attributes: Attributes) -> None:
        super().__init__(inner, spans, name, attributes)
        self._openable = inner

    def open(self) -> None:
        self._openable.open()


def _given(message: Message) -> object:
    return message.application_properties.get(TRACEPARENT)


def _created(message: Message, context: str) -> Message:
    held = message.application_properties
    if TRACEPARENT in held or not context:
        return message
    return replace(message, application_properties={**held, TRACEPARENT: context})
