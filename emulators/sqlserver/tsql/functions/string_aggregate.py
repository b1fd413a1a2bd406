"""STRING_AGG: what it makes of its rows, and the type that it has. Its arguments are lowered in aggregates.py.

Source: https://learn.microsoft.com/sql/t-sql/functions/string-agg-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.functions.collations import COLLATIONS
from emulators.sqlserver.tsql.values.calls import Call
from emulators.sqlserver.tsql.values.types import family, is_unicode

_LIMIT = 8000
_LARGE = ("text", "ntext", "image", "xml")


def joined_type(kind: SqlType) -> SqlType:
    """Text keeps its kind at its greatest length; everything else becomes nvarchar(4000). Raises 8116."""
    if kind.name in _LARGE:
        raise SqlError(8116, f"Argument data type {kind.name} is invalid for argument 1 of string_agg function.", 16)
    if family(kind) != "string" or is_unicode(kind):
        return SqlType("nvarchar", MAX if kind.length == MAX and family(kind) == "string" else 4000)
    return SqlType("varchar", MAX if kind.length == MAX else 8000)


def limited(kind: SqlType) -> Call:
    """The check of the finished text. Raises 9829."""
    unit = 2 if is_unicode(kind) else 1

    def run(value: Value) -> Value:
        if kind.length != MAX and isinstance(value, str) and _units(value, unit) > _LIMIT:
            text = "STRING_AGG aggregation result exceeded the limit of 8000 bytes. Use LOB types to avoid result truncation."
            raise SqlError(9829, text, 16)
        return value

    return run


def _units(value: str, unit: int) -> int:
    return len(value.encode("utf-16-le", "surrogatepass")) if unit == 2 else len(value)


def separator(value: Value) -> Value:
    """What no page tells of is refused."""
    if value is None:
        raise unsupported("STRING_AGG with a separator that is NULL")
    return value


class JoinedStrings:
    """SQLite's aggregate: (order, value, separator, key ...). NULLs are left out, and what stands between is not doubled.

    `order`: for each key "A" or "D" and the name of a collation, joined by commas; "" for the order of arrival.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[tuple[Value, ...], str, str]] = []
        self.order = ""

    def step(self, order: str, value: str | None, between: str, *keys: Value) -> None:
        self.order = order
        if value is not None:
            self.rows.append((keys, value, between))

    def finalize(self) -> str | None:
        if not self.rows:
            return None
        terms = self.order.split(",") if self.order else []
        for place, term in reversed(list(enumerate(terms))):
            key = cmp_to_key(_comparison(term[1:]))
            self.rows.sort(key=lambda row, at=place, key=key: key(row[0][at]), reverse=term[0] == "D")  # type: ignore[misc]
        return self.rows[0][1] + "".join(between + value for _, value, between in self.rows[1:])


def _comparison(name: str) -> Callable[[Value, Value], int]:
    """Of storage forms, NULL first."""
    ordered = COLLATIONS.get(name)

    def compare(left: Value, right: Value) -> int:
        if left is None or right is None:
            return (left is not None) - (right is not None)
        if ordered is not None and isinstance(left, str) and isinstance(right, str):
            return ordered(left, right)
        return (left > right) - (left < right)  # type: ignore[operator]  # both of one type

    return compare
