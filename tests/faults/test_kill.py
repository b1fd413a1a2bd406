"""SIGKILL of either service in the middle of the workload, and a start again: the verdict must not know.

The short forms of such campaigns: test_ingester_kills.py, test_router_kills.py, tests/pipeline/test_packs.py.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dstream.demo.pipeline import Pipeline
from dstream.demo.workload import Pace


def wait_for_deliveries(pipeline: Pipeline, count: int, timeout: float = 60) -> None:
    """Until `count` messages arrived in all."""
    deadline = time.monotonic() + timeout
    while sum(pipeline.subscriber.counts().values()) < count:
        assert time.monotonic() < deadline, f"only {pipeline.subscriber.counts()} arrived"
        time.sleep(0.02)


def campaign(folder: Path, *, kills: int, changes: int, seconds: float, seed: int) -> None:
    """A workload during which the services are killed in turn, `kills` times, each time after further messages arrived."""
    with Pipeline(folder, pace=Pace(changes, seconds), seed=seed) as pipeline:
        pipeline.workload.start()
        for kill in range(kills):
            already = sum(pipeline.subscriber.counts().values())
            wait_for_deliveries(pipeline, already + max(1, changes // (kills + 1) // 2))
            service = (pipeline.ingester, pipeline.router)[kill % 2]
            service.kill()
            service.start()
        pipeline.workload.join()
        pipeline.settle(120, quiet=3)
        verdict = pipeline.verdict()
        examples = [example for table in verdict.tables.values() for example in table.examples]
        seen = {count: verdict.total(count) for count in ("lost", "duplicated", "out_of_order", "wrong")}
        assert seen == {"lost": 0, "duplicated": 0, "out_of_order": 0, "wrong": 0}, "\n".join(examples)
        assert verdict.total("committed") >= changes


@pytest.mark.soak
def test_forty_kills(tmp_path: Path) -> None:
    campaign(tmp_path, kills=40, changes=40_000, seconds=300, seed=11)
