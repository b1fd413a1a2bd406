"""An output beside its client library's own bare loop: both in turns in one run, so that a busy machine slows both alike.

Each way takes the same messages and returns when the server has all of them. The median of the rounds counts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from common.message import Message

GOAL = 0.8

Way = Callable[[Sequence[Message]], object]
"""Sends all of the messages."""


def compared(
    name: str, ways: Mapping[str, Way], fresh: Callable[[str, int], Sequence[Message]], *, rounds: int, bare: str
) -> float:
    """Prints messages a second of each way, and the share of `bare` that the way "dstream" reaches; returns that share.

    `fresh(way, round)`: the messages of a turn. A first turn of each is not counted.
    """
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        order = list(ways) if number % 2 else list(reversed(ways))
        for way in order:
            messages = fresh(way, number)
            started = time.perf_counter()
            ways[way](messages)
            if number:
                rates[way].append(len(messages) / (time.perf_counter() - started))
    found = {way: round(median(each)) for way, each in rates.items()}
    share = found["dstream"] / found[bare]
    for way, rate in found.items():
        print(f"{name:<16} {way:<16} {rate:>9,} messages/s")
    print(f"{name:<16} {share:.2f} of {bare} (goal {GOAL})")
    print(json.dumps({"output": name, **found, "share": round(share, 3), "goal": GOAL}))
    return share
