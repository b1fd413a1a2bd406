"""The T-SQL that looks for newer changes of rows whose old changes are known by their positions. No value of a row is a parameter or in a result:
the server compares the key's columns itself.

A change table has one index, which begins with the LSN, so none helps to find a key. The changes after the oldest position are read in windows,
each of so many rows; a hash join with the asked rows reads a window once, however many are asked for.
https://learn.microsoft.com/sql/t-sql/queries/hints-transact-sql-join (a join hint also fixes the order of the joins)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.names import quote_name
from ingester.source import CapturedColumn
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.position import LogPosition
from ingester.sqlserver.sql.changes import (
    LOW_WATERMARK,
    SHORT_WAIT,
    P,
    Parameters,
    Statement,
    after,
    command_id_of,
    order_of,
)
from ingester.sqlserver.sql.parts import not_past

LENGTHS = (1, 4, 16, 64, 256)
"""Changes in one statement: the list is padded to one of these, so that there are few texts. A window is read once for all of them; 256 have 1,280 of
the 2,100 parameters that a statement may have."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A change of which only the position is known. `command_id`: -1 for any."""

    lsn: bytes
    command_id: int
    seqval: bytes
    operation: int


def rows_asked(table: ChangeTable, asked: Sequence[Asked]) -> Statement:
    """(number in `asked`, command id, 1 if a column of its key is NULL) of each row that is there. An update's has both images' rows."""
    nulls = " OR ".join(f"c.{quote_name(name)} IS NULL" for name in _keys(table)) or "1 = 1"
    listed, values = _asked(asked)
    return (
        f"{SHORT_WAIT};\nSELECT asked.number, {_command(table, 'c')} AS command, CASE WHEN {nulls} THEN 1 ELSE 0 END AS nulls\n"
        f"FROM {listed} JOIN {_sought(table)} ON {_same(table, asked)}"
    ), values


def window_end(table: ChangeTable, start: LogPosition, rows: int) -> Statement:
    """(position of the last, number) of the first `rows` rows after `start`, before images counted; no row if there are none."""
    begun, values = after(start, table.has_command_id)
    found = ("lsn", "command", "seqval", "operation")
    return (
        f"{SHORT_WAIT};\nSELECT TOP (1) {', '.join(f'found.{name}' for name in found)}, COUNT(*) OVER () AS number_of_rows\n"
        f"FROM (SELECT TOP ({P}) ct.[__$start_lsn] AS lsn, {command_id_of(table.has_command_id)} AS command, ct.[__$seqval] AS seqval,\n"
        f"ct.[__$operation] AS operation FROM {table.rows_from} AS ct WHERE {begun} ORDER BY {order_of(table.has_command_id)}) AS found\n"
        f"ORDER BY {', '.join(f'found.{name} DESC' for name in found)}"
    ), (rows, *values)


def newer(table: ChangeTable, asked: Sequence[Asked], start: LogPosition, rows: int, offset: LogPosition) -> Statement:
    """(number in `asked`, LSN of the newest up to `offset`, LSN of the newest, rows up to `offset`, rows) of those with newer changes of the same
    key among the first `rows` rows after `start`. Before images count: an update that takes the key from the row is a change of it."""
    sent, last = not_past(offset, table.has_command_id)
    joined, values = _joined(table, asked, start, rows)
    return (
        f"{SHORT_WAIT};\nSELECT me.number, MAX(CASE WHEN {sent} THEN ct.[__$start_lsn] END) AS sent, MAX(ct.[__$start_lsn]) AS known,\n"
        f"SUM(CASE WHEN {sent} THEN 1 ELSE 0 END) AS rows_sent, COUNT(*) AS rows_known\n{joined}\nGROUP BY me.number"
    ), (*last, *last, *values)


def named(table: ChangeTable, asked: Sequence[Asked], start: LogPosition, rows: int, offset: LogPosition) -> Statement:
    """(number in `asked`, position) of each newer change of the same key that `newer` counts. Ask only for what it has found to be few."""
    sent, last = not_past(offset, table.has_command_id)
    joined, values = _joined(table, asked, start, rows)
    operation = "CASE WHEN ct.[__$operation] = 3 THEN 4 ELSE ct.[__$operation] END"
    return (
        f"{SHORT_WAIT};\nSELECT DISTINCT me.number, ct.[__$start_lsn] AS lsn, {_command(table, 'ct')} AS command, ct.[__$seqval] AS seqval,\n"
        f"{operation} AS operation\n{joined}\nWHERE {sent}"
    ), (*values, *last)


def _joined(table: ChangeTable, asked: Sequence[Asked], start: LogPosition, rows: int) -> Statement:
    """The asked rows as `me`, and as `ct` the later ones of the same key among the first `rows` after `start`."""
    begun, first = after(start, table.has_command_id)
    listed, values = _asked(asked)
    keys = [quote_name(name) for name in _keys(table)]
    mine = ", ".join(f"c.{key} AS [k{at}]" for at, key in enumerate(keys))
    command = ["ct.[__$command_id]"] if table.has_command_id else []
    read = ["ct.[__$start_lsn]", *command, "ct.[__$seqval]", "ct.[__$operation]"]
    theirs = ", ".join([*read, *(f"ct.{key} AS [k{at}]" for at, key in enumerate(keys))])
    equal = " AND ".join(f"ct.[k{at}] = me.[k{at}]" for at in range(len(keys)))
    return (
        f"FROM (SELECT asked.number, c.[__$start_lsn] AS lsn, {_command(table, 'c')} AS command, c.[__$seqval] AS seqval,\n"
        f"asked.operation, {mine}\nFROM {listed} JOIN {_sought(table)} ON {_same(table, asked)}) AS me\n"
        f"INNER HASH JOIN (SELECT TOP ({P}) {theirs} FROM {table.rows_from} AS ct\n"
        f"WHERE {begun} ORDER BY {order_of(table.has_command_id)}) AS ct\nON {equal} AND {_later(table)}"
    ), (*values, rows, *first)


def any_after(table: ChangeTable, start: LogPosition) -> Statement:
    """(LSN) of the first change after `start`, of whatever row; no row if there is none."""
    begun, values = after(start, table.has_command_id)
    return (
        f"{SHORT_WAIT};\nSELECT TOP (1) ct.[__$start_lsn] AS lsn FROM {table.rows_from} AS ct\n"
        f"WHERE {begun} ORDER BY {order_of(table.has_command_id)}"
    ), values


def low_watermark(table: ChangeTable) -> Statement:
    """Read after the rows: cleanup raises it before it deletes."""
    return f"{SHORT_WAIT};\n{LOW_WATERMARK}", (table.name,)


def _keys(table: ChangeTable) -> list[str]:
    return [column.name for column in sorted_key(table)]


def sorted_key(table: ChangeTable) -> list[CapturedColumn]:
    """The key's columns, in its order."""
    return sorted((each for each in table.columns if each.key_ordinal), key=lambda each: each.key_ordinal or 0)


def _asked(asked: Sequence[Asked]) -> tuple[str, Parameters]:
    length = next(length for length in LENGTHS if len(asked) <= length)
    padded = [*enumerate(asked), *[(-1, asked[-1])] * (length - len(asked))]
    rows = ", ".join([f"({P}, {P}, {P}, {P}, {P})"] * length)
    values = [value for number, one in padded for value in (number, one.lsn, one.command_id, one.seqval, one.operation)]
    return f"(VALUES {rows}) AS asked (number, lsn, command, seqval, operation)", tuple(values)


def _sought(table: ChangeTable) -> str:
    """A few rows by their positions: without the hint old statistics may make the server read the table from its beginning.
    https://learn.microsoft.com/sql/t-sql/queries/hints-transact-sql-table"""
    return f"{table.rows_from} AS c WITH (FORCESEEK)"


def _same(table: ChangeTable, asked: Sequence[Asked]) -> str:
    """An update was of the key before it as well: so its before image is among its rows."""
    parts = [
        "c.[__$start_lsn] = asked.lsn",
        "c.[__$seqval] = asked.seqval",
        "(c.[__$operation] = asked.operation OR (asked.operation = 4 AND c.[__$operation] = 3))",
    ]
    if table.has_command_id and all(each.command_id > 0 for each in asked):
        parts.append(
            "c.[__$command_id] = asked.command"
        )  # a part of the index: of a large transaction one row is read, not all
    elif table.has_command_id:
        parts.append("(asked.command = -1 OR ISNULL(c.[__$command_id], 0) = asked.command)")
    return " AND ".join(parts)


def _command(table: ChangeTable, alias: str) -> str:
    return f"ISNULL({alias}.[__$command_id], 0)" if table.has_command_id else "0"


def _later(table: ChangeTable) -> str:
    rest = "(ct.[__$seqval] > me.seqval OR (ct.[__$seqval] = me.seqval AND ct.[__$operation] > me.operation))"
    if table.has_command_id:
        command = _command(table, "ct")
        rest = f"({command} > me.command OR ({command} = me.command AND {rest}))"
    return f"(ct.[__$start_lsn] > me.lsn OR (ct.[__$start_lsn] = me.lsn AND {rest}))"
