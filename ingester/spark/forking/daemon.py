"""The process that Spark forks its Python workers from, which has imported what their tasks need.

Spark's own daemon (pyspark/daemon.py) imports nothing before a fork, since some modules begin threads, and a fork of a process with threads may
hang. So each worker takes a second of processor time to import the same modules, and a memory of its own for them. This one imports them
once. If that has begun a thread, or cannot be known, it becomes Spark's own daemon. A module that fails is left to the workers, which report it.

Runs where the driver's environment names modules, which it does where all tasks run on its own machine. Reads no configuration.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from importlib.machinery import PathFinder
from pathlib import Path

from ingester.worker_settings import PRELOAD

_SPARKS_OWN = "pyspark.daemon"
_PACKAGES = ("pyspark", "py4j")
_ARCHIVES = ("pyspark.zip", "py4j-", "spark-core")
_THREADS = Path("/proc/self/task")
"""Of the whole process, those that C libraries have begun included. Elsewhere than on Linux nobody can say."""


def without_archives(path: Sequence[str]) -> list[str]:
    """`path` without Spark's copies of its packages, which have no compiled modules, and its jar, whose directory Python reads in each
    worker. All of `path` where the packages are in files alone. Files of others stay: spark.submit.pyFiles puts them there."""
    rest = [entry for entry in path if not (Path(entry).name.startswith(_ARCHIVES) and Path(entry).is_file())]
    return rest if all(PathFinder.find_spec(name, rest) for name in _PACKAGES) else list(path)


def imported(environment: Mapping[str, str] = os.environ, threads: Path = _THREADS) -> bool:
    """Import what is named, and return whether workers may be forked now."""
    with redirect_stdout(sys.stderr):  # Spark reads the port from the standard output
        for name in environment.get(PRELOAD, "").split():
            with suppress(Exception):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that a worker's collections neither look at these objects nor copy their pages
    try:
        return len(list(threads.iterdir())) == 1
    except OSError:
        return False


def main() -> None:
    """Runs until the JVM closes its end, as Spark's own does."""
    sys.path[:] = without_archives(sys.path)
    sys.path_importer_cache.clear()  # it has the archives, whose directories each worker would read again
    from pyspark import daemon  # from where it is compiled

    if not imported():
        os.execv(sys.executable, [sys.executable, "-m", _SPARKS_OWN, *sys.argv[1:]])
    daemon.manager()


if __name__ == "__main__":
    main()
