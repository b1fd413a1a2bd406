"""The T-SQL of transactions: which ones a window has, and how many changes each has in a change table, up to where in it."""

from __future__ import annotations

from typing import Protocol

from common.names import quote_name
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.sqlserver.sql.changes import P, Parameters, Statement, command_id_of, order_of


class Countable(Protocol):
    """A change table whose changes are counted."""

    @property
    def change_table(self) -> str: ...
    @property
    def has_command_id(self) -> bool: ...


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


def counts(number: int, change_table: str, first: Lsn, last: Lsn, rows: int) -> Statement:
    """(number, LSN, changes) of each transaction in [first, last] among the first `rows` changes; before images are not counted."""
    return (
        f"SELECT {P} AS number, found.[__$start_lsn], COUNT(*) AS changes\n"
        f"FROM (SELECT TOP ({P}) ct.[__$start_lsn] FROM [cdc].{quote_name(change_table)} AS ct\n"
        f"WHERE ct.[__$start_lsn] >= {P} AND ct.[__$start_lsn] <= {P} AND ct.[__$operation] <> 3\n"
        f"ORDER BY ct.[__$start_lsn]) AS found\n"
        f"GROUP BY found.[__$start_lsn]"
    ), (number, rows, first.value, last.value)


def step(number: int, table: Countable, lsn: Lsn, within: Statement, rows: int) -> Statement:
    """(number, changes, command id, seqval, operation) of the first `rows` changes of a transaction `within` a range: how many there are,
    and where the last one is. No row for none."""
    condition, values = within
    meta = f"{command_id_of(table.has_command_id)} AS [__$command_id], ct.[__$seqval], ct.[__$operation]"
    found = (
        f"SELECT TOP ({P}) {meta}\nFROM [cdc].{quote_name(table.change_table)} AS ct\n"
        f"WHERE ct.[__$start_lsn] = {P} AND ct.[__$operation] <> 3{condition}\n"
        f"ORDER BY {order_of(table.has_command_id)}"
    )
    place = ("[__$command_id]", "[__$seqval]", "[__$operation]")
    return (
        f"SELECT TOP (1) {P} AS number, COUNT(*) OVER () AS changes, {', '.join(f'found.{name}' for name in place)}\n"
        f"FROM ({found}) AS found\nORDER BY {', '.join(f'found.{name} DESC' for name in place)}"
    ), (number, rows, lsn.value, *values)


def ranges(begin: LogPosition, end: LogPosition, *, has_command_id: bool) -> list[Statement]:
    """(begin, end] of one transaction, in order, as ranges that the clustered index finds: one command id, or one span of them.

    In one condition for all of it SQL Server finds no more than the transaction, which it would read from its beginning. A statement of
    any size may have a single command id, so a range within that is one of sequence values. NULL, which counts as 0 (`changes.after`), has
    ranges of its own: with an OR for it, SQL Server would look for two places and sort what it finds.
    """
    begun, ended = begin.command_id < 0, end == LogPosition.end_of(end.lsn)
    later, sooner = _NO_BOUND if begun else _later(begin), _NO_BOUND if ended else _sooner(end)
    if not has_command_id:
        return [_both(later, sooner)]
    if begin.command_id == end.command_id:
        return [_both(command, later, sooner) for command in _commands(begin.command_id)]
    between = _NO_BOUND if begun else (f" AND ct.[__$command_id] > {P}", (begin.command_id,))
    if ended:
        return [*([] if begun else [_both(command, later) for command in _commands(begin.command_id)]), between]
    before = [_NO_COMMAND] if end.command_id > 0 else []
    return [
        *(before if begun else [_both(command, later) for command in _commands(begin.command_id)]),
        _both(between, (f" AND ct.[__$command_id] < {P}", (end.command_id,))),
        *(_both(command, sooner) for command in _commands(end.command_id)),
    ]


_NO_BOUND: Statement = ("", ())
_NO_COMMAND: Statement = (" AND ct.[__$command_id] IS NULL", ())


def _later(position: LogPosition) -> Statement:
    condition = f" AND ct.[__$seqval] >= {P} AND (ct.[__$seqval] > {P} OR ct.[__$operation] > {P})"
    return condition, (position.seqval, position.seqval, position.operation)


def _sooner(position: LogPosition) -> Statement:
    condition = f" AND ct.[__$seqval] <= {P} AND (ct.[__$seqval] < {P} OR ct.[__$operation] <= {P})"
    return condition, (position.seqval, position.seqval, position.operation)


def _commands(number: int) -> list[Statement]:
    same = (f" AND ct.[__$command_id] = {P}", (number,))
    return [same] if number else [_NO_COMMAND, same]


def _both(*conditions: Statement) -> Statement:
    values: Parameters = tuple(value for _, some in conditions for value in some)
    return "".join(text for text, _ in conditions), values
