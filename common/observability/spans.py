"""Port: spans, as far as stages make them. None of them where tracing is off: then nothing is asked, and nothing is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

Attributes = Mapping[str, str | int]
Kind = Literal["internal", "producer", "consumer"]


class Span(Protocol):
    """Something that takes time, and is under way."""

    @property
    def traceparent(self) -> str:
        """Its context, for what is made in it."""
        ...

    def end(self, *, error: str | None = None, more: Attributes | None = None) -> None:
        """`error`: the type of what went wrong, without values. `more`: what is known only now."""
        ...


class Spans(Protocol):
    """Callable from any thread. Never raises, and never waits for a collector."""

    def begin(
        self,
        name: str,
        kind: Kind,
        attributes: Attributes,
        *,
        parent: str | None = None,
        links: Sequence[str] = (),
    ) -> Span:
        """`parent`: the traceparent of the context that it is part of; None: it begins a trace. `links`: of others that it is about."""
        ...
