"""`python -m tests.worlds.growing_cluster MASTER`: eight backlogs on a cluster whose executors have gone and may be four, one task each.

A program because a process has one Spark. Prints what the dispatcher, the executors and the workers saw, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from common.clock import steady
from common.names import TableName
from ingester.driver.dispatch import Dispatcher
from ingester.slices import Slice, SliceResult
from ingester.source import CaptureInstance
from ingester.spark.driver_line import Driver
from ingester.spark.executor import SparkExecutor
from ingester.spark.launched import Launched
from ingester.sqlserver.position import LogPosition, Lsn
from tests.worlds.standalone import CONF

TABLES, MOST = 8, 4
_LSN = Lsn(bytes(10))
_ALLOCATION = {
    "spark.executor.cores": "1",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": str(MOST),
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
}


def todo(number: int) -> Slice:
    table = TableName("dbo", f"T{number}")
    instance = CaptureInstance(table.table, table, LogPosition.before(_LSN), ())
    ends = LogPosition.before(_LSN), LogPosition.end_of(_LSN)
    return Slice(table, instance, *ends, epoch=1, rows=1, seconds=1, lease_seconds=1.0)


def task(bundle: Sequence[Slice], stopping: Path, driver: Driver | None) -> list[SliceResult]:
    """Works for some seconds. `changes`: how many seconds the lease has as it begins; `more`: whether the driver stops."""
    assert driver is not None
    begun = driver.begin(bundle)
    assert begun is not None
    time.sleep(10)
    return [SliceResult(one.table, None, changes=int(one.lease_seconds or 0), more=driver.stops()) for one in begun]


def nothing() -> None:
    """A first task."""


def main(master: str) -> None:
    from tests.worlds import growing_cluster  # as the workers import it: they have no main module

    executor = SparkExecutor(growing_cluster.task, Launched(master=master, conf={**CONF, **_ALLOCATION}))
    handed: set[TableName] = set()

    def stamped(one: Slice) -> Slice:
        """The lease has a second at the handover and half a minute once a worker begins."""
        again = one.table in handed
        handed.add(one.table)
        return replace(one, lease_seconds=30.0 if again else 1.0)

    dispatcher = Dispatcher(executor, stamped)
    slots, results = [], list[SliceResult]()
    try:
        executor.begin(growing_cluster.nothing, threading.Event())
        deadline = steady() + 60
        while executor._allocation.slots([]) != executor.slots and steady() < deadline:
            time.sleep(0.5)  # until the first executor was idle for long enough
        for number in range(TABLES):
            dispatcher.add(todo(number), backlog=True)
        deadline = steady() + 150
        while len(results) < TABLES and steady() < deadline:
            dispatcher.start()
            results += dispatcher.results(0.5)
            slots.append(executor.slots)
        executor.finish()
        print(
            json.dumps(
                {
                    "slots": [slots[0], max(slots)],
                    "leases": [result.changes for result in results],
                    "troubles": [result.message for result in results if result.trouble is not None],
                }
            )
        )
    finally:
        dispatcher.close()
        executor.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
