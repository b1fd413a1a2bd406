"""How long documents have been losing a race for a new field, and how long to wait until they are sent again. Knows no server.

The loser is told before the nodes learn of the field, and a busy cluster may take seconds to publish it. A send keeps its turn for a moment
only, because other sessions of the table wait for it: so a race outlives the sends of its document.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

PATIENCE: Final = 30.0
"""Seconds after which a race is a fault: so long the master itself waits for nodes to take what it publishes."""
TURN: Final = 1.0
"""Seconds that a send may wait in all."""
_FIRST: Final = 0.05
_LONGEST: Final = 1.0
_FORGOTTEN: Final = 300.0
"""Seconds without another attempt after which its message has gone elsewhere."""


@dataclass(slots=True)
class _Race:
    """`began`: when the document got which words first. `last`: when it got any."""

    began: dict[str, float]
    last: float


class Races:
    """By the ids of documents."""

    def __init__(self) -> None:
        self._races: dict[str, _Race] = {}
        self._looked = time.monotonic()

    def lost(self, id: str, words: str) -> float:
        """For how many seconds this document has been getting these words, which name the field, at times beside others."""
        now, race = time.monotonic(), self._races.get(id)
        if race is None or now - race.last > _FORGOTTEN:
            self._forget(now)
            race = self._races[id] = _Race({}, now)
        race.last = now
        return now - race.began.setdefault(words, now)

    def over(self, ids: Iterable[str]) -> None:
        """These documents got another answer."""
        for id in ids if self._races else ():
            self._races.pop(id, None)

    def _forget(self, now: float) -> None:
        if now - self._looked > _FORGOTTEN:
            self._looked = now
            self._races = {id: race for id, race in self._races.items() if now - race.last <= _FORGOTTEN}


class Turn:
    """The waiting of one send, until the moment `until` at the latest."""

    def __init__(self, until: float) -> None:
        self._until, self._left = until, TURN

    def wait(self, age: float) -> bool:
        """Sleep for as long as a race has lasted, from 0.05 to 1 s. False, and no sleep, when the send has waited enough."""
        pause = min(max(age, _FIRST), _LONGEST)
        if pause > self._left or time.monotonic() + pause >= self._until:
            return False
        self._left -= pause
        time.sleep(pause)
        return True
