"""`python -m tests.worlds.spark_jobs`: jobs on a local Spark that return, fail and are cancelled, and what became of each.

A program because a process has one Spark.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from common.errors import PermanentError
from ingester.spark.executor import SparkExecutor
from ingester.spark.jobs import Jobs
from ingester.spark.launched import Launched
from ingester.spark.reasons import reason

_PATIENCE = 60.0


def who(values: Iterable[str]) -> Iterator[Any]:
    yield from ((value, os.getpid()) for value in values)


def fail(values: Iterable[str]) -> Iterator[Any]:
    raise ValueError(f"cannot work with {list(values)}")


def hang(values: Iterable[str]) -> Iterator[Any]:
    for value in values:
        Path(value).touch()
    threading.Event().wait()
    return iter(())


def outcome(jobs: Jobs, work: Any, value: str) -> str:
    try:
        return f"returned {jobs.run('group', 'a test', work, value)}"
    except Py4JError as error:
        return reason(str(error))


def cancelled(context: SparkContext, jobs: Jobs, begun: Path) -> str:
    told: list[str] = []
    from tests.worlds import spark_jobs  # as the workers import it: they have no main module

    waiting = threading.Thread(target=lambda: told.append(outcome(jobs, spark_jobs.hang, str(begun))))
    waiting.start()
    deadline = time.monotonic() + _PATIENCE
    while not begun.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    context.cancelJobGroup("group")
    waiting.join(_PATIENCE)
    return told[0] if told else "still waits"


def lost(executor: SparkExecutor, folder: Path) -> list[str | None]:
    """What a check says before and after a cleaner took Spark's blocks, and then everything. A stop goes on."""
    said = [executor.check()]
    [blocks] = (folder / "spark").glob("blockmgr-*")
    for each in (blocks, folder):
        shutil.rmtree(each)
        said.append(_said(executor))
    executor.finish()
    return said


def _said(executor: SparkExecutor) -> str | None:
    """The check's first words within some seconds: it waits a little, in case Spark itself has removed the folder at its end."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            if (trouble := executor.check()) is not None:
                return trouble
        except PermanentError as error:
            return str(error)
        time.sleep(0.2)
    return None


def main() -> None:
    from tests.worlds import spark_jobs

    launched = Launched(master="local[2]", conf={})
    executor = SparkExecutor(lambda bundle, stopping, driver: [], launched)
    try:
        executor.begin(lambda: None, threading.Event())
        context, jobs = executor._context, executor._jobs
        assert context is not None
        assert jobs is not None
        found = {
            "returned": [jobs.run("group", "a test", spark_jobs.who, text)[0] for text in "abc"],
            "large": len(jobs.run("group", "a test", spark_jobs.who, "x" * 3_000_000)[0][0]),
            "files": [file.name for file in Path(str(context._temp_dir)).iterdir()],
            "failed": outcome(jobs, spark_jobs.fail, "a row"),
            "cancelled": cancelled(context, jobs, launched.scratch.path / "begun"),
            "afterwards": jobs.run("group", "a test", spark_jobs.who, "d")[0][0],
        }
        print(json.dumps({**found, "lost": lost(executor, launched.scratch.path)}))
    finally:
        executor.close()


if __name__ == "__main__":
    main()
