"""The manual's table of metrics follows the declarations, and these follow Prometheus' conventions."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.metrics import Metric
from dstream.metrics_reference import BEGIN, END, with_metrics
from ingester.metrics import METRICS as INGESTER
from router.metrics import METRICS as ROUTER

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"


def test_the_page_holds_the_metrics_as_they_are_declared() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    assert with_metrics(page) == page, "write it anew: python -m dstream.metrics_reference docs/operations.md"


@pytest.mark.parametrize("metric", [*INGESTER, *ROUTER], ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    """https://prometheus.io/docs/practices/naming/: one prefix, base units, `_total` for what only grows."""
    stage = "ingester" if metric in INGESTER else "router"
    assert metric.name.startswith(f"dstream_{stage}_")
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert not metric.name.endswith(("_minutes", "_hours", "_ms", "_milliseconds"))
    assert metric.about.endswith(".")
