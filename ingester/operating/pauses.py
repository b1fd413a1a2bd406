"""Port: the tables that a person has paused, as the source's database keeps them. A pause outlives every process.

A paused table is not read: its offset stays, its lock stays with its owner, and cleanup goes on. Nothing here knows a table's ingester.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from common.names import TableName


@dataclass(frozen=True, slots=True)
class Pause:
    """`at`: in UTC. `by`: login and machine."""

    at: str
    by: str
    reason: str | None = None


class Pauses(Protocol):
    """Not thread-safe. Every method raises TransientError or PermanentError."""

    def paused(self) -> Mapping[str, Pause]:
        """By `TableName.key` in lower case. Empty where nobody has ever paused a table, and where this login may not see it."""
        ...

    def hidden(self) -> bool:
        """Whether there may be pauses of which this login may not know."""
        ...

    def ended(self, key: str) -> Pause | None:
        """Who ended the last pause of the table with this key, when and why; None if that is not known."""
        ...

    def pause(self, table: TableName, reason: str | None) -> bool:
        """False if it is paused already: then nothing was changed."""
        ...

    def resume(self, table: TableName, reason: str | None) -> bool:
        """False if it is not paused."""
        ...

    def close(self) -> None: ...
