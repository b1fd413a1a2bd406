"""Port: how far each table was sent. An offset never moves back, and only the newest owner of the table's lock can move it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from common.errors import DStreamError
from common.names import TableName
from ingester.position import Position


@dataclass(frozen=True, slots=True)
class Claimed:
    """A table's offset as it is stored: `position`, None on first start; `source`: whose changes it counts, as `CaptureInstance.source`
    tells a table from another of the same name. None where an older installation did not say."""

    position: Position | None
    source: str | None = None


class TakenOffsets(Protocol):
    """Offsets of tables that were claimed, as a worker uses them. Not thread-safe. Raises TransientError, PermanentError and LeaseLost."""

    def load(self, table: TableName, epoch: int, source: str | None = None) -> Position | None:
        """The stored offset. Raises LeaseLost when a newer owner has claimed the table, or it is not an offset of `source` any more."""
        ...

    def commit(self, table: TableName, epoch: int, *, seen: Position | None, position: Position) -> None:
        """Move the offset from `seen` to `position`. Raises LeaseLost when it no longer stands at `seen` or a newer owner has been there."""
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """What `claim` is to do with one of many tables."""

    table: TableName
    epoch: int
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """An offset that is to move from `seen` to `position`."""

    table: TableName
    epoch: int
    seen: Position | None
    position: Position


class Offsets(TakenOffsets, Protocol):
    """Not thread-safe. Every method raises TransientError or PermanentError; those that name an epoch also LeaseLost."""

    def ensure(self) -> None:
        """Make the store, or add what an older one lacks; keeps every row."""
        ...

    def claim(self, table: TableName, epoch: int, source: str | None = None) -> Claimed:
        """Take the table for the owner with `epoch` and return its offset. `source`: stored where nothing is yet.

        Raises LeaseLost when a newer owner has been there, PermanentError when its changes are sent to another destination than ours.
        From now on commits of older owners are refused.
        """
        ...

    def claim_many(self, claims: Sequence[Claim]) -> Sequence[Claimed | DStreamError]:
        """`claim` for each, in a round trip for a hundred. What one table met is its outcome, and no other's.

        Raises ConnectionLost; which tables were claimed by then is not known, and claiming them again does no harm.
        """
        ...

    def move_many(self, moves: Sequence[Move]) -> Sequence[Position | DStreamError]:
        """Where each offset stands now, in a round trip for a hundred. What one table met is its outcome, and no other's.

        One that did not stand at `seen` is not moved; where no newer owner has been there its position is returned all the same, since
        only this owner can have moved it: by a commit whose answer was lost. Raises ConnectionLost.
        """
        ...

    def go_over(
        self, table: TableName, epoch: int, *, seen: Position | None, left: str, source: str, start: Position
    ) -> Position:
        """The name means `source` from now on and not `left`, whose changes were read up to `seen`: where `source` is to be read from.

        That is `start`, or where it was left when the name was taken from it. Raises LeaseLost as `commit` does.
        """
        ...

    def close(self) -> None: ...
