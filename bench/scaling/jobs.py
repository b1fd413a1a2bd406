"""`python -m bench.scaling.jobs MASTER CONF JOBS THREADS`: what an empty task costs that is run on Spark as a slice is. CONF is JSON.

Prints JSON: jobs a second, and seconds of processor time of a job in the driver's Python and in its JVM.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from bench.ingestion import system
from ingester.spark.executor import SparkExecutor
from ingester.spark.launched import Launched

_WARM = 40


def main(master: str, conf: str, jobs: int, threads: int) -> None:
    executor = SparkExecutor(lambda bundle, stopping, driver: [], Launched(master=master, conf=json.loads(conf)))
    try:
        executor.begin(lambda: None, threading.Event())

        def run(number: int) -> Sequence[object]:
            return executor.run([], number=number, early=lambda result: None, begins=lambda: None)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run, range(_WARM)))
            before, began = _processor(), time.monotonic()
            list(pool.map(run, range(_WARM, _WARM + jobs)))
            seconds = time.monotonic() - began
            after = _processor()
        found = {part: (after[part] - before[part]) / jobs for part in after}
        print(json.dumps({"jobs_s": jobs / seconds, **found}), flush=True)
    finally:
        executor.close()


def _processor() -> dict[str, float]:
    parts = system.ingester_processes(os.getpid())
    return {name: sum(map(system.processor_seconds, parts[name])) for name in ("driver", "jvm")}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
