"""Spark on machines of their own under a live workload: executors die, ways between driver and executors are cut, drivers die and are stopped. The
subscribers must not know, and no executor goes on working for an ingester that has ended.

The machines are network namespaces (tests/worlds/machines): needs root and iproute2.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from dstream.demo.schema import TABLES
from dstream.demo.workload import Pace
from tests.worlds.machines.network import Machine, Network, missing
from tests.worlds.machines.spark import ClusterWorld, SparkMachines
from tests.worlds.stillness import Stillness
from tests.worlds.tenures import has, tenures
from tests.worlds.world import Ingester, good, wait_until

_CHANGES_A_SECOND = 40
_FOR_EVER = 100_000
"""Seconds; the workload is stopped when everything has been done to the cluster."""
_PATIENCE = 300.0
_KILLS, _EVERY = 15, 20.0
"""An executor dies every so many seconds, five minutes long."""
_CUT_SECONDS = 30.0
_DRIVER_KILLS = 5
_GONE_SECONDS = 60.0
"""Until executors whose driver was killed, or stopped, are gone."""
_STILL_SECONDS = 3.0

pytestmark = pytest.mark.skipif((_why := missing()) is not None, reason=_why or "")


@dataclass
class Trial:
    """A cluster of two workers with an ingester at work, and a workload. `since`: Unix time from which on stillness counts; a start is none."""

    world: ClusterWorld
    cluster: SparkMachines
    seed: int
    since: float = 0.0
    done: list[str] = field(default_factory=list)
    """What was done to it, for the measurements."""

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    @property
    def ingester(self) -> Ingester:
        """The youngest."""
        return self.world.ingesters[-1]

    def say(self, text: str) -> None:
        self.done.append(text)
        print(f"{time.time() - self.since:6.1f} s  {text}", flush=True)

    def begin(self) -> None:
        """Returns when changes of every table arrive."""
        ingester = self.world.start_ingester()
        wait_until(lambda: self._alive(ingester) and len(has(ingester)) == len(TABLES), "it has the tables", _PATIENCE)
        self.world.workload.start()
        wait_until(
            lambda: self._alive(ingester) and min(self.world.subscriber.counts().values()) > 0, "all arrive", _PATIENCE
        )
        self.caught_up()
        self.since = time.time()

    def caught_up(self) -> float:
        """Waits until everything has arrived that was committed until now; how many seconds that took."""
        begun, wanted = time.monotonic(), self.world.ledger.counts()
        wait_until(lambda: self._alive(self.ingester) and self.world.delivered(wanted), "they arrive", _PATIENCE)
        return time.monotonic() - begun

    def kill_executor(self) -> None:
        """One that works, on whichever machine; waits for one where all have just begun to start."""
        wait_until(lambda: self._alive(self.ingester) and bool(self.cluster.tasks()), "an executor works", _PATIENCE)
        worker = self.random.choice([each for each in self.cluster.workers if each.tasks()])
        assert worker.kill_executors() > 0
        self.say(f"killed the executor of {worker.machine.name}")

    def cut(self, machine: Machine, others: Sequence[Machine], seconds: float) -> None:
        """Off from these, or from everybody when there are none, and waits until everything has arrived after that."""
        with machine.cut_off_from(*others) if others else machine.cut_off():
            time.sleep(seconds)
        took = self.caught_up()
        whom = ", ".join(other.name for other in others) or "everybody"
        self.say(f"{machine.name} was cut off from {whom} for {seconds:.0f} s, and {took:.1f} s later all had arrived")

    def stop(self) -> None:
        """SIGTERM: it ends with 0, its executors end, and no offset moves any more."""
        ingester = self.ingester
        assert ingester.stop(_GONE_SECONDS) == 0, ingester.tail()
        begun, offsets = time.monotonic(), self.world.offsets()
        wait_until(lambda: not self.cluster.executors() and not self.cluster.tasks(), "no executor", _GONE_SECONDS)
        self.say(f"stopped with 0; {time.monotonic() - begun:.1f} s later no executor was left")
        time.sleep(_STILL_SECONDS)
        assert self.world.offsets() == offsets

    def kill_driver(self, *, unheard: bool) -> None:
        """SIGKILL, and another ingester on another machine. `unheard`: executors learn nothing of the death for a while."""
        victim, driver = self.ingester, self.cluster.drivers[(len(self.world.ingesters) - 1) % 2]
        wait_until(lambda: len(self.cluster.executors()) >= 2, "executors on both workers", _PATIENCE)
        orphans = self.cluster.executors()
        with driver.cut_off_from(*(worker.machine for worker in self.cluster.workers if unheard)):
            victim.kill_tree()
            assert set(orphans) <= set(self.cluster.executors()), "they live on"
            self.world.start_ingester()
            took = self.caught_up()
        begun = time.monotonic()
        wait_until(lambda: not set(orphans) & set(self.cluster.executors()), "orphans end", _GONE_SECONDS)
        how = "cut off from its executors and killed" if unheard else "killed"
        self.say(
            f"driver {how}; all had arrived after {took:.1f} s, orphans were gone {time.monotonic() - begun:.1f} s later"
        )

    def no_table_had_two_owners(self) -> None:
        """Each lock was taken with a higher epoch than before, in the order of the ingesters."""
        for table in TABLES:
            found = [each.epoch for one in self.world.ingesters for each in tenures(one) if each.table == table.key]
            assert found == sorted(set(found)), (table.key, found)

    def end(self) -> None:
        """The verdict, printed. Raises AssertionError, with examples, when it is not 0 of each."""
        self.world.workload.stop()
        self.world.workload.join()
        wait_until(lambda: self._alive(self.ingester) and self.world.delivered(), "everything", _PATIENCE)
        verdict = self.world.verdict(0)
        counts = ", ".join(
            f"{what.replace('_', ' ')} {verdict.total(what)}"
            for what in ("lost", "duplicated", "out_of_order", "wrong")
        )
        print(f"{verdict.total('committed')} changes: {counts}")
        print((said := self.world.heard()).summary(still := self.stillness()), flush=True)
        assert good(verdict)
        assert said.silences(still) == []
        self.no_table_had_two_owners()

    def stillness(self) -> list[Stillness]:
        """Since the begin, the longest first."""
        found = [each for each in self.world.stillness() if each.end > self.since]
        cut = [Stillness(each.table, max(each.begin, self.since), each.end) for each in found]
        return sorted(cut, key=lambda each: -each.seconds)

    def _alive(self, ingester: Ingester) -> bool:
        assert ingester.died() is None, f"{ingester.name} ended by itself:\n{ingester.tail()}"
        return True


@contextmanager
def trial(folder: Path, seed: int) -> Iterator[Trial]:
    pace = Pace(_CHANGES_A_SECOND * _FOR_EVER, _FOR_EVER, large=0)
    with (
        Network() as network,
        SparkMachines(network) as cluster,
        ClusterWorld(folder, network, cluster, pace=pace, more="page_rows = 50") as world,
    ):
        going = Trial(world, cluster, seed)
        going.begin()
        yield going


@pytest.mark.timeout(400)
def test_an_executor_dies_a_way_is_cut_and_a_stop_leaves_nobody_at_work(tmp_path: Path) -> None:
    with trial(tmp_path, seed=1) as going:
        going.kill_executor()
        going.caught_up()
        going.cut(going.cluster.workers[0].machine, going.cluster.drivers[:1], seconds=3)
        going.end()
        going.stop()


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_an_executor_is_killed_every_20_seconds_for_5_minutes(tmp_path: Path, seed: int) -> None:
    with trial(tmp_path, seed) as going:
        for number in range(1, _KILLS + 1):
            time.sleep(max(0.0, going.since + number * _EVERY - time.time()))
            going.kill_executor()
        going.end()
        going.stop()


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_ways_between_driver_executors_and_servers_are_cut(tmp_path: Path, seed: int) -> None:
    with trial(tmp_path, seed) as going:
        one, two = (worker.machine for worker in going.cluster.workers)
        driver = going.cluster.drivers[0]
        going.cut(one, [driver], _CUT_SECONDS)
        going.cut(driver, [one, two], _CUT_SECONDS)
        going.cut(two, [], _CUT_SECONDS)
        going.end()
        going.stop()


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_drivers_are_killed_while_their_executors_live(tmp_path: Path, seed: int) -> None:
    with trial(tmp_path, seed) as going:
        for number in range(_DRIVER_KILLS):
            going.kill_driver(unheard=number % 2 == 1)
        going.end()
        going.stop()


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_stop_under_load_leaves_nobody_at_work(tmp_path: Path, seed: int) -> None:
    with trial(tmp_path, seed) as going:
        for _ in range(_DRIVER_KILLS):
            going.stop()
            going.world.start_ingester()
            going.caught_up()
        going.end()
        going.stop()
