"""Port: the log's bounds, the capture instances, and pages of changes. What it hands out was committed; it never reads dirty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from common.names import TableName
from ingester.change import Change
from ingester.position import Lsn, Position


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A row of cdc.captured_columns. `ordinal` counts from 1 in the capture instance; `key_ordinal` from 1 in the key, or None.

    `large`: a (max) type or xml. `length`: in bytes, as sys.columns tells it; None where it does not. `gone`: the source has it no longer,
    whether or not it has another of that name: capture holds what it was before.
    """

    name: str
    type: str
    ordinal: int
    computed: bool = False
    large: bool = False
    key_ordinal: int | None = None
    length: int | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """What tells that a table's columns are still as they were: its object id, and a stamp that is another after any change of them."""

    object_id: int
    stamp: str | None


@dataclass(frozen=True, slots=True)
class CaptureInstance:
    """A row of cdc.change_tables with its columns. `has_command_id` is False where what is read does not tell it.

    `shape`: of the change table when the columns were read, or of the source where that is all that may be seen. `source`: what tells the
    source table from any other that has, had or will have its name; empty where that is not known. `added`: columns that the source table was
    given since, which are not captured.
    """

    name: str
    table: TableName
    change_table: str
    start_lsn: Lsn
    columns: tuple[CapturedColumn, ...]
    has_command_id: bool = True
    shape: Shape | None = None
    source: str = ""
    added: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableState:
    """What the database says of a configured table. `instances`: in the order in which they were made.

    `database_has_cdc`: whether the database has Change Data Capture at all.
    `former`: those of the table that the name meant when its offset was stored, where it means another now; they tell the present name.
    `moment`: the server's time after that was seen.
    `renamed`: what that table is named now, where none has the configured name.
    """

    exists: bool
    instances: tuple[CaptureInstance, ...] = ()
    database_has_cdc: bool = True
    former: tuple[CaptureInstance, ...] = ()
    moment: str = ""
    renamed: TableName | None = None


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """Has `instance` anything in (after, the log's end], and below `before` if a newer instance takes over there? Both are filled on."""

    instance: CaptureInstance
    after: Position | None
    before: Lsn | None = None


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """Of one request. `low_watermark`: the oldest commit LSN that the instance still holds."""

    low_watermark: Lsn | None
    pending: bool


@dataclass(frozen=True, slots=True)
class Probe:
    """How far capture has come (None before its first scan), and an answer for every request, by capture instance.

    `stale`: capture instances were made or dropped since `states` was last asked, so the answers may be about the wrong ones, or missing.
    `locked`: capture instances whose change table another session holds exclusively; there is no answer for them.
    `capture_holds`: capture is at a transaction, and how far it has come by now is not told: `max_lsn` is as it was, None if it was never
    told; then there are no answers.
    """

    max_lsn: Lsn | None
    answers: Mapping[str, ProbeAnswer]
    stale: bool = False
    locked: frozenset[str] = frozenset()
    capture_holds: bool = False


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


@dataclass(frozen=True, slots=True)
class Stride:
    """The first rows of a window, as many as were asked for or all: how many (before images not counted), and the last one's position."""

    rows: int
    end: Position


@dataclass(frozen=True, slots=True)
class Part:
    """One of the `of` parts of a stride of `rows` rows: those whose `columns` hash to `number`, which is 0 to `of` - 1.

    What the columns' types and collations hold equal is in one part, NULLs too. `stride`: tells the parts of one stride from another's.
    """

    stride: int
    number: int
    of: int
    columns: tuple[str, ...]
    rows: int


class Source(Protocol):
    """Not thread-safe: one a thread. Every method raises TransientError (connection, deadlock) or PermanentError (rights, objects)."""

    def states(
        self, tables: Sequence[TableName], sources: Mapping[TableName, str] | None = None
    ) -> Mapping[TableName, TableState]:
        """What is there now; a table that is missing or not under CDC is an answer, not an error.

        `sources`: of the tables that have an offset, `CaptureInstance.source` of the table whose changes it counts.
        """
        ...

    def passed(self, lsn: Lsn, moment: str) -> bool:
        """Whether the transaction at `lsn` was committed after `moment`, so that all that was committed before it is captured."""
        ...

    def probe(self, requests: Sequence[ProbeRequest]) -> Probe:
        """Two round trips at most for all; a table that somebody holds exclusively is waited for for a second, and holds up no other."""
        ...

    def page(
        self, instance: CaptureInstance, *, after: Position, upto: Position, rows: int, part: Part | None = None
    ) -> Page:
        """The first changes of the window (after, upto]: about `rows` rows (at least 1), fewer where those are wide; whole changes only.

        Values are read as the types that the change table has at that moment, whatever they were when the catalog was read. `upto` is the
        border of a transaction, or with a `part` any change's position.
        """
        ...

    def stride(self, instance: CaptureInstance, *, after: Position, upto: Position, rows: int) -> Stride | None:
        """The first `rows` rows of the window (after, upto], or all there are. None for an empty one."""
        ...

    def close(self) -> None: ...
