"""How far each output of a session has come, as it is kept with the session; and how often a session may be read again. Asks no broker.

A watermark is a position in the queue up to which an output has accepted everything that is routed to it. It may be too low, and then the output
gets copies with the same ids. It must never be too high: messages would be lost.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Final

from common.retry import Backoff

Position = tuple[int, int]
"""See `common.bus.ports.Delivery.position`."""

_VERSION: Final = 1

PAUSES: Final = Backoff(first=10.0, longest=600.0)
"""Between two readings of the same session from its beginning: an output that comes and goes must not cost the messages their delivery counts."""

CALM: Final = 1800.0
"""Seconds without another reading after which the next is the first again."""


def written(marks: Mapping[str, Position], fingerprint: str) -> bytes:
    """The state of a session; `fingerprint` of the routes by which the outputs have come so far."""
    accepted = {output: list(mark) for output, mark in marks.items()}
    return json.dumps({"v": _VERSION, "routes": fingerprint, "accepted": accepted}, separators=(",", ":")).encode()


def read(state: bytes | None, fingerprint: str, outputs: Collection[str]) -> dict[str, Position]:
    """The watermarks of `outputs`. Empty for a state of other routes, or one that cannot be read: copies do no harm."""
    try:
        found = json.loads(state or b"{}")
        if found.get("v") != _VERSION or found.get("routes") != fingerprint:
            return {}
        return {
            output: (sequence, place)
            for output, (sequence, place) in found["accepted"].items()
            if output in outputs and type(sequence) is int and type(place) is int
        }
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


class Rereads:
    """When a session may be read from its first unsettled message again. Shared by the slots."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._read: dict[str, tuple[int, float]] = {}
        """How often in a row, and when last."""

    def due(self, session_id: str, now: float) -> bool:
        count, last = self._read.get(session_id, (0, now))
        return not count or now - last >= PAUSES.delay(count, lambda: 1.0) or now - last >= CALM

    def begin(self, session_id: str, now: float, *, progressed: bool = False) -> None:
        """`progressed`: the reading that ends here was no vain one; an output that takes much of what it missed each time waits least."""
        with self._guard:
            self._read = {each: held for each, held in self._read.items() if now - held[1] < CALM}
            before = 0 if progressed else self._read.get(session_id, (0, now))[0]
            self._read[session_id] = (before + 1, now)


class Remembered:
    """Which outputs have accepted messages that were given back, in a queue without sessions. Bounded; what is forgotten is sent again."""

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._accepted: OrderedDict[Position, frozenset[str]] = OrderedDict()

    def note(self, position: Position, outputs: Collection[str]) -> None:
        with self._guard:
            self._accepted[position] = self._accepted.get(position, frozenset()) | frozenset(outputs)
            self._accepted.move_to_end(position)
            while len(self._accepted) > self._most:
                self._accepted.popitem(last=False)

    def take(self, position: Position) -> frozenset[str]:
        """It has come again."""
        if not self._accepted:
            return frozenset()
        with self._guard:
            return self._accepted.pop(position, frozenset())
