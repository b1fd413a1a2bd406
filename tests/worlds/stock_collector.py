"""OpenTelemetry's own Collector as a process: its OTLP receiver takes spans, its debug exporter writes them to a file (`make collector`)."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.worlds.collector import Seen
from tests.worlds.ports import free_port

PROGRAM = Path(__file__).parent / "otelcol" / ".cache" / "collector"
_CONFIG = """\
receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:{port}
exporters:
  debug:
    verbosity: detailed
    use_internal_logger: false
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [debug]
"""
_SPAN = re.compile(r"^Span #\d+$", re.MULTILINE)
_LINK = re.compile(r"-> Trace ID: (\w+)\n\s+-> ID: (\w+)")
_ATTRIBUTE = re.compile(r"^\s+-> ([\w.]+): (Str|Int)\((.*)\)$", re.MULTILINE)


@dataclass(frozen=True)
class StockCollector:
    port: int
    file: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}"}

    @property
    def seen(self) -> list[Seen]:
        found = []
        for resource in self.file.read_text().split("ResourceSpans #")[1:]:
            head, *spans = _SPAN.split(resource)
            service = str(_attributes(head)["service.name"])
            found += [_span(service, each) for each in spans if "Attributes:" in each]  # it may be writing the last one
        return found

    def named(self, begin: str) -> list[Seen]:
        return [each for each in self.seen if each.name.startswith(begin)]


def _attributes(text: str) -> dict[str, Any]:
    return {name: int(value) if kind == "Int" else value for name, kind, value in _ATTRIBUTE.findall(text)}


def _span(service: str, text: str) -> Seen:
    held, _, linked = text.partition("Links:")
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(" : ") for line in held.splitlines())}
    links = tuple(f"{trace}-{span}" for trace, span in _LINK.findall(linked))
    failed = fields["Status code"] == "Error"
    ids = fields["Trace ID"], fields["ID"], fields["Parent ID"]
    return Seen(service, fields["Name"], *ids, _attributes(held), links, failed)


@contextmanager
def stock_collector(folder: Path) -> Iterator[StockCollector]:
    port = free_port()
    config, out = folder / "collector.yaml", folder / "collector.out"
    config.write_text(_CONFIG.format(port=port))
    others = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    with out.open("wb") as file, (folder / "collector.log").open("wb") as log:
        command = [str(PROGRAM), "--config", str(config)]
        process = subprocess.Popen(command, stdout=file, stderr=log, env=others)
    try:
        _wait_for(port, process, folder / "collector.log")
        yield StockCollector(port, out)
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + 60
    while time.monotonic() < ends and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"the collector has not started: {log.read_text()}")
