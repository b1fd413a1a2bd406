"""Port: the rows that a table holds now, in the order of a key. Every row it returns was committed, and no lock is held
after a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from common.errors import Unfit
from ingester.position import Position
from ingester.source import CapturedColumn, CaptureInstance

PAGE_BYTES: Final = 4 * 2**20
"""About how many bytes of rows a page holds at most: little of a worker's memory, since one page is sent while another is read. A larger row
is a page of its own."""

RowKey = tuple[str, ...]
"""The values of a row in the columns that order its table, as text that reads back to exactly the same values.

Only the source knows how it writes them and in which order it puts them: everyone else keeps them, shows them and hands
them back.
"""


@dataclass(frozen=True, slots=True)
class BaseTable:
    """What a snapshot has to know of a table. A source adds what it needs to read it, so this is handed back as it was.

    `instance`: the capture instance whose columns are sent. `order`: the columns of a unique key that the rows are read
    in the order of; empty where the table has none. `rows`: about how many it has; `row_bytes`: about how many bytes a
    row has there, None if not known.
    """

    instance: CaptureInstance
    order: tuple[str, ...]
    rows: int
    row_bytes: float | None = None


class ConditionRefused(Unfit):
    """The condition of a snapshot: the server does not take it, or cannot compute it on a row. It never changes, so resuming cannot help."""


@dataclass(frozen=True, slots=True)
class RowsQuery:
    """The first `rows` rows with a key in (after, upto]; None: no bound. `where`: a condition that was checked.

    `columns`: those to read, the key's as well; None: all.
    """

    table: BaseTable
    rows: int
    after: RowKey | None = None
    upto: RowKey | None = None
    where: str | None = None
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """`data`: ready for JSON, as `Change.data`. `key`: as `Change.key`. `at`: empty where the table has no order."""

    at: RowKey
    data: Mapping[str, object]
    key: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class RowPage:
    """Rows in the order of their keys. `full`: there may be more. `unavailable`: as `Change.unavailable`, of each row.

    `moment`: the server's time after the rows were read, as `Rows.changed_since` takes it. `columns`: those that the
    rows were read with.
    """

    rows: Sequence[Row]
    full: bool
    unavailable: tuple[str, ...] = ()
    moment: str = ""
    columns: tuple[CapturedColumn, ...] = ()


class Rows(Protocol):
    """Not thread-safe: one for each thread. Every method raises TransientError (connection, a lock that another session
    holds, columns that were altered) or PermanentError (rights, objects, a condition that is refused)."""

    def table(self, instance: CaptureInstance) -> BaseTable:
        """The table that `instance` captures, as it is now."""
        ...

    def check(self, table: BaseTable, where: str) -> None:
        """Raises PermanentError, with the place, for a text that is not a condition on one row of `table`."""
        ...

    def bounds(self, query: RowsQuery, most: int) -> Sequence[RowKey]:
        """The last keys of the first runs of `query.rows` rows each, at most `most`. Behind each of them there is at
        least one row more, so the rest of the table is never empty. Reads keys alone, from an index.

        Where a condition chooses few of many rows, the runs may be of all rows: then a chunk, or the rest, may have none
        that it chooses.
        """
        ...

    def page(self, query: RowsQuery) -> RowPage:
        """The first rows that `query` asks for: fewer if they are wide. For a table with an order."""
        ...

    def in_one_pass(self, query: RowsQuery) -> AbstractContextManager[RowPages]:
        """All rows of a table without an order, `query.rows` at a time at most. Leaving the context ends the reading."""
        ...

    def changed_since(self, table: BaseTable, position: Position, moment: str) -> frozenset[tuple[object, ...]] | None:
        """The keys, as `Row.key`, of all rows that changes after `position` are about, as far as capture has come.

        None until capture has passed `moment`, the server's time. Raises TransientError if there are more than a source
        holds in memory: then the stream has to come further first.
        """
        ...

    def close(self) -> None: ...


class RowPages(Protocol):
    """The pages of one pass over a table."""

    def next(self) -> RowPage:
        """The next rows; `full` is False for the last page. Raises as `Rows` does."""
        ...
