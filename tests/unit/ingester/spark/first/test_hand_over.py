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
        self.go = threading.Event()

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early) -> Sequence[SliceResult]:
        self.ran += bundle
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

    def kill(self) -> None:
        self.did.append("kill")


class Spark:
    slots = 7

    def __init__(self) -> None:
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
        return "says Spark"

    def finish(self) -> None:
        self.did.append("finish")

    def cancel(self) -> bool:
        self.did.append("cancel")
        return False

    def close(self) -> None:
        self.did.append("close")


class World:
    def __init__(self) -> None:
        self.first, self.spark, self.stop = First(), Spark(), threading.Event()
        self.executor = HandOver(self.first, self.start, self.stop)
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
