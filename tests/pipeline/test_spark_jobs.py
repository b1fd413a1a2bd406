"""A job of one task on Spark: what returns, what fails, and what is cancelled."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.worlds.story import story


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    ran = subprocess.run([sys.executable, "-m", "tests.worlds.spark_jobs"], capture_output=True, text=True, timeout=400)
    assert ran.returncode == 0, ran.stderr
    return story(ran.stdout)


def test_a_job_returns_what_its_value_became(found: dict[str, Any]) -> None:
    assert [value for value, _ in found["returned"]] == ["a", "b", "c"]


def test_jobs_in_turn_have_one_worker(found: dict[str, Any]) -> None:
    """A new one costs a fork, and its connections; PySpark ends a worker that leaves some of its input unread."""
    assert len({pid for _, pid in found["returned"]}) == 1


def test_a_value_of_megabytes_arrives_and_leaves_no_file(found: dict[str, Any]) -> None:
    """By default PySpark writes a function of more than 1 MB to a file, and only Spark's end removes it."""
    assert found["large"] == 3_000_000
    assert found["files"] == []


def test_a_job_that_fails_says_why(found: dict[str, Any]) -> None:
    assert found["failed"] == "ValueError: cannot work with ['a row']"


def test_a_job_that_is_cancelled_ends_and_the_next_one_runs(found: dict[str, Any]) -> None:
    assert found["cancelled"].startswith("[SPARK_JOB_CANCELLED]")
    assert found["afterwards"] == "d"


def test_a_folder_that_a_cleaner_takes_ends_the_ingester_and_names_the_cleaner(found: dict[str, Any]) -> None:
    before, *after = found["lost"]
    assert before is None
    for said in after:
        assert "is gone, or cannot be written" in said
        assert "dstream-spark-*" in said
