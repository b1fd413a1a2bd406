"""A router of several workers beside a live ingester, its workers and their parent killed again and again: subscribers must not know."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from dstream.demo.workload import Pace
from tests.worlds.mutes import Mutes, told
from tests.worlds.router_days import Days
from tests.worlds.router_days import told as brought
from tests.worlds.world import World, good, wait_until

_CHANGES_A_SECOND = 60
_FOR_EVER = 100_000
"""Seconds; the workload is stopped after the last kill."""
_A_PARENT_OF = 4
"""One of so many kills is the parent's."""
_MOST_WAIT = 180.0
"""Seconds until more arrives: a session's lock ends with its connection, a message's after a minute."""
_MOST_END = 60.0
"""Seconds until workers whose parent was killed have ended: those among mute peers use up every bound of a stop, which are 20 s."""
_MUTE = 0.3
"""Of so many kills the router's way falls mute before."""
_TROUBLED = 0.3
"""Of so many kills one of the day's troubles comes before."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the processes in /proc")


def campaign(folder: Path, *, kills: int, seed: int, mute: bool = False, troubled: bool = False) -> None:
    """Each kill at a random instant after something has arrived since the one before; a worker mostly, now and then the parent.

    `mute`: the router's way to Service Bus falls mute in between, now and then. `troubled`: so do the troubles of `Days` come.
    """
    random = Random(seed)
    parents = 0
    pace = Pace(_CHANGES_A_SECOND * _FOR_EVER, _FOR_EVER, large=0)
    world = World(folder, pace=pace, workers=2, router_by_relay=mute)

    def restart() -> None:
        workers = workers_of(world.router.pid)
        world.router.kill()
        wait_until(lambda: not any(map(alive, workers)), "the workers have ended with their parent", _MOST_END)
        world.router.start()

    with world, Mutes(Random(seed)) as mutes:
        days = Days(world, folder / "dstream.hcl", Random(seed), restart)
        world.workload.start()
        world.start_ingester()
        for number in range(kills):
            wait_until(more(world), f"more after {number} kills", _MOST_WAIT)
            if mute and random.random() < _MUTE:
                print(f"{number:4} kills, {mutes.strike({'the router': world.router_relay})}", flush=True)
            if troubled and random.random() < _TROUBLED:
                print(f"{number:4} kills, {days.strike(workers_of(world.router.pid))}", flush=True)
            time.sleep(random.uniform(0, 1.5))
            workers = workers_of(world.router.pid)
            if number % _A_PARENT_OF == _A_PARENT_OF - 1:
                parents += 1
                restart()
            elif workers:
                with suppress(ProcessLookupError):
                    os.kill(random.choice(workers), signal.SIGKILL)
        mutes.end()
        days.end()
        wait_until(more(world), "more after the last kill", _MOST_WAIT)
        world.workload.stop()
        world.workload.join()
        verdict = world.verdict(240)
        print(f"{kills} kills, {parents} of them the parent's; {verdict.total('committed')} changes", flush=True)
        if mute:
            print(told(mutes, [world.router_relay]), flush=True)
        if troubled:
            print(brought(days), flush=True)
        print((said := world.heard()).summary(still := world.stillness()), flush=True)
        assert good(verdict)
        assert said.silences(still) == []
        counts = world.servicebus.admin.get("ingest-queue").counts
        assert (counts.active, counts.dead_letter) == (0, days.undecodable)
        assert world.router.stop() == 0


def more(world: World) -> Callable[[], bool]:
    """Whether anything has arrived since now. A router whose start met nothing but silence ends, and is started again as a supervisor would."""
    arrived = sum(world.subscriber.counts().values())

    def grown() -> bool:
        if world.router.died() is not None:
            print("      the router ended in its start", flush=True)
            world.router.start()
        return sum(world.subscriber.counts().values()) > arrived

    return grown


def workers_of(pid: int) -> list[int]:
    """The processes that the router has started and that live."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if alive(int(child))]


def alive(pid: int) -> bool:
    """Whether it still runs: what nobody has waited for is dead all the same."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.timeout(300)
def test_killing_workers_and_their_parent_changes_nothing(tmp_path: Path) -> None:
    campaign(tmp_path, kills=4, seed=5)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("peers", ["speaking", "mute", "troubled"])
def test_kills_of_the_router(tmp_path: Path, peers: str, kills: int, seed: int) -> None:
    """`troubled`: its peers fall mute, too."""
    campaign(tmp_path, kills=kills, seed=seed, mute=peers != "speaking", troubled=peers == "troubled")
