"""A table that has nothing to do is not decided about again while nothing has changed, and loses nothing by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.clock import SteadyTime
from common.names import TableName
from ingester.driver import loop as looping
from ingester.driver import tables as deciding
from ingester.driver.schedule import Rhythm
from ingester.driver.tables import IDLE_COMMIT_SECONDS, Act, TrackedTable, looked_at
from ingester.locks import Lease
from ingester.position import Position
from ingester.source import ProbeAnswer
from ingester.sqlserver.position import LogPosition
from tests.fakes.ingester import ORDERS, PERSONS, instance, lsn
from tests.unit.ingester.driver.test_loop import World

END = LogPosition.end_of(lsn(3))
BEGUN = SteadyTime(100.0)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looping.Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)


def quick(world: World) -> World:
    """With both tables polled every half second, however long they are idle."""
    for name in (PERSONS, ORDERS):
        world.loop._settings.tables[name] = Rhythm(0.5, 0.5)
    return world


def test_idle_tables_are_decided_about_once_a_minute_and_a_change_is_read_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, decided, decide = quick(World()), list[TableName](), deciding.decide

    def counted(
        table: TrackedTable, answer: ProbeAnswer, captured: Position | None, now: SteadyTime
    ) -> deciding.Decision:
        decided.append(table.name)
        return decide(table, answer, captured, now)

    monkeypatch.setattr(deciding, "decide", counted)
    world.at(1, lambda: world.commit(2))
    world.at(70, decided.clear)
    world.at(170, lambda: world.snapshot.append(len(decided)))
    world.at(180, lambda: world.commit(3))
    world.at(182, lambda: world.snapshot.append(len(world.sent())))
    world.run(300)
    assert world.snapshot[0] <= 16, "in 100 s there are hundreds of looks, four catalogs and four moves of an offset"
    assert world.snapshot[1] == 6


def rested(**changes: object) -> tuple[TrackedTable, ProbeAnswer]:
    """A table after a look that found nothing to do."""
    table = TrackedTable(PERSONS, lease=Lease("persons", "us", 1), instances=(instance(),), offset=END, stored_at=BEGUN)
    answer = ProbeAnswer(LogPosition.before(lsn(1)), pending=False)
    table.rested = looked_at(table, table.request, answer, END, BEGUN)
    assert table.rested.act is Act.WAIT
    for name, value in changes.items():
        setattr(table, name, value)
    return table, answer


def test_the_same_answer_has_the_same_decision_and_the_same_question() -> None:
    table, answer = rested()
    assert table.request is table.request
    assert looked_at(table, table.request, answer, END, SteadyTime(BEGUN + 1)) is table.rested


OTHERS: list[dict[str, object]] = [
    {"lease": Lease("persons", "us", 2)},
    {"instances": (replace(instance(), name="dbo_Persons_2"),)},
    {"offset": LogPosition.end_of(lsn(2))},
    {"stored_at": SteadyTime(BEGUN - IDLE_COMMIT_SECONDS)},
]


@pytest.mark.parametrize("changed", OTHERS, ids=lambda changed: next(iter(changed)))
def test_whatever_has_changed_is_decided_about(changed: dict[str, object]) -> None:
    table, answer = rested(**changed)
    assert looked_at(table, table.request, answer, END, SteadyTime(BEGUN + 1)) is not table.rested


def test_a_move_is_decided_once() -> None:
    """The offsets may return the position that they were given: then all is as it was, except that the offset was stored."""
    table, answer = rested(stored_at=SteadyTime(BEGUN - IDLE_COMMIT_SECONDS))
    assert looked_at(table, table.request, answer, END, BEGUN).act is Act.ADVANCE
    table.stored_at = BEGUN
    assert looked_at(table, table.request, answer, END, SteadyTime(BEGUN + 1)).act is Act.WAIT


def test_another_answer_and_more_captured_are_decided_about() -> None:
    table, answer = rested()
    pending = replace(answer, pending=True)
    assert looked_at(table, table.request, answer, LogPosition.end_of(lsn(4)), BEGUN) is not table.rested
    assert looked_at(table, table.request, pending, LogPosition.end_of(lsn(4)), BEGUN).act is Act.READ
