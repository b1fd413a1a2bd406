"""`python -m tests.worlds.spark_alone MASTER SECONDS [SETTING=VALUE ...]`: starts Spark as an ingester does, says what came of it, and ends.

A program because a start that fails leaves PySpark's globals in a state that only the end of a process clears.
"""

from __future__ import annotations

import sys
import threading

from common.errors import PermanentError
from ingester.spark.executor import SparkExecutor
from ingester.spark.launched import Launched
from tests.worlds.standalone import CONF


def main(master: str, seconds: str, *settings: str) -> None:
    conf = CONF | dict(setting.split("=", 1) for setting in settings)
    try:
        executor = SparkExecutor(lambda bundle, stopping, driver: [], Launched(master=master, conf=conf))
    except PermanentError as error:
        print("refused:", error)
        return
    try:
        print("ran:", executor.begin(lambda: "a task", threading.Event(), seconds=float(seconds)))
        print("serves:", executor._jvm.serves)
    except PermanentError as error:
        print("failed:", error)
    finally:
        executor.close()
        print("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
