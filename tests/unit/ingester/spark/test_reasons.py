"""One line out of what Py4J says, with the reason in it. The texts are shortened ones of Spark 4.3."""

from __future__ import annotations

import pytest

from ingester.spark.reasons import ending, hint_for, reason, worker_died

_CALL = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
_ABORTED = (
    _CALL
    + ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: "
)
_STACK = "\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3122)\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            _ABORTED
            + "Lost task 0.0 in stage 0.0 (TID 0) (127.0.0.1 executor driver): org.apache.spark.SparkException: Python worker exited "
            "unexpectedly (crashed): Enable faulthandler\n" + _STACK + "Caused by: java.io.EOFException\n",
            "Python worker exited unexpectedly (crashed)",
        ),
        (
            _ABORTED
            + "Lost task 0.0 in stage 1.0 (TID 1) (10.0.0.7 executor 2): ExecutorLostFailure (executor 2 exited caused by one of "
            "the running tasks) Reason: Command exited with code 137\n" + _STACK,
            "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: Command exited with code 137",
        ),
        (
            _ABORTED
            + "Lost task 0.0 in stage 0.0 (TID 0) (h executor 1): org.apache.spark.api.python.PythonException: Traceback (most "
            "recent call last):\n  File \"worker.py\", line 1, in main\nModuleNotFoundError: No module named 'ingester'\n"
            + _STACK,
            "ModuleNotFoundError: No module named 'ingester'",
        ),
        (
            _CALL + ": java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n" + _STACK,
            "Cannot call methods on a stopped SparkContext.",
        ),
        (
            _CALL + ": org.apache.spark.SparkException: Could not parse Master URL: 'nowhere'\n" + _STACK,
            "Could not parse Master URL: 'nowhere'",
        ),
        ("Connection refused", "Connection refused"),
        ("", "no reason was given"),
    ],
)
def test_the_reason_is_found_below_the_call(text: str, expected: str) -> None:
    found = reason(text)
    assert expected in found
    assert "\n" not in found
    assert "collectAndServe" not in found
    assert "\tat " not in found


def test_the_last_cause_is_added() -> None:
    text = (
        _CALL
        + ": a.b.Outer: it failed\n"
        + _STACK
        + "Caused by: a.b.Middle: because\nCaused by: java.net.ConnectException: refused\n"
    )
    assert reason(text).endswith("(refused)")


def test_a_task_that_says_it_crashed_has_not_killed_its_worker() -> None:
    assert worker_died("Python worker exited unexpectedly (crashed)")
    assert not worker_died("RuntimeError: the server crashed")


def test_known_reasons_have_a_remedy() -> None:
    assert "authenticate.secret" in (hint_for("All masters are unresponsive! Giving up.", local=False) or "")
    assert "memory" in (hint_for("Python worker exited unexpectedly (crashed)", local=False) or "")
    assert "installed" in (hint_for("ModuleNotFoundError: No module named 'ingester'", local=False) or "")
    assert hint_for("something else", local=False) is None


def test_logs_of_executors_are_named_only_where_there_are_some() -> None:
    why = "(127.0.0.1 executor driver): java.nio.file.NoSuchFileException: /tmp/x"
    assert "executors' logs" in (hint_for(why, local=False) or "")
    assert hint_for(why, local=True) is None


@pytest.mark.parametrize(
    ("status", "how", "remedy"),
    [
        (-9, "was killed by SIGKILL", "the kernel did, because memory ran out"),
        (137, "was killed by SIGKILL", "the container a higher limit"),
        (143, "was ended by SIGTERM", "find out who sent that signal"),
        (-6, "has crashed with SIGABRT", "hs_err_pid"),
        (52, "ended with status 52", "raise spark.driver.memory"),
        (1, "ended with status 1", "--log-level debug"),
        (255, "ended with status 255", "--log-level debug"),
    ],
)
def test_the_end_of_a_jvm_is_named_with_the_remedy_for_it(status: int, how: str, remedy: str) -> None:
    words, hint = ending(status)
    assert words == how
    assert remedy in hint
    assert ("raise spark.driver.memory" in hint) is (status == 52)
