"""An ingester that is stopped in mid-work for longer than its leases, and goes on when another has its tables; then that other is killed."""

from __future__ import annotations

import signal
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

from dstream.demo.processes import Service
from dstream.demo.schema import TABLES
from dstream.demo.workload import Pace
from tests.azurite.proxy import Answer, Proxy
from tests.azurite.server import Azurite, connection_string, missing
from tests.worlds.tenures import has, tenures
from tests.worlds.world import World, good, signal_tree, wait_until

KEYS = {table.key for table in TABLES}
LEASE = 15
_CHANGES_A_SECOND = 20
_FOR_EVER = 100_000


@pytest.mark.timeout(300)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the processes in /proc")
def test_a_paused_owner_cannot_commit_when_it_wakes_and_nothing_is_lost(tmp_path: Path) -> None:
    """Awake again it has its share, keeps it while the storage is busy, and takes over what a killed one leaves."""
    if reason := missing():
        pytest.skip(reason)
    with Azurite() as azurite, Proxy(azurite.port) as proxy:
        locks = f'type = "azure_blob"\nconnection_string = "{connection_string(proxy.port)}"\nlease = "{LEASE}s"'
        pace = Pace(_CHANGES_A_SECOND * _FOR_EVER, _FOR_EVER, large=0)
        with World(tmp_path, locks=locks, pace=pace, more="page_rows = 20") as world:
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
            assert lost(paused) == len(KEYS)
            epochs = {tenure.table: tenure.epoch for tenure in tenures(paused) if tenure.epoch in before}
            assert all(tenure.epoch > epochs[tenure.table] for tenure in tenures(standby))

            wait_until(lambda: len(has(paused)) == 2 and len(has(standby)) == 2, "each has its share")
            proxy.answer = Answer(503, "ServerBusy")
            time.sleep(LEASE / 4)
            proxy.answer = None
            assert has(paused) | has(standby) == KEYS
            assert (lost(paused), lost(standby)) == (len(KEYS), 0)

            standby.kill()
            wait_until(lambda: has(paused) == KEYS, "it has what the killed one left", LEASE + 60)
            world.workload.stop()
            world.workload.join()
            assert good(world.verdict())
            seen.append(world.offsets())
            assert paused.stop() == 0
        assert leased(azurite.port) == set()
    for earlier, later in pairwise(seen):
        assert all(later[table] >= offset for table, offset in earlier.items())


def lost(ingester: Service) -> int:
    """How often it has said so."""
    return ingester.log.read_text().count("lock lost")


def leased(port: int) -> set[str]:
    """The locks that somebody has."""
    with BlobServiceClient.from_connection_string(connection_string(port)) as service:
        blobs = list(service.get_container_client("locks").list_blobs())
    return {blob.name for blob in blobs if blob.lease.status == "locked"}
