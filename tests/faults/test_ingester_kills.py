"""Two ingesters under a live workload, one killed again and again at every point of its work: the subscribers must not know.

And the ingest queue hardly: what one death makes arrive there again is at most a page of each table.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from dstream.demo.workload import Pace
from tests.azurite.server import Azurite, connection_string, missing
from tests.faults.deaths import AT_BLOBS, IN_DATABASE, Killer, Point
from tests.faults.world import World, good, wait_until

PAGE_ROWS = 50
_CHANGES_A_SECOND = 40
_FOR_EVER = 100_000
"""Seconds; the workload is stopped when the last ingester has been killed."""
_LOCKS = {
    "sqlserver": 'type = "sqlserver"',
    "azure_blob": f'type = "azure_blob"\nlease = "15s"\nconnection_string = "{connection_string(0)}"'.replace(
        ":0/", ':{{ env("DSTREAM_TEST_BLOB_PORT") }}/'
    ),
}

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the processes in /proc")


def campaign(
    folder: Path, deaths: Sequence[Point | None], *, seed: int, locks: str = "sqlserver", azurite: int | None = None
) -> Killer:
    """A kill at each of these points, one after the other, each as soon as something has arrived since the one before.

    None: at a random instant. `azurite`: the port of the one that holds the `azure_blob` locks.
    """
    random = Random(seed)
    pace = Pace(_CHANGES_A_SECOND * _FOR_EVER, _FOR_EVER, large=0)
    more = f"page_rows = {PAGE_ROWS}"
    with (
        World(folder, pace=pace, locks=_LOCKS[locks], more=more) as world,
        Killer(world, azurite_port=azurite) as killer,
    ):
        world.workload.start()
        for _ in range(2):
            killer.start_ingester()
        for number, point in enumerate(deaths):
            arrived = sum(world.subscriber.counts().values())
            wait_until(lambda: sum(world.subscriber.counts().values()) > arrived, f"more after {number} kills", 120)  # noqa: B023
            whole = random.random() < 0.5
            if point is None:
                time.sleep(random.uniform(0, 6))
                killer.kill_now(random.choice(killer.living), whole=whole)
            else:
                killer.kill_at(point, whole=whole)
            while number < len(deaths) - 1 and len(killer.living) < 2:
                killer.start_ingester()
        world.workload.stop()
        world.workload.join()
        verdict = world.verdict(180)
        print(told(killer, verdict.total("committed")), flush=True)
        assert good(verdict)
        assert [ingester.name for ingester in killer.living if ingester.died() is not None] == []
        assert [ingester.stop() for ingester in killer.living] == [0]
    assert max(map(len, killer.redelivery.again.values()), default=0) <= PAGE_ROWS
    return killer


def told(killer: Killer, committed: int) -> str:
    """What came of it, for the measurements."""
    points = Counter(kill.point.value if kill.point else "at a random instant" for kill in killer.kills)
    again = {kill: len(found) for kill, found in killer.redelivery.again.items()}
    lines = [f"{len(killer.kills)} kills, {sum(kill.whole for kill in killer.kills)} of them with JVM and workers"]
    lines += [f"{count:5} {point}" for point, count in sorted(points.items())]
    killed = {name for name, _ in again} & {kill.victim.name for kill in killer.kills}
    lines.append(f"{committed} changes, {sum(again.values())} of them sent again after {len(killed)} of the kills")
    lines.append(f"at most {max(again.values(), default=0)} a table and kill")
    return "\n".join(lines)


@pytest.mark.timeout(300)
def test_kills_at_every_point_lose_nothing_and_send_at_most_a_page_again(tmp_path: Path) -> None:
    points = (Point.READ, Point.SENDING, Point.SENT, Point.COMMITTED, Point.RAISED, Point.RENEWING)
    killer = campaign(tmp_path, [*points, None, None], seed=1)
    # what was sent and not committed has to arrive again
    assert killer.redelivery.again


@pytest.mark.soak
@pytest.mark.timeout(3 * 3600)
def test_250_kills_with_locks_in_the_database(tmp_path: Path) -> None:
    deaths: list[Point | None] = [*IN_DATABASE * 20, *[None] * 70]
    Random(2).shuffle(deaths)
    campaign(tmp_path, deaths, seed=2)


@pytest.mark.soak
@pytest.mark.timeout(3 * 3600)
def test_60_kills_while_blob_leases_are_taken_and_renewed(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    deaths: list[Point | None] = [*AT_BLOBS * 10, *[None] * 10]
    Random(3).shuffle(deaths)
    with Azurite() as azurite:
        campaign(tmp_path, deaths, seed=3, locks="azure_blob", azurite=azurite.port)
