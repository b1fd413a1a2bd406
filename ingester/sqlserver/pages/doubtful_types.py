"""How values are read if their types are not certain. Pure.

A login that may only call the published functions does not see the change table's columns: their types are the source table's. After ALTER COLUMN
these are ahead of the change table until capture gets there, and nothing shows when. A conversion to bytes that is written for one type silently
pads or cuts the bytes of another. So a value is read here as the driver returns it, or as text that the server makes of whatever type it finds.

Where the types are right, the results are those of `values.py`.
"""

from __future__ import annotations

import re
import struct
from decimal import Decimal
from typing import Final

from ingester.sqlserver.values import (
    LARGE_TEXT,
    Projection,
    base64_of,
    number_of,
    projection,
    shortest_real,
)


def _as_found(value: object) -> object:
    """Of a column with any type that can be altered to a number: what the driver makes of it says which."""
    match value:
        case Decimal():
            return f"{value:f}"
        case bytes():
            return base64_of(value)
    return value


def _real(value: object) -> object:
    """A float that has been altered to real holds more digits than one."""
    return shortest_real(value) if isinstance(value, float) and _fits_a_real(value) else _as_found(value)


def _fits_a_real(value: float) -> bool:
    try:
        return bool(struct.unpack("<f", struct.pack("<f", value))[0] == value)
    except OverflowError:
        return False


_DAY: Final = len("2018-07-13")


def _moment(value: object) -> object:
    """Style 121's "2018-07-13 12:23:45.456 +11:00" as "2018-07-13T12:23:45.456+11:00". Other texts stay as they are."""
    text = LARGE_TEXT.convert(value)
    if not isinstance(text, str) or text[4:5] != "-" or text[_DAY : _DAY + 1] != " ":
        return text
    return f"{text[:_DAY]}T{text[_DAY + 1 :].replace(' ', '')}"


def _minute(value: object) -> object:
    """A smalldatetime has no fraction, although the style prints one."""
    said = _moment(value)
    return said.removesuffix(".000") if isinstance(said, str) else said


def _number(value: object) -> object:
    """Digits as a JSON number. A column that was text may hold anything."""
    text = LARGE_TEXT.convert(value)
    return number_of(text) if isinstance(text, str) and _JSON_NUMBER.fullmatch(text) else text


_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_IN_STYLE: Final = "CONVERT(varbinary(max), CONVERT(nvarchar(max), {{}}, {}))"
_DIGITS: Final = Projection(_IN_STYLE.format(2), LARGE_TEXT.convert)
_WHATEVER: Final = Projection("{}", _as_found)
_MOMENT: Final = Projection(_IN_STYLE.format(121), _moment)
_BYTES: Final = Projection("CONVERT(varbinary(max), {})", base64_of)

_BY_TYPE: Final = {
    **dict.fromkeys(("bit", "tinyint", "smallint", "int", "bigint", "float"), _WHATEVER),
    **dict.fromkeys(("decimal", "numeric", "money", "smallmoney"), _DIGITS),
    **dict.fromkeys(("date", "time", "datetime", "datetime2", "datetimeoffset"), _MOMENT),
    **dict.fromkeys(("char", "varchar", "text", "nchar", "nvarchar", "sysname", "ntext", "xml"), LARGE_TEXT),
    **dict.fromkeys(("binary", "varbinary", "image", "timestamp", "rowversion"), _BYTES),
    "real": Projection("{}", _real),
    "smalldatetime": Projection(_IN_STYLE.format(121), _minute),
    "uniqueidentifier": LARGE_TEXT,
}


def projection_of(
    sql_type: str, length: int | None, *, types_known: bool, decimals_as_numbers: bool
) -> Projection | None:
    """How a column is read that has `sql_type`, or probably has it; None for a type that DStream does not support."""
    name = sql_type.lower()
    if types_known or name not in _BY_TYPE:
        return projection(sql_type, length, decimals_as_numbers=decimals_as_numbers)
    found = _BY_TYPE[name]
    return Projection(found.select, _number) if found is _DIGITS and decimals_as_numbers else found
