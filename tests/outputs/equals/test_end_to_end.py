"""From commit to target with real processes and real servers: after a random workload each target has the rows of its source, value by value.

Rows from before the capture, keys that change, columns that are added, and services and servers that are killed in between.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.outputs.equals.copies import Copies
from tests.outputs.equals.tables import tables

_ALL_AT_LEAST_ONCE = ("ingester", "postgres", "worker", "elasticsearch", "router")
_MOST_WAIT = 300.0
"""Seconds until more arrives, after a kill on a busy machine: an ingester starts Spark, and waits until what the one before may have sent is over."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the processes in /proc")


def campaign(folder: Path, *, kills: int, seed: int, rows: int, ordering: str, deletes: str, rate: float) -> None:
    """Each table gets its further column at another moment of the campaign."""
    made = tables(rows)
    with Copies(folder, made, ordering=ordering, deletes=deletes, rate=rate, seed=seed) as copies:
        random = copies.random
        for application in copies.applications:
            application.start()
        altered = [random.randrange(kills) for _ in copies.applications]
        order = random.sample(_ALL_AT_LEAST_ONCE, len(_ALL_AT_LEAST_ONCE))
        for number in range(kills):
            if random.random() < 0.7 or number == 0:
                copies.await_more(_MOST_WAIT)
            time.sleep(random.uniform(0, 3))
            copies.strike(order[number] if number < len(order) else random.choice(order))
            for at, application in zip(altered, copies.applications, strict=True):
                if at == number:
                    application.add_a_column()
        copies.await_more(_MOST_WAIT)
        for application in copies.applications:
            application.stop()
        copies.settled(_MOST_WAIT)
        compare(copies)


def compare(copies: Copies) -> None:
    """Prints the figures. Raises AssertionError for rows that differ, and for messages that nobody has."""
    differ: list[str] = []
    for application in copies.applications:
        table, counts = application.table, dict[str, str]()
        for target in copies.targets:
            source, copy = copies.source(target, application), copies.copy(target, table)
            wrong = [key for key in sorted(source.keys() | copy.keys()) if source.get(key) != copy.get(key)]
            counts[target] = f"{len(wrong)} of {len(source)}"
            differ += [
                f"{target} {table.name.key} {key}: {_difference(source.get(key), copy.get(key))}" for key in wrong
            ]
            differ += [f"    {line}" for key in wrong[:1] for line in copies.history(table, key)]
        print(
            f"{table.name.key}: {application.changes()} changes, differ {counts}, {dict(application.done)}", flush=True
        )
    print(f"kills: {dict(copies.kills)}", flush=True)
    assert not differ, "\n".join(differ)
    assert copies.waiting() == (0, 0)


def _difference(source: Mapping[str, str] | None, copy: Mapping[str, str] | None) -> str:
    if source is None or copy is None:
        return "is not there" if copy is None else "is there"
    names = [name for name in source.keys() | copy.keys() if source.get(name) != copy.get(name)]
    return ", ".join(f"{name}: {str(source.get(name))[:40]} is {str(copy.get(name))[:40]}" for name in names)


@pytest.mark.timeout(900)
def test_targets_equal_their_source(tmp_path: Path) -> None:
    campaign(tmp_path, kills=5, seed=1, rows=40, ordering="table", deletes="remove", rate=10)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("ordering", ["table", "key"])
@pytest.mark.parametrize("deletes", ["remove", "mark"])
def test_targets_equal_their_source_under_many_kills(tmp_path: Path, ordering: str, deletes: str) -> None:
    """DSTREAM_TEST_KILLS and DSTREAM_TEST_SEED, as for the campaigns of tests/faults."""
    kills, seed = int(os.environ.get("DSTREAM_TEST_KILLS", "100")), int(os.environ.get("DSTREAM_TEST_SEED", "2"))
    campaign(tmp_path, kills=kills, seed=seed, rows=200, ordering=ordering, deletes=deletes, rate=15)
