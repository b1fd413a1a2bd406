"""The change tables of SQL Server through pymssql: one connection, one question a round trip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from common.errors import DStreamError, PermanentError, TransientError
from common.names import Ordering, TableName
from common.recent import Recent
from ingester.position import Position
from ingester.source import (
    CapturedColumn,
    CaptureInstance,
    Page,
    PageQuery,
    Part,
    Probe,
    ProbeRequest,
    Stride,
    TableState,
)
from ingester.sqlserver.catalog.instances import catalog_rows, instances
from ingester.sqlserver.change_table import ChangeTable, Shape, change_table, of_one_table, with_columns_of
from ingester.sqlserver.connection import Connection, is_error, refuses_the_statement
from ingester.sqlserver.counting.steps import step
from ingester.sqlserver.hints import HINTS
from ingester.sqlserver.login.opening import QUICK_SECONDS
from ingester.sqlserver.pages.columns import Columns, gone
from ingester.sqlserver.pages.committed import LocalTimes, of_rows, removed
from ingester.sqlserver.pages.meter import PAGE_BYTES, Enough, Meter
from ingester.sqlserver.pages.place import position_of, positions
from ingester.sqlserver.pairing import BEFORE_UPDATE, Places, pair, refuse_ties
from ingester.sqlserver.position import LogPosition, Lsn, in_the_log
from ingester.sqlserver.probe import UNKNOWN_OBJECT, Prober, no_watermark, start_of
from ingester.sqlserver.rows import RowReader
from ingester.sqlserver.sharing import shared_by
from ingester.sqlserver.sql import changes as queries
from ingester.sqlserver.sql import parts as queries_of_parts
from ingester.sqlserver.sql.changes import RowsQuery, Statement
from ingester.sqlserver.times import CommitTimes
from ingester.window import gap

QueryMode = Literal["direct", "function"]

_MOST_READERS = 64
"""How many tables' readers are cached, about 10 KB each."""
_MOST_PRESENT = 256
"""The same of columns that the driver's catalog does not show: asking again costs a request or six."""

_Readable = tuple[str, TableName, tuple[CapturedColumn, ...], tuple[str, ...] | None, bool]
"""What makes a reader: a capture instance, the columns to read of it, and whether before images are read."""

_Answer = tuple[list[tuple[Any, ...]], LocalTimes, bytes | None, bool, bool]
"""Rows, commit times, the low watermark, whether the columns are still the same, and whether that is all of the page."""

_ATTEMPTS = 3
"""How often a page is read again because its table was altered meanwhile."""

_OUTSIDE_THE_WINDOW = 313


class SqlServerSource:
    """`before_images`, `decimals_as_numbers`, `query_mode`: the settings of that name. The server resolves the names of
    tables. `places`: whether each change says its place in its transaction; not with query_mode "function"."""

    def __init__(
        self,
        connection: Connection,
        *,
        before_images: bool = False,
        decimals_as_numbers: bool = False,
        query_mode: QueryMode = "direct",
        places: bool = False,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        self.hints = HINTS
        self._connection = connection
        self._before_images = before_images
        self._decimals_as_numbers = decimals_as_numbers
        self._by_function = query_mode == "function"
        self._page_bytes = page_bytes
        self._times = CommitTimes(connection)
        self._places = Places() if places else None
        self._columns = Columns(connection, by_function=self._by_function)
        self._prober = Prober(connection, by_function=self._by_function)
        self._readers = Recent[_Readable, RowReader](_MOST_READERS)
        self._present = Recent[tuple[str, Shape | None], ChangeTable](_MOST_PRESENT)
        """By the instance in a query: the same after an ALTER that the driver's catalog does not have yet, or with types that it does not
        show."""

    def states(
        self, tables: Sequence[TableName], sources: Mapping[TableName, str] | None = None
    ) -> Mapping[TableName, TableState]:
        if not tables:
            return {}
        sets = self._connection.batch(queries.tables_found(tables), within=QUICK_SECONDS)
        found = {number: object_id for rows in sets for number, object_id in rows}
        captured = self._instances()
        states = {
            table: TableState(
                exists=found[number] is not None,
                instances=of_one_table(instance for source, instance in captured or () if source == found[number]),
                database_has_cdc=captured is not None,
                renamed=next((i.table for _, i in captured or () if found[number] is None and i.source == was), None)
                if (was := (sources or {}).get(table))
                else None,
            )
            for number, table in enumerate(tables)
        }
        renamed = {
            table: state
            for table, state in states.items()
            if state.instances and (sources or {}).get(table) not in (None, state.instances[0].source)
        }
        if not renamed or sources is None:
            return states
        moment = self._connection.rows(queries.SERVER_TIME)[0][0]
        for table, state in renamed.items():
            former = [i for _, i in captured or () if i.source == sources[table]]
            name = state.instances[0].table
            states[table] = replace(state, former=of_one_table(replace(i, table=name) for i in former), moment=moment)
        return states

    def passed(self, position: Position, moment: str) -> bool:
        lsn, doubt = in_the_log(position).lsn, self._times.doubt(moment)
        return bool(self._connection.rows(queries.COMMITTED_AFTER, (lsn.value, doubt, moment))[0][0])

    def _instances(self) -> list[tuple[int, ChangeTable]] | None:
        """Every capture instance with its source table's object id, in order of creation; None without CDC."""
        enabled = self._connection.rows(queries.CDC_ENABLED)
        if not enabled or not enabled[0][0]:
            return None
        self._prober.catalog_read(catalog_rows(self._connection, (queries.CATALOG_STAMP, ()))[0])
        return instances(self._connection, by_function=self._by_function)

    def probe(self, requests: Sequence[ProbeRequest]) -> Probe:
        return self._prober.probe(requests)

    def shared_by(self, instance: CaptureInstance, ordering: Ordering) -> tuple[str, ...]:
        return shared_by(instance, ordering)

    def stride(self, instance: CaptureInstance, *, after: Position, upto: Position, rows: int) -> Stride | None:
        """Raises PermanentError with query_mode "function", whose windows have no positions to end at."""
        self._refuse_function()
        try:
            found = self._connection.rows(
                *queries_of_parts.stride(
                    change_table(instance), start=in_the_log(after), upto=in_the_log(upto), rows=rows
                )
            )
        except DStreamError as error:
            if is_error(error, UNKNOWN_OBJECT):
                raise gone(instance) from error
            raise
        if not found:
            return None
        *place, number = found[0]
        return Stride(number, position_of(*place))

    def page(self, query: PageQuery) -> Page:
        try:
            return self._page_of(query)
        except DStreamError as error:
            if is_error(error, UNKNOWN_OBJECT):  # CDC was disabled between two of a page's questions
                raise gone(query.instance) from error
            raise

    def _page_of(self, query: PageQuery) -> Page:
        instance = change_table(query.instance)
        place = instance.name, instance.shape
        known = self._present.get(place)
        if known is None and not self._columns.are_certain(instance):
            known = self._columns.as_returned(instance)
        if known is not None:
            self._present.keep(place, known)
        for _ in range(_ATTEMPTS):
            page = self._page(instance if known is None else with_columns_of(instance, known), query)
            if page is not None:
                return page
            known = self._present.keep(place, self._as_it_is_now(instance))
        raise TransientError(f"reading {instance.table.key}: the columns of {instance.change_table} keep changing")

    def _as_it_is_now(self, instance: ChangeTable) -> ChangeTable:
        """`instance` with its change table's present columns. Raises TransientError if it no longer exists."""
        found = next((i for _, i in instances(self._connection, by_function=self._by_function, of=instance.name)), None)
        if found is None or found.shape is None or instance.shape is None:
            raise gone(instance)
        if found.shape.made_id != instance.shape.made_id:  # a new one of the same name
            raise gone(instance)
        now = with_columns_of(instance, found)
        return now if self._columns.are_certain(now) else self._columns.as_returned(now)

    def _page(self, instance: ChangeTable, query: PageQuery) -> Page | None:
        """A page; None if the change table's columns differ from `instance`, so that values may be truncated or
        missing."""
        before_images = self._before_images or query.before_images
        reader = self._reader(instance, query.columns, before_images=before_images)
        after, rows = in_the_log(query.after), query.rows
        # one more than requested, so that a before image at the end of the page is read with its after image
        limit = rows + 1 if before_images else rows
        numbered = self._places is not None and query.part is not None
        window = after, in_the_log(query.upto)
        wanted = RowsQuery(instance, reader.selected, *window, limit, before_images, numbered, reader.beside)
        try:
            # counted before the low watermark is read, which shows whether cleanup removed any
            before = 0 if self._places is None else self._before(self._places, instance, after)
            meter = Meter(self._page_bytes, look_ahead=self._by_function)
            narrow = reader.widest * limit <= self._page_bytes
            enough = None if narrow else meter.enough
            found, told, lowest, unchanged, whole = self._asked(instance, wanted, query.part, enough)
        except DStreamError as error:
            if is_error(error, _OUTSIDE_THE_WINDOW):
                return self._purged(instance, after, error)
            if refuses_the_statement(error) and self._altered_since(instance):
                return None
            raise
        self._columns.refuse_layouts(reader.types)
        low = self._watermark(instance, lowest)
        at = positions(found)  # first: a login that may not read rows may not see the stamp of their columns either
        committed = of_rows(at, told, self._times.utc(time for _, time in told))
        if not unchanged:
            return None
        full = not whole or len(found) >= limit
        if removed(at, committed, low):
            raise TransientError(f"reading {instance.table.key}: cleanup removed transactions while they were read")
        if self._by_function:
            refuse_ties(instance, at)
            if not whole:
                at.pop()  # read to compare its position only
        if whole and len(at) > rows and at[rows - 1].operation != BEFORE_UPDATE:
            del at[rows:]
        del found[len(at) :]
        pairs = pair(at, full=full)
        of_changes = [at[number] for _, number in pairs]
        order = None
        if self._places is not None:
            numbers = {place: row[-1] for place, row in zip(at, found, strict=True)} if numbered else None
            order = self._places.of(instance, after, before, of_changes, numbers)
        changes = reader.changes(found, at, pairs, committed, order)
        end = of_changes[-1] if of_changes else None
        return Page(changes, end, full, LogPosition.before(low), instance.columns)

    def _altered_since(self, instance: ChangeTable) -> bool:
        """A column of another type may no longer be converted as the statement does: a datetime2 has more bytes than a time."""
        return instance.shape is not None and not self._columns.still_are_those_of(instance)

    def _asked(self, instance: ChangeTable, wanted: RowsQuery, part: Part | None, enough: Enough | None) -> _Answer:
        """The rows of a page, and what is read behind them: their commit times before the low watermark, which shows whether
        cleanup removed any. `enough`: see Connection.rows_until."""
        text, parameters = self._page_text(wanted, part)
        columns, of_columns = self._columns.question(instance)
        sets, whole = self._connection.rows_until(f"{text};\n{columns}", [*parameters, *of_columns], enough)
        if whole:
            end = len(sets) - self._columns.sets_of(instance)
            *page, [[low]] = sets[:end]
            found, times = page or ([], [])
            return found, times, low, self._columns.are_those_of(instance, sets[end:]), True
        found = sets[0]
        unchanged = self._columns.still_are_those_of(instance)
        told = self._told_of(replace(wanted, rows=len(found)), part)
        return found, told, self._low(instance), unchanged, False

    def _before(self, places: Places, instance: ChangeTable, after: LogPosition) -> int:
        """How many changes of the transaction of `after` are up to there."""
        known = places.known(instance, after)
        while known.position != after:
            known = step(self._connection, instance, known, after)
            places.remember(instance, known)
        return known.number

    def _page_text(self, wanted: RowsQuery, part: Part | None) -> Statement:
        if part is not None:
            self._refuse_function()
            return queries_of_parts.page(wanted, part)
        if self._by_function:
            return queries.function_page(replace(wanted, after=start_of(wanted.after)))
        return queries.page(wanted)

    def _told_of(self, wanted: RowsQuery, part: Part | None) -> LocalTimes:
        """Of the transactions of a page whose batch was not read to its end."""
        if part is not None:
            return self._connection.rows(*queries_of_parts.commit_times(wanted, part))
        if self._by_function:
            text, values = queries.function_commit_times(replace(wanted, after=start_of(wanted.after)))
            found = self._connection.result_sets(text, values)
            return found[0] if found else []
        return self._connection.rows(*queries.commit_times(wanted))

    def _refuse_function(self) -> None:
        if self._by_function:
            raise PermanentError('reading a part: the published functions have no parts; set query_mode = "direct"')

    def _low(self, instance: ChangeTable) -> bytes | None:
        text = queries.FUNCTION_LOW_WATERMARK if self._by_function else queries.LOW_WATERMARK
        found: bytes | None = self._connection.rows(text, (instance.name,))[0][0]
        return found

    def _watermark(self, instance: ChangeTable, low: bytes | None) -> Lsn:
        """The low watermark. Raises TransientError if the instance no longer exists, PermanentError if this login may
        not see it."""
        if low is not None and not (watermark := Lsn(bytes(low))).unknown:
            return watermark
        known = self._connection.rows(queries.INSTANCE_KNOWN, (instance.name,))[0][0]
        raise no_watermark(instance.name) if known else gone(instance)

    def _purged(self, instance: ChangeTable, after: LogPosition, error: DStreamError) -> Page:
        """The page of a function's window that cleanup has passed: empty, with the low watermark. Raises PermanentError
        for another reason."""
        low = LogPosition.before(self._watermark(instance, self._low(instance)))
        if gap(after, low) is None:
            raise PermanentError(f"reading {instance.table.key}: {error.message}") from error
        return Page((), None, False, low)

    def close(self) -> None:
        self._connection.close()

    def _reader(self, instance: ChangeTable, columns: tuple[str, ...] | None, *, before_images: bool) -> RowReader:
        # Without its start, which cleanup raises every day.
        known = (instance.name, instance.table, instance.columns, columns, before_images)
        reader = self._readers.get(known) or RowReader(
            instance, decimals_as_numbers=self._decimals_as_numbers, before_images=before_images, columns=columns
        )
        return self._readers.keep(known, reader)
