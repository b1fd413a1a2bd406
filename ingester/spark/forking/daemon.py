"""The process that Spark forks its Python workers from, which has imported what their tasks need.

Spark's own daemon (pyspark/daemon.py) imports nothing before a fork, since some modules begin threads, and a fork of a process with threads may
hang. So each worker takes a second of processor time to import the same modules, and a memory of its own for them. This one imports them
once. If that has begun a thread, or fails, it becomes Spark's own daemon: its workers import by themselves, and report what fails.

Runs where the driver's environment names a module, which it does where all tasks run on its own machine. Reads no configuration.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path

from pyspark import daemon

from ingester.worker_settings import PRELOAD

_SPARKS_OWN = "pyspark.daemon"
_THREADS = Path("/proc/self/task")
"""Of the whole process, those that C libraries have begun included. Elsewhere than on Linux nobody can say."""


def imported(environment: Mapping[str, str] = os.environ, threads: Path = _THREADS) -> bool:
    """Import what is named, and return whether workers may be forked now."""
    wanted = environment.get(PRELOAD)
    if wanted is None:
        return True
    with suppress(Exception), redirect_stdout(sys.stderr):  # Spark reads the port from the standard output
        importlib.import_module("pyspark.worker")
        importlib.import_module(wanted)
        gc.collect()
        gc.freeze()  # so that a worker's collections neither look at these objects nor copy their pages
    try:
        return len(list(threads.iterdir())) == 1
    except OSError:
        return False


def main() -> None:
    """Runs until the JVM closes its end, as Spark's own does."""
    if not imported():
        os.execv(sys.executable, [sys.executable, "-m", _SPARKS_OWN, *sys.argv[1:]])  # no shell, no input
    daemon.manager()


if __name__ == "__main__":
    main()
