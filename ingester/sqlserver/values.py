"""How each SQL Server type is read and written (docs/values.md): the expression that selects it, and the conversion to
its JSON value.

Nothing is rounded, shifted or guessed. A value is read as it is stored where the driver loses nothing of it. Where it
would, or is slow, the server copies the value's bytes: it never formats what can be formatted here. Only decimals arrive
as digits: the driver makes digits of them, too, and a Decimal of those, which costs more than the server's conversion.
Text arrives as UTF-16 in binary: the driver (FreeTDS, with iconv) silently replaces every character that its tables
lack with a question mark, such as half a surrogate pair or byte 0x81 of code page 1252. The driver's times end at
microseconds, the server's at a tenth of one. Refuses times of another length than the one it knows; `pages/layouts.py`
finds out whether a server has another layout of the same length.
The layouts: https://learn.microsoft.com/openspecs/windows_protocols/ms-tds/786f5b8a-f87d-4980-9070-b9b7274c681d, with a
byte for the scale in front (docs/decisions/0049-values-as-stored.md)
"""

from __future__ import annotations

import base64
import json
import struct
from codecs import utf_16_le_decode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache

import orjson

from common.errors import PermanentError

Convert = Callable[[object], object]


@dataclass(frozen=True, slots=True)
class Projection:
    """`select` has one {} for the quoted column; `convert` gets the driver's value, never None."""

    select: str
    convert: Convert


def unchanged(value: object) -> object:
    """For values that the driver returns ready for JSON; readers need not call it."""
    return value


def shortest_real(value: object) -> object:
    """The shortest digits that read back to the same 32-bit value; the driver returns it widened to 64 bits."""
    assert isinstance(value, float)
    wanted = struct.pack("<f", value)
    for digits in range(6, 9):
        shortest = float(f"{value:.{digits}g}")
        if struct.pack("<f", shortest) == wanted:
            return shortest
    return float(f"{value:.9g}")


def _seconds(value: object) -> object:
    """A smalldatetime, which has no fraction."""
    assert isinstance(value, datetime)
    return value.isoformat(timespec="seconds")


def _milliseconds(value: object) -> object:
    """A datetime: the driver rounds its 300ths of a second to milliseconds as the server does."""
    assert isinstance(value, datetime)
    return value.isoformat(timespec="milliseconds")


def _day(value: object) -> object:
    assert isinstance(value, date)
    return value.isoformat()


_TIME_BYTES = {0: 3, 1: 3, 2: 3, 3: 4, 4: 4, 5: 5, 6: 5, 7: 5}
"""Of a time of day, by its scale."""
_DAY_BYTES = 3
_OFFSET_BYTES = 2
_DAY_SECONDS = 86_400
_CACHED = 4096


@lru_cache(_CACHED)
def date_of(days: int) -> str:
    try:
        return date.fromordinal(days + 1).isoformat()
    except (ValueError, OverflowError):
        raise another_layout("date") from None


@lru_cache(_CACHED)
def second_of(seconds: int) -> str:
    if seconds >= _DAY_SECONDS:
        raise another_layout("time of day")
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


_UNITS = tuple(10**scale for scale in range(8))


def _clock(ticks: int, scale: int) -> str:
    """`ticks` of 10**-scale seconds since midnight."""
    if not scale:
        return second_of(ticks)
    seconds, fraction = divmod(ticks, _UNITS[scale])
    return f"{second_of(seconds)}.{str(fraction).zfill(scale)}"


def _scale_of(value: bytes, rest: int) -> int:
    """The first byte, if the time behind it has that scale's length; `rest`: the bytes behind that."""
    if not value or _TIME_BYTES.get(value[0]) != len(value) - 1 - rest:
        raise another_layout("date or time")
    return value[0]


class UnknownLayout(PermanentError):
    """Bytes that nobody can read: the server has another layout, or the column another type than the statement was written for."""


def another_layout(what: str) -> UnknownLayout:
    return UnknownLayout(
        f"reading a change table: the server's bytes of a {what} have a layout that DStream does not know",
        hint="report it with the server's version (SELECT @@VERSION); until then leave the columns of that type out with exclude_columns",
    )


def _time(value: object) -> object:
    assert isinstance(value, bytes)
    scale = _scale_of(value, 0)
    return _clock(int.from_bytes(value[1:], "little"), scale)


def datetime2(value: object) -> object:
    assert isinstance(value, bytes)
    scale = _scale_of(value, _DAY_BYTES)
    ticks, days = int.from_bytes(value[1:-_DAY_BYTES], "little"), int.from_bytes(value[-_DAY_BYTES:], "little")
    return f"{date_of(days)}T{_clock(ticks, scale)}"


def _datetimeoffset(value: object) -> object:
    """The bytes hold the time in UTC, the JSON value the local time."""
    assert isinstance(value, bytes)
    scale = _scale_of(value, _DAY_BYTES + _OFFSET_BYTES)
    offset = int.from_bytes(value[-2:], "little", signed=True)
    ticks = int.from_bytes(value[1:-5], "little") + offset * 60 * _UNITS[scale]
    moved, ticks = divmod(ticks, _DAY_SECONDS * _UNITS[scale])
    hours, minutes = divmod(abs(offset), 60)
    day = date_of(int.from_bytes(value[-5:-2], "little") + moved)
    return f"{day}T{_clock(ticks, scale)}{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}"


def base64_of(value: object) -> object:
    assert isinstance(value, bytes)
    return base64.b64encode(value).decode("ascii")


def guid(value: object) -> object:
    """The first three groups are numbers with the lowest byte first."""
    assert isinstance(value, bytes)
    digits = (value[3::-1] + value[5:3:-1] + value[7:5:-1] + value[8:]).hex().upper()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _unicode(value: object) -> object:
    """Text from its UTF-16. Half a surrogate pair, which SQL Server stores and UTF-8 cannot encode, becomes its JSON
    escape."""
    assert isinstance(value, bytes)
    try:
        return utf_16_le_decode(value, "strict", True)[0]  # `decode` looks for this function in each call
    except UnicodeDecodeError:
        return orjson.Fragment(json.dumps(value.decode("utf-16-le", "surrogatepass")))


_LEAST_MONEY = 5
"""Digits: one in front of the point."""


def _money(value: object) -> object:
    """From a number of ten-thousandths, its highest byte first."""
    assert isinstance(value, bytes)
    digits = str(int.from_bytes(value, "big", signed=True))
    if len(digits) <= _LEAST_MONEY:
        digits = digits.zfill(_LEAST_MONEY + digits.startswith("-"))
    return f"{digits[:-4]}.{digits[-4:]}"


def number_of(text: object) -> object:
    """The server's digits as a JSON number, untouched; a leading zero is part of JSON's grammar but not always of the
    server's text."""
    assert isinstance(text, str)
    return orjson.Fragment(text.encode("ascii"))


def _money_number(value: object) -> object:
    return number_of(_money(value))


_DECIMAL = Projection("CONVERT(varchar(41), {})", unchanged)
_UNICODE = Projection("CONVERT(varbinary(8000), {})", _unicode)
_LARGE_UNICODE = Projection("CONVERT(varbinary(max), {})", _unicode)
_TEXT = Projection("CONVERT(varbinary(8000), CONVERT(nvarchar(4000), {}))", _unicode)
LARGE_TEXT = Projection("CONVERT(varbinary(max), CONVERT(nvarchar(max), {}))", _unicode)
_BINARY = Projection("{}", base64_of)
_CLR = Projection("CONVERT(varbinary(max), {})", base64_of)

PROJECTIONS: dict[str, Projection] = {
    "bit": Projection("{}", unchanged),
    "tinyint": Projection("{}", unchanged),
    "smallint": Projection("{}", unchanged),
    "int": Projection("{}", unchanged),
    "bigint": Projection("{}", unchanged),
    "decimal": _DECIMAL,
    "numeric": _DECIMAL,
    "money": Projection("CONVERT(binary(8), {})", _money),
    "smallmoney": Projection("CONVERT(binary(4), {})", _money),
    "float": Projection("{}", unchanged),
    "real": Projection("{}", shortest_real),
    "char": _TEXT,
    "varchar": _TEXT,
    "text": LARGE_TEXT,
    "nchar": _UNICODE,
    "nvarchar": _UNICODE,
    "sysname": _UNICODE,
    "ntext": LARGE_TEXT,
    "xml": LARGE_TEXT,
    "date": Projection("{}", _day),
    "time": Projection("CONVERT(varbinary(6), {})", _time),
    "datetime": Projection("{}", _milliseconds),
    "smalldatetime": Projection("{}", _seconds),
    "datetime2": Projection("CONVERT(varbinary(9), {})", datetime2),
    "datetimeoffset": Projection("CONVERT(varbinary(11), {})", _datetimeoffset),
    "binary": _BINARY,
    "varbinary": _BINARY,
    "image": _BINARY,
    "timestamp": _BINARY,
    "rowversion": _BINARY,
    "uniqueidentifier": Projection("CONVERT(binary(16), {})", guid),
    "hierarchyid": _CLR,
    "geography": _CLR,
    "geometry": _CLR,
}

_AS_NUMBERS: dict[str, Convert] = {
    "decimal": number_of,
    "numeric": number_of,
    "money": _money_number,
    "smallmoney": _money_number,
}

LOB_TYPES = frozenset({"text", "ntext", "image"})
"""Their value is never captured in a delete or a before image."""


_LARGE = {"char": LARGE_TEXT, "varchar": LARGE_TEXT, "nchar": _LARGE_UNICODE, "nvarchar": _LARGE_UNICODE}
_SHORT_BYTES = {"char": 4000, "varchar": 4000, "nchar": 8000, "nvarchar": 8000}
"""How long a column may be whose text is converted without truncation; an unknown length counts as large."""


def projection(sql_type: str, length: int | None = None, *, decimals_as_numbers: bool) -> Projection | None:
    """How `sql_type` is read; None for a type that DStream does not support (sql_variant). `length`: of the column, in
    bytes; -1 for max."""
    name = sql_type.lower()
    found = PROJECTIONS.get(name)
    if found is not None and decimals_as_numbers and name in _AS_NUMBERS:
        return Projection(found.select, _AS_NUMBERS[name])
    if name in _LARGE and (length is None or not 0 <= length <= _SHORT_BYTES[name]):
        return _LARGE[name]
    return found
