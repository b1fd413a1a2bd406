"""Which bundles run where while Spark starts, and what its failure ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from common.errors import PermanentError, TransientError
from ingester.executor import Begins, Early
from ingester.slices import Slice, SliceResult, WorkerLost
from ingester.source import Part
from ingester.spark.capacity import FEWEST_SLOTS
from ingester.spark.first.hand_over import HandOver
from ingester.sqlserver.position import LogPosition
from tests.fakes.ingester import PERSONS, instance, lsn

TODO = Slice(PERSONS, instance(), LogPosition.before(lsn(1)), LogPosition.end_of(lsn(1)), epoch=1, rows=2, seconds=30)
PART = Part(1, 0, of=2, columns=("ID",), rows=10)
PATIENCE = 60.0


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class First:
    """Bundles there end when they are let go."""

    def __init__(self) -> None:
        self.ended: str | None = None
        self.watched = False
        self.ran: list[Slice] = []
        self.did: list[str] = []
        self.why: list[str] = []
        self.go = threading.Event()
        self.killed = threading.Event()
        self.hangs = False
        self.unanswered = 0
        self.asked = 0
        self.early: list[Early] = []

    def ask(self) -> int:
        self.asked += 1
        return self.unanswered

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early) -> Sequence[SliceResult]:
        self.ran += bundle
        self.early.append(early)
        if self.hangs:
            assert self.killed.wait(PATIENCE)
            raise TransientError("its process was ended")
        assert self.go.wait(PATIENCE)
        if self.ended is not None:
            raise WorkerLost("it has died")
        return [SliceResult(todo.table, None, pages=1) for todo in bundle]

    def watch(self) -> None:
        self.watched = True

    def finish(self) -> None:
        self.did.append("finish")

    def end(self) -> None:
        self.did.append("end")

    def kill(self, why: str = "") -> None:
        self.did.append("kill")
        if why:
            self.why.append(why)
            self.ended = f"was ended, because {why}"
        self.killed.set()


class Spark:
    slots = 7

    def __init__(self) -> None:
        self.says: str | None = "says Spark"
        self.outcome: Any = None
        self.answers = threading.Event()
        self.ran: list[Slice] = []
        self.did: list[str] = []

    def started(self, stop: threading.Event) -> Any:
        assert self.answers.wait(PATIENCE)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early, begins: Begins) -> Sequence[SliceResult]:
        self.ran += bundle
        return [SliceResult(todo.table, None, pages=2) for todo in bundle]

    def waits(self, number: int) -> bool:
        return False

    def aside(self, number: int) -> bool:
        return False

    def give_up(self, number: int) -> None:
        self.did.append(f"give up {number}")

    def check(self) -> str | None:
        return self.says

    def finish(self) -> None:
        self.did.append("finish")

    def cancel(self) -> bool:
        self.did.append("cancel")
        return False

    def close(self) -> None:
        self.did.append("close")


class World:
    """`second`: how long a second lasts for what is counted in them."""

    def __init__(self, *, second: float = 3600.0) -> None:
        self.first, self.spark, self.stop = First(), Spark(), threading.Event()
        self.executor = HandOver(self.first, self.start, self.stop, second=second)
        self.results: list[Sequence[SliceResult] | Exception] = []
        until(lambda: self.executor._spark)

    def start(self) -> Spark:
        return self.spark

    def begin(self, number: int, *bundle: Slice, begins: Begins | None = None) -> threading.Thread:
        def run() -> None:
            try:
                found = self.executor.run(
                    bundle, number=number, early=lambda result: None, begins=begins or (lambda: bundle)
                )
            except Exception as error:
                self.results.append(error)
            else:
                self.results.append(found)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def is_up(self) -> None:
        self.spark.answers.set()
        until(lambda: self.executor.slots == Spark.slots)

    def pages(self) -> list[int]:
        return [result.pages for found in self.results if not isinstance(found, Exception) for result in found]


def test_until_spark_is_up_bundles_run_in_the_first_place_briefly_and_then_on_spark() -> None:
    world = World()
    assert world.executor.slots == FEWEST_SLOTS
    assert world.executor.check() is None
    begun = world.begin(1, TODO)
    until(lambda: world.first.ran)
    assert not world.executor.aside(1), "there are no other slots yet"
    with capture_logs() as said:
        world.is_up()
    assert [(line["event"], line["slots"]) for line in said] == [("Spark has started, slices go there from now on", 7)]
    world.begin(2, TODO).join()
    assert world.first.did == [], "it still reads"
    assert not world.executor.waits(1)
    assert [world.executor.aside(number) for number in (1, 2)] == [True, False]
    world.first.go.set()
    begun.join()
    assert world.pages() == [2, 1]
    assert world.first.did == ["end"]
    assert [todo.seconds for todo in world.first.ran] == [1.0]
    assert [todo.seconds for todo in world.spark.ran] == [30]
    assert world.executor.check() == "says Spark"


def test_a_first_place_without_work_ends_when_spark_is_up() -> None:
    world = World()
    world.is_up()
    until(lambda: world.first.did == ["end"])


@pytest.mark.parametrize("why", ["a part", "it has died"])
def test_parts_and_what_the_first_place_cannot_run_wait_for_spark_with_the_time_that_they_have_then(why: str) -> None:
    world = World()
    todo = replace(TODO, part=PART) if why == "a part" else TODO
    world.first.ended = "has died" if why == "it has died" else None
    world.begin(1, todo, begins=lambda: [replace(todo, epoch=9)])
    until(lambda: world.executor.waits(1))
    assert (world.executor.check() is None) is (why == "a part")
    world.is_up()
    until(lambda: world.results)
    assert world.first.ran == []
    assert [each.epoch for each in world.spark.ran] == [9]
    assert world.pages() == [2]


def test_a_bundle_that_was_given_up_while_it_waited_is_not_begun() -> None:
    world = World()
    world.first.ended = "has died"
    world.begin(1, TODO, begins=lambda: None)
    until(lambda: world.executor.waits(1))
    world.executor.give_up(1)
    world.is_up()
    until(lambda: world.results)
    assert (world.pages(), world.spark.ran, world.spark.did) == ([0], [], [])


def test_what_waits_comes_back_untouched_when_everything_ends() -> None:
    world = World()
    world.first.ended = "has died"
    waiting = world.begin(1, TODO)
    until(lambda: world.executor.waits(1))
    world.executor.finish()
    waiting.join()
    assert (world.pages(), world.spark.ran) == ([0], [])
    assert (world.first.did, world.spark.did) == (["finish"], ["finish"])
    assert world.executor.cancel() is False, "Spark says whether its tasks surely end"
    world.executor.close()
    assert (world.first.did[1:], world.spark.did[1:]) == (["kill", "kill"], ["cancel", "close"])


def test_giving_up_ends_what_it_is_about_wherever_that_runs() -> None:
    world = World()
    begun = world.begin(1, TODO)
    until(lambda: world.first.ran)
    world.executor.give_up(1)
    assert world.first.did == ["kill"]
    world.first.ended = "has died"
    world.first.go.set()
    begun.join()
    assert [type(found) for found in world.results] == [WorkerLost]
    world.is_up()
    world.executor._places[2] = type(world.executor._placed(3, [TODO])).SPARK
    world.executor.give_up(2)
    assert world.spark.did == ["give up 2"]


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (PermanentError("starting Spark: no"), "starting Spark: no"),
        (TransientError("later"), "later"),
        (OSError("odd"), "starting Spark: OSError: odd"),
        ("on this machine: no certificate", "starting on Spark: on this machine: no certificate"),
    ],
)
def test_a_spark_that_does_not_start_ends_everything_although_changes_flow(outcome: object, says: str) -> None:
    world = World()
    begun = world.begin(1, TODO)
    until(lambda: world.first.ran)
    world.spark.outcome = outcome
    world.spark.answers.set()
    until(lambda: world.executor._failed)
    with pytest.raises((PermanentError, TransientError), match=says):
        world.executor.check()
    assert world.executor.slots == FEWEST_SLOTS
    world.first.go.set()
    begun.join()
    assert world.pages() == [1]


def test_after_a_stop_spark_is_never_up() -> None:
    world = World()
    world.stop.set()
    world.spark.answers.set()
    world.executor.finish()
    world.begin(1, replace(TODO, part=PART)).join()
    assert world.executor.slots == FEWEST_SLOTS
    assert world.spark.ran == []


def test_a_spark_that_comes_after_the_end_is_closed() -> None:
    first, spark, go = First(), Spark(), threading.Event()

    def start() -> Spark:
        go.wait(PATIENCE)
        return spark

    executor = HandOver(first, start, threading.Event())
    executor.close()
    go.set()
    until(lambda: spark.did)
    assert (first.did, spark.did) == (["kill"], ["close"])


def test_a_first_place_that_dies_without_work_is_told_once_with_the_remedy() -> None:
    world = World()
    assert world.first.watched, "somebody hears of its end, also if nothing is ever read there"
    world.first.ended = "was killed (signal 9)"
    with capture_logs() as said:
        for _ in range(3):
            assert world.executor.check() == (
                "Spark has not started yet, and the process that read tables meanwhile was killed (signal 9). "
                "Tables are read again once Spark has started. See whether memory runs out."
            )
    [line] = said
    assert (line["log_level"], line["event"]) == ("error", "tables wait until Spark has started")
    assert line["why"] == "the process that read them meanwhile was killed (signal 9)"
    world.is_up()
    assert world.executor.check() == "says Spark"


SHORT = 0.01


def _says(executor: HandOver, words: str) -> Callable[[], bool]:
    return lambda: words in (executor.check() or "")


def test_a_first_place_that_does_not_answer_is_ended_before_spark_is_up() -> None:
    world = World(second=SHORT)
    world.first.hangs = True
    begun = world.begin(1, TODO)
    until(lambda: world.first.asked > 20)
    assert world.first.did == [], "it answers"
    world.first.unanswered = 10
    begun.join(PATIENCE)
    assert [type(found) for found in world.results] == [TransientError]
    assert world.first.why == ["it has not answered for 10 s"]
    with capture_logs() as said:
        for _ in range(3):
            assert "Spark has not started yet" in (world.executor.check() or "")
    [line] = said
    assert line["event"] == "tables wait until Spark has started"
    assert line["why"] == "the process that read them meanwhile was ended, because it has not answered for 10 s"
    assert "SIGSTOP" in line["hint"]
    world.begin(2, TODO)
    until(lambda: world.executor.waits(2))
    world.is_up()
    until(lambda: world.spark.ran)


def test_what_hangs_when_spark_is_up_takes_no_slot_of_it_and_is_given_up_soon() -> None:
    world = World(second=SHORT)
    world.first.hangs = True
    world.spark.says = None
    begun = world.begin(1, TODO)
    until(lambda: world.first.ran)
    with capture_logs() as said:
        world.is_up()
        assert world.executor.aside(1) or world.first.did
        world.begin(2, TODO).join(PATIENCE)
        assert not world.executor.aside(2)
        begun.join(PATIENCE)
        assert world.executor.check() is None
        assert world.executor.check() is None
    assert world.first.why == ["slices were not back 16 s after Spark had started"]
    [line] = [line for line in said if line["log_level"] == "error"]
    assert line["event"] == "slices that had begun before Spark did not come back, given up"
    assert "16 s" in line["why"]
    assert "Service Bus and SQL Server" in line["hint"]
    assert [type(found) for found in world.results if isinstance(found, Exception)] == [TransientError]
    assert world.executor.check() is None


def test_what_ends_in_time_after_spark_is_up_is_not_given_up() -> None:
    world = World(second=SHORT)
    begun = world.begin(1, TODO)
    until(lambda: world.first.ran)
    world.is_up()
    world.first.go.set()
    begun.join(PATIENCE)
    asked = world.first.asked
    threading.Event().wait(40 * SHORT)
    assert world.first.did == ["end"]
    assert world.first.asked <= asked + 1, "nobody asks one that ends"


def test_tables_that_wait_for_a_first_place_that_hangs_are_told_of_with_cause_and_remedy_once_and_when_it_is_over() -> (
    None
):
    world = World(second=SHORT)
    begun = world.begin(1, replace(TODO, seconds=750))
    with capture_logs() as said:
        until(_says(world.executor, "has not answered for 1"))
        told = world.executor.check()
        for _ in range(5):
            world.executor.check()
        world.first.go.set()
        begun.join(PATIENCE)
        assert world.executor.check() is None
    assert told is not None
    assert told.startswith("Tables wait: the process that reads them until Spark has started has not answered for ")
    assert "They are read on Spark soon after it has started. See whether SQL Server" in told
    error, over = said
    assert (error["log_level"], error["event"]) == (
        "error",
        "tables wait for the process that reads them until Spark has started",
    )
    assert error["why"] == "it has not answered for 11 s"
    assert "memory" in error["hint"]
    assert over["event"] == "the process that reads until Spark has started answers again"


def test_tables_that_wait_are_told_of_also_when_spark_is_up_as_long_as_it_lasts() -> None:
    world = World(second=0.05)
    world.spark.says = None
    world.first.hangs = True
    begun = world.begin(1, TODO)
    until(lambda: world.first.ran)
    world.is_up()
    until(_says(world.executor, "Tables wait: "))
    assert "on Spark in some seconds" in (world.executor.check() or "")
    world.spark.says = "nothing can run on Spark"
    assert world.executor.check() == "nothing can run on Spark", "which matters more"
    world.spark.says = None
    begun.join(PATIENCE)
    assert world.executor.check() is None


def test_a_slice_in_the_first_place_is_given_up_by_the_time_that_it_has_there_not_by_its_setting() -> None:
    world = World(second=SHORT)
    world.first.hangs = True
    begun = world.begin(1, replace(TODO, seconds=600))
    begun.join(PATIENCE)
    assert world.first.why == ["a slice did not come back within 151 s"]
    assert 151 <= world.first.asked <= 153


def test_a_bundle_whose_results_come_one_by_one_does_not_hang() -> None:
    world = World(second=0.05)
    begun = world.begin(1, *[TODO] * 30)
    until(lambda: world.first.early)
    for _ in range(29):
        before = world.first.asked
        until(lambda before=before: world.first.asked > before)  # type: ignore[misc]
        world.first.early[0](SliceResult(TODO.table, None))
        assert world.executor.check() is None
    world.first.go.set()
    begun.join(PATIENCE)
