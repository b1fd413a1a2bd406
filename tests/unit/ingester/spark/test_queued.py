"""Which bundles wait for an executor, and when that says that nothing can run."""

from __future__ import annotations

from common.clock import SteadyTime
from ingester.spark.queued import Queued


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.queued = Queued(lambda: SteadyTime(self.now))


def test_a_bundle_waits_until_a_worker_begins_it() -> None:
    world = World()
    world.queued.handed(1)
    world.queued.handed(2)
    assert (world.queued.waits(1), world.queued.oldest(1)) == (True, [1])
    world.queued.begun(1)
    assert (world.queued.waits(1), world.queued.waits(2), world.queued.oldest(5)) == (False, True, [2])
    world.queued.ended(2)
    assert world.queued.oldest(5) == []
    world.queued.handed(3)
    world.now += 4
    assert (world.queued.oldest(5, waited=4.0), world.queued.oldest(5, waited=5.0)) == ([3], [])


def test_bundles_are_stuck_only_while_none_runs() -> None:
    world = World()
    world.queued.handed(1)
    world.now += 30
    world.queued.handed(2)
    assert world.queued.stuck() == (2, 30.0)
    world.queued.begun(1)
    world.now += 500
    assert world.queued.stuck() == (0, 0.0), "one runs, and may take its time"
    world.queued.ended(1)
    world.now += 5
    assert world.queued.stuck() == (1, 5.0), "since the last one ended"


def test_a_bundle_that_ended_unbegun_was_not_running() -> None:
    world = World()
    world.queued.handed(1)
    world.queued.ended(1)
    world.queued.begun(1)  # its worker was late
    world.queued.handed(2)
    world.now += 7
    assert world.queued.stuck() == (1, 7.0)
