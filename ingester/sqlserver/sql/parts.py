"""The T-SQL of a stride, which several tasks read at the same time: where it ends, and the pages of one part of it.

The server decides a row's part by a hash of some of its columns: CHECKSUM is the same for values that are equal by
their types and collations, NULLs included.
https://learn.microsoft.com/sql/t-sql/functions/checksum-transact-sql (Remarks)
"""

from __future__ import annotations

from collections.abc import Sequence

from common.names import quote_name
from ingester.source import Part
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.position import LogPosition
from ingester.sqlserver.sql.changes import (
    LOW_WATERMARK,
    P,
    Parameters,
    RowsQuery,
    Statement,
    after,
    command_id_of,
    images,
    order_of,
    selected_of,
    times_of,
    until,
)

_PRIME = 1009
"""Many times the number of tasks of any table, so that each gets about as many remainders."""
_NUMBER = "[__$number]"
_POSITION = ("[__$start_lsn]", "[__$command_id]", "[__$seqval]", "[__$operation]")


def stride(instance: ChangeTable, *, start: LogPosition, upto: LogPosition, rows: int) -> Statement:
    """(position of the last, number) of the first `rows` rows of a window, before images not counted; no row for an
    empty window."""
    has_command_id = instance.has_command_id
    (begun, first), (ended, last) = after(start, has_command_id), until(upto)
    lsn, _, seqval, operation = (f"ct.{name}" for name in _POSITION)
    meta = f"{lsn}, {command_id_of(has_command_id)} AS [__$command_id], {seqval}, {operation}"
    found = (
        f"SELECT TOP ({P}) {meta}\nFROM [cdc].{quote_name(instance.change_table)} AS ct\n"
        f"WHERE {begun} AND {ended} AND {operation} <> 3\n"
        f"ORDER BY {order_of(has_command_id)}"
    )
    return (
        f"SELECT TOP (1) {', '.join(f'found.{name}' for name in _POSITION)}, COUNT(*) OVER () AS number_of_rows\n"
        f"FROM ({found}) AS found\nORDER BY {', '.join(f'found.{name} DESC' for name in _POSITION)}"
    ), (rows, *first, *last)


def page(query: RowsQuery, part: Part) -> Statement:
    """`changes.page` of one part of a stride, which ends with `query.upto`, any change's position.

    The inner query is limited to the stride's number of rows: with a condition on the position alone, each part would
    read to the end of the transaction. With `query.numbered`, each row's last column is its number among the changes of
    its transaction from `query.after` on, those of other parts included.
    """
    instance, upto = query.table, query.upto
    has_command_id, table = instance.has_command_id, f"[cdc].{quote_name(instance.change_table)}"
    command = ["[__$command_id]"] if has_command_id else []
    read = ["[__$start_lsn]", *command, "[__$seqval]", "[__$operation]", "[__$update_mask]"]
    read += _needed(instance, [query.beside, *query.columns], part)
    ended, last = not_past(upto, has_command_id)
    columns = [*query.columns, f"ct.{_NUMBER}"] if query.numbered else query.columns
    belongs, shared = _belongs(part, table, has_command_id, query.before_images)
    stride_of, values = _stride_of(query, part, read)
    if query.numbered:
        stride_of = _numbered(stride_of, read, has_command_id)
    times, same = commit_times(query, part)
    return (
        f"SELECT TOP ({P}) {selected_of(command_id_of(has_command_id), query.beside, columns)}\n"
        f"FROM ({stride_of}) AS ct\n"
        f"WHERE {ended} AND {belongs}\n"
        f"ORDER BY {order_of(has_command_id)};\n{times};\n{LOW_WATERMARK}"
    ), (query.rows, *values, *last, *shared, *same, instance.name)


def _needed(instance: ChangeTable, selected: Sequence[str], part: Part) -> list[str]:
    """The columns that are `selected` or decide the part, as they are written. A name within another's may add one more."""
    expressions = " ".join(selected)
    names = {column.name: quote_name(column.name) for column in instance.columns}
    return [quoted for name, quoted in names.items() if name in part.columns or f"ct.{quoted}" in expressions]


def commit_times(query: RowsQuery, part: Part) -> Statement:
    """`changes.commit_times` of the whole stride: fewer are asked for twice than hashes would be computed again."""
    rows, values = _stride_of(query, part, ["[__$start_lsn]"])
    return times_of(rows), values


def _stride_of(query: RowsQuery, part: Part, read: Sequence[str]) -> Statement:
    """What is `read` of the rows of a stride, and of no more than the rest of its last transaction."""
    table = query.table
    begun, first = after(query.after, table.has_command_id)
    return (
        f"SELECT TOP ({P}) {', '.join(f'ct.{name}' for name in read)} FROM [cdc].{quote_name(table.change_table)} AS ct\n"
        f"WHERE {begun} AND ct.[__$start_lsn] <= {P}{images(query.before_images)}\n"
        f"ORDER BY {order_of(table.has_command_id)}"
    ), (part.rows * 2 if query.before_images else part.rows, *first, query.upto.lsn.value)


def _numbered(rows: str, columns: Sequence[str], has_command_id: bool) -> str:
    """`rows` of a change table, each with its number among those of its transaction; before images are not counted."""
    counted = "ct.[__$start_lsn], CASE WHEN ct.[__$operation] = 3 THEN 0 ELSE 1 END"
    return (
        f"SELECT {', '.join(f'ct.{name}' for name in columns)},\n"
        f"ROW_NUMBER() OVER (PARTITION BY {counted} ORDER BY {order_of(has_command_id)}) AS {_NUMBER}\nFROM ({rows}) AS ct"
    )


def not_past(upto: LogPosition, has_command_id: bool) -> Statement:
    """The rows of a change table up to any position."""
    lsn, seqval = upto.lsn.value, upto.seqval
    rest = f"(ct.[__$seqval] < {P} OR (ct.[__$seqval] = {P} AND ct.[__$operation] <= {P}))"
    values: Parameters = (seqval, seqval, upto.operation)
    if has_command_id:
        command = command_id_of(has_command_id)
        rest = f"({command} < {P} OR ({command} = {P} AND {rest}))"
        values = (upto.command_id, upto.command_id, *values)
    return f"(ct.[__$start_lsn] < {P} OR (ct.[__$start_lsn] = {P} AND {rest}))", (lsn, lsn, *values)


def _belongs(part: Part, table: str, has_command_id: bool, before_images: bool) -> Statement:
    """Whether a row is in `part`. A before image goes with its after image, whose key may differ."""
    values = (part.of, part.number, part.number - part.of)
    if not before_images:
        return _hashed(part, "ct"), values
    command = ""
    if has_command_id:
        one, other = "ua.[__$command_id]", "ct.[__$command_id]"
        command = f"({one} = {other} OR ({one} IS NULL AND {other} IS NULL)) AND "
    return (
        f"((ct.[__$operation] <> 3 AND {_hashed(part, 'ct')}) OR (ct.[__$operation] = 3 AND EXISTS (\n"
        f"SELECT 1 FROM {table} AS ua WHERE ua.[__$start_lsn] = ct.[__$start_lsn] AND {command}"
        f"ua.[__$seqval] = ct.[__$seqval] AND ua.[__$operation] = 4 AND {_hashed(part, 'ua')})))"
    ), (*values, *values)


def _hashed(part: Part, alias: str) -> str:
    """Whether the hash of the row called `alias` is the part's number; a negative remainder counts from the end.

    Parameters: how many parts there are, the number, the number less how many. ABS would overflow at the least int.
    CHECKSUM may return an int unchanged, and keys in steps of ten would all be in one of two parts: so the remainder by
    a prime, which has no factor in common with a step, is used.
    """
    listed = ", ".join(f"{alias}.{quote_name(name)}" for name in part.columns)
    return f"CHECKSUM({listed}) % {_PRIME} % {P} IN ({P}, {P})"
