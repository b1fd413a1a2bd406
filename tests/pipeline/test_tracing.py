"""Both stages as processes with tracing on: one trace from the page that a change was read in to the message on its topic."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import dstream.demo.pipeline
from dstream.demo.pipeline import Pipeline
from dstream.demo.processes import write_config
from dstream.demo.workload import Pace
from tests.worlds.collector import Collector, collector
from tests.worlds.stock_collector import PROGRAM, StockCollector, stock_collector
from tests.worlds.world import wait_until


def small(*given: object, **named: object) -> Path:
    return write_config(*given, **named, tasks=2, routing="workers = 1")  # type: ignore[arg-type]


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Collector | StockCollector]:
    """OpenTelemetry's own Collector; where it is not compiled, the tests' own."""
    assert PROGRAM.exists() or not os.environ.get("CI"), "the collector is missing: make collector"
    with stock_collector(tmp_path) if PROGRAM.exists() else collector() as made:
        yield made


@pytest.mark.timeout(400)
def test_one_trace_leads_from_a_page_to_the_topic(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seen: Collector | StockCollector
) -> None:
    monkeypatch.setattr(dstream.demo.pipeline, "write_config", small)
    for name, value in seen.environment.items():
        monkeypatch.setenv(name, value)
    with Pipeline(tmp_path, pace=Pace(changes=200, seconds=1)) as pipeline:
        pipeline.workload.start()
        pipeline.workload.join()
        pipeline.settle(240)
        assert pipeline.verdict().good
        wait_until(lambda: bool(seen.named("route")), "spans of the router")
        wait_until(lambda: bool(seen.named("send")), "spans of the ingester")
    pages = {each.trace: each for each in seen.named("page")}
    sends = [each for each in seen.named("send") if each.trace in pages]
    routes = [each for each in seen.named("route") if each.trace in pages]
    assert {each.service for each in pages.values()} == {"dstream-ingester"}
    assert sends
    assert all(each.parent == pages[each.trace].id for each in sends)
    assert routes
    assert all(f"{each.trace}-{pages[each.trace].id}" in each.links for each in routes)
    assert {each.service for each in routes} == {"dstream-router"}
