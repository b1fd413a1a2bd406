"""When the offsets of many idle tables are moved: at once at a start, and then not all in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from common.names import TableName
from ingester.driver import loop as looping
from ingester.driver.schedule import Rhythm
from ingester.driver.tables import IDLE_COMMIT_SECONDS
from ingester.offsets import Move
from tests.fakes.ingester import FakeOffsets
from tests.unit.ingester.driver.test_loop import World

TABLES = [TableName("dbo", f"T{number}") for number in range(60)]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looping.Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)


def test_offsets_that_were_moved_together_are_not_moved_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a pass moves hundreds of them, changes of other tables wait."""
    moved: list[tuple[float, int]] = []
    move_many = FakeOffsets.move_many

    def counted(self: FakeOffsets, moves: Sequence[Move]) -> Any:
        moved.append((world.clock, len(moves)))
        return move_many(self, moves)

    monkeypatch.setattr(FakeOffsets, "move_many", counted)
    world = World(tables=TABLES)
    monkeypatch.setattr(world.loop._moves, "_chance", Random(1).random)
    for table in TABLES:
        world.loop._settings.tables[table] = Rhythm(1.0, 5.0)
    world.run(400)
    moved = [each for each in moved if each[1]]
    begun = moved[0][0]
    assert sum(tables for at, tables in moved if at < begun + 1) == len(TABLES)
    later = [(at, tables) for at, tables in moved if at > begun + 1]
    assert max(tables for _, tables in later) <= 20
    whole = IDLE_COMMIT_SECONDS + 2 * 5
    for since in range(int(begun) + 2, int(begun) + 300, 10):
        assert sum(tables for at, tables in later if since <= at < since + whole) >= len(TABLES)
