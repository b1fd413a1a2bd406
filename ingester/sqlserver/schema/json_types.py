"""The JSON Schema of a column's value, from its type as it is declared (docs/values.md). Pure.

Every column may be null: change tables record no NOT NULL, and a mask may make null of anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

Schema = Mapping[str, object]

_DECLARED = re.compile(r"(\w+)(?:\((max|\d+)(?:,(\d+))?\))?")
_REDACTED: Final = 3
"""Characters of what the mask `redact` leaves of any text."""

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
_MOST_DIGITS: Final = 7
"""Of a second: what a time has whose digits are not known."""


def json_schema(declared: str, *, decimals_as_numbers: bool) -> Schema:
    """Of a type that is not known: anything."""
    found = _DECLARED.fullmatch(declared.lower())
    if found is None or (kind := _KINDS.get(found[1])) is None:
        return {"description": declared}
    size = int(found[2]) if found[2] and found[2] != "max" else None
    scale = int(found[3]) if found[3] else None
    one = dict(kind(size, scale))
    if decimals_as_numbers and found[1] in _EXACT:
        one = {"type": "number"}
    return {**one, "type": [one["type"], "null"], "description": declared}


def _whole(low: int, high: int) -> Callable[[int | None, int | None], Schema]:
    return lambda size, scale: {"type": "integer", "minimum": low, "maximum": high}


def _plain(kind: str, **more: str) -> Callable[[int | None, int | None], Schema]:
    return lambda size, scale: {"type": kind, **more}


def _text(size: int | None, scale: int | None) -> Schema:
    """A length in bytes or pairs of bytes is at least that in characters."""
    return {"type": "string"} if size is None else {"type": "string", "maxLength": max(size, _REDACTED)}


def _exact(size: int | None, scale: int | None) -> Schema:
    fraction = r"(\.[0-9]+)?" if size is None else rf"\.[0-9]{{{scale}}}" if scale else ""
    return {"type": "string", "pattern": f"^-?[0-9]+{fraction}$"}


def _times(before: str, after: str = "") -> Callable[[int | None, int | None], Schema]:
    """`size`: the digits of a second."""

    def one(size: int | None, scale: int | None) -> Schema:
        digits = rf"(\.[0-9]{{1,{_MOST_DIGITS}}})?" if size is None else rf"\.[0-9]{{{size}}}" if size else ""
        return {"type": "string", "pattern": f"^{before}{digits}{after}$"}

    return one


_BASE64 = _plain("string", contentEncoding="base64")
_MONEY = _plain("string", pattern=r"^-?[0-9]+\.[0-9]{4}$")
_EXACT = ("decimal", "numeric", "money", "smallmoney")

_KINDS: dict[str, Callable[[int | None, int | None], Schema]] = {
    "bit": _plain("boolean"),
    "tinyint": _whole(0, 255),
    "smallint": _whole(-(2**15), 2**15 - 1),
    "int": _whole(-(2**31), 2**31 - 1),
    "bigint": _whole(-(2**63), 2**63 - 1),
    "decimal": _exact,
    "numeric": _exact,
    "money": _MONEY,
    "smallmoney": _MONEY,
    "float": _plain("number"),
    "real": _plain("number"),
    **dict.fromkeys(("char", "varchar", "nchar", "nvarchar"), _text),
    **dict.fromkeys(("text", "ntext", "sysname", "xml"), _plain("string")),
    "date": _plain("string", pattern=f"^{_DAY}$"),
    "time": _times(_TIME),
    "datetime": _plain("string", pattern=rf"^{_DAY}T{_TIME}\.[0-9]{{3}}$"),
    "smalldatetime": _plain("string", pattern=f"^{_DAY}T{_TIME}$"),
    "datetime2": _times(f"{_DAY}T{_TIME}"),
    "datetimeoffset": _times(f"{_DAY}T{_TIME}", "[+-][0-9]{2}:[0-9]{2}"),
    **dict.fromkeys(("binary", "varbinary", "image", "timestamp", "rowversion"), _BASE64),
    **dict.fromkeys(("hierarchyid", "geography", "geometry"), _BASE64),
    "uniqueidentifier": _plain("string", pattern="^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$"),
}
