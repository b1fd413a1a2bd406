"""How each SQL Server type is read and written (SPEC 9): the expression that selects it, and what makes its JSON value.

Types that Python or the driver would shorten are converted to text by the server. Nothing is rounded, shifted or guessed.
Source of the styles: https://learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import orjson

Convert = Callable[[object], object]


@dataclass(frozen=True, slots=True)
class Projection:
    """`select` has one {} for the quoted column; `convert` gets what the driver returns for it, never None."""

    select: str
    convert: Convert


def _same(value: object) -> object:
    return value


def _bool(value: object) -> object:
    return bool(value)


def _real(value: object) -> object:
    """The shortest digits that read back to the same 32-bit value; the driver hands over its 64-bit widening."""
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
    """A smalldatetime has no fraction, whatever the style prints."""
    assert isinstance(text, str)
    return text.replace(" ", "T", 1)[:19]


def _base64(value: object) -> object:
    assert isinstance(value, bytes)
    return base64.b64encode(value).decode("ascii")


def _guid(value: object) -> object:
    return str(value if isinstance(value, UUID) else UUID(str(value))).upper()


def _number(text: object) -> object:
    """The server's digits as a JSON number, untouched; a leading zero is part of JSON's grammar but not always of the server's text."""
    assert isinstance(text, str)
    return orjson.Fragment(text.encode("ascii"))


_DECIMAL = Projection("CONVERT(varchar(41), {})", _same)
_MONEY = Projection("CONVERT(varchar(41), {}, 2)", _same)
_DATETIME = Projection("CONVERT(varchar(34), {}, 121)", _iso)
_TEXT = Projection("{}", _same)
_UNICODE = Projection("CONVERT(nvarchar(max), {})", _same)
_BINARY = Projection("{}", _base64)
_CLR = Projection("CONVERT(varbinary(max), {})", _base64)

PROJECTIONS: dict[str, Projection] = {
    "bit": Projection("{}", _bool),
    "tinyint": Projection("{}", _same),
    "smallint": Projection("{}", _same),
    "int": Projection("{}", _same),
    "bigint": Projection("{}", _same),
    "decimal": _DECIMAL,
    "numeric": _DECIMAL,
    "money": _MONEY,
    "smallmoney": _MONEY,
    "float": Projection("{}", _same),
    "real": Projection("{}", _real),
    "char": _TEXT,
    "varchar": _TEXT,
    "text": _TEXT,
    "nchar": _TEXT,
    "nvarchar": _TEXT,
    "sysname": _TEXT,
    "ntext": _TEXT,
    "xml": _UNICODE,
    "date": Projection("CONVERT(varchar(10), {}, 121)", _same),
    "time": Projection("CONVERT(varchar(16), {}, 121)", _same),
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
"""Capture never holds their value in a delete or a before image."""


def projection(sql_type: str, *, decimals_as_numbers: bool) -> Projection | None:
    """How `sql_type` is read; None for a type that DStream does not carry (sql_variant)."""
    found = PROJECTIONS.get(sql_type.lower())
    if found is not None and decimals_as_numbers and sql_type.lower() in _EXACT_NUMBERS:
        return Projection(found.select, _number)
    return found
