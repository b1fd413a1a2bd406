"""What Spark alone takes on this machine: a session and one job of one task that returns, and the memory of its Python and its JVM then.

    .venv/bin/python -m bench.bare_spark [--rounds 5]

The floor of a start for as long as a change passes Spark; Spark's own defaults, without its web page. Medians; the last line is JSON. Linux only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from statistics import median
from typing import Final

from bench.ingestion import system

_PROGRAM: Final = """\
import sys
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[8]").config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.parallelize([0], 1).map(abs).collect()
print("done", flush=True)
sys.stdin.read()
session.stop()
"""


def one() -> dict[str, float]:
    """The figures of one session."""
    begun = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"done\n":
            raise SystemExit("Spark did not start")
        parts = system.ingester_processes(process.pid)
        figures = {"seconds": time.monotonic() - begun}
        whole = [pid for pids in parts.values() for pid in pids]
        figures["processor_s"] = sum(map(system.processor_seconds, whole))
        figures["memory_mb"] = sum(map(system.resident_megabytes, [*parts["driver"], *parts["jvm"]]))
        process.communicate()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = [one() for _ in range(parser.parse_args().rounds)]
    figures = {name: round(median(each[name] for each in rounds), 2) for name in rounds[0]}
    for name, value in figures.items():
        print(f"{name:20} {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
