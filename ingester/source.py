"""Port: the log's bounds, the capture instances, and pages of changes. What it hands out was committed; it never reads dirty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from common.names import TableName
from ingester.change import Change
from ingester.lsn import Lsn, Position


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A row of cdc.captured_columns. `ordinal` counts from 1 in the capture instance; `key_ordinal` from 1 in the key, or None.

    `large`: a (max) type or xml.
    """

    name: str
    type: str
    ordinal: int
    computed: bool = False
    large: bool = False
    key_ordinal: int | None = None


@dataclass(frozen=True, slots=True)
class CaptureInstance:
    """A row of cdc.change_tables with its columns. `has_command_id` is False where the change table was never upgraded."""

    name: str
    table: TableName
    change_table: str
    start_lsn: Lsn
    columns: tuple[CapturedColumn, ...]
    has_command_id: bool = True


@dataclass(frozen=True, slots=True)
class TableState:
    """What the database says of a configured table."""

    exists: bool
    instances: tuple[CaptureInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """Has `instance` anything in (after, the log's end]?"""

    instance: CaptureInstance
    after: Position | None


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """`low_watermark` is None while the server does not tell (a new instance whose first scan is running)."""

    low_watermark: Lsn | None
    pending: bool


@dataclass(frozen=True, slots=True)
class Probe:
    """How far capture has come (None before its first scan), and an answer for every request, by capture instance."""

    max_lsn: Lsn | None
    answers: Mapping[str, ProbeAnswer]


@dataclass(frozen=True, slots=True)
class Page:
    """Changes in the order of their positions.

    `end`: the position of the last row read, so that the next page begins after it; None for an empty page. `full`: there may be
    more in the window. `low_watermark`: read after the rows were, since cleanup raises it before it deletes.
    """

    changes: Sequence[Change]
    end: Position | None
    full: bool
    low_watermark: Lsn | None


class Source(Protocol):
    """Not thread-safe: one a thread. Every method raises TransientError (connection, deadlock) or PermanentError (rights, objects)."""

    def states(self, tables: Sequence[TableName]) -> Mapping[TableName, TableState]:
        """What is there now; a table that is missing or not under CDC is an answer, not an error."""
        ...

    def probe(self, requests: Sequence[ProbeRequest]) -> Probe:
        """One round trip for all."""
        ...

    def page(self, instance: CaptureInstance, *, after: Position, upto: Position, rows: int) -> Page:
        """The first `rows` rows (at least 2) of the window (after, upto], whole changes only."""
        ...

    def close(self) -> None: ...
