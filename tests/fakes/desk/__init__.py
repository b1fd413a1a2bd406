"""A lively desk in memory: all ports of `desk/desk.py` over an invented world, for the page, the API and gRPC. Nothing of it is stored.

    desk = lively_desk(tables=1_000, seed=7)

The same seed gives the same world. Time moves it: a table is behind and recovers, another is stopped, operations make progress.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from desk.desk import Desk
from tests.fakes.desk.audit import FakeAudit
from tests.fakes.desk.configuring import FakeConfiguring
from tests.fakes.desk.dead_letters import FakeDeadLetters
from tests.fakes.desk.messages import FakeMessages
from tests.fakes.desk.tables import FakeTables
from tests.fakes.desk.watching import FakeWatching
from tests.fakes.desk.world import World

__all__ = ["FakeAudit", "World", "lively_desk"]


def lively_desk(
    *,
    tables: int = 12,
    seed: int = 7,
    changes_allowed: bool = True,
    dead: int = 60,
    now: Callable[[], float] = time.time,
    look_every: float = 1.0,
) -> Desk:
    """`tables`: at least 8. `dead`: how many dead letters the queue has."""
    return desk_of(
        World(tables=tables, seed=seed, changes_allowed=changes_allowed, dead=dead, now=now, look_every=look_every)
    )


def desk_of(world: World) -> Desk:
    audit = FakeAudit(world.now)
    return Desk(
        watching=FakeWatching(world),
        tables=FakeTables(world),
        messages=FakeMessages(world),
        dead_letters=FakeDeadLetters(world, audit),
        configuring=FakeConfiguring(world),
        audit=audit,
    )
