"""What the loop tells of itself and its tables while it runs, with its ports in memory."""

from __future__ import annotations

import pytest

from common.errors import TransientError
from ingester.job import Job
from ingester.progress import Standing, TableFigures
from tests.fakes.ingester import ORDERS, PERSONS, lsn
from tests.unit.ingester.test_job import World


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop asks the clock instead of waiting."""
    monkeypatch.setattr(Job, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)


def table(world: World, name: object = PERSONS) -> TableFigures:
    return next(found for key, found in world.progress.figures().tables.items() if key == name)


def test_a_table_that_is_read_is_behind_until_all_is_sent() -> None:
    world = World(rows=2)
    world.commit(2, 3)
    seen: list[TableFigures] = []
    world.source.after_page = lambda: seen.append(table(world))
    world.run(3)
    assert {(found.standing, found.behind is not None) for found in seen} == {(Standing.READ, True)}
    now = table(world)
    assert (now.standing, now.behind, now.changes, now.pages) == (Standing.READ, None, 6, 3)
    assert table(world, ORDERS).changes == 0
    assert sum(world.progress.figures().slices.counts) >= 1
    assert sum(world.progress.figures().passes.counts) >= 1


def test_a_table_with_a_gap_is_stopped_and_still_behind() -> None:
    world = World()
    world.commit(2)
    world.at(2, lambda: world.source.low.update({"dbo_Persons": lsn(9)}))
    world.at(2, lambda: world.commit(12))
    world.run(20)
    now = table(world)
    assert (now.standing, now.behind is not None, now.ours) == (Standing.STOPPED, True, True)


def test_a_gap_that_is_passed_over_is_counted() -> None:
    world = World(skip_gaps=True)
    world.commit(2)
    world.at(2, lambda: world.source.low.update({"dbo_Persons": lsn(9)}))
    world.at(2, lambda: world.commit(12))
    world.run(20)
    assert (table(world).gaps, table(world).standing) == (1, Standing.READ)


def test_failures_are_counted_by_kind() -> None:
    world = World()
    world.commit(2)
    world.executor.fail = TransientError("busy")
    world.run(3)
    assert table(world).failures == {"transient": 1}
