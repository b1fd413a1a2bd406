"""Conversions to bytes: binary, varbinary and rowversion, and uniqueidentifier, which is kept as text.

Refuses hexadecimal digits that are none: 8114, and what has no form in bytes here.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from struct import Struct
from typing import Any

from emulators.sqlserver.codepages import encoder
from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.values.conversions.date_bytes import date_bytes
from emulators.sqlserver.tsql.values.conversions.numbers import INT_SIZES
from emulators.sqlserver.tsql.values.conversions.steps import Converter, Truncation
from emulators.sqlserver.tsql.values.types import code_page, family, is_unicode

_GUID = re.compile(r"\{?([0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})\}?")


def to_binary(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
    limit = 8 if target.name in ("rowversion", "timestamp") else target.length
    if limit == MAX:
        limit = None
    padded = target.name in ("binary", "rowversion", "timestamp")
    kind = family(source)
    if kind == "date" and source.name not in _NUMBERS:
        return _from_date(source, limit, padded)
    numeric = kind == "int" or source.name in _NUMBERS
    as_bytes = _from_text(source, style) if kind == "string" else _MAKERS.get(source.name)
    if kind == "date":
        as_bytes = date_bytes(source, None)
    if kind == "exact" and as_bytes is None:
        as_bytes = _of_decimals(source)
    if as_bytes is not None and limit == (INT_SIZES.get(source.name) or _SIZES.get(source.name)):
        return as_bytes
    if as_bytes is not None and kind == "string" and limit is not None and not padded and not assign:
        make, most = as_bytes, limit
        return lambda text: make(text)[:most]

    def run(value: Value) -> Value:
        if isinstance(value, bytes):
            data = value
        elif as_bytes is None:
            raise errors.unsupported(f"conversion from {source.name} to binary")
        else:
            data = as_bytes(value)
        if limit is None or len(data) == limit:
            return data
        if numeric:
            return data[-limit:].rjust(limit, b"\0") if padded else data[-limit:]
        if len(data) > limit:
            if assign and any(data[limit:]):
                raise Truncation("0x" + data[:limit].hex().upper())
            data = data[:limit]
        return data.ljust(limit, b"\0") if padded else data

    return run


def _from_date(source: SqlType, limit: int | None, padded: bool) -> Converter:
    as_bytes = date_bytes(source, limit)
    return (lambda value: as_bytes(value).ljust(limit or 0, b"\0")) if padded else as_bytes


def _from_text(source: SqlType, style: int) -> Callable[[Any], bytes]:
    if style in (1, 2):
        return lambda text: _digits(text, source, style)
    if is_unicode(source):
        return lambda text: text.encode("utf-16-le", "surrogatepass")
    return encoder(code_page(source))


def _digits(text: str, source: SqlType, style: int) -> bytes:
    digits = text[2:] if style == 1 and text[:2].lower() == "0x" else text
    try:
        if style == 1 and digits == text:
            raise ValueError(text)
        return bytes.fromhex(digits)
    except ValueError:
        raise errors.converting(source.name, "varbinary") from None


def _of_decimals(source: SqlType) -> Callable[[Any], bytes]:
    """Precision, scale, a zero, whether it is positive, and the digits as a number of as many 4 bytes as it needs, the lowest first.
    https://bornsql.ca/blog/how-sql-server-stores-data-types-integers-and-decimals/
    """
    precision, scale = source.precision or 18, source.scale or 0

    def run(text: str) -> bytes:
        number = int(f"{Decimal(text):.{scale}f}".replace(".", ""))
        size = max(1, -(-number.bit_length() // 32)) * 4
        return bytes((precision, scale, 0, number >= 0)) + abs(number).to_bytes(size, "little")

    return run


def _guid_bytes(text: Any) -> bytes:
    """The first three groups are numbers with the lowest byte first."""
    data = bytes.fromhex(text.replace("-", ""))
    return data[3::-1] + data[5:3:-1] + data[7:5:-1] + data[8:]


_MAKERS: dict[str, Callable[[Any], bytes]] = {
    "tinyint": Struct(">B").pack,
    "bit": Struct(">B").pack,
    "smallint": Struct(">h").pack,
    "int": Struct(">i").pack,
    "bigint": Struct(">q").pack,
    "float": Struct(">d").pack,
    "real": Struct(">f").pack,
    "uniqueidentifier": _guid_bytes,
    "money": lambda text: int(text.replace(".", "")).to_bytes(8, "big", signed=True),
    "smallmoney": lambda text: int(text.replace(".", "")).to_bytes(4, "big", signed=True),
}
"""From the storage forms of types."""
_NUMBERS = ("money", "smallmoney", "float", "real", "datetime", "smalldatetime")
"""Padded and cut on the left, as integers are; decimals, identifiers and the other dates are not known to be: https://learn.microsoft.com/sql/t-sql/data-types/binary-and-varbinary-transact-sql"""
_SIZES = {"uniqueidentifier": 16, "money": 8, "smallmoney": 4}
"""In bytes, of types that are no integers and whose values all have the same."""


def to_guid(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
    def run(value: Value) -> Value:
        if isinstance(value, bytes):
            return str(uuid.UUID(bytes_le=value[:16].ljust(16, b"\0"))).upper()
        match = _GUID.match(str(value))
        if match is None:
            raise errors.guid_conversion()
        return match[1].upper()

    return run
