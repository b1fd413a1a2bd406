"""Two ingesters with one configuration: they share the tables, no table has two of them, and what one gives back the other takes.

What a killed one leaves: tests/faults/test_locks.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dstream.demo.processes import Service
from dstream.demo.schema import TABLES
from dstream.demo.workload import Pace
from tests.worlds.tenures import has, overlaps, tenures
from tests.worlds.world import World, good, wait_until

KEYS = {table.key for table in TABLES}


@pytest.mark.timeout(240)
def test_locks_in_the_database_are_shared_and_handed_over_at_a_stop(tmp_path: Path) -> None:
    with World(tmp_path, locks='type = "sqlserver"', pace=Pace(600, 20, large=0)) as world:
        world.workload.start()
        first, second = shared(world)
        told = world.dump()
        assert "cannot be had" not in told
        assert told.count("application lock held") == len(TABLES)
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
