"""How long a change takes from its commit to its topic, and from a cold start to the first message; on the emulators.

    .venv/bin/python bench/latency.py [--seconds 30] [--rate 50]

A change waits for the next scan of the capture job (0.5 s here), then for the table's next poll (0.5 s); what is left is DStream's own.
Prints percentiles of the whole and of what is left at worst; the last line is JSON with the same figures.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from common.config.durations import parse_duration
from dstream.demo.pipeline import CAPTURE_INTERVAL, POLL_INTERVAL, Pipeline
from dstream.demo.workload import Pace

WARM_UP = 2.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seconds", type=float, default=30)
    arguments.add_argument("--rate", type=float, default=50, help="changes a second")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pace = Pace(changes=int(chosen.seconds * chosen.rate), seconds=chosen.seconds, large=0)
        with Pipeline(Path(folder), pace=pace) as pipeline:
            pipeline.workload.start()
            pipeline.workload.join()
            pipeline.settle(60)
            verdict, first = pipeline.verdict(), pipeline.first_arrival()
    if first is None or not verdict.good:
        raise SystemExit(f"no measurement: {verdict}")
    bound = CAPTURE_INTERVAL + parse_duration(POLL_INTERVAL).total_seconds()
    figures = {
        "first_message_s": round(first - pipeline.started_at, 2),
        "changes": verdict.total("committed"),
        **{f"lag_p{share}_s": _rounded(verdict.lag(share / 100, since=first + WARM_UP)) for share in (50, 90, 99, 100)},
        "capture_and_poll_at_most_s": bound,
    }
    for name, value in figures.items():
        print(f"{name:<28} {value}")
    print(json.dumps(figures))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


if __name__ == "__main__":
    main()
