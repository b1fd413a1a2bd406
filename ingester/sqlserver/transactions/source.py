"""SQL Server's changes with their transactions: each change with its place, and the events as pages of a table of their own.

A page looks at so many transactions of the log and counts their changes in each change table. It ends before the first one that is too
large to be counted with others. That one is counted alone, in steps, over as many pages as it takes; those before its last step are empty.
Transactions without changes of the configured tables are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from common.errors import DStreamError, TransientError
from common.names import TRANSACTIONS, Ordering, TableName
from ingester.change import Change
from ingester.source import CaptureInstance, Page, PageQuery, TableState
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.connection import Connection, is_error
from ingester.sqlserver.counting.steps import STEP, step, unlocked
from ingester.sqlserver.pages.meter import PAGE_BYTES
from ingester.sqlserver.pairing import Tally
from ingester.sqlserver.position import LogPosition, Lsn, in_the_log
from ingester.sqlserver.probe import UNKNOWN_OBJECT
from ingester.sqlserver.source import QueryMode, SqlServerSource
from ingester.sqlserver.sql import changes as queries_of_changes
from ingester.sqlserver.sql import transactions as queries
from ingester.sqlserver.times import CommitTimes
from ingester.sqlserver.transactions.events import begin_and_end
from ingester.sqlserver.transactions.log import Counted, TransactionLog, transaction_log

_MOST = 500
"""Transactions of a page. Where they turn out to be large, the next pages have fewer."""
_STEPS = 4
"""How many steps of a large transaction a page counts, so that a slice can end between two pages, before its lease does."""
_FEW_TABLES = 10
"""Each of so many tables, or of more, may have the same number of changes counted in a page. Few tables have many."""

Tables = Callable[[], Sequence[TableName]]


def sql_server_source(
    connection: Connection,
    *,
    transactions: bool,
    tables: Tables = tuple,
    before_images: bool = False,
    decimals_as_numbers: bool = False,
    query_mode: QueryMode = "direct",
) -> SqlServerSource:
    """The source for these settings. `tables`: those that are configured now; only who asks for `states` needs them."""
    if not transactions:
        return SqlServerSource(
            connection,
            before_images=before_images,
            decimals_as_numbers=decimals_as_numbers,
            query_mode=query_mode,
        )
    return TransactionSource(connection, tables, before_images=before_images, decimals_as_numbers=decimals_as_numbers)


class TransactionSource(SqlServerSource):
    """`tables`: the configured ones, whose changes are counted. `step`: the most changes that one question counts in a table."""

    def __init__(
        self,
        connection: Connection,
        tables: Tables = tuple,
        *,
        before_images: bool = False,
        decimals_as_numbers: bool = False,
        page_bytes: int = PAGE_BYTES,
        step: int = STEP,
    ) -> None:
        super().__init__(
            connection,
            before_images=before_images,
            decimals_as_numbers=decimals_as_numbers,
            places=True,
            page_bytes=page_bytes,
        )
        self._transactions, self._tables = _Transactions(connection, step), tables

    def states(
        self, tables: Sequence[TableName], sources: Mapping[TableName, str] | None = None
    ) -> Mapping[TableName, TableState]:
        if TRANSACTIONS not in tables:
            return super().states(tables, sources)
        others = [table for table in tables if table != TRANSACTIONS]
        counted = self._tables()
        states = super().states([*others, *(set(counted) - set(others))], sources)
        log = transaction_log([_change_tables(states[table]) for table in sorted(counted)])
        has_cdc = all(state.database_has_cdc for state in states.values())
        own = TableState(exists=True, instances=() if log is None else (log,), database_has_cdc=has_cdc)
        return {**{table: states[table] for table in others}, TRANSACTIONS: own}

    def shared_by(self, instance: CaptureInstance, ordering: Ordering) -> tuple[str, ...]:
        return () if isinstance(instance, TransactionLog) else super().shared_by(instance, ordering)

    def page(self, query: PageQuery) -> Page:
        if isinstance(query.instance, TransactionLog):
            return self._transactions.page(query.instance, query)
        return super().page(query)


Counts = dict[Lsn, dict[TableName, int]]


@dataclass(slots=True)
class _Large:
    """A transaction that is counted alone. `found`: its changes in tables where all are counted; `left`: how far the others are."""

    lsn: Lsn
    kept: tuple[str, ...]
    found: dict[TableName, int]
    left: list[tuple[Counted, Tally]]

    def go_on(self, connection: Connection, rows: int) -> None:
        end = LogPosition.end_of(self.lsn)
        for _ in range(_STEPS):
            if not self.left:
                return
            one, tally = self.left.pop()
            tally = step(connection, one, tally, end, rows)
            if tally.position != end:
                self.left.append((one, tally))
            elif tally.number:
                self.found[one.table] = tally.number


class _Transactions:
    """The events of a window, read and counted. Remembers how many transactions a page may have, and how far a large one is counted."""

    def __init__(self, connection: Connection, rows: int) -> None:
        self._connection, self._times = connection, CommitTimes(connection)
        self._rows, self._most = rows, _MOST
        self._large: _Large | None = None

    def page(self, log: TransactionLog, query: PageQuery) -> Page:
        """`end` is past all transactions that were counted, even if none of them has an event. A page that ends where it began is full."""
        try:
            return self._page(log, query)
        except DStreamError as error:
            if is_error(error, UNKNOWN_OBJECT):  # a capture instance was dropped since the catalog was read
                raise TransientError(
                    f"reading {log.table.key}: a capture instance no longer exists; DStream looks for it again"
                ) from error
            raise

    def _page(self, log: TransactionLog, query: PageQuery) -> Page:
        after, upto = in_the_log(query.after), in_the_log(query.upto)
        most = min(max(1, query.rows // 2), self._most)
        committed = [
            (Lsn(bytes(lsn)), time) for lsn, time in self._connection.rows(*queries.committed(after, upto, most))
        ]
        number, counts, low = self._counted(log, [lsn for lsn, _ in committed])
        if committed and not number:
            return Page((), after, True, low)
        full = number == most or number < len(committed)
        times = self._times.utc(time for _, time in committed)
        events: list[Change] = []
        for lsn, time in committed[:number]:
            if found := counts.get(lsn):
                events += begin_and_end(lsn, None if time is None else times[time], found)
        end = LogPosition.end_of(committed[number - 1][0]) if full else upto
        return Page([event for event in events if event.position > after], end, full and end < upto, low)

    def _counted(self, log: TransactionLog, lsns: Sequence[Lsn]) -> tuple[int, Counts, LogPosition | None]:
        """How many of the first transactions are counted; the changes of each by table; and then the low watermark: cleanup raises it
        before it deletes."""
        large = self._large
        if large is None or not lsns or (large.lsn, large.kept) != (lsns[0], log.kept):
            counts, cut, low = self._asked(log, lsns)
            first = min((lsn for lsn, _ in cut), default=None)
            number = sum(first is None or lsn < first for lsn in lsns)
            self._most = max(1, number) if cut else min(2 * self._most, _MOST)
            if number or first is None:
                return number, counts, low
            start = Tally(LogPosition.before(first), 0)
            left = [(one, start) for lsn, one in cut if lsn == first]
            whole = {
                table: count
                for table, count in counts.get(first, {}).items()
                if table not in {o.table for o, _ in left}
            }
            large = self._large = _Large(first, log.kept, whole, left)
        large.go_on(self._connection, self._rows)
        [lows] = self._connection.batch([queries_of_changes.low_watermarks(log.kept)])
        if not large.left:
            self._large = None
        return int(not large.left), {large.lsn: large.found}, _lowest(log, lows)

    def _asked(
        self, log: TransactionLog, lsns: Sequence[Lsn]
    ) -> tuple[Counts, list[tuple[Lsn, Counted]], LogPosition | None]:
        """The counts; from which transaction on they are not all of a table's, where its changes were too many; the low watermark."""
        bounds = [(one, _bounds(one, lsns[0], lsns[-1])) for one in log.counted] if lsns else []
        counted = [(one, of) for one, of in bounds if of is not None]
        rows = max(1, self._rows // min(max(1, len(counted)), _FEW_TABLES))
        asked = [queries.counts(at, one.change_table, *of, rows) for at, (one, of) in enumerate(counted)]
        names = [one.change_table for one, _ in counted]
        answers, [lows] = unlocked(self._connection, names, asked, queries_of_changes.low_watermarks(log.kept))
        found: Counts = {}
        seen: dict[int, list[tuple[Lsn, int]]] = {}
        for number, lsn, changes in answers:
            one = counted[number][0]
            seen.setdefault(number, []).append((Lsn(bytes(lsn)), changes))
            if one.end is None or Lsn(bytes(lsn)) < one.end:
                found.setdefault(Lsn(bytes(lsn)), {})[one.table] = changes
        full = {at: some for at, some in seen.items() if sum(changes for _, changes in some) >= rows}
        cut = [(max(lsn for lsn, _ in some), counted[at][0]) for at, some in full.items()]
        return found, cut, _lowest(log, lows)


def _lowest(log: TransactionLog, lows: Sequence[tuple[str, bytes | None]]) -> LogPosition | None:
    kept = set(log.kept)
    low = min((Lsn(bytes(value)) for name, value in lows if name in kept and value is not None), default=None)
    return None if low is None else LogPosition.before(low)


def _bounds(one: Counted, first: Lsn, last: Lsn) -> tuple[Lsn, Lsn] | None:
    """What of [first, last] counts in `one`; its end is excluded later. None for nothing."""
    begin = max(first, one.start)
    return None if begin > last or (one.end is not None and begin >= one.end) else (begin, last)


def _change_tables(state: TableState) -> list[ChangeTable]:
    return [instance for instance in state.instances if isinstance(instance, ChangeTable)]
