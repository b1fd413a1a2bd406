"""What is told when a verdict fails: it must be there on the day it is needed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dstream.demo.schema import TABLES
from dstream.demo.workload import Pace
from tests.worlds import dump
from tests.worlds.world import SPARK_UP, World, wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def test_what_cannot_be_had_says_why_and_hides_nothing_else(tmp_path: Path) -> None:
    def missing() -> str:
        raise OSError("nobody answers")

    text = dump.dump([("one", missing), ("two", lambda: "there")], tmp_path / "dump.txt")
    assert "cannot be had: OSError: nobody answers" in text
    assert "== two\nthere" in (tmp_path / "dump.txt").read_text()


@pytest.mark.soak  # the short form: tests/pipeline/test_replicas.py
@pytest.mark.timeout(240)
def test_a_failure_tells_offsets_locks_queues_sockets_and_stacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AssertionError, match="a verdict"):
        fail(World(tmp_path, pace=Pace(60, 2, large=0)))
    told = capsys.readouterr().out
    assert "cannot be had" not in told
    for table in TABLES:
        assert f"{table.key}: offset 0x" in told
    assert told.count("application lock held") == len(TABLES)
    parts = dict(part.split("\n", 1) for part in told.split("== ")[1:])
    assert parts["application locks"].count("ingester-0") >= len(TABLES)
    assert "ingester-0" in parts["sessions at SQL Server"]
    assert "ingest-queue" in parts["queue and topics"]
    assert "ESTAB" in parts["sockets"]
    assert "ingester started" in parts["logs"]
    for module in ("ingester/driver/loop.py", "router/receiving/slot.py", "pyspark/daemon.py"):
        assert f'{module}", line' in parts["logs"], module
    assert "sqlserver-connection" in parts["this process"]
    assert Path(told.strip().splitlines()[-1]).read_text() in told


def fail(world: World) -> None:
    """In the middle of its work."""
    with world:
        world.workload.start()
        ingester = world.start_ingester()
        wait_until(lambda: SPARK_UP in ingester.log.read_text(), "a worker of Spark is there", 180)
        wait_until(lambda: len(world.offsets()) == len(TABLES), "every table is read", 90)
        world.workload.join()
        wait_until(world.delivered, "everything has arrived")
        raise AssertionError("a verdict")
