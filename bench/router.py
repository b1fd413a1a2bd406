"""The router against what the SDK can do at best, and against the loop that everybody writes first.

    .venv/bin/python bench/router.py [--quick] [--messages 10000] [--rounds 3]

Messages a second and processor time a message for 1 and 2 workers and 1, 8 and 64 sessions, with 8 slots a worker, as by default; and of changes
that come in packs of 50, and of as many as fit: then a message of the queue holds several, and each leaves as one of its own. Beside it, in
the same run and on one session: `ceiling`, a bare loop of the SDK (iterate, send batches of 200, complete each by one disposition) that looks at
nothing; `once`, the same with the router's own encoding; `naive`, receive one, send one, complete one. The last lines of the table add a
millisecond to every round trip, as a near network would. Then the delay of single messages at a tenth of the load. The emulator, each loop and
the router are processes of their own, on whatever cores there are; medians of the rounds. Linux only. The last line is JSON with the figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench.routing import delay
from bench.routing.routed import Router
from bench.routing.work import changes, namespace, schedule
from common.bus.packing import MOST

Figures = dict[str, float]

PACKS = {"1": 1, "50": 50, "max": MOST}
"""`queue.pack`, and changes a message."""

OF_PACKS = [(1, 1), (1, 8), (2, 8)]
"""(workers, sessions) measured with packs: with more sessions no pack is full."""

NEAR = 1.0
"""Milliseconds added to a round trip for the comparison with the naive loop."""


def loop(name: str, folder: Path, count: int, *, round_trip: float = 0.0) -> tuple[float, float]:
    """(messages a second, microseconds of processor time a message) of one of the loops, on a namespace of its own."""
    with namespace(folder, round_trip=round_trip) as broker:
        due = schedule(broker, changes(count, 1))
        command = [sys.executable, "-m", "bench.routing.loops", name, broker.connection_string, str(count), str(due)]
        said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout)
    return said["rate"], said["cpu"]


def routed(
    folder: Path, count: int, workers: int, sessions: int, *, pack: str = "1", round_trip: float = 0.0
) -> tuple[float, float]:
    """The same of the router, of changes: a message of the queue may hold several."""
    sent = changes(count, sessions, most=PACKS[pack])
    with namespace(folder, round_trip=round_trip) as broker, Router(folder, broker, workers, pack) as router:
        return router.work_off(count, schedule(broker, sent))


def delayed(folder: Path, count: int, rate: float) -> tuple[float, float]:
    """(median, 99th percentile) of the delay in milliseconds."""
    with namespace(folder, round_trip=0) as broker, Router(folder, broker, 1):
        delay.measure(broker.connection_string, 8, 20, 4)  # the sessions are taken and the links warm
        return delay.measure(broker.connection_string, count, rate, 4)


def shown(figures: Figures, name: str, rounds: list[tuple[float, float]]) -> float:
    """The medians, printed and noted; the rate."""
    rate, cost = (median(each) for each in zip(*rounds, strict=True))
    print(f"{name:52}{rate:12.0f}{cost:12.0f}", flush=True)
    figures |= {f"{name}: messages/s": rate, f"{name}: us": cost}
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000, help="of each case; a tenth for the naive loop")
    parser.add_argument("--rounds", type=int, default=3, help="of each case; the median counts")
    parser.add_argument("--quick", action="store_true", help="one small round, and fewer cases")
    chosen = parser.parse_args()
    count, rounds = (3_000, 1) if chosen.quick else (chosen.messages, chosen.rounds)
    cases = [(1, 1), (1, 8), (2, 8)] if chosen.quick else [(w, s) for w in (1, 2) for s in (1, 8, 64)]
    figures: Figures = {}
    print(f"{'':52}{'messages/s':>12}{'us CPU':>12}")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        bare = {name: [loop(name, folder, count) for _ in range(rounds)] for name in ("ceiling", "once")}
        ceiling = shown(figures, "ceiling: the SDK's bare loop", bare["ceiling"])
        once = shown(figures, "once: the same, messages encoded as by the router", bare["once"])
        shown(figures, "naive: one by one", [loop("naive", folder, count // 10) for _ in range(rounds)])
        rates: dict[tuple[int, int, str], float] = {}
        for pack in PACKS:
            for workers, sessions in cases if pack == "1" else OF_PACKS:
                done = [routed(folder, count, workers, sessions, pack=pack) for _ in range(rounds)]
                about = f"router: workers {workers}, sessions {sessions}, pack {pack}"
                rates[workers, sessions, pack] = shown(figures, about, done)
        far = [loop("naive", folder, count // 10, round_trip=NEAR) for _ in range(rounds)]
        naive = shown(figures, f"naive, {NEAR:g} ms added", far)
        distant: dict[int, float] = {}
        for workers in (1, 2):
            near = [routed(folder, count, workers, 8, round_trip=NEAR) for _ in range(rounds)]
            distant[workers] = shown(figures, f"router: workers {workers}, sessions 8, {NEAR:g} ms added", near)
        middle, late = delayed(folder, max(200, count // 10), rates[1, 1, "1"] / 10)
        print(f"delay at a tenth of the load: median {middle:.1f} ms, 99 % within {late:.1f} ms")
    figures |= {"delay: median ms": middle, "delay: 99 % ms": late}
    ratios = {
        "ratio_to_ceiling": rates[1, 1, "1"] / ceiling,
        "ratio_to_once": rates[1, 1, "1"] / once,
        "ratio_to_naive": distant[1] / naive,
        "ratio_to_naive, 2 workers": distant[2] / naive,
    }
    print(json.dumps({name: round(value, 2) for name, value in (figures | ratios).items()}))


if __name__ == "__main__":
    main()
