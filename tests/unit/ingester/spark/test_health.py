"""When the executor counts as in trouble, when it is given up, and what is said of it, once."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from common.clock import SteadyTime
from common.errors import PermanentError
from ingester.spark.health import (
    FIRM_SECONDS,
    LATE_SECONDS,
    LATE_TURNS,
    PATIENCE_SECONDS,
    SILENT_SECONDS,
    SILENT_TURNS,
    Answers,
    ExecutorHealth,
)


class Clocked(ExecutorHealth):
    """On a clock of its own."""

    def __init__(self, *, idles: bool = False) -> None:
        self.now = 0.0
        super().__init__(idles=idles, clock=lambda: SteadyTime(self.now))


def test_without_executors_it_is_not_ready_and_after_its_patience_it_ends() -> None:
    health = Clocked()
    health.counted(1)
    assert health.trouble() is None
    health.counted(0)
    with capture_logs() as logs:
        assert (health.trouble() or "").startswith(
            "nothing can run on Spark: no executor is available (find out why the cluster provides none"
        )
        health.now = PATIENCE_SECONDS - 1
        health.counted(0)
        health.trouble()
    [told] = logs
    assert (told["log_level"], told["event"]) == ("error", "nothing can run on Spark")
    health.now += 1
    with pytest.raises(PermanentError, match="no executor is available, for 120 s"):
        health.trouble()


def test_executors_that_come_back_are_told_of_and_forgiven() -> None:
    health = Clocked()
    health.counted(0)
    health.trouble()
    health.now = PATIENCE_SECONDS + 5
    health.counted(2)
    with capture_logs() as logs:
        assert health.trouble() is None
    assert [told["event"] for told in logs] == ["Spark runs tasks again"]


def test_where_executors_come_and_go_none_is_no_trouble() -> None:
    health = Clocked(idles=True)
    health.counted(0)
    health.now = 10 * PATIENCE_SECONDS
    assert health.trouble() is None


def test_tasks_that_no_executor_takes_are_trouble_also_where_executors_come_and_go() -> None:
    health = Clocked(idles=True)
    health.counted(0)
    health.waiting(3, FIRM_SECONDS - 1)
    assert health.trouble() is None, "an executor takes some seconds to come"
    health.waiting(3, FIRM_SECONDS)
    assert (health.trouble() or "").startswith(
        "nothing can run on Spark: no executor takes a task, and 3 tasks wait (find out why the cluster provides none"
    )
    health.worked()
    assert health.trouble() is None
    health.waiting(1, PATIENCE_SECONDS)
    with pytest.raises(PermanentError, match="no executor takes a task, and one task waits, for 120 s"):
        health.trouble()


def test_one_worker_that_died_is_no_trouble_and_a_table_that_sleeps_makes_it_none() -> None:
    health = Clocked()
    health.failed("a worker died", "")
    health.now = 10 * PATIENCE_SECONDS  # nothing was due since
    assert health.trouble() is None


def test_jobs_that_fail_one_after_the_other_are_the_executors_trouble() -> None:
    health = Clocked()
    health.failed("a worker died", "give it memory")
    health.now = FIRM_SECONDS
    health.failed("a worker died", "give it memory")
    assert health.trouble() == "nothing can run on Spark: a worker died (give it memory)"
    health.now = PATIENCE_SECONDS
    health.failed("a worker died", "give it memory")
    with pytest.raises(PermanentError, match="a worker died") as ended:
        health.trouble()
    assert ended.value.hint == "give it memory"


def test_a_task_that_ran_ends_the_series() -> None:
    health = Clocked()
    for now in range(0, 1000, 30):
        health.now = now
        health.failed("a worker died", "")
        health.worked()
        assert health.trouble() is None


def test_a_jvm_that_does_not_answer_ends_the_process() -> None:
    now = 0.0
    answers = Answers(clock=lambda: SteadyTime(now))
    for _ in range(10):
        answers.asked()
        now += SILENT_SECONDS
        answers.trouble()
        answers.answered()
    answers.asked()
    now += SILENT_SECONDS + 1
    for _ in range(SILENT_TURNS):
        answers.trouble()
    with pytest.raises(PermanentError, match="has not answered for 61 s"):
        answers.trouble()


def test_a_jvm_that_does_not_answer_is_told_of_long_before_it_is_given_up_and_when_it_is_over() -> None:
    now = 0.0
    answers = Answers(clock=lambda: SteadyTime(now))
    answers.asked()
    now = LATE_SECONDS + 1
    with capture_logs() as logs:
        said = [answers.trouble() for _ in range(LATE_TURNS + 2)]
        answers.answered()
        assert answers.trouble() is None
        assert answers.trouble() is None
    assert said[:LATE_TURNS] == [None] * LATE_TURNS, "this process may have stood still itself"
    assert (said[-1] or "").startswith("Spark's JVM has not answered for 16 s (see whether its process runs")
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        ("Spark's JVM does not answer", "error"),
        ("Spark's JVM answers again", "info"),
    ]


def test_a_process_that_was_paused_does_not_blame_the_jvm() -> None:
    now = 0.0
    answers = Answers(clock=lambda: SteadyTime(now))
    answers.asked()
    now = 3600.0
    answers.trouble()
    answers.answered()
    for _ in range(2 * SILENT_TURNS):
        answers.trouble()


def test_a_table_that_kills_its_workers_for_ever_ends_nothing_as_long_as_trial_jobs_run() -> None:
    health = Clocked()
    for _ in range(100):
        health.now += 5
        health.failed("the Python worker has died", "")
        assert health.in_doubt
        health.now += 1
        health.worked()  # a trial job
        assert not health.in_doubt
        assert health.trouble() is None
