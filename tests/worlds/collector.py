"""A collector of spans: OTLP over HTTP, decoded by OpenTelemetry's own messages. It can be mute: it takes connections and answers nothing."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Seen:
    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    links: tuple[str, ...]
    failed: bool


@dataclass
class Collector:
    port: int = 0
    mute: bool = False
    seen: list[Seen] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def environment(self) -> dict[str, str]:
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}"}

    def named(self, begin: str) -> list[Seen]:
        return [each for each in self.seen if each.name.startswith(begin)]

    def take(self, raw: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(raw).resource_spans:
            held = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.seen += [
                    Seen(
                        held["service.name"],
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        {each.key: each.value.string_value or each.value.int_value for each in span.attributes},
                        tuple(f"{each.trace_id.hex()}-{each.span_id.hex()}" for each in span.links),
                        span.status.code == 2,
                    )
                    for span in scope.spans
                ]


@contextmanager
def collector(*, mute: bool = False) -> Iterator[Collector]:
    made = Collector(mute=mute)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            if made.mute:
                made.over.wait(60)
                return
            made.take(gzip.decompress(raw) if self.headers.get("content-encoding") == "gzip" else raw)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        made.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.over.set()
            server.shutdown()
            thread.join()
