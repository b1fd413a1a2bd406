"""How each SQL Server type is read and written (docs/values.md): the expression that selects it, and the conversion to
its JSON value.

The server converts types that Python or the driver would truncate to text. Nothing is rounded, shifted or guessed. Text
itself arrives as UTF-16 in binary: the driver (FreeTDS, with iconv) silently replaces every character that its tables
lack with a question mark, such as half a surrogate pair or byte 0x81 of code page 1252.
Source of the styles: https://learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import orjson

Convert = Callable[[object], object]


@dataclass(frozen=True, slots=True)
class Projection:
    """`select` has one {} for the quoted column; `convert` gets the driver's value, never None."""

    select: str
    convert: Convert


def unchanged(value: object) -> object:
    """For values that the driver returns ready for JSON; readers need not call it."""
    return value


def _bool(value: object) -> object:
    return bool(value)


def _real(value: object) -> object:
    """The shortest digits that read back to the same 32-bit value; the driver returns it widened to 64 bits."""
    assert isinstance(value, float)
    wanted = struct.pack("<f", value)
    for digits in range(6, 9):
        shortest = float(f"{value:.{digits}g}")
        if struct.pack("<f", shortest) == wanted:
            return shortest
    return float(f"{value:.9g}")


def _iso(text: object) -> object:
    """Style 121's "2018-07-13 12:23:45.456 +11:00" as "2018-07-13T12:23:45.456+11:00"."""
    assert isinstance(text, str)
    return text.replace(" ", "T", 1).replace(" ", "")


def _iso_minutes(text: object) -> object:
    """A smalldatetime has no fraction, although the style prints one."""
    assert isinstance(text, str)
    return text.replace(" ", "T", 1)[:19]


def _base64(value: object) -> object:
    assert isinstance(value, bytes)
    return base64.b64encode(value).decode("ascii")


def _guid(value: object) -> object:
    return str(value if isinstance(value, UUID) else UUID(str(value))).upper()


def _unicode(value: object) -> object:
    """Text from its UTF-16. Half a surrogate pair, which SQL Server stores and UTF-8 cannot encode, becomes its JSON
    escape."""
    assert isinstance(value, bytes)
    try:
        return value.decode("utf-16-le")
    except UnicodeDecodeError:
        return orjson.Fragment(json.dumps(value.decode("utf-16-le", "surrogatepass")))


def _number(text: object) -> object:
    """The server's digits as a JSON number, untouched; a leading zero is part of JSON's grammar but not always of the
    server's text."""
    assert isinstance(text, str)
    return orjson.Fragment(text.encode("ascii"))


_DECIMAL = Projection("CONVERT(varchar(41), {})", unchanged)
_MONEY = Projection("CONVERT(varchar(41), {}, 2)", unchanged)
_DATETIME = Projection("CONVERT(varchar(34), {}, 121)", _iso)
_UNICODE = Projection("CONVERT(varbinary(8000), {})", _unicode)
_LARGE_UNICODE = Projection("CONVERT(varbinary(max), {})", _unicode)
_TEXT = Projection("CONVERT(varbinary(8000), CONVERT(nvarchar(4000), {}))", _unicode)
_LARGE_TEXT = Projection("CONVERT(varbinary(max), CONVERT(nvarchar(max), {}))", _unicode)
_BINARY = Projection("{}", _base64)
_CLR = Projection("CONVERT(varbinary(max), {})", _base64)

PROJECTIONS: dict[str, Projection] = {
    "bit": Projection("{}", _bool),
    "tinyint": Projection("{}", unchanged),
    "smallint": Projection("{}", unchanged),
    "int": Projection("{}", unchanged),
    "bigint": Projection("{}", unchanged),
    "decimal": _DECIMAL,
    "numeric": _DECIMAL,
    "money": _MONEY,
    "smallmoney": _MONEY,
    "float": Projection("{}", unchanged),
    "real": Projection("{}", _real),
    "char": _TEXT,
    "varchar": _TEXT,
    "text": _LARGE_TEXT,
    "nchar": _UNICODE,
    "nvarchar": _UNICODE,
    "sysname": _UNICODE,
    "ntext": _LARGE_TEXT,
    "xml": _LARGE_TEXT,
    "date": Projection("CONVERT(varchar(10), {}, 121)", unchanged),
    "time": Projection("CONVERT(varchar(16), {}, 121)", unchanged),
    "datetime": _DATETIME,
    "smalldatetime": Projection("CONVERT(varchar(23), {}, 121)", _iso_minutes),
    "datetime2": _DATETIME,
    "datetimeoffset": _DATETIME,
    "binary": _BINARY,
    "varbinary": _BINARY,
    "image": _BINARY,
    "timestamp": _BINARY,
    "rowversion": _BINARY,
    "uniqueidentifier": Projection("{}", _guid),
    "hierarchyid": _CLR,
    "geography": _CLR,
    "geometry": _CLR,
}

_EXACT_NUMBERS = ("decimal", "numeric", "money", "smallmoney")

LOB_TYPES = frozenset({"text", "ntext", "image"})
"""Their value is never captured in a delete or a before image."""


_LARGE = {"char": _LARGE_TEXT, "varchar": _LARGE_TEXT, "nchar": _LARGE_UNICODE, "nvarchar": _LARGE_UNICODE}
_SHORT_BYTES = {"char": 4000, "varchar": 4000, "nchar": 8000, "nvarchar": 8000}
"""How long a column may be whose text is converted without truncation; an unknown length counts as large."""


def projection(sql_type: str, length: int | None = None, *, decimals_as_numbers: bool) -> Projection | None:
    """How `sql_type` is read; None for a type that DStream does not support (sql_variant). `length`: of the column, in
    bytes; -1 for max."""
    name = sql_type.lower()
    found = PROJECTIONS.get(name)
    if found is not None and decimals_as_numbers and name in _EXACT_NUMBERS:
        return Projection(found.select, _number)
    if name in _LARGE and (length is None or not 0 <= length <= _SHORT_BYTES[name]):
        return _LARGE[name]
    return found
