"""The sender's process is killed in mid-send, again and again, and another one sends what was not reported accepted."""

from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from common.in_time import begun
from common.message import Message
from router.outputs.port import Stream
from tests.outputs.contract.delivery import MERCY
from tests.outputs.contract.world import Recipe

_PAGE = 200
_MOST_EACH = 60.0
"""Seconds for a kill in mid-send, those that came too late included."""


@dataclass
class Killed:
    """`sent`: every message, each reported accepted. `kills`: those in mid-send; `late`: those after which the report came all the same."""

    sent: list[Message] = field(default_factory=list)
    kills: int = 0
    late: int = 0


class SendingProcess:
    """Started at once."""

    def __init__(self, recipe: Recipe, stream: Stream) -> None:
        command = [sys.executable, "-m", "tests.outputs.contract.sending"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._say((recipe, stream))

    def accepted(self, page: Sequence[Message], *, killed_after: float | None = None) -> frozenset[int] | None:
        """The places that it reports; None when it died before."""
        self._say(page)
        if killed_after is not None:
            time.sleep(killed_after)
            self._process.kill()
        assert self._process.stdout is not None
        line = begun(self._process.stdout.readline, name="sending-report").result(MERCY)
        if killed_after is None:
            assert line, "the process that sends has ended by itself"
        return frozenset(json.loads(line)) if line.endswith(b"\n") else None

    def _say(self, what: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(pickle.dumps(what))
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.kill()
        self._process.wait(MERCY)
        for end in (self._process.stdin, self._process.stdout):
            assert end is not None
            end.close()


def deliver_under_kills(
    recipe: Recipe, stream: Stream, make: Callable[[int], Message], *, kills: int, seed: int
) -> Killed:
    """Pages of `make(0)`, `make(1)`, ... Each process sends one whole page, and is killed at a random instant of the next one.

    The first process is not killed: its second page shows how long one takes.
    """
    random, result, numbers = Random(seed), Killed(), itertools.count()
    waiting, took, end = list[Message](), None, time.monotonic() + _MOST_EACH * kills
    while result.kills < kills or waiting:
        process = SendingProcess(recipe, stream)
        try:
            for second in (False, True):
                assert time.monotonic() < end, f"{result.kills} kills in mid-send, {result.late} too late"
                if result.kills < kills:
                    fresh = [make(next(numbers)) for _ in range(_PAGE - len(waiting))]
                    result.sent += fresh
                    waiting = waiting + fresh
                lethal = second and took is not None and result.kills < kills
                after = random.uniform(0, 0.8 * took) if lethal and took is not None else None
                began = time.monotonic()
                accepted = process.accepted(waiting, killed_after=after)
                if lethal:
                    result.kills += accepted is None
                    result.late += accepted is not None
                elif second:
                    took = time.monotonic() - began
                waiting = [each for at, each in enumerate(waiting) if at not in (accepted or ())]
        finally:
            process.close()
    return result
