"""Port: the stored offsets as a person reads and moves them, from the database alone: no ingester has to run.

Reading takes no lock and claims nothing. A move is one transaction that raises the epoch of the offset, so a commit that
an owner has under way is refused afterwards, and a claim at the same moment comes either before it (and the move is not
made) or after it (and reads the new position).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from common.errors import DStreamError
from common.names import TableName
from ingester.position import Position
from ingester.source import CaptureInstance


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A row of the store. `position`: None before the first start. `committed`: when the newest transaction up to it was
    committed, in UTC; None where the log's times do not reach back. `owner`: who claimed the table last; None if that is
    not known, or if the offset was set since. `source`: as in `Claimed`."""

    position: Position | None
    epoch: int
    owner: str | None = None
    committed: str | None = None
    updated: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """How many changes; `capped`: there may be more, they were not counted."""

    changes: int
    capped: bool = False

    def __str__(self) -> str:
        return f"{'>= ' if self.capped else ''}{self.changes:,}"


@dataclass(frozen=True, slots=True)
class Lag:
    """The changes after an offset that are captured. `seconds`: since the oldest of them was committed; 0 for none."""

    waiting: Count
    seconds: float


@dataclass(frozen=True, slots=True)
class LagRequest:
    """The changes of `instance` after `after`; below `before`, where a newer instance takes over. None: no border."""

    table: TableName
    instance: CaptureInstance
    after: Position
    before: Position | None = None


@dataclass(frozen=True, slots=True)
class MoveOrder:
    """`epoch`: of the offset as it was seen; None: there was none. `source`: the table whose changes it counts from now
    on."""

    table: TableName
    epoch: int | None
    to: Position
    source: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Move:
    """A move that was made. `at`: in UTC. `login`, `host`: who asked for it. `begun`: where the offset was, None before
    the first start. Both places are as `OffsetDesk.words` writes them."""

    table: str
    at: str
    login: str
    host: str | None
    begun: str | None
    to: str
    reason: str | None


class OffsetDesk(Protocol):
    """Not thread-safe. Every method raises TransientError or PermanentError."""

    def stored(self) -> Mapping[str, StoredOffset]:
        """Every offset by `TableName.key`; empty before the first start."""
        ...

    def owners_named(self) -> bool:
        """Whether the store can name owners at all."""
        ...

    def captured(self) -> Position | None:
        """How far capture has come; None before its first transaction."""
        ...

    def lags(self, requests: Sequence[LagRequest], most: int) -> Mapping[TableName, Lag | DStreamError]:
        """At most `most` changes of each table are counted, all in a few round trips."""
        ...

    def count(self, instance: CaptureInstance, after: Position, upto: Position, most: int) -> Count:
        """The changes in (after, upto]."""
        ...

    def words(self, position: Position) -> str:
        """For a person: on which side of which transaction it is."""
        ...

    def position_of(self, lsn: str) -> Position:
        """Before the first change of the transaction with this LSN. Raises ConfigurationError for a text that is none."""
        ...

    def position_at(self, moment: datetime) -> Position | None:
        """Before the first transaction that was committed at `moment`, which has a zone, or later; None if there is
        none."""
        ...

    def end_of(self, lsn: str) -> Position:
        """After the last change of the transaction with this LSN. Raises ConfigurationError for a text that is none."""
        ...

    def end_at(self, moment: datetime) -> Position | None:
        """After the last transaction that was committed at `moment`, which has a zone, or earlier; None if none is known."""
        ...

    def reaches_back(self, moment: datetime) -> bool:
        """Whether the source still knows when transactions before `moment` were committed, so that none after it is forgotten."""
        ...

    def move(self, order: MoveOrder) -> bool:
        """Move the offset and write down who did it. False: nothing was changed, because the table was claimed or its
        offset set since `order.epoch` was seen.

        Raises ConnectionLost, and then it is unknown whether the offset was moved.
        """
        ...

    def moves(self, table: TableName | None, most: int) -> Sequence[Move]:
        """The newest first."""
        ...

    def close(self) -> None: ...
