"""SQL Server's changes with their transactions: each change with its place, and the events as pages of a table of their own.

A page looks at so many transactions of the log and counts their changes in each change table: every row is counted once, however large its
transaction is. Transactions without changes of the configured tables are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from common.errors import DStreamError, TransientError
from common.names import TRANSACTIONS, Ordering, TableName
from ingester.change import Change
from ingester.source import CaptureInstance, Page, PageQuery, TableState
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.connection import Connection, is_error
from ingester.sqlserver.position import LogPosition, Lsn, in_the_log
from ingester.sqlserver.probe import UNKNOWN_OBJECT
from ingester.sqlserver.source import PAGE_BYTES, QueryMode, SqlServerSource
from ingester.sqlserver.sql import changes as queries_of_changes
from ingester.sqlserver.sql import transactions as queries
from ingester.sqlserver.times import CommitTimes
from ingester.sqlserver.transactions.events import begin_and_end
from ingester.sqlserver.transactions.log import Counted, TransactionLog, transaction_log

_MOST = 500
"""Transactions of a page. All their changes are counted with it, within one statement's time."""

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
    """`tables`: the configured ones, whose changes are counted."""

    def __init__(
        self,
        connection: Connection,
        tables: Tables = tuple,
        *,
        before_images: bool = False,
        decimals_as_numbers: bool = False,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        super().__init__(
            connection,
            before_images=before_images,
            decimals_as_numbers=decimals_as_numbers,
            places=True,
            page_bytes=page_bytes,
        )
        self._transactions, self._tables = _Transactions(connection), tables

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


class _Transactions:
    """The events of a window, read and counted."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._times = connection, CommitTimes(connection)

    def page(self, log: TransactionLog, query: PageQuery) -> Page:
        """`end` is past all transactions that were looked at, even if none of them has an event."""
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
        most = min(max(1, query.rows // 2), _MOST)
        committed = [
            (Lsn(bytes(lsn)), time) for lsn, time in self._connection.rows(*queries.committed(after, upto, most))
        ]
        counts, low = self._counted(log, [lsn for lsn, _ in committed])
        times = self._times.utc(time for _, time in committed)
        events: list[Change] = []
        for lsn, time in committed:
            if (found := counts.get(lsn)) is not None:
                events += begin_and_end(lsn, None if time is None else times[time], found)
        full = len(committed) == most
        end = LogPosition.end_of(committed[-1][0]) if full else upto
        return Page([event for event in events if event.position > after], end, full and end < upto, low)

    def _counted(
        self, log: TransactionLog, lsns: Sequence[Lsn]
    ) -> tuple[dict[Lsn, dict[TableName, int]], LogPosition | None]:
        """The changes of each transaction by table, and then the low watermark: cleanup raises it before it deletes."""
        counted = log.counted
        asked = [
            queries.counts(number, one.change_table, *bounds)
            for number, one in enumerate(counted)
            if lsns and (bounds := _bounds(one, lsns[0], lsns[-1])) is not None
        ]
        *sets, lows = self._connection.batch([*asked, queries_of_changes.low_watermarks(log.kept)])
        found: dict[Lsn, dict[TableName, int]] = {}
        for number, lsn, changes in (row for rows in sets for row in rows):
            one = counted[number]
            if one.end is None or Lsn(bytes(lsn)) < one.end:
                found.setdefault(Lsn(bytes(lsn)), {})[one.table] = changes
        kept = set(log.kept)
        low = min((Lsn(bytes(value)) for name, value in lows if name in kept and value is not None), default=None)
        return found, None if low is None else LogPosition.before(low)


def _bounds(one: Counted, first: Lsn, last: Lsn) -> tuple[Lsn, Lsn] | None:
    """What of [first, last] counts in `one`; its end is excluded later. None for nothing."""
    begin = max(first, one.start)
    return None if begin > last or (one.end is not None and begin >= one.end) else (begin, last)


def _change_tables(state: TableState) -> list[ChangeTable]:
    return [instance for instance in state.instances if isinstance(instance, ChangeTable)]
