"""The transactions as a table: what stands in place of its capture instance, and which change tables are counted. Pure.

It carries the change tables that it counts, so a task needs no list of tables, and a reload is in force with the next slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from common.names import TRANSACTIONS, TableName
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.position import Lsn, in_the_log
from ingester.sqlserver.transactions.events import LOG


@dataclass(frozen=True, slots=True)
class Counted:
    """A capture instance whose changes count: of transactions from `start` on, and before `end` if another takes over there.

    A table's own stream reads each transaction from the same one (`ingester/window.py`), so that it has the changes that are counted.
    """

    name: str
    table: TableName
    change_table: str
    has_command_id: bool
    start: Lsn
    end: Lsn | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLog(ChangeTable):
    """cdc.lsn_time_mapping: a row for each transaction with changes under CDC. A transaction's row is at the place of its `End`."""

    counted: tuple[Counted, ...]

    @property
    def rows_from(self) -> str:
        """With the names that a change table has. The rows without a transaction only say how far capture has come."""
        return (
            "(SELECT tm.start_lsn AS [__$start_lsn], 0x00000000000000000000 AS [__$seqval], 2 AS [__$operation]\n"
            "FROM cdc.lsn_time_mapping AS tm WHERE tm.tran_id <> 0x00)"
        )

    @property
    def kept(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.counted)


def transaction_log(tables: Iterable[Sequence[ChangeTable]]) -> TransactionLog | None:
    """`tables`: of each table, its capture instances in the order in which they were created. None if there are none."""
    found = [(instances, one) for instances in tables for one in _counted(instances)]
    if not found:
        return None
    start = min(instance.start for instances, _ in found for instance in instances)
    return TransactionLog(
        name=LOG,
        table=TRANSACTIONS,
        start=start,
        columns=(),
        change_table="lsn_time_mapping",
        has_command_id=False,
        counted=tuple(one for _, one in found),
    )


def _counted(instances: Sequence[ChangeTable]) -> list[Counted]:
    starts = [in_the_log(one.start).lsn for one in instances]
    return [
        Counted(one.name, one.table, one.change_table, one.has_command_id, start, end)
        for one, start, end in zip(instances, starts, [*starts[1:], None], strict=False)
    ]
