"""SIGKILL of either service in the middle of the workload, and a start again, and of the JVM: the verdict must not know.

The short forms of such campaigns: test_ingester_kills.py, test_router_kills.py, tests/pipeline/test_packs.py.
"""

from __future__ import annotations

import os
import signal
import sys
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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the JVM in /proc")
def test_an_ingester_whose_jvm_dies_ends_with_status_1_and_says_so(tmp_path: Path) -> None:
    with Pipeline(tmp_path, pace=Pace(changes=10, seconds=1, large=0)) as pipeline:
        pipeline.workload.start()
        pipeline.workload.join()
        pipeline.settle(60, quiet=0)
        os.kill(jvm_of(pipeline.ingester.pid), signal.SIGKILL)
        assert pipeline.ingester.wait(60) == 1
        tail = pipeline.ingester.tail()
        assert "dstream: running on Spark: its JVM has ended by itself" in tail
        assert "Traceback" not in tail


def jvm_of(pid: int) -> int:
    """The process of the Java virtual machine that `pid` started."""
    [found] = [
        int(child)
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if b"org.apache.spark" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return found


@pytest.mark.soak
def test_forty_kills(tmp_path: Path) -> None:
    campaign(tmp_path, kills=40, changes=40_000, seconds=300, seed=11)
