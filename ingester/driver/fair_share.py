"""How many tables an ingester takes beside others: its fair share at once, more only when nobody else comes. Pure.

docs/decisions/0009-sharing-tables.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

PATIENCE_SECONDS = 30.0
"""How long a free table beyond the share is left to the others, who may have been counted though they cannot read."""


def fair(tables: int, live: int) -> int:
    """The share of each of `live` ingesters."""
    return ceil(tables / max(1, live))


@dataclass(slots=True)
class FairShare:
    """`patience` in seconds. Remembers since when tables have been free, and beside how many it took more than its share."""

    patience: float = PATIENCE_SECONDS
    _free_since: dict[str, float] = field(default_factory=dict)
    _generous_with: int | None = None

    def pick(self, free: Sequence[str], *, mine: int, tables: int, live: int, now: float) -> list[str]:
        """Which of the `free` locks to take, by one who has `mine` of `tables` beside `live` ingesters in all, itself one."""
        self._free_since = {name: self._free_since.get(name, now) for name in free}
        room = max(0, fair(tables, live) - mine)
        unwanted = [name for name in free[room:] if now - self._free_since[name] >= self.patience]
        if unwanted:
            self._generous_with = live
        return [*free[:room], *unwanted]

    def surplus(self, *, mine: int, tables: int, live: int) -> int:
        """How many to give back. None while the others are those who left us more than our share."""
        if live == self._generous_with:
            return 0
        self._generous_with = None
        return max(0, mine - fair(tables, live))
