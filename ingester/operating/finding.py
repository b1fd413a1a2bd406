"""Port: single changes as the source still has them, for a person who asks where they are. Reads only; values only, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from common.message import Message
from common.names import TableName
from ingester.position import Position


class Treated(StrEnum):
    """What the shape in force makes of a change."""

    SENT = "sent"
    SKIPPED = "skipped"
    FILTERED = "filtered"
    SET_ASIDE = "set_aside"
    STOPS = "stops"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Captured:
    """A change that its change table still has. `lsn`: hexadecimal. `message`: as the ingester would send it with the present shape, masked as that
    says; None where it would send nothing. `why`: of `treated`, without a value of the row."""

    table: TableName
    event_id: str
    operation: str
    lsn: str
    commit_time: str | None
    position: Position
    treated: Treated
    why: str | None = None
    message: Message | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Moved:
    """An offset that a person moved over changes, which were not sent therefore. Places are in words."""

    begun: str | None
    to: str
    at: str
    by: str


@dataclass(frozen=True, slots=True)
class TableLook:
    """A table as SQL Server has it. `absence`: why its changes cannot be read. `low`: its oldest changes are behind it. `captured`: how far
    capture has come. `offset`: None before the first start. `dropped`: the offset counts the changes of another table that had this name."""

    table: TableName
    absence: str | None = None
    low: Position | None = None
    captured: Position | None = None
    offset: Position | None = None
    offset_words: str | None = None
    updated: str | None = None
    dropped: bool = False
    keys: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """The newest changes of a row, the newest first. `rows`: how many changes of the table were looked at; `back_to`: the LSN down to which, None:
    all that there are."""

    changes: Sequence[Captured]
    rows: int
    back_to: str | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """What an event id names. `position`: None where it is not that of a change: of a row that a snapshot read, or an event."""

    table: TableName
    position: Position | None
    kind: str = "change"


class ChangeFinder(Protocol):
    """Not thread-safe. Every method but `named` asks SQL Server, and raises TransientError or PermanentError."""

    def named(self, event_id: str) -> Named | None:
        """None for an id that no configured table's changes have. Asks nobody."""
        ...

    def table(self, name: str) -> TableName:
        """The configured table, in any case. Raises ConfigurationError."""
        ...

    def look(self, table: TableName) -> TableLook: ...

    def at(self, table: TableName, position: Position) -> Captured | None:
        """None if it is not in its change table (any more)."""
        ...

    def of_key(self, table: TableName, key: Mapping[str, str], most: int) -> Found:
        """`key`: the value of each column of the key, as text. Raises ConfigurationError for other columns, or a text that is no such value."""
        ...

    def moved_over(self, table: TableName, position: Position) -> Moved | None:
        """The newest move of the table's offset from before a position to behind it."""
        ...

    def commit_time(self, position: Position) -> str | None:
        """Of its transaction, in UTC; None where the log's times do not have it."""
        ...

    def close(self) -> None:
        """Never raises."""
        ...
