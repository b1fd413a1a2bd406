"""The T-SQL that finds the changes of a row by its key, the newest first. The key's values are parameters; none is in a result.

No index of a change table helps to find a key, so the changes are read in windows from the end, each of so many rows, by the clustered index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from common.names import quote_name
from ingester.source import CapturedColumn
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.position import LogPosition
from ingester.sqlserver.sql.changes import SHORT_WAIT, P, Parameters, Statement, command_id_of
from ingester.sqlserver.sql.parts import not_past

_TEXTS: Final = frozenset(("char", "varchar", "nchar", "nvarchar", "sysname"))
_WITH_STYLE: Final = {"datetime": 126, "smalldatetime": 126, "binary": 1, "varbinary": 1}
"""ISO 8601, and 0x before hexadecimal digits. https://learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql"""

_FOUND = ("lsn", "command", "seqval", "operation")


def fits(column: CapturedColumn, text: str) -> Statement | None:
    """(1) if `text` is a value of the column's type, else (0); None for text, which always is."""
    if column.type in _TEXTS:
        return None
    return f"SELECT CASE WHEN {_typed(column)} IS NULL THEN 0 ELSE 1 END AS fits", (text,)


def window_start(table: ChangeTable, upto: LogPosition, rows: int) -> Statement:
    """(position of the first, number) of the last `rows` rows up to `upto`; no row if there are none."""
    inner, values = _window(table, (), upto, rows)
    listed = ", ".join(f"found.{name}" for name in _FOUND)
    return (
        f"{SHORT_WAIT};\nSELECT TOP (1) {listed}, COUNT(*) OVER () AS number_of_rows\nFROM ({inner}) AS found\nORDER BY {listed}"
    ), values


def of_key(table: ChangeTable, key: Sequence[tuple[CapturedColumn, str]], upto: LogPosition, rows: int) -> Statement:
    """The positions of the changes of a row among the last `rows` rows up to `upto`, the newest first. An update is at its after image, whichever of
    its images has the key."""
    inner, values = _window(table, [column for column, _ in key], upto, rows)
    equal = " AND ".join(f"found.[k{at}] = {_typed(column)}" for at, (column, _) in enumerate(key))
    operation = "CASE WHEN found.operation = 3 THEN 4 ELSE found.operation END"
    return (
        f"{SHORT_WAIT};\nSELECT DISTINCT found.lsn, found.command, found.seqval, {operation} AS operation\nFROM ({inner}) AS found\n"
        f"WHERE {equal}\nORDER BY found.lsn DESC, found.command DESC, found.seqval DESC, operation DESC"
    ), (*values, *(text for _, text in key))


def _window(table: ChangeTable, columns: Sequence[CapturedColumn], upto: LogPosition, rows: int) -> Statement:
    ended, values = not_past(upto, table.has_command_id)
    command = command_id_of(table.has_command_id)
    keys = "".join(f", ct.{quote_name(column.name)} AS [k{at}]" for at, column in enumerate(columns))
    order = ["ct.[__$start_lsn]", "ct.[__$command_id]", "ct.[__$seqval]", "ct.[__$operation]"]
    if not table.has_command_id:
        order.remove("ct.[__$command_id]")
    parameters: Parameters = (rows, upto.lsn.value, *values)
    return (
        f"SELECT TOP ({P}) ct.[__$start_lsn] AS lsn, {command} AS command, ct.[__$seqval] AS seqval, ct.[__$operation] AS operation{keys}\n"
        f"FROM {table.rows_from} AS ct WHERE ct.[__$start_lsn] <= {P} AND {ended}\n"
        f"ORDER BY {', '.join(f'{each} DESC' for each in order)}"
    ), parameters


def _typed(column: CapturedColumn) -> str:
    """The parameter as a value of the column's type; NULL if it is none."""
    if column.type in _TEXTS:
        return P
    style = f", {_WITH_STYLE[column.type]}" if column.type in _WITH_STYLE else ""
    return f"TRY_CONVERT({column.declared or column.type}, {P}{style})"
