"""`python -m tests.worlds.spark_held`: starts Spark as an ingester does, runs a task, says so, and ends when its standard input has a line."""

from __future__ import annotations

import sys
import threading

from common.observability.logs import configure_logging
from ingester.spark.executor import SparkExecutor
from ingester.spark.launched import Launched


def main() -> None:
    configure_logging("info", "text")
    executor = SparkExecutor(lambda bundle, stopping, driver: [], Launched(master="local[2]", conf={}))
    try:
        print(executor.begin(lambda: "ran", threading.Event()), flush=True)
        sys.stdin.readline()
    finally:
        executor.close()


if __name__ == "__main__":
    main()
