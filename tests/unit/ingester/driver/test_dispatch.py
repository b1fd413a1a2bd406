from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from common.clock import SteadyTime, UnixTime
from common.names import TableName
from ingester.driver.dispatch import BUNDLE_SIZE, DEATHS, Dispatcher, bundles, seconds_out
from ingester.executor import Begins, Early
from ingester.shape.in_force import ShapesInForce
from ingester.shape.mask import mask_of
from ingester.shape.table_shape import TableShape
from ingester.slices import Slice, SliceResult, Trouble, WorkerLost
from ingester.source import Part
from ingester.sqlserver.position import LogPosition
from ingester.task.drain import Drain
from tests.fakes.ingester import (
    ORDERS,
    PERSONS,
    FakeOffsets,
    FakeSender,
    FakeSource,
    ThreadExecutor,
    encoder,
    instance,
    lsn,
)


def slices(count: int) -> list[Slice]:
    return [
        Slice(PERSONS, instance(), LogPosition.before(lsn(1)), LogPosition.end_of(lsn(1)), epoch=n, rows=2, seconds=1)
        for n in range(count)
    ]


def test_few_tables_get_a_slot_each() -> None:
    todo = slices(3)
    assert bundles(todo, [], slots=8, running=0, running_backlogs=0) == ([[t] for t in todo], [])


def test_many_tables_share_the_free_slots_evenly() -> None:
    quick, _ = bundles(slices(100), [], slots=4, running=0, running_backlogs=0)
    assert [len(bundle) for bundle in quick] == [25, 25, 25, 25]


def test_a_bundle_never_grows_beyond_its_size() -> None:
    quick, _ = bundles(slices(1000), [], slots=2, running=0, running_backlogs=0)
    assert [len(bundle) for bundle in quick] == [BUNDLE_SIZE, BUNDLE_SIZE]


def test_backlogs_leave_one_slot_to_the_others() -> None:
    quick, lone = bundles(slices(1), slices(9), slots=4, running=0, running_backlogs=0)
    assert (len(quick), len(lone)) == (1, 3)
    quick, lone = bundles([], slices(9), slots=4, running=3, running_backlogs=3)
    assert (quick, lone) == ([], [])


def test_a_single_slot_still_serves_a_backlog() -> None:
    assert len(bundles([], slices(2), slots=1, running=0, running_backlogs=0)[1]) == 1


def test_quick_tables_and_backlogs_take_turns_in_a_single_slot() -> None:
    executor = ThreadExecutor(
        Drain(FakeSource(), FakeOffsets(), FakeSender(), encoder(), lambda: UnixTime(0.0)), slots=1
    )
    dispatcher = Dispatcher(executor, lambda todo: todo)
    quick, backlog = slices(2)
    for _ in range(3):
        dispatcher.add(quick, backlog=False)
        dispatcher.add(backlog, backlog=True)
    for _ in range(6):
        dispatcher.start()
        assert dispatcher.results(timeout=60)
        dispatcher.add(backlog, backlog=True)
        dispatcher.add(quick, backlog=False)
    dispatcher.close()
    kinds = ["backlog" if bundle == [backlog] else "quick" for bundle in executor.bundles]
    assert kinds == ["backlog", "quick"] * 3


def test_one_kind_alone_has_a_single_slot_whoever_had_it_last() -> None:
    todo = slices(1)
    for turn in (True, False):
        assert bundles([], todo, slots=1, running=0, running_backlogs=0, quick_next=turn) == ([], [todo])
        assert bundles(todo, [], slots=1, running=0, running_backlogs=0, quick_next=turn) == ([todo], [])


def test_nothing_starts_while_every_slot_is_taken() -> None:
    assert bundles(slices(2), slices(2), slots=2, running=2, running_backlogs=1) == ([], [])


def test_an_executor_that_breaks_gives_every_slice_back_as_failed() -> None:
    executor = ThreadExecutor(Drain(FakeSource(), FakeOffsets(), FakeSender(), encoder(), lambda: UnixTime(0.0)))
    executor.fail = RuntimeError("worker died")
    dispatcher = Dispatcher(executor, lambda todo: todo)
    for todo in slices(1):
        dispatcher.add(todo, backlog=False)
    dispatcher.start()
    results = dispatcher.results(timeout=5)
    dispatcher.close()
    [result] = results
    assert result.trouble is Trouble.UNEXPECTED
    assert result.message.startswith("RuntimeError, raised in run, ingester.py line "), "its text may quote a row"
    assert dispatcher.running == 0


class Hanging:
    """An executor whose bundles end when the test wants; `told` has each bundle's callback for early results."""

    slots = 2

    def __init__(self) -> None:
        self.end: dict[int, threading.Event] = {}
        self.told: dict[int, Early] = {}
        self.begins: dict[int, Begins] = {}
        self.waiting = False
        self.apart: set[int] = set()
        self.given_up: list[int] = []
        self.called, self.asked = threading.Semaphore(0), threading.Semaphore(0)

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early, begins: Begins) -> Sequence[SliceResult]:
        self.end[number], self.told[number], self.begins[number] = threading.Event(), early, begins
        self.called.release()
        assert self.end[number].wait(60)
        return [done(todo.table) for todo in bundle]

    def waits(self, number: int) -> bool:
        return self.waiting

    def aside(self, number: int) -> bool:
        return number in self.apart

    def give_up(self, number: int) -> None:
        self.given_up.append(number)
        self.asked.release()

    def check(self) -> str | None:
        return None

    def finish(self) -> None: ...

    def cancel(self) -> bool:
        return True

    def close(self) -> None: ...


def done(table: TableName) -> SliceResult:
    return SliceResult(table, LogPosition.end_of(lsn(1)))


class Hung:
    """A dispatcher on a clock of its own, with `Hanging` below it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.executor = Hanging()
        self.stamps: list[TableName] = []
        self.dispatcher = Dispatcher(self.executor, self._stamped, clock=lambda: SteadyTime(self.now))

    def _stamped(self, todo: Slice) -> Slice:
        self.stamps.append(todo.table)
        return todo

    def start(self, *tables: TableName, backlog: bool = False) -> int:
        """One bundle with these; its number."""
        for table in tables:
            self.dispatcher.add(replace(slices(1)[0], table=table), backlog=backlog)
        self.dispatcher.start()
        assert self.executor.called.acquire(timeout=60)
        return max(self.executor.end)


def test_a_finished_slice_does_not_wait_for_a_slow_neighbour() -> None:
    hung = Hung()
    hung.start(PERSONS, backlog=True)
    number = hung.start(PERSONS, ORDERS)
    hung.executor.told[number](done(ORDERS))
    assert [result.table for result in hung.dispatcher.results(60)] == [ORDERS]
    hung.executor.end[number].set()
    assert [result.table for result in hung.dispatcher.results(60)] == [PERSONS]


def test_a_bundle_that_does_not_come_back_is_given_up_and_its_slot_is_free_again() -> None:
    hung = Hung()
    number = hung.start(PERSONS, backlog=True)
    assert (hung.dispatcher.running, hung.dispatcher.room) == (1, 0)
    hung.now = seconds_out(slices(1)[0]) - 1
    assert hung.dispatcher.results(0) == []
    hung.now += 1
    with capture_logs() as logs:
        results = hung.dispatcher.results(0)
    assert [(result.table, result.trouble) for result in results] == [(PERSONS, Trouble.OVERDUE)]
    [told] = logs
    assert (told["log_level"], told["tables"], told["seconds"]) == ("error", ["dbo.Persons"], 151)
    assert hung.executor.asked.acquire(timeout=60)
    assert hung.executor.given_up == [number]
    assert (hung.dispatcher.running, hung.dispatcher.room) == (0, 1)


def late(hung: Hung, seconds: int) -> list[str | None]:
    """What is said in each of so many turns of a second."""
    said = []
    for _ in range(seconds):
        hung.now += 1
        said.append(hung.dispatcher.late())
    return said


def test_tables_whose_worker_stands_still_are_named_before_they_are_given_up_and_once() -> None:
    """Pages that stay green and a log without a line leave whoever looks at three in the morning without a trace."""
    hung = Hung()
    number = hung.start(PERSONS, backlog=True)
    other = hung.start(ORDERS)
    with capture_logs() as logs:
        assert late(hung, 61) == [None] * 61
        said = late(hung, 5)
    assert (said[0] or "").startswith("no result of dbo.Persons and 1 others for 62 s (Service Bus or SQL Server")
    [told] = logs
    assert (told["event"], told["log_level"]) == ("slices do not come back", "error")
    assert told["tables"] == ["dbo.Persons", "sales.Orders"]
    assert "worker is stuck" in told["hint"]
    hung.executor.end[number].set()
    hung.executor.end[other].set()
    while hung.dispatcher.running:
        hung.dispatcher.results(60)
    with capture_logs() as logs:
        assert late(hung, 2) == [None, None]
    assert [entry["event"] for entry in logs] == ["slices come back again"]


def test_tables_that_were_given_up_are_not_said_to_come_back() -> None:
    hung = Hung()
    hung.start(PERSONS, backlog=True)
    with capture_logs() as logs:
        late(hung, 65)
        hung.now = 1000
        assert hung.dispatcher.results(0)
        assert hung.dispatcher.late() is None
    assert [entry["event"] for entry in logs] == [
        "slices do not come back",
        "slices did not come back in time, given up",
    ]


def test_a_bundle_is_not_late_while_its_tables_come_back_one_by_one_nor_before_a_worker_has_had_time_to_begin() -> None:
    hung = Hung()
    aside = hung.start(PERSONS, backlog=True)
    two = hung.start(PERSONS, ORDERS)
    hung.executor.apart = {aside}
    assert late(hung, 50) == [None] * 50
    hung.executor.told[two](done(ORDERS))
    assert hung.dispatcher.results(60)
    assert late(hung, 50) == [None] * 50
    hung.executor.waiting = True
    assert late(hung, 50) == [None] * 50
    hung.executor.waiting = False
    assert late(hung, 50) == [None] * 50, "a cold worker begins some seconds after it was chosen"
    hung.executor.begins[two]()
    assert late(hung, 61) == [None] * 61
    assert hung.dispatcher.late() is None
    assert late(hung, 1) != [None]


def test_nobody_is_late_because_this_process_stood_still() -> None:
    hung = Hung()
    hung.start(PERSONS, backlog=True)
    hung.now = 120
    assert late(hung, 20) == [None] * 20


def test_a_bundle_that_no_executor_has_taken_is_not_given_up_and_has_its_time_from_when_it_begins() -> None:
    hung = Hung()
    out = seconds_out(slices(1)[0])
    hung.executor.waiting = True
    number = hung.start(PERSONS)
    assert hung.dispatcher.begun == 0
    hung.now = 10 * out
    assert hung.dispatcher.results(0) == []
    hung.executor.waiting = False
    begun = hung.executor.begins[number]()
    assert begun is not None
    assert [todo.table for todo in begun] == [PERSONS]
    assert hung.dispatcher.begun == 1
    hung.now += out - 1
    assert hung.dispatcher.results(0) == []
    hung.now += 1
    assert [result.trouble for result in hung.dispatcher.results(0)] == [Trouble.OVERDUE]
    assert hung.executor.begins[number]() is None, "its tables may be read elsewhere by now"


def test_a_slice_that_came_back_gets_no_time_when_spark_runs_its_lost_task_again() -> None:
    hung = Hung()
    hung.start(PERSONS, backlog=True)
    number = hung.start(PERSONS, ORDERS)
    hung.executor.told[number](done(ORDERS))
    hung.stamps.clear()
    again = hung.executor.begins[number]()
    assert again is not None
    times = {todo.table: (todo.send_before, todo.lease_seconds) for todo in again}
    assert times == {PERSONS: (None, None), ORDERS: (0.0, 0.0)}, "its next slice may be out, or its lock elsewhere"
    assert hung.stamps == [PERSONS], "nor does it count as out"


def test_a_slice_that_waited_or_whose_lost_task_is_run_again_begins_with_the_shape_that_holds_then() -> None:
    shapes = ShapesInForce({})
    executor = Hanging()
    dispatcher = Dispatcher(executor, lambda todo: replace(todo, shape=shapes.of(todo.table)))
    dispatcher.add(slices(1)[0], backlog=False)
    dispatcher.start()
    assert executor.called.acquire(timeout=60)
    for mask in ("redact", "null"):
        shape = TableShape(masks=(("Email", mask_of(mask)),))
        shapes.take({PERSONS: shape})
        begun = executor.begins[0]()
        assert begun is not None
        assert [todo.shape for todo in begun] == [shape]
    executor.end[0].set()
    dispatcher.close()


def test_a_slice_that_waits_for_an_executor_does_not_count_as_long_out() -> None:
    hung = Hung()
    hung.executor.waiting = True
    hung.start(PERSONS)
    for hung.now in (100.0, 200.0, 300.0):
        hung.stamps.clear()
        hung.dispatcher.results(0)
    assert hung.stamps == [PERSONS]


def test_a_bundle_whose_worker_begins_without_a_word_has_half_a_minute_from_when_that_is_seen() -> None:
    hung = Hung()
    hung.executor.waiting = True
    hung.start(PERSONS)
    hung.now = 1000
    assert hung.dispatcher.results(0) == []
    hung.executor.waiting = False
    hung.now += 29
    assert hung.dispatcher.results(0) == []
    hung.now += 1
    assert [result.trouble for result in hung.dispatcher.results(0)] == [Trouble.OVERDUE]


def test_what_a_bundle_says_after_it_was_given_up_is_not_heard() -> None:
    hung = Hung()
    first = hung.start(PERSONS)
    hung.now = 1000
    assert len(hung.dispatcher.results(0)) == 1
    second = hung.start(PERSONS)
    assert second != first
    hung.executor.told[first](done(PERSONS))
    hung.executor.end[first].set()
    assert hung.dispatcher.results(0.2) == []
    assert hung.dispatcher.running == 1
    hung.executor.end[second].set()
    heard: list[SliceResult] = []
    while not heard:  # what the first one says may come only now, and is passed over
        heard = hung.dispatcher.results(60)
    assert [(result.table, result.trouble) for result in heard] == [(PERSONS, None)]
    assert hung.dispatcher.running == 0


def test_hung_backlogs_do_not_keep_backlogs_from_being_read_for_ever() -> None:
    hung = Hung()
    for turn in range(5):
        hung.start(PERSONS, backlog=True)
        hung.now += 1000
        assert [result.trouble for result in hung.dispatcher.results(0)] == [Trouble.OVERDUE], turn
    last = hung.start(PERSONS, backlog=True)
    hung.executor.end[last].set()
    assert [result.trouble for result in hung.dispatcher.results(60)] == [None]


def test_of_a_bundle_that_is_given_up_only_what_was_not_heard_fails() -> None:
    hung = Hung()
    hung.start(PERSONS, backlog=True)
    number = hung.start(PERSONS, ORDERS)
    hung.executor.told[number](done(ORDERS))
    assert [result.table for result in hung.dispatcher.results(60)] == [ORDERS]
    hung.now = 1000
    assert [result.table for result in hung.dispatcher.results(0)] == [PERSONS, PERSONS]


@pytest.mark.parametrize(("lease", "out"), [(None, 151), (12.0, 42), (0.0, 30)])
def test_a_slice_is_due_back_soon_after_its_lease_or_when_a_statement_must_have_ended(
    lease: float | None, out: float
) -> None:
    assert seconds_out(replace(slices(1)[0], lease_seconds=lease)) == out


def test_an_end_does_not_wait_for_what_hangs() -> None:
    hung = Hung()
    hung.start(PERSONS)
    hung.dispatcher.close()
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "bundle")


class Deadly(ThreadExecutor):
    """Its worker dies of the table `deadly`, whatever else is in the bundle."""

    deadly: TableName | None = PERSONS

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early, begins: Begins) -> Sequence[SliceResult]:
        self.bundles.append(list(bundle))
        if any(todo.table == self.deadly for todo in bundle):
            raise WorkerLost("running a Spark task: Python worker exited unexpectedly (crashed)")
        return [done(todo.table) for todo in bundle]


class Dying:
    """A dispatcher over one slot's worth of quick tables, `Deadly` below it."""

    def __init__(self) -> None:
        self.executor = Deadly(
            Drain(FakeSource(), FakeOffsets(), FakeSender(), encoder(), lambda: UnixTime(0.0)), slots=1
        )
        self.dispatcher = Dispatcher(self.executor, lambda todo: todo)

    def turn(self, *tables: TableName, part: Part | None = None) -> dict[TableName, Trouble | None]:
        """All of `tables`, each looked at once: what came of them."""
        for table in tables:
            self.dispatcher.add(replace(slices(1)[0], table=table, part=part), backlog=False)
        heard: list[SliceResult] = []
        while len(heard) < len(tables):
            self.dispatcher.start()
            heard += self.dispatcher.results(60)
        return {result.table: result.trouble for result in heard}

    @property
    def bundles(self) -> list[list[TableName]]:
        return [[todo.table for todo in bundle] for bundle in self.executor.bundles]


def test_tables_whose_worker_died_have_one_each_until_they_come_back() -> None:
    dying = Dying()
    assert dying.turn(PERSONS, ORDERS) == {PERSONS: Trouble.WORKER_LOST, ORDERS: Trouble.WORKER_LOST}
    assert dying.turn(PERSONS, ORDERS) == {PERSONS: Trouble.WORKER_LOST, ORDERS: None}
    assert dying.bundles == [[PERSONS, ORDERS], [PERSONS], [ORDERS]]
    dying.executor.deadly = None
    assert dying.turn(PERSONS, ORDERS) == {PERSONS: None, ORDERS: None}
    dying.turn(PERSONS, ORDERS)
    assert dying.bundles[-1] == [PERSONS, ORDERS], "who came back has neighbours again"


def test_a_table_that_alone_kills_one_worker_after_the_other_is_told_from_bad_luck() -> None:
    dying = Dying()
    dying.turn(PERSONS, ORDERS)
    troubles = [dying.turn(PERSONS)[PERSONS] for _ in range(DEATHS)]
    assert troubles == [*[Trouble.WORKER_LOST] * (DEATHS - 1), Trouble.KILLS_WORKER]


def test_a_part_of_a_stride_says_nothing_of_its_table() -> None:
    dying = Dying()
    troubles = [dying.turn(PERSONS, part=Part(1, 0, 2, ("ID",), 9))[PERSONS] for _ in range(2 * DEATHS)]
    assert set(troubles) == {Trouble.WORKER_LOST}


def test_a_signal_that_takes_longer_than_a_wait_does_not_make_it_endless() -> None:
    """As a stop's, or the one that writes the stacks: up to Python 3.12, `SimpleQueue.get` waits for ever after it."""
    executor = ThreadExecutor(
        Drain(FakeSource(), FakeOffsets(), FakeSender(), encoder(), lambda: UnixTime(0.0)), slots=1
    )
    dispatcher = Dispatcher(executor, lambda todo: todo)
    handled: list[int] = []

    def handle(number: int, frame: object) -> None:
        time.sleep(0.4)
        handled.append(number)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        while not handled:
            assert dispatcher.results(timeout=0.3) == []
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_runs_aside_takes_no_slot_and_does_not_let_backlogs_take_all_of_them() -> None:
    hung = Hung()
    quick, backlog = hung.start(PERSONS), hung.start(ORDERS, backlog=True)
    assert hung.dispatcher.room == 0
    assert hung.dispatcher.occupied == 2
    hung.executor.apart = {quick, backlog}
    assert (hung.dispatcher.running, hung.dispatcher.occupied, hung.dispatcher.room) == (2, 0, 1)
    third, fourth = (TableName("dbo", name) for name in ("Third", "Fourth"))
    hung.dispatcher.add(replace(slices(1)[0], table=third), backlog=True)
    hung.dispatcher.add(replace(slices(1)[0], table=fourth), backlog=True)
    hung.dispatcher.start()
    assert hung.dispatcher.occupied == 1, "one slot stays for the other tables"
    hung.start(TableName("dbo", "Quick"))
    assert (hung.dispatcher.running, hung.dispatcher.occupied) == (4, 2)
    hung.dispatcher.close()
    for end in hung.executor.end.values():
        end.set()
