"""The rows between two keys, as ranges that an index can seek, in the order of the index. Pure.

Of (k1, k2) > (a, b) a server finds the bound of k1 alone: where many rows share k1, each page would read them all from the first. So
the rows between two keys are parted into ranges in which all columns but one are equal to a value: k1 = a AND k2 > b, then k1 > a. Their
rows follow each other in the index's order. https://learn.microsoft.com/sql/relational-databases/sql-server-index-design-guide

An index is read in its own directions, ascending, descending or mixed, so nothing is sorted: "after" means "less" for a descending column.
"""

from __future__ import annotations

from collections.abc import Sequence

from common.names import quote_name
from ingester.sqlserver.sql.changes import Statement
from ingester.sqlserver.sql.history.keys import KeyColumn, as_parameter

Values = Sequence[str]
EVERYTHING: Statement = ("", ())


def ordering(columns: Sequence[KeyColumn], alias: str) -> str:
    return ", ".join(f"{_name(column, alias)} {'DESC' if column.descending else 'ASC'}" for column in columns)


def ranges(columns: Sequence[KeyColumn], after: Values | None, upto: Values | None, alias: str) -> list[Statement]:
    """The conditions of the ranges of (after, upto], in order; one without a condition if there is no bound."""
    if after is None and upto is None:
        return [EVERYTHING]
    if after is None or upto is None:
        return _from(columns, 0, after, alias) if after is not None else _to(columns, 0, upto or (), alias)
    same = next((at for at, pair in enumerate(zip(after, upto, strict=True)) if pair[0] != pair[1]), len(columns))
    if same >= len(columns) - 1:
        last = len(columns) - 1
        return [
            _all(
                [*_equal(columns, last, after, alias), _past(columns, last, after, alias), _most(columns, upto, alias)]
            )
        ]
    between = _all(
        [*_equal(columns, same, after, alias), _past(columns, same, after, alias), _short(columns, same, upto, alias)]
    )
    # texts that differ may be equal to the server ('a' and 'A'): then all rows are in the first ranges
    not_past, different = _not_past(columns, upto, alias), _different(columns[same], after[same], upto[same])
    first = [_all([one, not_past]) for one in _from(columns, same, after, alias)[:-1]]
    rest = [_all([one, different]) for one in _to(columns, same, upto, alias)[1:]]
    return [*first, between, *rest]


def _from(columns: Sequence[KeyColumn], same: int, after: Values, alias: str) -> list[Statement]:
    """The ranges past `after`: the longest run of equal columns first, down to `same` of them."""
    return [
        _all([*_equal(columns, at, after, alias), _past(columns, at, after, alias)])
        for at in range(len(columns) - 1, same - 1, -1)
    ]


def _to(columns: Sequence[KeyColumn], same: int, upto: Values, alias: str) -> list[Statement]:
    """The ranges up to `upto`: the shortest run of equal columns first; the last one has the row of `upto` itself."""
    last = len(columns) - 1
    shorter = [_all([*_equal(columns, at, upto, alias), _short(columns, at, upto, alias)]) for at in range(same, last)]
    return [*shorter, _all([*_equal(columns, last, upto, alias), _most(columns, upto, alias)])]


def _equal(columns: Sequence[KeyColumn], count: int, values: Values, alias: str) -> list[Statement]:
    return [_compared(column, "=", value, alias) for column, value in zip(columns[:count], values, strict=False)]


def _past(columns: Sequence[KeyColumn], at: int, values: Values, alias: str) -> Statement:
    return _compared(columns[at], "<" if columns[at].descending else ">", values[at], alias)


def _short(columns: Sequence[KeyColumn], at: int, values: Values, alias: str) -> Statement:
    return _compared(columns[at], ">" if columns[at].descending else "<", values[at], alias)


def _most(columns: Sequence[KeyColumn], values: Values, alias: str) -> Statement:
    return _compared(columns[-1], ">=" if columns[-1].descending else "<=", values[len(columns) - 1], alias)


def _not_past(columns: Sequence[KeyColumn], upto: Values, alias: str) -> Statement:
    """A ladder of comparisons; it only filters what a range has found."""
    text, values = _most(columns, upto, alias)
    for at in range(len(columns) - 2, -1, -1):
        (less, one), (equal, other) = _short(columns, at, upto, alias), _compared(columns[at], "=", upto[at], alias)
        text, values = f"({less} OR ({equal} AND {text}))", (*one, *other, *values)
    return text, values


def _different(column: KeyColumn, one: str, other: str) -> Statement:
    return f"{as_parameter(column)} <> {as_parameter(column)}", (one, other)


def _compared(column: KeyColumn, how: str, value: str, alias: str) -> Statement:
    return f"{_name(column, alias)} {how} {as_parameter(column)}", (value,)


def _all(conditions: Sequence[Statement]) -> Statement:
    return " AND ".join(text for text, _ in conditions), tuple(value for _, values in conditions for value in values)


def _name(column: KeyColumn, alias: str) -> str:
    return f"{alias}.{quote_name(column.name)}"
