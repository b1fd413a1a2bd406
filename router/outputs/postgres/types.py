"""Which column of PostgreSQL holds a column of SQL Server, and how a value's text becomes one. Pure.

Text has no length in a table that is made here: the source keeps it, and a longer one at the source then changes nothing. Times have six digits
of a second in PostgreSQL: a seventh is cut off, never rounded, and a key column that may have one is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

_DECLARED: Final = re.compile(r"(\w+)(?:\((max|\d+)(?:,\s*(\d+))?\))?")
_MOST_DIGITS: Final = 6
_ALL_DIGITS: Final = 7
_REAL_BITS: Final = 24

_SAME: Final[Mapping[str, str]] = {
    "bit": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "money": "numeric(19,4)",
    "smallmoney": "numeric(10,4)",
    "real": "real",
    "date": "date",
    "datetime": "timestamp(3)",
    "smalldatetime": "timestamp(0)",
    "uniqueidentifier": "uuid",
    "binary": "bytea",
    "varbinary": "bytea",
    "image": "bytea",
    "rowversion": "bytea",
    "timestamp": "bytea",
    "hierarchyid": "bytea",
    "geography": "bytea",
    "geometry": "bytea",
}

_TIMES: Final[Mapping[str, str]] = {
    "time": "time({})",
    "datetime2": "timestamp({})",
    "datetimeoffset": "timestamptz({})",
}


def column_type(declared: str, *, key: bool = False) -> str:
    """For a column of a type as it is declared at the source. What is not known is text, as it is in the message."""
    found = _DECLARED.fullmatch(declared.lower())
    if found is None:
        return "text"
    name, size, scale = found[1], found[2], found[3]
    if name in ("decimal", "numeric"):
        return f"numeric({size or 18},{scale or 0})"
    if name == "float":
        return "real" if size is not None and int(size) <= _REAL_BITS else "double precision"
    if name in _TIMES:
        digits = _ALL_DIGITS if size is None else int(size)
        return "text" if key and digits > _MOST_DIGITS else _TIMES[name].format(min(digits, _MOST_DIGITS))
    return _SAME.get(name, "text")


def expression(type_name: str, text: str) -> str:
    """The value of a column of the type `type_name` (`format_type` without a length) that is written as `text`, an SQL expression.

    A cast to a type without length; the assignment to the column then refuses what is too long for it.
    """
    return _FROM_TEXT.get(type_name, _cast)(type_name, text)


def _cast(type_name: str, text: str) -> str:
    return f"CAST({text} AS {type_name})"


def _decoded(type_name: str, text: str) -> str:
    return f"decode({text}, 'base64')"


def _cut(length: int, zone: int) -> Callable[[str, str], str]:
    """Cuts off the seventh digit of a second. `length`: of a text that has one. `zone`: of the characters behind it, where it has a zone."""

    def one(type_name: str, text: str) -> str:
        cut = f"CASE length({text}) WHEN {length} THEN left({text}, {length - 1})"
        if zone:
            cut += f" WHEN {length + zone} THEN left({text}, {length - 1}) || right({text}, {zone})"
        return f"CAST({cut} ELSE {text} END AS {type_name})"

    return one


_DATE_TIME: Final = len("2018-07-13T13:23:45.6789012")
_TIME: Final = len("13:23:45.6789012")
_ZONE: Final = len("+11:00")

_FROM_TEXT: Final[Mapping[str, Callable[[str, str], str]]] = {
    "bytea": _decoded,
    "timestamp without time zone": _cut(_DATE_TIME, _ZONE),
    "timestamp with time zone": _cut(_DATE_TIME, _ZONE),
    "time without time zone": _cut(_TIME, 0),
}

_WHOLE: Final = ("smallint", "integer", "bigint")
_NUMERIC: Final = re.compile(r"numeric\((\d+),(\d+)\)")
_TIMED: Final = re.compile(r"(time|timestamp|timestamptz)\((\d)\)")


def wider(present: str, needed: str) -> bool:
    """Whether a column that was made as `present` must become `needed`, and every value of `present` is one of `needed`."""
    if present == needed:
        return False
    if present in _WHOLE and needed in _WHOLE:
        return _WHOLE.index(needed) > _WHOLE.index(present)
    if (one := _NUMERIC.fullmatch(present)) and (other := _NUMERIC.fullmatch(needed)):
        before, behind = int(one[1]) - int(one[2]), int(one[2])
        return int(other[1]) - int(other[2]) >= before and int(other[2]) >= behind
    if (one := _TIMED.fullmatch(present)) and (other := _TIMED.fullmatch(needed)):
        return one[1] == other[1] and int(other[2]) > int(one[2])
    if (other := _NUMERIC.fullmatch(needed)) is not None and present in _WHOLE:
        return int(other[1]) - int(other[2]) >= (5, 10, 19)[_WHOLE.index(present)]
    return (present, needed) == ("real", "double precision")
