"""The rows of SQL Server's tables for snapshots, through pymssql: keyset-paged by a unique index, or in one pass.

Every statement is a transaction of its own at READ COMMITTED. When a page has enough bytes the rest of its statement is cancelled by
the next one, before the page is returned; a pass that is left early ends with its connection. So no lock outlives a page. A pass over
a table without an order holds locks while it lasts, as any SELECT does: on the place where it stands, and against ALTER TABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

from common.errors import ConnectionLost, DStreamError, PermanentError, TransientError
from common.names import TableName
from ingester.history.rows import PAGE_BYTES, BaseTable, RowKey, RowPage, RowPages, RowsQuery
from ingester.position import Position
from ingester.source import CaptureInstance
from ingester.sqlserver.change_table import ChangeTable, change_table
from ingester.sqlserver.connection import Connection, Fetch, is_error, lacks_rights, passes, refuses_the_statement
from ingester.sqlserver.errors import OF_VALUES
from ingester.sqlserver.hints import READ_SCHEMA_CDC, ROWS_FILTERED, ROWS_LOCKED, UNMASK, read_table
from ingester.sqlserver.history.capture_passed import CapturePassed
from ingester.sqlserver.history.condition import refuse, refused
from ingester.sqlserver.history.reader import BaseRowReader, ChangedKeys
from ingester.sqlserver.login.opening import QUICK_SECONDS
from ingester.sqlserver.pages.layouts import Layouts
from ingester.sqlserver.position import in_the_log
from ingester.sqlserver.sql.changes import after
from ingester.sqlserver.sql.columns import OWN_STAMP, STAMP
from ingester.sqlserver.sql.history import rows as queries
from ingester.sqlserver.sql.history.base_table import (
    BaseColumn,
    IndexColumn,
    SqlServerTable,
    base_of,
    chosen_key,
    masked_columns,
)
from ingester.sqlserver.sql.history.keys import known_form, parameters
from ingester.sqlserver.sql.history.rows import PageText
from ingester.sqlserver.values import UnknownLayout

CHANGED_KEYS = 100_000
"""How many keys that changed are held in memory. More changed only where the stream is far behind, or in one large transaction."""

_ATTEMPTS = 3
"""How often rows are read again because their table was altered meanwhile."""

_LOCKED = 1222
_ALTERED = (207, 208, 308)
"""Unknown column, object, index."""
_Found = TypeVar("_Found")


class SqlServerRows:
    """`connection`: its own, since a pass over a table is one statement. `decimals_as_numbers`: the setting of that name.

    `page_bytes`: how much text and binary a page holds, whatever its number of rows. `changed_keys`: how many `changed_since` returns.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        decimals_as_numbers: bool,
        page_bytes: int = PAGE_BYTES,
        changed_keys: int = CHANGED_KEYS,
    ) -> None:
        self._connection = connection
        self._decimals_as_numbers = decimals_as_numbers
        self._page_bytes = page_bytes
        self._changed_keys = changed_keys
        self._passed = CapturePassed(connection)
        self._reader: tuple[SqlServerTable, tuple[str, ...] | None, BaseRowReader] | None = None
        self._altered: tuple[SqlServerTable, SqlServerTable] | None = None
        """A table in a query, and what it is since an ALTER that whoever asks does not know of."""
        self._slow: tuple[int, str | None] | None = None
        """The table and the condition under which the server did not find bounds in time."""

    def table(self, instance: CaptureInstance) -> BaseTable:
        with _errors_about(instance.table):
            return self._table(change_table(instance))

    def check(self, table: BaseTable, where: str) -> None:
        refuse(base_of(table).name.key, where)
        self._of(RowsQuery(table, 0, where=where), lambda now: self._compiled(now, where))

    def bounds(self, query: RowsQuery, most: int) -> Sequence[RowKey]:
        return self._of(query, lambda table: self._bounds(table, query, most))

    def page(self, query: RowsQuery) -> RowPage:
        return self._of(query, lambda table: self._page(table, query))

    @contextmanager
    def in_one_pass(self, query: RowsQuery) -> Iterator[RowPages]:
        table = self._of(query, self._unchanged)
        _refuse_where(table, query.where)
        reader = self._reader_of(table, query.columns)
        text = queries.pass_over(PageText(table, reader.selected, query.rows, where=query.where))
        try:
            with self._connection.streamed(*text) as more:
                yield _Pass(table, reader, more, query, self._page_bytes)
        except (
            DStreamError
        ) as error:  # the statement may have been compiled after an ALTER, and its first stamp read before
            if (isinstance(error, UnknownLayout) or refuses_the_statement(error)) and self._unchanged(table) is None:
                raise _altered(table) from error
            raise

    def changed_since(self, table: BaseTable, position: Position, moment: str) -> frozenset[tuple[object, ...]] | None:
        instance = change_table(table.instance)
        key = sorted((c for c in instance.columns if c.key_ordinal), key=lambda c: c.key_ordinal or 0)
        if not key:
            raise PermanentError(
                f"reading {instance.table.key}: its capture instance {instance.name} has no key, so a snapshot of it cannot be exact",
                hint="set snapshot.exact = false for the table, or capture it with its primary key or a unique index (@index_name)",
            )
        reader = ChangedKeys([(c.name, c.type, c.length) for c in key], decimals_as_numbers=self._decimals_as_numbers)
        if not instance.types_known:
            raise PermanentError(
                f"reading {instance.table.key}: this login may not see the columns of its change table, so a snapshot of it cannot be exact",
                hint=f"{READ_SCHEMA_CDC}, or set snapshot.exact = false for the table",
            )
        begun = after(in_the_log(position), instance.has_command_id)
        with _errors_about(instance.table):
            if not self._passed.passed(moment):
                return None
            wanted = queries.changed_keys(instance.change_table, reader.selected, begun, self._changed_keys + 1)
            found = self._connection.rows(*wanted)
        if len(found) > self._changed_keys:
            raise TransientError(
                f"reading {instance.table.key}: more than {self._changed_keys:,} of its rows changed after {position}, the stream has not "
                "caught up; the chunk waits for the stream",
                hint="nothing is lost, the chunk is read again; see in `dstream status` how far the table is behind",
            )
        return frozenset(reader.key(row) for row in found)

    def close(self) -> None:
        self._connection.close()

    def _of(self, query: RowsQuery, read: Callable[[SqlServerTable], _Found | None]) -> _Found:
        """What `read` returns of the query's table as it is now. None means that it was altered, a refused statement that it may have been."""
        asked = base_of(query.table)
        for _ in range(_ATTEMPTS):
            table = self._altered[1] if self._altered is not None and self._altered[0] == asked else asked
            try:
                with _errors_about(table.name, query.where):
                    found = read(table)
                if found is not None:
                    return found
                now = self._table(change_table(asked.instance))
            except DStreamError as error:
                if not refuses_the_statement(error):
                    raise
                now = self._table(change_table(asked.instance))
                if (now.stamp, now.name, now.index) == (table.stamp, table.name, table.index):
                    if any(is_error(error, number) for number in _ALTERED):
                        raise _of_a_name(table, query.where, error) from error
                    raise
            self._altered = asked, now
        raise TransientError(f"reading {asked.instance.table.key}: the columns of the table keep changing")

    def _compiled(self, table: SqlServerTable, where: str) -> Sequence[object]:
        try:
            return self._connection.rows(*queries.compiled(table, where))
        except ConnectionLost:
            raise
        except DStreamError as error:
            if passes(error) or lacks_rights(error) or any(is_error(error, number) for number in _ALTERED):
                raise
            raise refused(table.name.key, error.message) from error

    def _unchanged(self, table: SqlServerTable) -> SqlServerTable | None:
        stamp = self._connection.rows(STAMP, (table.object_id,))[0][0]
        return table if stamp == table.stamp else None

    def _page(self, table: SqlServerTable, query: RowsQuery) -> RowPage | None:
        """None if the table's columns are no longer those of `table`."""
        reader = self._reader_of(table, query.columns)
        wanted = self._wanted(table, query, reader.selected)
        meter = _Meter(self._page_bytes)
        sets, whole = self._connection.rows_until(*queries.page(wanted), meter.enough)
        tail = sets.pop() if whole else self._connection.rows(*queries.end(table))
        ((_, stamp, moment),) = tail
        if stamp != table.stamp:
            return None
        rows = [reader.row(row[1:]) for found in sets for row in found]
        return RowPage(rows, not whole or len(rows) >= query.rows, reader.unavailable, moment, reader.columns)

    def _bounds(self, table: SqlServerTable, query: RowsQuery, most: int) -> Sequence[RowKey]:
        found = self._cuts(self._wanted(table, query, ()), most)
        forms = [(column.title, known_form(column).write) for column in table.keys]
        return [
            tuple(title + write(value) for (title, write), value in zip(forms, key, strict=True))
            for (number, *key), (behind, *_) in pairwise(found)
            if number % query.rows == 0 and behind == number + 1
        ]

    def _cuts(self, wanted: PageText, most: int) -> list[tuple[Any, ...]]:
        """Under a condition that chooses few of many rows the server may read for long before it has enough: then the bounds are
        those of all rows, and each chunk reads no more than its share."""
        slow = wanted.table.object_id, wanted.where
        if wanted.where is not None and slow != self._slow:
            try:
                return self._connection.batch([queries.bounds(wanted, most)], within=QUICK_SECONDS)[0]
            except ConnectionLost:
                self._slow = slow
        return self._connection.rows(*queries.bounds(replace(wanted, where=None), most))

    def _wanted(self, table: SqlServerTable, query: RowsQuery, selected: Sequence[str]) -> PageText:
        key = table.name.key
        if not table.keys:
            raise PermanentError(
                f"reading {key}: it no longer has a unique index whose columns are NOT NULL, so its rows have no order",
                hint="stop the snapshot and start it again: the table is then read in one pass",
            )
        _refuse_where(table, query.where)
        begun, last = (None if one is None else parameters(table.keys, one, key) for one in (query.after, query.upto))
        return PageText(table, selected, query.rows, begun, last, query.where)

    def _reader_of(self, table: SqlServerTable, columns: tuple[str, ...] | None) -> BaseRowReader:
        if self._reader is None or self._reader[:2] != (table, columns):
            reader = BaseRowReader(table, decimals_as_numbers=self._decimals_as_numbers, columns=columns)
            self._reader = table, columns, reader
        return self._reader[2]

    def _table(self, instance: ChangeTable) -> SqlServerTable:
        object_id, layouts = _object_id(instance), Layouts()
        named, stamps, columns, indexes, filters = self._connection.batch(
            [
                queries.quick(queries.TABLE, object_id, instance.source),
                queries.quick(layouts.question(OWN_STAMP), object_id),  # before the columns: see queries of columns
                queries.quick(queries.COLUMNS, instance.name, object_id),
                queries.quick(queries.INDEXES, object_id),
                queries.quick(queries.ROW_FILTERS, object_id),
            ]
        )
        if not named:
            raise TransientError(
                f"reading {instance.table.key}: the table that {instance.name} captures no longer exists, or this login may no longer see it",
                hint=read_table(instance.table),
            )
        known, [stamp] = tuple(_column(row) for row in columns), layouts.answer(stamps[0], 1)
        _refuse_filtered(TableName(*named[0]), [TableName(*policy) for policy in filters])
        found = [IndexColumn(n, bool(p), c, bool(d), partitions=bool(by)) for n, p, c, d, by in indexes]
        chosen = chosen_key(instance, known, found)
        self._refuse_masked(TableName(*named[0]), masked_columns(known, chosen.keys))
        rows, size = self._size(object_id)
        return SqlServerTable(
            instance=instance,
            order=tuple(column.name for column in chosen.keys),
            rows=rows,
            row_bytes=size / rows if size is not None and rows else None,
            object_id=object_id,
            name=TableName(*named[0]),
            stamp=stamp,
            columns=known,
            index=chosen.name,
            keys=chosen.keys,
            partitioned_by=chosen.partitioned_by,
            unknown=layouts.different,
        )

    def _refuse_masked(self, table: TableName, masked: Sequence[str]) -> None:
        """Raises PermanentError if this login would be shown masked values."""
        if masked and not self._connection.rows(queries.MAY_UNMASK, (table.quoted,))[0][0]:
            raise PermanentError(
                f"reading {table.key}: the server masks {', '.join(masked)} for this login, so a snapshot would send wrong values",
                hint=UNMASK,
            )

    def _size(self, object_id: int) -> tuple[int, int | None]:
        """About how many rows and bytes; the bytes are not known without the right to see them."""
        try:
            found = self._connection.rows(*queries.quick(queries.SIZE, object_id))
        except ConnectionLost:
            raise
        except DStreamError:
            found = self._connection.rows(*queries.quick(queries.ROWS_ALONE, object_id))
        rows, size = found[0]
        return int(rows or 0), None if size is None else int(size)


class _Pass:
    """The pages of one statement. Its rows come as the server finds them."""

    def __init__(
        self, table: SqlServerTable, reader: BaseRowReader, more: Fetch, query: RowsQuery, page_bytes: int
    ) -> None:
        self._table = table
        self._reader = reader
        self._more = more
        self._query = query
        self._page_bytes = page_bytes
        self._ends = 0

    def next(self) -> RowPage:
        key = self._table.name.key
        with _errors_about(self._table.name, self._query.where):
            found, whole = self._more(_Meter(self._page_bytes, rows=self._query.rows).enough)
        ends = [row for row in found if row[0] == queries.END]
        self._ends += len(ends)
        if any(stamp != self._table.stamp for _, stamp, _ in ends):
            raise _altered(self._table)
        if whole and self._ends != queries.ENDS_OF_A_PASS:
            raise TransientError(f"reading {key}: the pass over it was broken off")
        rows = [self._reader.row(row[1:]) for row in found if row[0] == queries.ROW]
        moment = ends[-1][2] if whole else ""
        return RowPage(rows, not whole, self._reader.unavailable, moment, self._reader.columns)


class _Meter:
    """Ends a page once its rows hold `limit` characters and bytes, or at `rows` rows."""

    def __init__(self, limit: int, *, rows: int | None = None) -> None:
        self._left = limit
        self._rows = rows

    def enough(self, row: Sequence[Any]) -> bool:
        if row[0] == queries.END:
            return False
        if self._rows is not None:
            self._rows -= 1
        for value in row:
            if isinstance(value, (str, bytes)):
                self._left -= len(value)
        return self._left <= 0 or self._rows == 0


def _altered(table: SqlServerTable) -> TransientError:
    return TransientError(f"reading {table.name.key}: its columns were altered while it was read in one pass")


def _of_a_name(table: SqlServerTable, where: str | None, error: DStreamError) -> PermanentError:
    """The error about a name that the table has not lost: one in the condition, if there is one."""
    if where is not None:
        return refused(table.name.key, error.message)
    return PermanentError(f"reading {table.name.key}: {error.message}")


def _refuse_where(table: SqlServerTable, where: str | None) -> None:
    """What a table of the database has said is checked before every use."""
    if where is not None:
        refuse(table.name.key, where)


def _refuse_filtered(table: TableName, policies: Sequence[TableName]) -> None:
    """Whether a filter lets this login see all rows is in its function, which only a person can judge."""
    if policies:
        raise PermanentError(
            f"reading {table.key}: the security policy {', '.join(one.key for one in policies)} hides rows of the table, so a snapshot would "
            "not be complete",
            hint=ROWS_FILTERED,
        )


def _column(row: Sequence[Any]) -> BaseColumn:
    number, name, captured, sql_type, length, precision, scale, collation, nullable, computed, masked = row
    return BaseColumn(
        *(number, name, captured, sql_type or "", length, precision, scale, collation),
        *(bool(nullable), bool(computed), bool(masked)),
    )


def _object_id(instance: ChangeTable) -> int:
    """Of the source table. Raises PermanentError where this login may not see it."""
    found = instance.source.partition(" ")[0]
    if not found:
        raise PermanentError(
            f"reading {instance.table.key}: this login may not see the table", hint=read_table(instance.table)
        )
    return int(found)


@contextmanager
def _errors_about(table: TableName, where: str | None = None) -> Iterator[None]:
    """Errors about the table itself in its own words."""
    try:
        yield
    except DStreamError as error:
        if lacks_rights(error) and error.hint != READ_SCHEMA_CDC:
            raise PermanentError(f"reading {table.key}: {error.message}", hint=read_table(table)) from error
        if is_error(error, _LOCKED):
            raise TransientError(
                f"reading {table.key}: another session holds rows of it, and did so for {queries.LOCK_SECONDS} s",
                hint=ROWS_LOCKED,
            ) from error
        if where is not None and any(is_error(error, number) for number in OF_VALUES):
            raise refused(table.key, f"the server cannot compute it for a row: {error.message}") from error
        raise
