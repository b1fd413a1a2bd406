"""Spans by OpenTelemetry's SDK, sent over OTLP/HTTP: the only module that imports it, and only where its variables switch it on.

A collector that does not answer costs spans and nothing else: a bounded queue is emptied by a thread of the SDK, what does not fit is lost, and
the log says so once. The standard variables configure it: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from common.observability.spans import Attributes, Kind, Span, Spans
from common.observability.trace_context import TRACEPARENT

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

log = structlog.get_logger(__name__)

MOST_LINKS: Final = 32
FLUSH_SECONDS: Final = 2.0
_ANSWER_SECONDS = 5.0
_EVERY_MILLISECONDS = 1000

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTER = "OTEL_TRACES_EXPORTER"

_made: dict[tuple[int, str], Spans | None] = {}
_lock = threading.Lock()


def switched_on(environment: Mapping[str, str]) -> bool:
    """By `OTEL_TRACES_EXPORTER=otlp`, or by an endpoint; `OTEL_SDK_DISABLED=true` and `OTEL_TRACES_EXPORTER=none` switch it off."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get(_EXPORTER, "").strip().lower()
    if exporter:
        return exporter != "none"
    return any(environment.get(name, "").strip() for name in _ENDPOINTS)


def variables(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Those by which another machine's process makes spans as this one does; none where they are switched off. Headers may be secret."""
    if not switched_on(environment):
        return ()
    return tuple(sorted((name, value) for name, value in environment.items() if name.startswith("OTEL_")))


def spans_of(service: str, environment: Mapping[str, str] = os.environ) -> Spans | None:
    """Those of this process, for `OTEL_SERVICE_NAME` or else `service`; None while they are switched off, or cannot be made."""
    if not switched_on(environment):
        return None
    key = (os.getpid(), service)  # a forked process has threads of its own
    with _lock:
        if key not in _made:
            _made[key] = _opened(service, environment)
        return _made[key]


def _opened(service: str, environment: Mapping[str, str]) -> Spans | None:
    exporter = environment.get(_EXPORTER, "").strip().lower() or "otlp"
    if exporter != "otlp":
        log.warning("no spans are sent", why=f"{_EXPORTER}={exporter} is not known", hint=f"{_EXPORTER}=otlp, or none")
        return None
    try:
        return _OpenTelemetry(_provider(service, environment))
    except ImportError as error:
        hint = "pip install 'dstream-cdc[tracing]', or unset the OTEL_ variables"
        log.warning("no spans are sent", why=f"a package is missing: {error.name}", hint=hint)
    except Exception as error:
        log.warning("no spans are sent", why=f"{type(error).__name__}: {error}", hint="correct the OTEL_ variables")
    return None


def _provider(service: str, environment: Mapping[str, str]) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    logging.getLogger("opentelemetry").addFilter(_Once())
    for name in ("opentelemetry.sdk", "opentelemetry.exporter"):
        for known in [known for known in logging.root.manager.loggerDict if known.startswith(name)]:
            logging.getLogger(known).addFilter(_Once())
    named = "OTEL_SERVICE_NAME" in environment or "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    provider = TracerProvider(
        resource=Resource.create({} if named else {"service.name": service}), shutdown_on_exit=False
    )
    given = "OTEL_EXPORTER_OTLP_TIMEOUT" in environment or "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT" in environment
    exporter = OTLPSpanExporter(timeout=None if given else _ANSWER_SECONDS)
    every = None if "OTEL_BSP_SCHEDULE_DELAY" in environment else _EVERY_MILLISECONDS
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=every))
    atexit.register(_Ending(provider).end)
    return provider


class _Ending:
    """Ends a process in time, whatever the collector does. Its thread is started beforehand: from Python 3.12 on an exit hook may start none."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._ends.wait()
        self._provider.shutdown()

    def end(self) -> None:
        self._ends.set()
        self._thread.join(FLUSH_SECONDS)


class _Once(logging.Filter):
    """Passes on the first warning of the SDK about its collector, and drops the others: there would be one for each batch."""

    logged = False

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING and not _Once.logged:
            _Once.logged = True
            log.warning(
                "spans are lost",
                why=record.getMessage()[:300],
                hint="see whether the collector answers at OTEL_EXPORTER_OTLP_ENDPOINT; changes go on without it",
            )
        return False


@dataclass(frozen=True, slots=True)
class _OneSpan:
    span: Any
    traceparent: str

    def end(self, *, error: str | None = None, more: Attributes | None = None) -> None:
        from opentelemetry.trace import StatusCode

        if more:
            self.span.set_attributes(dict(more))
        if error is not None:
            self.span.set_attribute("error.type", error)
            self.span.set_status(StatusCode.ERROR, error)
        self.span.end()


class _OpenTelemetry:
    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = provider.get_tracer("dstream")
        self._propagator = TraceContextTextMapPropagator()

    def begin(
        self, name: str, kind: Kind, attributes: Attributes, *, parent: str | None = None, links: Sequence[str] = ()
    ) -> Span:
        from opentelemetry.trace import Link, SpanKind, get_current_span, set_span_in_context

        found = [get_current_span(self._context(each)).get_span_context() for each in links[:MOST_LINKS]]
        span = self._tracer.start_span(
            name,
            context=self._context(parent),
            kind=SpanKind[kind.upper()],
            attributes=dict(attributes),
            links=[Link(each) for each in found if each.is_valid],
        )
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, set_span_in_context(span))
        return _OneSpan(span, carrier.get(TRACEPARENT, ""))

    def _context(self, traceparent: str | None) -> Context:
        from opentelemetry.context import Context

        return Context() if traceparent is None else self._propagator.extract({TRACEPARENT: traceparent}, Context())
