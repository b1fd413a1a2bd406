"""`python -m tests.jvm_archive FILE`: writes the classes that Spark's JVM loads to archives, from which tests start it in two thirds of the time.

One is the ingester's own (ingester/spark/training.py). FILE is another one, for JVMs that Spark's scripts start: those of a cluster.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from ingester.spark.kept.archive import OFF, VARIABLE

_OWN = Path(sys.prefix, "share", "dstream", "jvm")
ARCHIVE = Path(sys.prefix, "spark.jsa")
"""Where `make test` has it written."""
_OPTIONS = "SPARK_SUBMIT_OPTS"
_QUIET = "-Xlog:cds*=off"
_SECONDS = 180.0


def use() -> None:
    """From now on ingesters start from the archive, if it is there, and make none."""
    os.environ.setdefault(VARIABLE, str(_OWN) if _OWN.exists() else OFF)


def main(path: Path) -> None:
    """Spark runs a task and its JVM ends in its own time, in which it writes the archive."""
    from ingester.spark import executor as spark
    from ingester.spark import training
    from ingester.spark.launched import Launched

    written = path.with_suffix(".new")
    os.environ[_OPTIONS] = f"-XX:ArchiveClassesAtExit={written} {_QUIET}"
    executor = spark.SparkExecutor(lambda bundle, stopping, driver: [], Launched(master="local[2]", conf={}))
    try:
        executor.begin(lambda: "a task", threading.Event())
    finally:
        executor.close(seconds=_SECONDS)
    written.replace(path)
    del os.environ[_OPTIONS]
    print(training.make(_OWN))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
