"""How many tables an ingester takes next to others: its fair share at once, more only if nobody else takes them. Pure.

docs/decisions/0009-sharing-tables.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

PATIENCE_SECONDS = 30.0
"""How long to leave a free table beyond the share to others. Some of them may be counted but unable to read."""


def fair(tables: int, live: int) -> int:
    """The share of each of `live` ingesters."""
    return ceil(tables / max(1, live))


@dataclass(slots=True)
class FairShare:
    """`patience` in seconds. Remembers since when tables are free, and next to how many ingesters it took more."""

    patience: float = PATIENCE_SECONDS
    _free_since: dict[str, float] = field(default_factory=dict)
    _generous_with: int | None = None

    def pick(self, free: Sequence[str], *, mine: int, tables: int, live: int, now: float) -> list[str]:
        """Which `free` locks to take, with `mine` of `tables` held and `live` ingesters in all, this one included."""
        self._free_since = {name: self._free_since.get(name, now) for name in free}
        room = max(0, fair(tables, live) - mine)
        unwanted = [name for name in free[room:] if now - self._free_since[name] >= self.patience]
        if unwanted:
            self._generous_with = live
        return [*free[:room], *unwanted]

    def surplus(self, *, mine: int, tables: int, live: int) -> int:
        """How many locks to give back. None while the others are those that left tables to this ingester."""
        if live == self._generous_with:
            return 0
        self._generous_with = None
        return max(0, mine - fair(tables, live))
