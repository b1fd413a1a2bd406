"""`python -m tests.worlds.hanging_bundle`: two bundles on a local Spark, of which one slice each hangs, and what the dispatcher makes of it.

A program because a process has one Spark.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from common.names import TableName
from ingester.driver.dispatch import DEATHS, Dispatcher
from ingester.slices import Slice, SliceResult
from ingester.source import CaptureInstance
from ingester.spark.driver_line import Driver
from ingester.spark.executor import SparkExecutor
from ingester.spark.launched import Launched
from ingester.sqlserver.position import LogPosition, Lsn

QUICK, HUNG, LATER, FATAL = (TableName("dbo", name) for name in ("Quick", "Hung", "Later", "Fatal"))
_LSN = Lsn(bytes(10))


def todo(table: TableName, lease: float) -> Slice:
    instance = CaptureInstance(table.table, table, LogPosition.before(_LSN), ())
    ends = LogPosition.before(_LSN), LogPosition.end_of(_LSN)
    return Slice(table, instance, *ends, epoch=1, rows=1, seconds=1, lease_seconds=lease)


def task(bundle: Sequence[Slice], stopping: Path, driver: Driver | None) -> list[SliceResult]:
    """Tells of the quick one, never returns where one hangs, and dies of the fatal one."""
    for one in bundle:
        if one.table == FATAL:
            os._exit(1)
        if one.table == HUNG:
            Path(os.environ["HANGS"]).write_text(str(os.getpid()))
            threading.Event().wait()
        if driver is not None:
            driver.tell(SliceResult(one.table, None))
    return [SliceResult(one.table, None) for one in bundle]


def main() -> None:
    from tests.worlds import hanging_bundle  # as the workers import it: they have no main module

    executor = SparkExecutor(hanging_bundle.task, Launched(master="local[2]", conf={}), slots=2)
    dispatcher = Dispatcher(executor, lambda slice: slice)
    story: list[tuple[str, str | None]] = []
    try:
        executor.begin(hanging_bundle.nothing, threading.Event())
        dispatcher.add(todo(LATER, 600), backlog=True)
        dispatcher.start()
        story += heard(dispatcher, 1)
        for table in (QUICK, HUNG):
            dispatcher.add(todo(table, -10), backlog=False)  # due back in 20 s
        dispatcher.add(todo(HUNG, -10), backlog=True)
        dispatcher.start()
        story += heard(dispatcher, 3)
        pid = int(Path(os.environ["HANGS"]).read_text())
        deadline = time.monotonic() + 60
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        gone = not Path(f"/proc/{pid}").exists()
        dispatcher.add(todo(LATER, 600), backlog=True)
        dispatcher.start()
        story += heard(dispatcher, 1)
        checked = executor.check()
        died = []
        for _ in range(DEATHS):
            dispatcher.add(todo(FATAL, 600), backlog=False)
            dispatcher.start()
            died += heard(dispatcher, 1)
        blamed = executor._health.in_doubt
        deadline = time.monotonic() + 60
        while executor._health.in_doubt and time.monotonic() < deadline:
            time.sleep(0.1)
        cleared = blamed and not executor._health.in_doubt
        print(json.dumps({"story": story, "gone": gone, "check": checked, "died": died, "cleared": cleared}))
    finally:
        dispatcher.close()
        executor.close()


def nothing() -> None:
    """A first task."""


def heard(dispatcher: Dispatcher, count: int) -> list[tuple[str, str | None]]:
    found: list[SliceResult] = []
    while len(found) < count:
        found += dispatcher.results(1)
    return [(result.table.table, result.trouble.value if result.trouble else None) for result in found]


if __name__ == "__main__":
    main()
