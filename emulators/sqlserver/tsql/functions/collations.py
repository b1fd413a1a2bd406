"""The orders that SQL Server has and SQLite lacks, as comparison functions over storage forms (sqltypes.py).

Those of text are in text_order.py.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from emulators.sqlserver.tsql.values.temporal import instant
from emulators.sqlserver.tsql.values.text_order import ORDERS, comparison

_GUID_ORDER = (slice(24, 36), slice(19, 23), slice(14, 18), slice(9, 13), slice(0, 8))


def compare_exact(left: str, right: str) -> int:
    if left == right:
        return 0
    a, b = Decimal(left), Decimal(right)
    return (a > b) - (a < b)


def _guid_key(value: str) -> tuple[str, ...]:
    last, fourth, third, second, first = (value[part] for part in _GUID_ORDER)
    return last, fourth, _swapped(third), _swapped(second), _swapped(first)


def _swapped(digits: str) -> str:
    return "".join(digits[i : i + 2] for i in range(len(digits) - 2, -1, -2))


def compare_guid(left: str, right: str) -> int:
    """SQL Server orders by the last six bytes first: https://learn.microsoft.com/dotnet/framework/data/adonet/sql/comparing-guid-and-uniqueidentifier-values"""
    if left == right:
        return 0
    a, b = _guid_key(left), _guid_key(right)
    return (a > b) - (a < b)


def compare_instant(left: str, right: str) -> int:
    a, b = instant(left), instant(right)
    return (a > b) - (a < b)


COLLATIONS: dict[str, Callable[[str, str], int]] = {
    **{order.name: comparison(order) for order in ORDERS},
    "EXACT": compare_exact,
    "GUID": compare_guid,
    "INSTANT": compare_instant,
}
