"""Port: how far each table was sent. An offset never moves back, and only the newest owner of the table's lock can move
it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from common.errors import DStreamError
from common.names import TableName
from ingester.position import Position


@dataclass(frozen=True, slots=True)
class Claimed:
    """A table's stored offset. `position`: None on first start. `source`: the table whose changes it counts, as in
    `CaptureInstance.source`; None where an older installation did not store it."""

    position: Position | None
    source: str | None = None


class TakenOffsets(Protocol):
    """Offsets of tables that were claimed, as a worker uses them. Not thread-safe. Raises TransientError,
    PermanentError and LeaseLost."""

    def load(self, table: TableName, epoch: int, source: str | None = None) -> Position | None:
        """The stored offset. Raises LeaseLost when a newer owner has claimed the table, or the offset no longer belongs
        to `source`."""
        ...

    def commit(self, table: TableName, epoch: int, *, seen: Position | None, position: Position) -> None:
        """Move the offset from `seen` to `position`. Raises LeaseLost when it is no longer at `seen` or a newer owner
        has claimed the table."""
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """The arguments of `claim`, for one of many tables."""

    table: TableName
    epoch: int
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """The arguments of `commit`, for one of many tables."""

    table: TableName
    epoch: int
    seen: Position | None
    position: Position


class Offsets(TakenOffsets, Protocol):
    """Not thread-safe. Every method raises TransientError or PermanentError; those that name an epoch also
    LeaseLost."""

    def ensure(self) -> None:
        """Create the store, or add what an older one lacks. Keeps every row."""
        ...

    def claim(self, table: TableName, epoch: int, source: str | None = None) -> Claimed:
        """Claim the table for the owner with `epoch` and return its offset. `source`: stored if none is yet.

        Raises LeaseLost when a newer owner has claimed it, PermanentError when its changes are sent to another
        destination than ours. From then on commits of older owners are refused.
        """
        ...

    def claim_many(self, claims: Sequence[Claim]) -> Sequence[Claimed | DStreamError]:
        """`claim` for each, in one round trip for a hundred. An error of one table is its own result, and affects no
        other.

        Raises ConnectionLost. Which tables were claimed by then is unknown; claiming them again does no harm.
        """
        ...

    def move_many(self, moves: Sequence[Move]) -> Sequence[Position | DStreamError]:
        """Where each offset is now, in one round trip for a hundred. An error of one table is its own result, and
        affects no other.

        An offset that was not at `seen` is not moved. If no newer owner has claimed its table its position is returned
        all the same, since only this owner can have moved it: by a commit whose answer was lost. Raises ConnectionLost.
        """
        ...

    def go_over(
        self, table: TableName, epoch: int, *, seen: Position | None, left: str, source: str, start: Position
    ) -> Position:
        """From now on the name means `source`, not `left`, which was read up to `seen`. Returns where to start reading
        `source`.

        That is `start`, or where reading stopped when it lost the name. Raises LeaseLost as `commit` does.
        """
        ...

    def close(self) -> None: ...
