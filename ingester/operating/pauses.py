"""Port: the tables that a person has paused, as the source's database keeps them. A pause outlives every process.

A paused table is not read: its offset stays, its lock stays with its owner, and cleanup goes on. Nothing here knows a table's ingester.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from common.errors import PermanentError
from common.names import TableName


@dataclass(frozen=True, slots=True)
class Pause:
    """`at`: in UTC. `by`: login and machine."""

    at: str
    by: str
    reason: str | None = None


class PausesHidden(PermanentError):
    """This login may not read pauses, or may not know whether there are any: nothing follows for a table."""


class Pauses(Protocol):
    """Not thread-safe. Every method raises TransientError or PermanentError."""

    def paused(self) -> Mapping[str, Pause] | None:
        """By `TableName.key` in lower case; None where no pause was ever kept. Raises PausesHidden where that cannot be known."""
        ...

    def ended(self, key: str) -> Pause | None:
        """Who ended the last pause of the table with this key, when and why; None if that is not known."""
        ...

    def pause(self, table: TableName, reason: str | None) -> bool:
        """False if it is paused already: then nothing was changed."""
        ...

    def resume(self, table: TableName, reason: str | None) -> bool:
        """False if it is not paused. Raises PausesHidden where that cannot be known."""
        ...

    def close(self) -> None: ...
