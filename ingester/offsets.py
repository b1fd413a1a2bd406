"""Port: how far each table was sent. An offset never moves back, and only the newest owner of the table's lock can move it."""

from __future__ import annotations

from typing import Protocol

from common.names import TableName
from ingester.lsn import Position


class Offsets(Protocol):
    """Not thread-safe. Every method raises TransientError or PermanentError; those that name an epoch also LeaseLost."""

    def ensure(self) -> None:
        """Make the store, or add what an older one lacks; keeps every row."""
        ...

    def claim(self, table: TableName, epoch: int) -> Position | None:
        """Take the table for the owner with `epoch` and return its offset, None on first start.

        Raises LeaseLost when a newer owner has been there. From now on commits of older owners are refused.
        """
        ...

    def load(self, table: TableName, epoch: int) -> Position | None:
        """The stored offset. Raises LeaseLost when a newer owner has claimed the table."""
        ...

    def commit(self, table: TableName, epoch: int, *, seen: Position | None, position: Position) -> None:
        """Move the offset from `seen` to `position`. Raises LeaseLost when it no longer stands at `seen` or a newer owner has been there."""
        ...

    def close(self) -> None: ...
