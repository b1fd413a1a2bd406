"""Conversions between SQL Server's types, over storage forms (sqltypes.py): CAST, CONVERT and assignment.

Decides which pairs of types are allowed; how a value becomes another is in conversions/, a module for each family of targets.
Refuses what the real server refuses, with its numbers: 220, 241, 242, 245, 248, 257, 529, 8114, 8115, 8169.
Source: https://learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.values.conversions.binary import to_binary, to_guid
from emulators.sqlserver.tsql.values.conversions.dates import to_date
from emulators.sqlserver.tsql.values.conversions.numbers import to_exact, to_float, to_int
from emulators.sqlserver.tsql.values.conversions.steps import Converter, null_kept
from emulators.sqlserver.tsql.values.conversions.text import to_string
from emulators.sqlserver.tsql.values.types import family

_MAKERS: dict[str, Callable[[SqlType, SqlType, int, bool], Converter]] = {
    "int": to_int,
    "exact": to_exact,
    "float": to_float,
    "string": to_string,
    "binary": to_binary,
    "guid": to_guid,
    "date": to_date,
}


@lru_cache(maxsize=4096)
def converter(source: SqlType, target: SqlType, style: int = 0, assign: bool = False) -> Converter:
    """A function that turns storage forms of `source` into those of `target`; `assign`: raise Truncation, refuse
    what only an explicit CONVERT may do. Raises 529 and 257 at once where the pair is not allowed."""
    _check_pair(source, target, assign)
    make = _MAKERS[family(target)]
    step = make(source, target, style, assign)

    return null_kept(step)


_REFUSED = {
    ("guid", "int"),
    ("guid", "exact"),
    ("guid", "float"),
    ("guid", "date"),
    ("int", "guid"),
    ("exact", "guid"),
    ("float", "guid"),
    ("date", "guid"),
    ("float", "binary_date"),
}
_NEW_DATES = ("date", "time", "datetime2", "datetimeoffset")


def _check_pair(source: SqlType, target: SqlType, assign: bool) -> None:
    a, b = family(source), family(target)
    new_date = {source.name, target.name} & set(_NEW_DATES)
    numbers = {"int", "exact", "float"}
    clash = (a, b) in _REFUSED or ("date" in (a, b) and new_date and ({a, b} & numbers))
    if clash or (target.name == "time" and source.name == "date") or (target.name == "date" and source.name == "time"):
        if assign:
            raise errors.type_clash(source.name, target.name)
        raise errors.explicit_conversion(source.name, target.name)
    if not assign:
        return
    if (a == "string" and b == "binary") or (a == "date" and b in numbers | {"binary"}):
        raise errors.implicit_conversion(source.name, target.name)
