"""The manual's table of metrics follows the declarations, and these follow Prometheus' conventions."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.observability.metrics import Metric
from dstream.reference import METRICS, marks, updated
from ingester.watch.metrics import METRICS as INGESTER
from router.metrics import METRICS as ROUTER

PAGE = Path(__file__).parents[3] / "docs" / "run.md"


def test_the_page_holds_the_metrics_as_they_are_declared() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [page.count(mark) for mark in marks(METRICS)] == [1, 1]
    assert updated(page) == page, "generate it again: python -m dstream.reference docs/run.md"


def test_what_is_to_be_seen_from_outside_has_a_metric_each() -> None:
    """The promised metrics, in their order."""
    ingester = {metric.name.removeprefix("dstream_ingester_"): metric for metric in INGESTER}
    router = {metric.name.removeprefix("dstream_router_"): metric for metric in ROUTER}
    assert ingester["changes_total"].labels == ("table",)  # read and sent
    assert router["messages_routed_total"].labels == ("output", "topic")
    assert router["messages_dead_lettered_total"].labels == ("reason",)
    assert ingester["lag_seconds"].labels == ingester["retention_headroom_seconds"].labels == ("table",)
    assert ingester["pages_total"].labels == ("table",)
    assert {"failures_total"} <= ingester.keys()  # retries
    assert {"send_failures_total", "locks_lost_total"} <= router.keys()
    assert ingester["lock_held"].labels == ("table",)
    assert router["batch_messages"].kind == "histogram"
    assert {m.name for m in (*INGESTER, *ROUTER) if m.kind == "histogram" and m.name.endswith("_seconds")} == {
        *("dstream_ingester_pass_seconds", "dstream_ingester_slice_seconds", "dstream_router_settle_seconds")
    }


@pytest.mark.parametrize("metric", [*INGESTER, *ROUTER], ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    """https://prometheus.io/docs/practices/naming/: one prefix, base units, `_total` for what only grows."""
    stage = "ingester" if metric in INGESTER else "router"
    assert metric.name.startswith(f"dstream_{stage}_")
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert not metric.name.endswith(("_minutes", "_hours", "_ms", "_milliseconds"))
    assert metric.about.endswith(".")
