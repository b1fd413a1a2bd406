"""The Service Bus emulator against Azure's own client: is it ever the bottleneck, and what do thousands of anything cost?

    .venv/bin/python bench/servicebus_emulator.py [--part throughput] [--messages 10000] [--rounds 3] [--data DIR]

Parts: `throughput`, processor time of broker and client a message, in memory and kept; `held`, connections and sessions that
do nothing; `backlog`, a million messages in a queue, without and with a time to live; `neighbours`, ten receivers beside a
slow one. The emulator is a process of its own in every one. About ten minutes, 2 GB of memory; the last line is JSON with
the same figures. Linux only. Kept messages are on a disk: name a directory on yours.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.servicebus import backlog, held, neighbours, throughput
from emulators.servicebus.file_limit import raise_file_limit

Figures = dict[str, float]
HOUR = 3_600_000


def costs(messages: int, rounds: int, folder: Path) -> Figures:
    """Of every case, in memory and kept."""
    figures: Figures = {}
    print(f"{'throughput':34}{'broker us':>12}{'client us':>12}{'ratio':>8}{'messages/s':>12}")
    for place, data in (("memory", None), ("kept", folder / "data")):
        for name, cost in throughput.measure(data, folder, messages, rounds):
            print(
                f"{f'{name}, {place}':34}{cost.broker:12.1f}{cost.client:12.1f}{cost.ratio:8.2f}{cost.rate:12.0f}",
                flush=True,
            )
            about = {"broker us": cost.broker, "client us": cost.client, "ratio": cost.ratio, "messages/s": cost.rate}
            figures |= {f"{name}, {place}: {what}": value for what, value in about.items()}
    return figures


def shown(title: str, figures: Figures) -> Figures:
    """The figures, printed."""
    print(f"\n{title}")
    for name, value in figures.items():
        print(f"{name:46}{value:12.1f}", flush=True)
    return {f"{title}: {name}": value for name, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("throughput", "held", "backlog", "neighbours"), help="one of them only")
    parser.add_argument("--messages", type=int, default=10_000, help="of each throughput case and of the neighbours")
    parser.add_argument("--rounds", type=int, default=3, help="of each throughput case; the median counts")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--backlog", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, help="where to make the data directory (default: the temporary one)")
    chosen = parser.parse_args()
    raise_file_limit()
    with tempfile.TemporaryDirectory(dir=chosen.data) as folder:
        parts: dict[str, Callable[[], Figures]] = {
            "throughput": lambda: costs(chosen.messages, chosen.rounds, Path(folder)),
            "held": lambda: (
                shown("connections", held.connections(chosen.connections))
                | shown("sessions", held.sessions(chosen.sessions))
            ),
            "backlog": lambda: (
                shown("backlog", backlog.measure(chosen.backlog))
                | shown("backlog with a time to live", backlog.measure(chosen.backlog, HOUR))
            ),
            "neighbours": lambda: shown("neighbours", neighbours.measure(chosen.messages // 5)),
        }
        figures: Figures = {}
        for name in parts if chosen.part is None else [chosen.part]:
            figures |= parts[name]()
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
