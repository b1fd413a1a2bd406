"""SIGKILL of SQL Server and of Service Bus, which keep their data, and a start again; of the services as well: subscribers must not know."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from random import Random

import pytest

from dstream.demo.workload import Pace
from tests.worlds.servers import MortalWorld
from tests.worlds.world import good, wait_until

_CHANGES_A_SECOND = 40
_FOR_EVER = 100_000
_MOST_WAIT = 180.0
"""Seconds until more arrives after a death."""
_DEAD = 5.0
"""Seconds that a server is away at most."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the processes in /proc")


def campaign(folder: Path, *, kills: int, seed: int) -> None:
    """In turn SQL Server, Service Bus, and one of both services, each after something has arrived since the one before."""
    random = Random(seed)
    with MortalWorld(folder, pace=Pace(_CHANGES_A_SECOND * _FOR_EVER, _FOR_EVER, large=0)) as world:
        world.workload.start()
        world.start_ingester()
        for number in range(kills):
            before = sum(world.arrived().values())
            wait_until(lambda: more(world, before), f"more after {number} kills", _MOST_WAIT)  # noqa: B023
            time.sleep(random.uniform(0, 2))
            strike(world, number, random)
        world.workload.stop()
        world.workload.join()
        wait_until(lambda: tended(world) and world.delivered(), "everything has arrived", _MOST_WAIT)
        world.finished(_MOST_WAIT)
        verdict = world.verdict(0)
        print(f"{kills} kills; {verdict.total('committed')} changes", flush=True)
        print((said := world.heard()).summary(still := world.stillness()), flush=True)
        assert good(verdict)
        assert said.silences(still) == []
        for service in (*world.ingesters[-1:], world.router):
            assert service.stop() == 0, service.tail()


def more(world: MortalWorld, before: int) -> bool:
    """Whether anything has arrived since so many had."""
    return tended(world) and sum(world.arrived().values()) > before


def tended(world: MortalWorld) -> bool:
    """Services that have ended by themselves are started again, as an orchestrator does: a start where a server is away ends with status 1."""
    ingester = world.ingesters[-1]
    for service in (ingester, world.router):
        if service.died() is None:
            continue
        assert service.died() == 1, service.tail()
        assert "Traceback" not in service.tail(30), service.tail(30)
        if service is ingester:
            world.start_ingester()
        else:
            world.router.start()
    return True


def strike(world: MortalWorld, number: int, random: Random) -> None:
    """The kill of this number."""
    away = random.uniform(0, _DEAD)
    if number % 3 == 0:
        with world.workload.halted():
            world.sql_server.kill()
            time.sleep(away)
            world.sql_server.start()
    elif number % 3 == 1:
        world.service_bus.kill()
        time.sleep(away)
        world.service_bus.start()
    elif random.random() < 0.5:
        world.router.kill()
        world.router.start()
    else:
        world.ingesters[-1].kill()
        world.start_ingester()


@pytest.mark.timeout(300)
def test_both_servers_die_and_come_back_and_nothing_is_lost(tmp_path: Path) -> None:
    campaign(tmp_path, kills=2, seed=6)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_kills_of_servers_and_services(tmp_path: Path, kills: int, seed: int) -> None:
    campaign(tmp_path, kills=kills, seed=seed)
