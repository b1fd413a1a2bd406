"""The shape of a table changes while a round of its snapshot is out; the world of history/test_snapshots.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from common.errors import ConnectionLost, LeaseLost, PermanentError, TransientError
from common.names import TableName
from ingester.driver.loop import Loop
from ingester.driver.reload import TableChanges
from ingester.history.rules import SnapshotRules, TableRules
from ingester.history.snapshot import SnapshotState
from ingester.shape.mask import mask_of
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.slices import Slice, SliceResult
from tests.fakes.ingester import ORDERS, PERSONS
from tests.unit.ingester.driver.history.test_snapshots import reads, the_snapshot, world
from tests.unit.ingester.driver.test_loop import World

MASKED = TableShape(masks=(("Name", mask_of("redact")),))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop turns while a chunk is out."""
    monkeypatch.setattr(Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 0.02)


class Edited:
    """A world whose first chunk is under way when somebody sets a mask. `begun`: the chunks that ran, with the shapes that they had."""

    def __init__(self, *, ordered: bool, table: TableName = PERSONS, waits: float = 30.0) -> None:
        self.it: World = world(rows=25, slots=2)
        self.it.rows.ordered = ordered
        self.name = self.it.snapshots.ask(PERSONS)
        self.table, self.waits = table, waits
        self.begun: list[Slice] = []
        self.counted = self.over = False
        self.tried: Callable[[], bool] = lambda: True
        """Whether the loop has tried what it is to try while the chunk is out; `waits` begins then."""
        self.it.chunks.next = [self.edited, *[self.noted] * 20]

    def noted(self, todo: Slice) -> SliceResult | None:
        self.begun.append(todo)
        return None

    def edited(self, todo: Slice) -> None:
        """The chunk goes on as soon as its round is over, and else after a while: then it sends its rows."""
        self.begun.append(todo)
        changes = TableChanges({}, frozenset(), {})
        rules = SnapshotRules({PERSONS: TableRules()}, 10, None)
        self.it.loop.reconfigure(changes, {}, rules, {self.table: MASKED})
        assert todo.chunk is not None
        tried_by = time.monotonic() + 60
        while not self.tried() and time.monotonic() < tried_by:
            time.sleep(0.01)
        until = time.monotonic() + self.waits
        while not self.counted and time.monotonic() < until:
            self.counted = self.it.snapshots.stored[self.name].round != todo.chunk.round
            time.sleep(0.01)
        self.over = True


@pytest.mark.parametrize("ordered", [True, False])
def test_a_round_that_is_out_ends_and_its_chunk_begins_again_with_the_new_shape(ordered: bool) -> None:
    edited = Edited(ordered=ordered)
    _, logs = edited.it.run(60)
    assert edited.counted
    assert [todo.shape for todo in edited.begun] == [AS_CAPTURED, *[MASKED] * (len(edited.begun) - 1)]
    assert sorted(reads(edited.it)) == list(range(1, 26)), "what the first one had not sent is sent by another"
    assert the_snapshot(edited.it).state is SnapshotState.DONE
    assert [entry["event"] for entry in logs if entry["log_level"] not in ("debug", "info")] == (
        [] if ordered else ["the table has no unique key, its changes wait while all its rows are read"]
    )
    told = [entry for entry in logs if "shape of their table" in entry["event"]]
    assert [(entry["table"], entry["snapshot"]) for entry in told] == [("dbo.Persons", edited.name)]


@pytest.mark.parametrize("error", [TransientError("somebody holds its row"), ConnectionLost("cut")])
def test_a_round_that_cannot_be_counted_just_now_is_counted_later(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    edited = Edited(ordered=True)
    begin, failed = edited.it.snapshots.begin, list[Exception]()

    def fails_once(*args: Any) -> Any:
        if edited.begun and not failed:
            failed.append(error)
            raise error
        return begin(*args)

    monkeypatch.setattr(edited.it.snapshots, "begin", fails_once)
    edited.it.run(60)
    assert failed
    assert edited.counted
    assert sorted(reads(edited.it)) == list(range(1, 26))


@pytest.mark.parametrize("error", [LeaseLost("a newer owner"), PermanentError("no right")])
def test_a_round_that_this_ingester_can_no_longer_end_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    edited = Edited(ordered=True, waits=0.5)
    begin, asked = edited.it.snapshots.begin, list[Exception]()

    def fails(*args: Any) -> Any:
        if edited.begun and not edited.over:
            asked.append(error)
            raise error
        return begin(*args)

    monkeypatch.setattr(edited.it.snapshots, "begin", fails)
    edited.tried = lambda: bool(asked)
    edited.it.run(60)
    assert asked == [error], "once, and not again and again"
    assert sorted(reads(edited.it)) == list(range(1, 26))


def test_the_round_of_a_table_whose_shape_stays_goes_on() -> None:
    edited = Edited(ordered=True, table=ORDERS, waits=0.5)
    edited.it.run(60)
    assert not edited.counted
    assert {todo.shape for todo in edited.begun} == {AS_CAPTURED}
    assert sorted(reads(edited.it)) == list(range(1, 26))
