"""The T-SQL of the transactions' events: which transactions a window has, and how many changes each has in a change table."""

from __future__ import annotations

from common.names import quote_name
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.sqlserver.sql.changes import P, Statement


def committed(start: LogPosition, upto: LogPosition, most: int) -> Statement:
    """(LSN, commit time in the server's local time) of the first transactions with changes, that of `start` included unless it is over."""
    over = start == LogPosition.end_of(start.lsn)
    ends = "<=" if upto == LogPosition.end_of(upto.lsn) else "<"
    return (
        f"SELECT TOP ({P}) tm.start_lsn, CONVERT(varchar(23), tm.tran_end_time, 121) AS committed\n"
        f"FROM cdc.lsn_time_mapping AS tm\n"
        f"WHERE tm.start_lsn {'>' if over else '>='} {P} AND tm.start_lsn {ends} {P} AND tm.tran_id <> 0x00\n"
        f"ORDER BY tm.start_lsn"
    ), (most, start.lsn.value, upto.lsn.value)


def counts(number: int, change_table: str, first: Lsn, last: Lsn) -> Statement:
    """(number, LSN, changes) of each transaction in [first, last] that has any in this change table; before images are not counted."""
    return (
        f"SELECT {P} AS number, ct.[__$start_lsn], COUNT(*) AS changes FROM [cdc].{quote_name(change_table)} AS ct\n"
        f"WHERE ct.[__$start_lsn] >= {P} AND ct.[__$start_lsn] <= {P} AND ct.[__$operation] <> 3\n"
        f"GROUP BY ct.[__$start_lsn]"
    ), (number, first.value, last.value)
