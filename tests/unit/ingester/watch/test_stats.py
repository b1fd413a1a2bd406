"""What the loop reports of itself and its tables while it runs, with its ports in memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from common.clock import SteadyTime
from common.errors import ConfigurationError, TransientError
from common.names import TableName
from ingester.driver.loop import Loop
from ingester.oversize import Oversized
from ingester.slices import Overdue, Slice, SliceResult, Trouble, failed
from ingester.sqlserver.position import LogPosition
from ingester.transform import SetAside
from ingester.watch.edits import noted
from ingester.watch.figures import Standing, TableFigures
from ingester.watch.stats import FAILING_SECONDS, IngesterStats
from tests.fakes.ingester import ORDERS, PERSONS, instance, lsn, position
from tests.unit.ingester.driver.test_loop import World


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop asks the clock instead of waiting."""
    monkeypatch.setattr(Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)


def table(world: World, name: object = PERSONS) -> TableFigures:
    return next(found for key, found in world.stats.figures().tables.items() if key == name)


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
    assert sum(world.stats.figures().slices.counts) >= 1
    assert sum(world.stats.figures().passes.counts) >= 1


def test_what_transforms_leave_out_and_a_throttling_namespace_refuses_is_counted() -> None:
    stats = IngesterStats([PERSONS])
    for _ in range(2):
        stats.settled(SliceResult(PERSONS, None, changes=3, dropped=2))
    aside, large = SetAside(3, position(1), "why"), Oversized(PERSONS, "{}", position(1), 9, 8)
    stats.settled(SliceResult(PERSONS, None, filter_failed=aside, set_aside=(large,)))
    stats.chunk(SliceResult(PERSONS, None, changes=100, dropped=5, filter_failed=aside, set_aside=(large,)))
    stats.refused(4)
    stats.clock_differs()
    stats.occupied(2, 8)
    figures = stats.figures()
    assert (figures.tables[PERSONS].changes, figures.tables[PERSONS].dropped) == (6, 9)
    assert (figures.tables[PERSONS].filter_failed, figures.tables[PERSONS].oversize) == (6, 2)
    assert (figures.refusals, figures.clocks_off, figures.busy, figures.slots) == (4, 1, 2, 8)


def test_the_loop_reports_its_slots() -> None:
    world = World(rows=2, slots=3)
    world.commit(2)
    world.run(3)
    assert world.stats.figures().slots == 3


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


def test_health_fails_when_no_slice_of_a_table_has_come_back_for_minutes_and_names_it() -> None:
    clock = 0.0
    stats = IngesterStats([PERSONS, ORDERS], clock=lambda: SteadyTime(clock))
    for _ in range(3):  # started, given up, started again
        stats.started(PERSONS)
        clock += 100
        stats.settled(failed(_todo(), Overdue("nothing was heard of it")))
        stats.turned()
    stats.started(ORDERS)
    stats.started(PERSONS)
    assert stats.alive() is None
    clock += 1
    stats.turned()
    assert stats.alive() == "no slice of dbo.Persons has come back for 301 s"
    stats.settled(failed(_todo(), TransientError("it answers, if only to refuse")))
    assert stats.alive() is None
    stats.started(PERSONS)
    assert stats.alive() is None


@pytest.mark.parametrize("then", ["idle", "gated", "held"])
def test_a_table_of_which_nothing_is_out_says_nothing_about_the_process(then: str) -> None:
    """Given up once; then another's commit made it idle, or the queue's gate keeps it waiting, or its change table is held."""
    clock = 0.0
    stats = IngesterStats([PERSONS], clock=lambda: SteadyTime(clock))
    stats.started(PERSONS)
    clock = 100.0
    stats.settled(failed(_todo(), Overdue("nothing was heard of it")))
    if then == "idle":
        stats.stands(PERSONS, Standing.READ, behind=False)
    elif then == "gated":
        stats.stands(PERSONS, Standing.READ, behind=True)
    clock = 10_000.0
    stats.turned()
    assert stats.alive() is None
    stats.started(PERSONS)
    clock += 250
    stats.turned()
    assert (stats.alive() is None) == (then == "idle")


def test_a_turn_may_take_as_long_as_a_query_and_two_logins() -> None:
    clock = 0.0
    stats = IngesterStats([PERSONS], clock=lambda: SteadyTime(clock), login_seconds=120.0)
    clock = 120.0 + 2 * 120.0
    assert stats.alive() is None
    clock = 1000.0
    assert stats.alive() == "the loop has not turned for 1000 s"


def test_health_keeps_up_with_a_server_that_is_slow_to_answer_each_question_of_a_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    states, probe, found = world.source.states, world.source.probe, list[str | None]()

    def slow(question: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any) -> Any:
            world.clock += 119
            found.append(world.stats.alive())
            world.clock += 119
            found.append(world.stats.alive())
            return question(*args)

        return asked

    monkeypatch.setattr(world.source, "states", slow(states))
    monkeypatch.setattr(world.source, "probe", slow(probe))
    world.run(2000)
    assert len(found) > 4
    assert set(found) == {None}


def test_a_table_that_another_ingester_has_by_now_is_waited_for_no_longer() -> None:
    clock = 0.0
    stats = IngesterStats([PERSONS], clock=lambda: SteadyTime(clock))
    stats.started(PERSONS)
    clock = 1000
    stats.turned()
    assert stats.alive() is not None
    stats.stands(PERSONS, Standing.ELSEWHERE)
    assert stats.alive() is None


def test_an_executor_that_can_run_nothing_is_why_it_is_not_ready() -> None:
    world = World()
    world.commit(2)
    world.run(3)
    assert world.stats.ready() is None
    world.stats.executor("no executor is available")
    assert world.stats.ready() == "no executor is available"
    world.stats.executor(None)
    assert world.stats.ready() is None


def test_a_table_that_fails_again_and_again_is_why_it_is_not_ready_until_a_slice_of_it_comes_to_its_end() -> None:
    now = 0.0
    stats = IngesterStats([PERSONS], clock=lambda: SteadyTime(now))
    stats.connected(True)
    failed_slice = SliceResult(PERSONS, None, trouble=Trouble.UNEXPECTED)
    for now in (0.0, 30.0, 61.0):
        stats.turned()
        stats.stands(PERSONS, Standing.READ, behind=True)
        stats.settled(failed_slice)
        assert (stats.ready() is None) is (now <= FAILING_SECONDS)
    assert stats.ready() == "fails again and again; the log has the cause: dbo.Persons"
    stats.settled(replace(failed_slice, changes=1))
    assert stats.ready() is None
    for second in (62.0, 130.0):
        now = second
        stats.settled(failed_slice)
    assert stats.ready() is not None
    stats.stands(PERSONS, Standing.ELSEWHERE)
    assert stats.ready() is None


def test_a_table_that_has_failed_once_and_waits_for_its_next_turn_does_not_fail_again_and_again() -> None:
    """One that has rested, or is rarely polled, is tried again after minutes."""
    now = 0.0
    stats = IngesterStats([PERSONS], clock=lambda: SteadyTime(now))
    stats.connected(True)
    stats.stands(PERSONS, Standing.READ, behind=True)
    stats.settled(SliceResult(PERSONS, None, trouble=Trouble.UNEXPECTED))
    now = 600.0
    stats.turned()
    assert stats.ready() is None
    stats.settled(SliceResult(PERSONS, None, trouble=Trouble.UNEXPECTED))
    assert stats.ready() == "fails again and again; the log has the cause: dbo.Persons"


def _todo() -> Slice:
    return Slice(
        PERSONS, instance(), LogPosition.before(lsn(1)), LogPosition.end_of(lsn(1)), epoch=1, rows=2, seconds=1
    )


def test_stopped_tables_are_named_until_they_are_read_again_or_taken_out() -> None:
    many = [TableName("dbo", f"T{number}") for number in range(8)]
    stats = IngesterStats(many, clock=lambda: SteadyTime(0.0))
    stats.connected(True)
    for table in many:
        stats.stands(table, Standing.STOPPED)
    stopped = stats.ready() or ""
    assert stopped.endswith("dbo.T0, dbo.T1, dbo.T2, dbo.T3, dbo.T4 and 3 more")
    for table in many[:4]:
        stats.removed(table)
    for table in many[4:7]:
        stats.stands(table, Standing.READ)
    assert (stats.ready() or "").endswith(": dbo.T7")
    stats.removed(many[7])
    assert stats.ready() is None


def slowly(world: World, seconds: float) -> None:
    """The next probe is answered after so long."""
    probe = world.source.probe

    def late(requests: Any) -> Any:
        del world.source.__dict__["probe"]
        for _ in range(3):
            world.clock += seconds / 3
            world.snapshot.append(world.stats.ready())
        return probe(requests)

    world.source.__dict__["probe"] = late


def test_readiness_knows_a_server_that_has_fallen_silent_while_it_is_waited_for() -> None:
    world = World()
    world.at(20, lambda: slowly(world, 24.0))
    _, logs = world.run(100)
    early, *late = world.snapshot
    assert early is None
    assert ["SQL Server has not answered for" in (why or "") for why in late] == [True, True]
    assert world.stats.ready() is None
    [told] = [entry for entry in logs if entry["event"].startswith("SQL Server was slow to answer")]
    assert (told["log_level"], told["seconds"]) == ("warning", 24)


def test_a_loop_that_waits_for_its_tables_to_be_due_is_ready() -> None:
    world = World()
    world.run(40)
    world.clock += 30
    assert world.stats.ready() is None


def test_an_ingester_whose_patterns_match_no_table_is_ready_while_they_can_be_looked_up() -> None:
    stats = IngesterStats(())
    assert "starting" in (stats.ready() or "")
    stats.found(None)
    assert "starting" in (stats.ready() or "")  # Spark has not answered yet
    stats.turned()
    assert (stats.ready(), stats.figures().connected) == (None, True)
    stats.found("the catalog is locked")
    assert (stats.ready(), stats.figures().connected) == (
        "the tables that patterns match cannot be looked up: the catalog is locked",
        False,
    )
    stats.found(None)
    stats.stands(PERSONS, Standing.ELSEWHERE)
    assert "starting" in (stats.ready() or "")


def test_an_edit_that_cannot_be_used_is_named_until_the_file_is_in_force_again() -> None:
    stats = IngesterStats([PERSONS])
    stats.connected(True)
    stats.turned()
    assert stats.ready() is None
    stats.edited(ConfigurationError(["dstream.hcl:3: unknown key"]))
    assert stats.ready() == (
        "the configuration file cannot be used: dstream.hcl:3: unknown key "
        "(correct the file; the previous configuration stays in force)"
    )
    stats.edited(None)
    assert stats.ready() is None


def test_the_watch_of_the_file_notes_both_outcomes() -> None:
    stats, given = IngesterStats([PERSONS]), list[Any]()
    stats.connected(True)
    stats.turned()

    def watched(take: Callable[[Any], None], refused: Callable[[ConfigurationError], None]) -> Any:
        given.extend([take, refused])
        return nullcontext()

    taken: list[Any] = []
    with noted(watched, stats)(taken.append):
        take, refused = given
        refused(ConfigurationError(["dstream.hcl:3: unknown key"]))
        assert "unknown key" in str(stats.ready())
        take("settings")
    assert (taken, stats.ready()) == (["settings"], None)
