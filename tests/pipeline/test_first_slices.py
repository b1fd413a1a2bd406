"""An ingester whose Spark is long in coming: changes are sent before it is there, nothing is lost in between, and a Spark that fails ends it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.names import Origin
from dstream.demo.ledger import Ledger
from dstream.demo.processes import Service, environment, write_config
from dstream.demo.schema import TABLES, create
from dstream.demo.subscriber import Subscriber
from dstream.demo.verdict import judge
from dstream.demo.workload import Pace, Workload
from dstream.emulators import Emulators
from ingester.spark.java import java_home
from tests.worlds.standalone import children
from tests.worlds.world import SPARK_UP, good, wait_until

DATABASE = "demo"
FOR_EVER = 100_000
SOON = 20

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the first slices wait for Spark"),
    pytest.mark.timeout(400),
]


class World:
    """The demo's pipeline with a Java that does nothing before `go`, and then runs, or ends with a status."""

    def __init__(self, folder: Path, emulators: Emulators) -> None:
        create(emulators.login)
        self.go = folder / "go"
        variables = {**environment(emulators), "JAVA_HOME": str(self._java(folder))}
        config = write_config(folder, emulators, "200ms", tasks=2, routing="workers = 1")
        self.ingester = Service("ingester", config, variables, folder / "ingester.log")
        self.router = Service("router", config, variables, folder / "router.log")
        self.ledger = Ledger()
        self.workload = Workload(emulators.login, self.ledger, Pace(changes=FOR_EVER, seconds=FOR_EVER / 60, large=100))
        topics = {table: Origin("localhost", DATABASE).topic(table) for table in TABLES}
        self.subscriber = Subscriber(emulators.bus_connection_string, topics)

    def _java(self, folder: Path) -> Path:
        home = java_home()
        real = Path(home, "bin", "java") if home is not None else shutil.which("java")
        script = folder / "java" / "bin" / "java"
        script.parent.mkdir(parents=True)
        script.write_text(
            f'#!/bin/bash\n[ "$1" = -version ] && exec {real} "$@"\n'
            f'until [ -s {self.go} ]; do sleep 0.1; done\n[ "$(cat {self.go})" = run ] && exec {real} "$@"\nexit 3\n'
        )
        script.chmod(0o755)
        return script.parent.parent

    def log(self) -> str:
        return self.ingester.log.read_text()

    def flows(self) -> bool:
        """Whether changes of each table arrive."""
        return min(self.subscriber.counts().values(), default=0) > 0

    def rests(self) -> None:
        """Wait until the workload has ended, and all of it has arrived."""
        self.workload.stop()
        self.workload.join()
        wait_until(self.delivered, "everything arrives")

    def delivered(self) -> bool:
        received, committed = self.subscriber.counts(), self.ledger.counts()
        return bool(committed) and all(received.get(table, 0) >= count for table, count in committed.items())

    def first(self) -> int:
        """The process for the first slices: of those that the ingester has started, the one that is no script and no Java."""
        [found] = [pid for pid in children(self.ingester.pid) if b"dstream" in _command(pid) and _state(pid) != "Z"]
        return found

    def verdict(self) -> bool:
        return good(judge(self.ledger, self.subscriber.received(), TABLES))


def _command(pid: int) -> bytes:
    """The module that it runs; nothing for another program, or one that has just ended: the script that stands for Java sleeps in many."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return b""
    return b"" if b"-m" not in arguments else arguments[arguments.index(b"-m") + 1]


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Emulators(database=DATABASE, capture_interval=0.3) as emulators:
        world = World(tmp_path, emulators)
        world.router.start()
        world.ingester.start()
        world.subscriber.start()
        world.workload.start()
        try:
            wait_until(world.flows, "changes arrive without Spark")
            assert SPARK_UP not in world.log()
            yield world
        finally:
            world.workload.stop()
            world.subscriber.stop()
            for service in (world.ingester, world.router):
                service.stop()


def test_changes_are_sent_before_spark_is_there_and_a_death_at_the_hand_over_loses_and_doubles_nothing(
    world: World,
) -> None:
    os.kill(world.first(), signal.SIGKILL)
    world.go.write_text("run")
    wait_until(lambda: SPARK_UP in world.log(), "Spark has started")
    world.rests()
    assert world.verdict()
    assert world.ingester.stop() == 0, world.log()


def test_a_first_place_that_stands_still_holds_its_tables_until_spark_has_started_and_loses_and_doubles_nothing(
    world: World,
) -> None:
    os.kill(world.first(), signal.SIGSTOP)
    world.go.write_text("run")
    wait_until(lambda: SPARK_UP in world.log(), "Spark has started")
    sent, up = world.subscriber.counts(), time.monotonic()
    wait_until(
        lambda: all(world.subscriber.counts()[table] > sent[table] for table in TABLES), "Spark reads the tables"
    )
    assert time.monotonic() - up < SOON, world.log()
    assert "it has not answered for 10 s" in world.log()
    world.rests()
    assert world.verdict()
    assert world.ingester.stop() == 0, world.log()


def test_a_spark_that_does_not_start_ends_an_ingester_that_sends_changes(world: World) -> None:
    world.rests()
    first = world.first()
    world.go.write_text("end")
    assert world.ingester.wait(120) == 1
    assert "starting Spark: its JVM ended with status" in world.log()
    assert "JAVA_HOME" in world.log()
    assert "Traceback" not in world.log()
    wait_until(lambda: not Path(f"/proc/{first}").exists(), "nothing is left of the first place")
    assert world.verdict()
