"""How far each output of a session has come, as it is kept with the session; and how often a session may be read again. Asks no broker.

A watermark is a position in the queue up to which an output has accepted everything that is routed to it. It may be too low, and then the output
gets copies with the same ids. It must never be too high: messages would be lost. So it is believed only where the same messages of the session
would go to that output by the present routes: an edit of other tables, or of another output, changes nothing.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from common.retry import Backoff

Position = tuple[int, int]
"""See `common.bus.ports.Delivery.position`."""

Kind = tuple[str, str | None, str | None]
"""What routes know of a message besides what filters read: its topic, and the schema and table that it names."""

Led = Callable[[str, Collection[Kind]], str]
"""Differs when messages of these kinds might reach the output differently, or not at all."""

NO_OUTPUTS: Final[Mapping[str, object]] = {}

MOST_KINDS: Final = 20
"""A session with more counts as one with all of them: any edit of routes or outputs may concern it."""

Made = Mapping[str, object]
"""The settings of each output."""

Readings = Mapping[str, tuple[int, float, Made]]
"""By session: how often in a row it was read again, when last, by the machine's steady clock, and with which outputs."""

Ways = Mapping[str, str]
"""The outputs that have accepted a message, and the `Led` by which it reached each."""

_Given = tuple[str, float, Ways]
"""A message's id, and when it was given back, by the machine's steady clock."""

Given = Sequence[tuple[Position, _Given]]
"""Messages that were given back, the oldest first."""

REMEMBERED: Final = 3600.0
"""Seconds for which it is remembered who has a message that was given back. It comes again at once, unless its queue is another one now."""

_VERSION: Final = 1

PAUSES: Final = Backoff(first=10.0, longest=600.0)
"""Between two readings of the same session from its beginning: an output that comes and goes must not cost the messages their delivery counts."""

CALM: Final = 1800.0
"""Seconds without another reading after which the next is the first again."""


@dataclass(slots=True)
class Kinds:
    """Of the messages of a session up to its watermarks. `known` is None when not all of them are known, or when they are too many."""

    known: set[Kind] | None = field(default_factory=set)
    met: object = None
    """What the message said from which the last kind came."""

    def add(self, kind: Kind | None) -> None:
        """None: of a message that no route is asked for."""
        if self.known is None or kind is None or kind in self.known:
            return
        self.known.add(kind)
        if len(self.known) > MOST_KINDS:
            self.known = None


def written(
    marks: Mapping[str, Position], fingerprint: str, kinds: Collection[Kind] | None = None, led: Led | None = None
) -> bytes:
    """The state of a session; `fingerprint` of all routes and outputs. A router that does not know `of` and `led` reads the rest."""
    accepted = {output: list(mark) for output, mark in marks.items()}
    state: dict[str, object] = {"v": _VERSION, "routes": fingerprint, "accepted": accepted}
    if led is not None and kinds is not None:
        state |= {"of": sorted(map(list, kinds), key=str), "led": {output: led(output, kinds) for output in marks}}
    return json.dumps(state, separators=(",", ":")).encode()


def read(
    state: bytes | None, fingerprint: str, outputs: Collection[str], led: Led | None = None
) -> tuple[dict[str, Position], Kinds]:
    """The watermarks of `outputs`, without those that the present routes make doubtful, and the kinds of messages up to them. Empty for a state that
    cannot be read: copies do no harm."""
    try:
        found = json.loads(state or b"{}")
        if found.get("v") != _VERSION:
            return {}, Kinds()
        same, kinds, by = found.get("routes") == fingerprint, _kinds(found.get("of")), found.get("led") or {}
        if led is not None and kinds is not None and not same:
            outputs = [output for output in outputs if by.get(output) == led(output, kinds)]
        elif not same:
            return {}, Kinds()
        marks = {
            output: (sequence, place)
            for output, (sequence, place) in found["accepted"].items()
            if output in outputs and type(sequence) is int and type(place) is int
        }
        return marks, Kinds(kinds) if marks else Kinds()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}, Kinds()


def _kinds(found: object) -> set[Kind] | None:
    if not isinstance(found, list):
        return None
    kinds = {(topic, schema, table) for topic, schema, table in found}
    return kinds if all(part is None or isinstance(part, str) for kind in kinds for part in kind) else None


class Rereads:
    """When a session may be read from its first unsettled message again. Shared by the slots."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._read: dict[str, tuple[int, float, Made]] = {}

    def due(self, session_id: str, now: float, output: str = "", made: Made = NO_OUTPUTS) -> bool:
        """For `output`: one that an edit has changed waits for no pause of the one before it."""
        count, last, before = self._read.get(session_id, (0, now, made))
        return (
            not count
            or before.get(output) != made.get(output)
            or now - last >= PAUSES.delay(count, lambda: 1.0)
            or now - last >= CALM
        )

    def begin(
        self, session_id: str, now: float, output: str = "", made: Made = NO_OUTPUTS, *, progressed: bool = False
    ) -> None:
        """`progressed`: the reading that ends here was no vain one; an output that takes much of what it missed each time waits least."""
        with self._guard:
            self._read = {each: held for each, held in self._read.items() if now - held[1] < CALM}
            count, _, before = self._read.get(session_id, (0, now, made))
            again = not progressed and before.get(output) == made.get(output)
            self._read[session_id] = (count + 1 if again else 1, now, made)

    def told(self) -> Readings:
        """For another process of this router."""
        with self._guard:
            return dict(self._read)

    def learn(self, told: Readings) -> None:
        with self._guard:
            later = {each: held for each, held in told.items() if held[1] >= self._read.get(each, held)[1]}
            self._read = {**self._read, **later}


class Remembered:
    """Which outputs have accepted messages that were given back, in a queue without sessions. Bounded; what is forgotten is sent again.

    It is believed only of the same message, by its id: another queue of the same name (after a failover, or made again) counts from 1 again. It is
    believed of an output only where the message would reach it in the same way by the present routes.
    """

    def __init__(self, most: int = 100_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._guard = threading.Lock()
        self._accepted: OrderedDict[Position, _Given] = OrderedDict()

    def note(self, position: Position, message_id: str | None, ways: Ways) -> None:
        """A message without an id is not remembered: nothing would show that it is the same one."""
        with self._guard:
            if message_id is not None:
                self._note(position, (message_id, self._clock(), ways))

    def _note(self, position: Position, given: _Given) -> None:
        message_id, at, ways = given
        before = self._accepted.get(position)
        if before is not None and before[0] == message_id:
            at, ways = max(at, before[1]), {**before[2], **ways}
        self._accepted[position] = message_id, at, ways
        self._accepted.move_to_end(position)
        while len(self._accepted) > self._most or self._old(next(iter(self._accepted.values()))):
            self._accepted.popitem(last=False)
            if not self._accepted:
                return

    def _old(self, given: _Given) -> bool:
        return self._clock() - given[1] >= REMEMBERED

    def take(self, position: Position, message_id: str | None, way: Callable[[str], str]) -> frozenset[str]:
        """It has come again. `way`: how it reaches an output now."""
        if not self._accepted:
            return frozenset()
        with self._guard:
            had = self._accepted.pop(position, None)
        if had is None or had[0] != message_id or self._old(had):
            return frozenset()
        return frozenset(output for output, before in had[2].items() if way(output) == before)

    def told(self) -> Given:
        """For another process of this router."""
        with self._guard:
            self._accepted = OrderedDict((at, given) for at, given in self._accepted.items() if not self._old(given))
            return list(self._accepted.items())

    def learn(self, told: Given) -> None:
        with self._guard:
            for position, given in told:
                self._note(position, given)
