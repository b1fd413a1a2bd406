"""Each case runs the demo's load in the cluster while something happens to it: nothing is lost, doubled, out of order or wrong."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kubernetes.campaign import troubles
from tests.kubernetes.campaign.world import Verdict, World
from tests.kubernetes.cluster import __main__ as cluster
from tests.kubernetes.conftest import PROJECT, built

pytestmark = pytest.mark.timeout(1800)

_SEED = int(os.environ.get("DSTREAM_TEST_SEED", "1"))
_PREVIOUS = os.environ.get("DSTREAM_TEST_PREVIOUS", "445e1d8")
"""A commit or tag. The default is the last version for which no images were made."""


@pytest.fixture(scope="module")
def world(running: None) -> World:
    world = World()
    world.set_up()
    for component in troubles.STAGES:
        world.settled(component, 2, 300)
    return world


def good(verdict: Verdict) -> None:
    print(verdict.output)
    assert verdict.good, verdict.output


def nothing() -> None:
    """Happens."""


def test_everything_arrives(world: World) -> None:
    good(world.verdict(nothing, seconds=20, changes=3000, name="nothing"))


def test_pods_are_killed(world: World) -> None:
    _killed(world, 4)


@pytest.mark.soak
def test_many_pods_are_killed(world: World) -> None:
    _killed(world, int(os.environ.get("DSTREAM_TEST_KILLS", "30")))


def _killed(world: World, count: int) -> None:
    def kill() -> None:
        print("\n".join(troubles.random_kills(world, count, random.Random(_SEED))))

    seconds = count * 7 + 10
    good(world.verdict(kill, seconds=seconds, changes=seconds * 60, name="kills"))


CASES: dict[str, Callable[[World], None]] = {
    "drain": troubles.drained_node,
    "ingesters": lambda world: troubles.scaled(world, "ingester", (1, 3, 1, 2)),
    "routers": lambda world: troubles.scaled(world, "router", (1, 4, 1, 2)),
    "restart": troubles.restarted,
    "no-api-server": lambda world: troubles.without_api_server(world, 60),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_the_cluster_changes(world: World, name: str) -> None:
    good(world.verdict(lambda: CASES[name](world), seconds=90, changes=5400, name=name))


def test_a_changed_config_map_is_taken_over_without_a_restart(world: World) -> None:
    before = {pod.name: pod.restarts for pod in world.pods("ingester")}

    def change() -> None:
        text = world.configuration()
        assert '"500ms"' in text
        world.configure(text.replace('"500ms"', '"700ms"'))
        world.until(
            120,
            "both ingesters took the new configuration over",
            lambda: all("configuration reloaded" in world.logs(pod) for pod in world.pods("ingester")),
        )

    good(world.verdict(change, seconds=30, changes=2000, name="configuration"))
    assert {pod.name: pod.restarts for pod in world.pods("ingester")} == before


@pytest.mark.soak
def test_a_loop_that_stands_still_is_restarted(world: World) -> None:
    [stuck, other] = world.settled("ingester", 2)

    def stop() -> None:
        troubles.frozen(world, stuck)
        world.until(
            300,
            "the frozen ingester is restarted",
            lambda: any(pod.name == stuck.name and pod.restarts > stuck.restarts for pod in world.pods("ingester")),
        )

    good(world.verdict(stop, seconds=60, changes=3000, name="stuck"))
    assert [pod.restarts for pod in world.pods("ingester") if pod.name == other.name] == [other.restarts]


@pytest.mark.soak
def test_a_sql_server_that_is_away_restarts_nobody(world: World) -> None:
    for component in troubles.STAGES:
        world.settled(component, 2)  # a stage that is still starting ends without a SQL Server, and is started again
    [server] = [pod for pod in world.pods("emulator") if pod.name.startswith("sqlserver")]
    before = {pod.name: pod.restarts for component in troubles.STAGES for pod in world.pods(component)}
    troubles.mute(world, server, 150)
    after = {pod.name: pod.restarts for component in troubles.STAGES for pod in world.pods(component)}
    assert after == before
    good(world.verdict(nothing, seconds=20, changes=2000, name="after-silence"))


@pytest.mark.parametrize("component", troubles.STAGES)
def test_a_pod_that_stops_leaves_nothing_behind(world: World, component: str) -> None:
    """Within its grace period, and what it held is at work elsewhere long before a lock would run out."""
    [pod, _] = world.settled(component, 2)

    def stop() -> None:
        began = time.monotonic()
        world.delete(pod)
        world.until(60, f"{pod.name} has gone", lambda: pod.name not in [each.name for each in world.pods(component)])
        took = time.monotonic() - began
        print(f"{component}: gone after {took:.1f} s")
        assert took < 30, "the grace period is longer, and a stop takes at most 20 s"

    good(world.verdict(stop, seconds=20, changes=1500, name=f"stop-{component}"))
    world.settled(component, 2)


@pytest.mark.soak
def test_upgrade_from_the_previous_release(world: World, tmp_path: Path) -> None:
    cluster.load(*map(str, built(_tree(_PREVIOUS, tmp_path), "previous", troubles.STAGES)))
    troubles.upgraded(world, "previous", mixed=0)

    def upgrade() -> None:
        troubles.upgraded(world, "dev", mixed=60)

    good(world.verdict(upgrade, seconds=120, changes=6000, name="upgrade"))


def _tree(version: str, folder: Path) -> Path:
    """What a version of DStream consists of; with today's way of making images where it has none."""
    archive = subprocess.run(["git", "archive", version], cwd=PROJECT, capture_output=True)
    if archive.returncode != 0:
        pytest.skip(f"git does not know {version}: set DSTREAM_TEST_PREVIOUS to a version that it knows")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    if not (folder / "deploy/Dockerfile").exists():
        for name in ("deploy", "pyproject.toml", "requirements.lock"):
            subprocess.run(["cp", "-r", str(PROJECT / name), str(folder)], check=True)
    return folder
