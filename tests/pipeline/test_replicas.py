"""Two ingesters with one configuration: they share the tables, no table has two of them, and what one leaves the other takes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

from dstream.demo.processes import Service
from dstream.demo.schema import TABLES
from dstream.demo.workload import Pace
from tests.azurite.proxy import Answer, Proxy
from tests.azurite.server import Azurite, connection_string, missing
from tests.worlds.tenures import has, overlaps, tenures
from tests.worlds.world import World, good, wait_until

KEYS = {table.key for table in TABLES}


LEASE = 20


@pytest.mark.timeout(240)
def test_two_ingesters_share_the_tables_and_a_killed_ones_are_taken_over(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    with Azurite() as azurite, Proxy(azurite.port) as proxy:
        locks = f'type = "azure_blob"\nconnection_string = "{connection_string(proxy.port)}"\nlease = "{LEASE}s"'
        with World(tmp_path, locks=locks, pace=Pace(900, 30, large=0)) as world:
            world.workload.start()
            first, second = shared(world)
            proxy.answer = Answer(503, "ServerBusy")
            time.sleep(LEASE / 4)
            proxy.answer = None
            assert has(first) | has(second) == KEYS
            assert "lock lost" not in first.log.read_text() + second.log.read_text()
            first.kill()
            wait_until(lambda: has(second) == KEYS, "the second has what the first left", LEASE + 15)
            world.workload.join()
            assert good(world.verdict())
            assert second.stop() == 0
        with BlobServiceClient.from_connection_string(connection_string(azurite.port)) as service:
            left = {
                blob.name
                for blob in service.get_container_client("locks").list_blobs()
                if blob.lease.status == "locked"
            }
        assert left == set()


@pytest.mark.timeout(240)
def test_locks_in_the_database_are_shared_and_handed_over_at_a_stop(tmp_path: Path) -> None:
    with World(tmp_path, locks='type = "sqlserver"', pace=Pace(900, 30, large=0)) as world:
        world.workload.start()
        first, second = shared(world)
        assert first.stop() == 0
        wait_until(lambda: has(second) == KEYS, "the second has what the first gave back", 30)
        world.workload.join()
        assert good(world.verdict())


def shared(world: World) -> tuple[Service, Service]:
    """Two ingesters, the second started when the first had everything, once each has its share."""
    first = world.start_ingester()
    wait_until(lambda: has(first) == KEYS, "the first has all tables")
    second = world.start_ingester()
    wait_until(lambda: len(has(second)) == 2 and len(has(first)) == 2, "each has its share")
    assert has(first) | has(second) == KEYS
    assert overlaps(tenures(first), tenures(second)) == []
    return first, second
