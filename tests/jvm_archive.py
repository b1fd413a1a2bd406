"""`python -m tests.jvm_archive FILE`: writes the classes that Spark's JVM loads to an archive, from which tests start it in two thirds of the time.

The JVM's own class data sharing: it looks by itself whether an archive fits its version and its jars, and goes on without one that does not.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

ARCHIVE = Path(sys.prefix, "spark.jsa")
"""Where `make test` has it written."""
_OPTIONS = "SPARK_SUBMIT_OPTS"
_QUIET = "-Xlog:cds*=off"
_SECONDS = 180.0


def use() -> None:
    """From now on Spark's JVMs start from the archive, if it is there."""
    if ARCHIVE.exists():
        os.environ.setdefault(_OPTIONS, f"-XX:SharedArchiveFile={ARCHIVE} {_QUIET}")


def main(path: Path) -> None:
    """Spark runs a task and its JVM ends in its own time, in which it writes the archive."""
    from ingester.spark import executor as spark
    from ingester.spark import jvm as spark_jvm

    written = path.with_suffix(".new")
    os.environ[_OPTIONS] = f"-XX:ArchiveClassesAtExit={written} {_QUIET}"
    spark_jvm._END_SECONDS = _SECONDS
    executor = spark.SparkExecutor(lambda bundle, stopping, driver: [], master="local[2]", conf={})
    try:
        executor.begin(lambda: "a task", threading.Event())
    finally:
        executor.close()
    written.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
