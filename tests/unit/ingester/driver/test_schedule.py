from __future__ import annotations

import heapq
import math
from itertools import pairwise
from random import Random

import pytest

from common.clock import SteadyTime
from common.names import TableName
from ingester.driver.schedule import Portion, Rhythm, Schedule, TableOutcome, next_interval
from tests.fakes.ingester import ORDERS, PERSONS

RHYTHM = Rhythm(5.0, 60.0)


def test_an_idle_table_is_looked_at_half_as_often_each_time_down_to_the_slowest() -> None:
    intervals, last = [], 0.0
    for _ in range(6):
        last = next_interval(RHYTHM, last, TableOutcome.IDLE)
        intervals.append(last)
    assert intervals == [5, 10, 20, 40, 60, 60]


@pytest.mark.parametrize("last", [0.0, 5.0, 60.0])
def test_after_a_change_the_shortest_interval_holds_again(last: float) -> None:
    assert next_interval(RHYTHM, last, TableOutcome.CHANGED) == 5


def test_a_table_with_more_is_due_at_once() -> None:
    assert next_interval(RHYTHM, 60, TableOutcome.MORE) == 0


def test_failures_back_off_like_idleness() -> None:
    assert next_interval(RHYTHM, 10, TableOutcome.FAILED) == 20


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_jitter_never_makes_an_active_table_wait_longer_than_its_interval(chance: float) -> None:
    schedule = Schedule(lambda: chance)
    schedule.add(PERSONS, RHYTHM, now=0)
    schedule.take(100)
    schedule.put(PERSONS, TableOutcome.CHANGED, now=100)
    due = schedule.next_due()
    assert due is not None
    assert 104.5 <= due <= 105


def test_the_time_that_changes_take_to_be_sent_delays_no_later_look() -> None:
    schedule = Schedule(lambda: 0.0)
    schedule.add(PERSONS, RHYTHM, now=0)
    for looked in (0.0, 5.0, 10.0):
        assert schedule.take(looked) == [PERSONS]
        schedule.put(PERSONS, TableOutcome.CHANGED, now=looked + 2)
        assert schedule.next_due() == looked + 5


def test_a_table_whose_changes_took_longer_than_its_interval_is_due_at_once_and_not_before() -> None:
    schedule = Schedule(lambda: 0.0)
    schedule.add(PERSONS, RHYTHM, now=0)
    schedule.take(0)
    schedule.put(PERSONS, TableOutcome.CHANGED, now=12)
    assert schedule.next_due() == 12


def test_a_table_that_is_soon_due_is_taken_along_with_one_that_is_due() -> None:
    schedule = Schedule(lambda: 0.0)
    schedule.add(PERSONS, RHYTHM, now=0)
    schedule.add(ORDERS, RHYTHM, now=0.1)
    assert schedule.take(0, ahead=0.05) == [PERSONS]
    schedule.put(PERSONS, TableOutcome.IDLE, now=0)
    assert schedule.take(0.05, ahead=0.1) == []  # nothing is due, so nothing waits or is early
    schedule.pace(PERSONS, RHYTHM, now=0.15)
    assert schedule.take(0.15, ahead=0.1) == [PERSONS, ORDERS]


def test_tables_that_failed_together_come_back_spread_out() -> None:
    chances = iter((0.0, 0.999))
    schedule = Schedule(lambda: next(chances))
    for table in (PERSONS, ORDERS):
        schedule.add(table, Rhythm(10.0, 60.0), now=0)
    for table in schedule.take(0):
        schedule.put(table, TableOutcome.FAILED, now=0)
    assert schedule.take(5.1) == [ORDERS]
    assert schedule.take(9.9) == []
    assert schedule.take(10) == [PERSONS]


def test_a_table_that_has_rested_is_tried_again_soon_after_a_failure_and_then_ever_more_rarely() -> None:
    schedule = Schedule(lambda: 0.0)
    schedule.add(PERSONS, Rhythm(5, 600), now=0)
    now = 0.0
    for _ in range(9):
        assert schedule.take(now) == [PERSONS]
        schedule.put(PERSONS, TableOutcome.IDLE, now)
        now = schedule.next_due() or 0.0
    schedule.take(now)
    schedule.put(PERSONS, TableOutcome.LOCKED, now)
    now = schedule.next_due() or 0.0
    rests = []
    for _ in range(4):
        assert schedule.take(now) == [PERSONS]
        schedule.put(PERSONS, TableOutcome.FAILED, now)
        before, now = now, schedule.next_due() or 0.0
        rests.append(now - before)
    assert rests == [5, 10, 20, 40]


def test_a_table_handed_out_is_not_due_until_it_comes_back() -> None:
    schedule = Schedule(lambda: 0.0)
    schedule.add(PERSONS, RHYTHM, now=0)
    schedule.add(ORDERS, RHYTHM, now=0)
    assert schedule.take(0) == [PERSONS, ORDERS]
    assert schedule.take(1000) == []
    schedule.put(ORDERS, TableOutcome.IDLE, now=1000)
    assert schedule.take(1004) == []
    assert schedule.take(1005) == [ORDERS]


def test_a_table_that_is_hurried_is_due_now_and_once() -> None:
    schedule = Schedule(lambda: 0.0)
    for table in (PERSONS, ORDERS):
        schedule.add(table, RHYTHM, 0.0)
    assert schedule.take(0.0) == [PERSONS, ORDERS]
    schedule.put(PERSONS, TableOutcome.LOCKED, 0.0)
    schedule.hurry(PERSONS, 1.0)
    schedule.hurry(ORDERS, 1.0)  # it is out: it comes back by itself
    assert schedule.take(1.0) == [PERSONS]
    assert schedule.next_due() is None


def test_another_rhythm_makes_a_waiting_table_due_and_leaves_one_that_is_out() -> None:
    schedule = Schedule(lambda: 0.0)
    for table in (PERSONS, ORDERS):
        schedule.add(table, RHYTHM, now=0)
    schedule.take(0)
    schedule.put(PERSONS, TableOutcome.IDLE, now=0)
    for table in (PERSONS, ORDERS):
        schedule.pace(table, Rhythm(1.0, 2.0), now=1)
    assert schedule.take(1) == [PERSONS]
    schedule.put(ORDERS, TableOutcome.IDLE, now=1)
    assert schedule.next_due() == 2


def test_a_table_is_forgotten_and_whether_it_was_waiting_is_told() -> None:
    schedule = Schedule(lambda: 0.0)
    for table in (PERSONS, ORDERS):
        schedule.add(table, RHYTHM, now=0)
    assert schedule.remove(PERSONS)
    assert schedule.take(0) == [ORDERS]
    assert not schedule.remove(ORDERS)
    assert schedule.next_due() is None


MANY = [TableName("dbo", f"T{number}") for number in range(1000)]


class _CountedHeap:
    """`heapq`, and how many entries each heap had that was built."""

    def __init__(self) -> None:
        self.built: list[int] = []
        self.heappush, self.heappop, self._heapify = heapq.heappush, heapq.heappop, heapq.heapify

    def heapify(self, entries: list[tuple[float, int, TableName]]) -> None:
        self.built.append(len(entries))
        self._heapify(entries)


def many(monkeypatch: pytest.MonkeyPatch) -> tuple[Schedule, _CountedHeap]:
    """A schedule of a thousand tables that were all put back at 0, and the work on its heap from then on."""
    schedule = Schedule(lambda: 0.0)
    for table in MANY:
        schedule.add(table, RHYTHM, now=0)
    for table in schedule.take(0):
        schedule.put(table, TableOutcome.IDLE, now=0)
    heap = _CountedHeap()
    monkeypatch.setattr("ingester.driver.schedule.heapq", heap)
    return schedule, heap


def test_hurrying_pacing_and_removing_each_of_many_tables_hardly_ever_builds_the_heap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schedule, heap = many(monkeypatch)
    for table in MANY:
        schedule.hurry(table, 1)
        schedule.pace(table, Rhythm(1.0, 2.0), 2)
    for table in MANY[10:]:
        schedule.remove(table)
    assert len(heap.built) <= 3
    assert schedule.take(2) == MANY[:10]
    assert schedule.next_due() is None


def test_a_table_that_is_hurried_for_ever_leaves_no_heap_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule, heap = many(monkeypatch)
    for now in range(20_000):
        schedule.hurry(MANY[0], now)
    assert len(heap.built) <= 20
    assert len(schedule._resting._due) <= 3 * len(MANY)


def test_a_table_that_was_removed_and_added_again_is_due_as_added() -> None:
    schedule = Schedule(lambda: 0.0)
    schedule.add(PERSONS, RHYTHM, now=0)
    schedule.take(0)
    schedule.put(PERSONS, TableOutcome.IDLE, now=0)
    schedule.remove(PERSONS)
    schedule.add(PERSONS, RHYTHM, now=100)
    assert schedule.next_due() == 100
    assert schedule.take(200) == [PERSONS]
    assert schedule.take(200) == []


def busy_beside_idle(count: int) -> tuple[Schedule, list[TableName]]:
    """PERSONS changes all the time, and is due at 5; `count` others rest, and are due just before."""
    schedule, idle = Schedule(lambda: 0.0), [TableName("dbo", f"Idle{number}") for number in range(count)]
    for table in (PERSONS, *idle):
        schedule.add(table, RHYTHM, 0.0)
    schedule.take(0.0)
    schedule.put(PERSONS, TableOutcome.CHANGED, now=0.0)
    for table in idle:
        schedule.put(table, TableOutcome.IDLE, now=-0.1)
    return schedule, idle


def test_a_table_that_changes_waits_for_no_table_that_rests() -> None:
    schedule, idle = busy_beside_idle(3)
    assert schedule.take(5.0, ahead=0.1, most=2) == [PERSONS]
    assert schedule.take(5.0, most=2) == []  # it is read
    assert schedule.wait(5.0, most=1) == pytest.approx(0.4)
    schedule.put(PERSONS, TableOutcome.CHANGED, now=5.1)
    assert schedule.take(5.1, most=2) == idle[:2]
    assert schedule.take(5.1, most=2) == idle[2:]


def test_no_pass_over_tables_that_rest_begins_just_before_one_that_changes_is_due() -> None:
    """It took up to a twentieth of a second, and the change waited for its end."""
    schedule, idle = busy_beside_idle(3)
    schedule.hurry(idle[0], 4.96)
    assert schedule.take(4.96, most=2) == []
    assert schedule.wait(4.96, most=1) == pytest.approx(0.04)
    assert schedule.take(5.0, most=2) == [PERSONS]
    schedule.put(PERSONS, TableOutcome.CHANGED, now=5.0)
    assert (schedule.wait(5.0, most=1), schedule.take(5.0, most=2)) == (0, idle[:2])


def test_tables_that_rest_have_their_turn_however_soon_another_is_always_due() -> None:
    schedule, idle = busy_beside_idle(1)
    schedule.pace(PERSONS, Rhythm(0.02, 1.0), 4.0)
    now = 4.0
    while idle[0] not in (taken := schedule.take(now)):
        for table in taken:
            schedule.put(table, TableOutcome.CHANGED, now)
        wait = schedule.wait(now, most=1.0)
        assert wait > 0
        now += wait
    assert now == pytest.approx(4.9 + 0.5, abs=0.02)


def test_a_table_that_is_read_for_long_holds_up_nobody() -> None:
    """Its slice may hang, or have a backlog."""
    schedule, idle = busy_beside_idle(1)
    assert schedule.take(5.0) == [PERSONS]
    assert schedule.take(5.4) == idle
    schedule.put(idle[0], TableOutcome.IDLE, now=5.5)
    schedule.hurry(idle[0], 5.6)
    assert (schedule.wait(5.6, most=1.0), schedule.take(5.6)) == (0.0, idle)


def test_a_table_that_rests_waits_no_longer_than_its_poll_interval_for_others() -> None:
    schedule, idle = busy_beside_idle(1)
    schedule.pace(idle[0], Rhythm(0.1, 0.2), 0.0)
    assert schedule.take(0.0) == idle
    schedule.put(idle[0], TableOutcome.IDLE, now=4.85)
    assert schedule.take(5.0) == [PERSONS]
    assert schedule.wait(5.0, most=1) == pytest.approx(0.05)
    assert schedule.take(5.04) == []
    assert schedule.take(5.06) == idle


def test_beside_a_table_that_is_due_or_read_few_others_are_looked_at_until_they_have_waited_for_long() -> None:
    """A server that answers one question at a time would let the change wait."""
    schedule, idle = busy_beside_idle(12)
    assert schedule.take(5.39, most=6) == [PERSONS]
    assert schedule.take(5.41, most=6) == idle[:2]
    assert schedule.take(5.91, most=6) == idle[2:8]
    schedule, idle = busy_beside_idle(12)
    assert schedule.take(5.41, most=6) == [PERSONS, *idle[:2]]


def test_a_table_that_rests_and_is_made_due_waits_less_beside_one_that_is_read() -> None:
    """Changes of it may have been captured."""
    schedule, idle = busy_beside_idle(2)
    schedule.pace(idle[1], Rhythm(60.0, 60.0), 0.0)
    assert schedule.take(0.0) == [idle[1]]
    schedule.put(idle[1], TableOutcome.IDLE, now=0.0)
    assert schedule.take(5.0, most=3) == [PERSONS]
    schedule.hurry(idle[1], 5.0)
    assert schedule.take(5.04, most=3) == []
    assert schedule.take(5.06, most=3) == [idle[1]]


def test_without_tables_that_change_all_are_looked_at_together() -> None:
    schedule, idle = busy_beside_idle(3)
    schedule.remove(PERSONS)
    assert schedule.take(5.0, ahead=0.1, most=2) == idle


def check_sizes(*passes: tuple[int, float, int]) -> None:
    """Of passes over so many tables, which took so many seconds: the size of the next."""
    now = 0.0
    portion = Portion(lambda: SteadyTime(now))
    for tables, seconds, size in passes:
        with portion.of(tables):
            now += seconds
        assert portion.size == size


def test_a_pass_over_tables_that_rest_is_as_large_as_the_last_one_was_quick() -> None:
    check_sizes((1000, 1.0, 50), (50, 0.1, 32), (32, 0.01, 64), (500, 0.25, 100))


def test_a_long_way_to_the_server_makes_no_pass_smaller() -> None:
    one_long_trip = (1, 3.0, 100)  # a wait for something else
    check_sizes(*[(1, 2.0, 128)] * 4, (1000, 2.04, 1250), (1000, 2.5, 100), one_long_trip, (1000, 2.5, 100))


def test_one_quick_pass_over_few_tables_makes_none_over_all_of_them() -> None:
    """A pass over a thousand tables kept a change waiting for half a second, after one over fifty had been within its time."""
    check_sizes((45, 0.03, 75), (75, 0.06, 62), (62, 0.0001, 124))


def test_a_pass_over_a_part_takes_nothing_from_what_larger_ones_have_shown() -> None:
    check_sizes((1000, 0.05, 1000), (333, 0.01, 1000), (111, 0.004, 1000), (111, 0.1, 55))


def test_it_is_quiet_until_the_next_table_that_changes_is_due() -> None:
    schedule, idle = busy_beside_idle(2)
    assert schedule.quiet(idle, 3.0) == 2.0
    assert schedule.quiet([PERSONS, *idle], 3.0) == 0
    assert schedule.take(5.0)[0] == PERSONS
    assert schedule.quiet(idle, 5.0) == 0, "its changes are on their way"
    schedule.remove(PERSONS)
    assert schedule.quiet(idle, 5.0) == math.inf


@pytest.mark.parametrize("outcome", TableOutcome)
def test_all_tables_are_hurried_but_for_those_that_back_off(outcome: TableOutcome) -> None:
    schedule = Schedule(chance=lambda: 0.0)
    schedule.add(ORDERS, RHYTHM, 0.0)
    assert schedule.take(0.0) == [ORDERS]
    schedule.put(ORDERS, outcome, 0.0)
    schedule.hurry_all(0.5)
    backs_off = outcome in (TableOutcome.FAILED, TableOutcome.LOCKED, TableOutcome.DEADLY)
    assert schedule.take(0.5) == ([] if backs_off else [ORDERS])


def test_a_table_that_has_recovered_is_hurried_again() -> None:
    schedule = Schedule(chance=lambda: 0.0)
    schedule.add(ORDERS, RHYTHM, 0.0)
    for now, outcome in ((0.0, TableOutcome.FAILED), (100.0, TableOutcome.IDLE)):
        assert schedule.take(now) == [ORDERS]
        schedule.put(ORDERS, outcome, now)
    schedule.hurry_all(101.0)
    assert schedule.take(101.0) == [ORDERS]


def test_a_table_that_is_hurried_again_and_again_keeps_its_turn() -> None:
    """Beside tables that change all the time, those that rest are looked at once they have waited for long."""
    schedule, idle = busy_beside_idle(1)
    for tenth in range(60, 80):
        now = tenth / 10
        schedule.hurry_all(now)
        taken = schedule.take(now)
        if idle[0] in taken:
            break
        for table in taken:
            schedule.put(table, TableOutcome.CHANGED, now)
    else:
        pytest.fail("it never had its turn")


def _looks(
    schedule: Schedule, seconds: float, *, ahead: float, takes: float = 0.05
) -> tuple[list[float], dict[TableName, list[float]]]:
    """When idle tables are looked at, and when each is, for so many seconds from 1000 on; a look at all takes `takes`."""
    passes, of = [], dict[TableName, list[float]]()
    now = 1000.0
    while (due := schedule.next_due()) is not None and due < 1000 + seconds:
        now = max(now, due)
        taken = schedule.take(now, ahead=ahead)
        passes.append(now)
        for number, table in enumerate(taken, 1):
            of.setdefault(table, []).append(now)
            schedule.put(table, TableOutcome.IDLE, now + takes * number / len(taken))
        now += takes
    return passes, of


def _gaps(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


@pytest.mark.parametrize("takes", [0.0, 0.05, 0.2])
def test_idle_tables_come_together_and_one_question_is_about_all_of_them(takes: float) -> None:
    chance = Random(7)
    schedule = Schedule(chance.random)
    tables = [TableName("dbo", f"T{number}") for number in range(500)]
    for table in tables:
        schedule.add(table, Rhythm(5.0, 5.0), now=1000 + 5 * chance.random())
    passes, of = _looks(schedule, 200, ahead=0.1, takes=takes)
    assert sum(at > 1100 for at in passes) <= 100 / 4.5 + 1
    assert of.keys() == set(tables)
    gaps = [gap for times in of.values() for gap in _gaps(times)]
    assert min(gaps) >= 4.5 - 0.1 - 1e-6
    assert max(gaps) <= 5 + takes + 1e-6


def test_idle_tables_of_many_intervals_are_never_late_and_at_most_a_tenth_early() -> None:
    chance = Random(8)
    schedule = Schedule(chance.random)
    slowest = {TableName("dbo", f"T{number}"): 1.0 + number % 60 for number in range(300)}
    for table, most in slowest.items():
        schedule.add(table, Rhythm(most, most), now=1000 + most * chance.random())
    _, of = _looks(schedule, 300, ahead=0.1, takes=0.01)
    for table, most in slowest.items():
        for gap in _gaps(of[table]):
            assert most * 0.9 - 0.1 - 1e-6 <= gap <= most + 0.01 + 1e-6


def test_idle_tables_stay_apart_while_another_one_changes() -> None:
    schedule = Schedule(lambda: 0.0)
    active = TableName("dbo", "Active")
    for table in (active, PERSONS):
        schedule.add(table, Rhythm(5.0, 5.0), now=0.3)
    schedule.take(0.3)
    schedule.put(active, TableOutcome.CHANGED, now=0.3)
    schedule.put(PERSONS, TableOutcome.IDLE, now=0.3)
    assert schedule.take(5.3) == [active]
    schedule.put(active, TableOutcome.IDLE, now=5.3)
    assert schedule.take(5.3) == [PERSONS]
    schedule.put(PERSONS, TableOutcome.IDLE, now=5.3)
    assert schedule.next_due() == 10


def test_of_thousands_of_idle_tables_a_thousand_are_looked_at_together() -> None:
    schedule = Schedule(lambda: 0.0)
    for number in range(2500):
        schedule.add(TableName("dbo", f"T{number}"), RHYTHM, now=0)
    sizes = [len(schedule.take(0, ahead=0.1)) for _ in range(4)]
    assert sizes == [1000, 1000, 500, 0]
