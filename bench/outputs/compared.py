"""An output beside its client library's own bare loop: both in turns in one run, so that a busy machine slows both alike.

Each way takes the same messages and returns when the server has all of them. Two shares are printed, each the median over the rounds of what two
neighbouring turns say: the rate, and the processor time of this process with all of its threads. The second one hardly depends on what else the
machine does, and the server's own time is in neither process time, because it is another process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from common.message import Message

GOAL = 0.8

Way = Callable[[Sequence[Message]], object]
"""Sends all of the messages."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Seconds for one message: by the clock, and of the processor."""

    taken: float
    worked: float


@dataclass(frozen=True, slots=True)
class Shares:
    """Of the bare loop's rate and thrift that the way "dstream" reaches; 1 is as fast, or as little processor time."""

    rate: float
    processor: float


def compared(
    name: str, ways: Mapping[str, Way], fresh: Callable[[str, int], Sequence[Message]], *, rounds: int, bare: str
) -> Shares:
    """Prints messages a second and microseconds of the processor for a message of each way, and the shares of `bare` that "dstream" reaches.

    `fresh(way, round)`: the messages of a turn. A first turn of each is not counted.
    """
    turns: dict[str, list[Turn]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        order = list(ways) if number % 2 else list(reversed(ways))
        for way in order:
            turn = _turn(ways[way], fresh(way, number))
            if number:
                turns[way].append(turn)
    shares = Shares(
        median(other.taken / own.taken for own, other in zip(turns["dstream"], turns[bare], strict=True)),
        median(other.worked / own.worked for own, other in zip(turns["dstream"], turns[bare], strict=True)),
    )
    _print(name, turns, shares, bare)
    return shares


def _turn(way: Way, messages: Sequence[Message]) -> Turn:
    started, worked = time.perf_counter(), time.process_time()
    way(messages)
    return Turn((time.perf_counter() - started) / len(messages), (time.process_time() - worked) / len(messages))


def _print(name: str, turns: Mapping[str, Sequence[Turn]], shares: Shares, bare: str) -> None:
    figures = {}
    for way, each in turns.items():
        rate = round(1 / median(turn.taken for turn in each))
        worked = round(median(turn.worked for turn in each) * 1e6, 1)
        figures[way] = {"rate": rate, "us": worked}
        print(f"{name:<16} {way:<16} {rate:>9,} messages/s {worked:>8,} us of the processor for each")
    print(f"{name:<16} {shares.rate:.2f} of the rate of {bare}, {shares.processor:.2f} by processor time (goal {GOAL})")
    print(
        json.dumps(
            {
                "output": name,
                "ways": figures,
                "bare": bare,
                "rate_share": round(shares.rate, 3),
                "processor_share": round(shares.processor, 3),
                "goal": GOAL,
            }
        )
    )
