"""What a move of an offset means, and what it needs to be allowed. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from common.errors import Unfit
from common.names import TableName
from ingester.operating.offset_desk import Count
from ingester.position import Position

SKIP, TAKE = "--skip", "--take"
"""The options that confirm what a move needs."""


class Held(StrEnum):
    """Whether an ingester holds a table's lock. UNKNOWN: the kind of lock does not show it, or it cannot be asked."""

    HELD = "held"
    FREE = "free"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Span:
    """The changes between two positions. `count`: None where they cannot be counted, `why` says so."""

    after: Position
    upto: Position
    count: Count | None = None
    why: str | None = None

    def __str__(self) -> str:
        if self.count is None:
            return f"an unknown number of changes ({self.why})"
        return "1 change" if self.count == Count(1) else f"{self.count} changes"


@dataclass(frozen=True, slots=True)
class MovePlan:
    """`begun`: where the offset is; None before the first start. `low`: where the captured changes begin now.

    `again`: changes that will be sent again. `skipped`: changes that will not be sent. `lost`: which changes are gone
    before they were sent, as the move accepts; None if none are.
    """

    table: TableName
    begun: Position | None
    to: Position
    low: Position
    held: Held
    owner: str | None = None
    why_unknown: str | None = None
    again: Span | None = None
    skipped: Span | None = None
    lost: str | None = None

    @property
    def needs(self) -> tuple[tuple[str, str], ...]:
        """(option, why) of each confirmation."""
        return tuple(self._needs())

    def _needs(self) -> Iterator[tuple[str, str]]:
        if self.lost is not None:
            yield SKIP, self.lost
        if self.skipped is not None:
            yield SKIP, f"{self.skipped} would never be sent, and are lost for the subscribers"
        if self.held is Held.HELD:
            yield TAKE, f"{self.owner or 'a running ingester'} reads this table now"
        elif self.held is Held.UNKNOWN:
            yield TAKE, f"an ingester may be reading this table now: {self.why_unknown}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a table's offset may be: `low` is where its captured changes begin, `captured` how far capture has come."""

    low: Position
    captured: Position


def within(table: TableName, to: Position, bounds: Bounds) -> Position:
    """`to`. Raises Unfit where nothing can be read from there."""
    if to < bounds.low:
        raise Unfit(
            f"setting the offset of {table.key} to {to}: this is below the low watermark, {bounds.low}: changes before it were removed "
            "or never captured",
            hint="use --earliest, or a later position",
        )
    if to > bounds.captured:
        raise Unfit(
            f"setting the offset of {table.key} to {to}: this is beyond {bounds.captured}, which is how far capture has come",
            hint="use --latest, or an earlier position",
        )
    return to


def spans(begun: Position | None, to: Position, bounds: Bounds) -> tuple[Span | None, Span | None, bool]:
    """(what is sent again, what is skipped, whether changes are lost already) by a move from `begun`.

    Without an offset, and with one that cleanup has passed, reading would begin at the low watermark.
    """
    lost = begun is not None and begun < bounds.low
    reads_from = bounds.low if begun is None or lost else begun
    if to < reads_from:
        return Span(to, min(reads_from, bounds.captured)), None, lost
    if to > reads_from:
        return None, Span(reads_from, to), lost
    return None, None, lost
