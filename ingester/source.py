"""Port: the log's bounds, the capture instances, and pages of changes. Every change it returns was committed: it never
reads dirty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from common.names import Ordering, TableName
from ingester.change import Change
from ingester.position import Position

UNREACHABLE = "check whether the server is up and this machine can reach it at the address in db_connection_string"
"""The hint about a source that does not answer, where nothing better is known."""


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A column as it is captured. `ordinal` counts from 1 in the capture instance; `key_ordinal` from 1 in the key, or
    None.

    `large`: of a type without a limit. `length`: in bytes, None if not known. `gone`: the table no longer has this
    column, even if it has another one of that name; nothing more is captured of it. `declared`: the type with all that
    a declaration says of it, such as decimal(9,4); empty where that is not known.
    """

    name: str
    type: str
    ordinal: int
    computed: bool = False
    large: bool = False
    key_ordinal: int | None = None
    length: int | None = None
    gone: bool = False
    declared: str = ""


@dataclass(frozen=True, slots=True)
class CaptureInstance:
    """What captures a table's changes, with the columns that it captures. A source adds what it needs to read it.

    `start`: nothing before it is captured. `source`: what distinguishes the source table from any other that has, had
    or will have its name; empty where that is not known. `added`: columns that are not captured and came later: the
    source table was given them since, or a newer instance captures them.
    """

    name: str
    table: TableName
    start: Position
    columns: tuple[CapturedColumn, ...]
    source: str = ""
    added: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableState:
    """A configured table as the database has it. `instances`: in the order in which they were created.

    `database_has_cdc`: whether the database has Change Data Capture at all. `former`: those of the table that had the
    name when its offset was stored, where another has it now; they have the present name. `moment`: the server's time
    after that was observed. `renamed`: that table's present name, where no table has the configured one.
    """

    exists: bool
    instances: tuple[CaptureInstance, ...] = ()
    database_has_cdc: bool = True
    former: tuple[CaptureInstance, ...] = ()
    moment: str = ""
    renamed: TableName | None = None


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """Does `instance` hold changes in (after, the log's end], and below `before` if a newer instance takes over there?
    Both are still filled."""

    instance: CaptureInstance
    after: Position | None
    before: Position | None = None


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The answer to one request. `low_watermark`: the position before the oldest transaction that the instance still
    holds."""

    low_watermark: Position | None
    pending: bool


@dataclass(frozen=True, slots=True)
class Probe:
    """How far capture has come, and an answer for every request, by capture instance. `upto`: everything up to there is
    captured; None before the first scan.

    `stale`: capture instances were created or dropped since the last `states`, so answers may be missing or about the
    wrong ones. `locked`: by capture instance, what another session holds exclusively of it, as the source names it;
    there is no answer for these. `capture_holds`: capture is processing a transaction, and how far it has come cannot
    be seen: `upto` is the last known one. If that is None there are no answers.
    """

    upto: Position | None
    answers: Mapping[str, ProbeAnswer]
    stale: bool = False
    locked: Mapping[str, str] = field(default_factory=dict)
    capture_holds: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Changes in the order of their positions.

    `end`: the position of the last row read, so that the next page begins after it; None for an empty page. An empty
    page that ends where it began is from a source that needs more time. `full`: there may be more in the window.
    `low_watermark`: read after the rows were, since cleanup raises it before it deletes. `columns`: those that the rows
    were read with.
    """

    changes: Sequence[Change]
    end: Position | None
    full: bool
    low_watermark: Position | None
    columns: tuple[CapturedColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class Stride:
    """The first rows of a window, as many as requested or all: how many (before images not counted), and the last one's
    position."""

    rows: int
    end: Position


@dataclass(frozen=True, slots=True)
class Part:
    """One of the `of` parts of a stride of `rows` rows: those whose `columns` hash to `number`, which is 0 to `of` - 1.

    Values that are equal by the columns' types and collations are in one part, NULLs included. `stride`: identifies the
    stride.
    """

    stride: int
    number: int
    of: int
    columns: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The first changes of the window (after, upto] of `instance`: about `rows` rows (at least 1).

    `upto` is the border of a transaction, or with a `part` any change's position. `columns`: those to read, the key's
    as well; None: all. `Change.changed_columns` and `Change.unavailable` name the others as well. `before_images`: updates
    and deletes with the row before the change, whatever the source is set to.
    """

    instance: CaptureInstance
    after: Position
    upto: Position
    rows: int
    part: Part | None = None
    columns: tuple[str, ...] | None = None
    before_images: bool = False


class Hints(Protocol):
    """What a person can do about a table, in the terms of its source: sentences, and statements to run. Pure: no
    question to a server."""

    def absence(self, table: TableName, state: TableState) -> str | None:
        """Why `table` cannot be read, and what to do; None when it can."""
        ...

    def capture_again(self, instance: CaptureInstance) -> str:
        """The statement that captures the present columns of `instance`'s table, in another capture instance."""
        ...

    def drop(self, instance: CaptureInstance) -> str:
        """The statement that drops a capture instance."""
        ...

    def first_start(self, table: TableName) -> str:
        """The statement that deletes the table's offset."""
        ...

    @property
    def locked(self) -> str:
        """The hint for `Probe.locked`."""
        ...

    @property
    def capture_holds(self) -> str:
        """The hint for `Probe.capture_holds`."""
        ...


class Source(Protocol):
    """Not thread-safe: one for each thread. Every method raises TransientError (connection, deadlock) or PermanentError
    (rights, objects)."""

    @property
    def hints(self) -> Hints: ...

    def states(
        self, tables: Sequence[TableName], sources: Mapping[TableName, str] | None = None
    ) -> Mapping[TableName, TableState]:
        """The present state. A table that is missing or not under CDC is an answer, not an error.

        `sources`: for tables with an offset, `CaptureInstance.source` of the table whose changes the offset counts.
        """
        ...

    def passed(self, position: Position, moment: str) -> bool:
        """Whether the transaction at `position` was committed after `moment`, so that all that was committed before it
        is captured."""
        ...

    def probe(self, requests: Sequence[ProbeRequest]) -> Probe:
        """At most two round trips for all. It waits a second for a table that a session holds exclusively; other tables
        do not wait."""
        ...

    def page(self, query: PageQuery) -> Page:
        """The changes that `query` asks for: fewer rows if those are wide, and whole changes only.

        Values have the types that the change table has at that moment, not those that the catalog had.
        """
        ...

    def shared_by(self, instance: CaptureInstance, ordering: Ordering) -> tuple[str, ...]:
        """The columns whose hash may decide a row's part of a stride, so that all changes that `ordering` keeps in order
        are in one part. Empty if one task must read all rows. Asks nothing.
        """
        ...

    def stride(self, instance: CaptureInstance, *, after: Position, upto: Position, rows: int) -> Stride | None:
        """The first `rows` rows of the window (after, upto], or all of them. None for an empty window."""
        ...

    def close(self) -> None: ...
