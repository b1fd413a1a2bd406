"""An ingester that is stopped in mid-work for longer than its leases, and goes on when another has its tables."""

from __future__ import annotations

import signal
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from dstream.demo.schema import TABLES
from dstream.demo.workload import Pace
from tests.azurite.server import Azurite, connection_string, missing
from tests.worlds.tenures import has, tenures
from tests.worlds.world import World, good, signal_tree, wait_until

KEYS = {table.key for table in TABLES}


@pytest.mark.timeout(240)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the processes in /proc")
def test_a_paused_owner_cannot_commit_when_it_wakes_and_nothing_is_lost(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    with Azurite() as azurite:
        locks = f'type = "azure_blob"\nconnection_string = "{connection_string(azurite.port)}"\nlease = "15s"'
        with World(tmp_path, locks=locks, pace=Pace(800, 20, large=0), more="page_rows = 20") as world:
            world.workload.start()
            paused = world.start_ingester()
            wait_until(lambda: has(paused) == KEYS and len(world.offsets()) == len(KEYS), "it reads every table")
            signal_tree(paused.pid, signal.SIGSTOP)
            standby = world.start_ingester()
            wait_until(lambda: has(standby) == KEYS, "the standby has taken over")
            seen = [world.offsets()]
            signal_tree(paused.pid, signal.SIGCONT)

            def woken() -> bool:
                seen.append(world.offsets())
                return not has(paused) & {tenure.table for tenure in tenures(paused) if tenure.epoch in before}

            before = {tenure.epoch for tenure in tenures(paused)}
            wait_until(woken, "the paused one has noticed")
            world.workload.join()
            assert good(world.verdict())
            seen.append(world.offsets())
        for earlier, later in pairwise(seen):
            assert all(later[table] >= offset for table, offset in earlier.items())
        epochs = {tenure.table: tenure.epoch for tenure in tenures(paused) if tenure.epoch in before}
        assert all(tenure.epoch > epochs[tenure.table] for tenure in tenures(standby))
        assert paused.log.read_text().count("lock lost") == len(KEYS)
