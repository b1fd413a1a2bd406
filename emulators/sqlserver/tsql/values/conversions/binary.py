"""Conversions to bytes: binary, varbinary and rowversion, and uniqueidentifier, which is kept as text.

Refuses hexadecimal digits that are none: 8114, and what has no form in bytes here.
"""

from __future__ import annotations

import re
import uuid
from decimal import Decimal

from emulators.sqlserver.codepages import encode
from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.values.conversions.numbers import INT_SIZES
from emulators.sqlserver.tsql.values.conversions.steps import Converter, Truncation
from emulators.sqlserver.tsql.values.types import code_page, family, is_unicode

_GUID = re.compile(r"\{?([0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})\}?")


def to_binary(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
    limit = 8 if target.name in ("rowversion", "timestamp") else target.length
    if limit == MAX:
        limit = None
    padded = target.name in ("binary", "rowversion", "timestamp")
    numeric = family(source) == "int"

    def run(value: Value) -> Value:
        data = value if isinstance(value, bytes) else _as_bytes(value, source, style)
        if limit is None:
            return data
        if numeric:
            return data[-limit:].rjust(limit, b"\0") if padded else data[-limit:]
        if len(data) > limit:
            if assign and any(data[limit:]):
                raise Truncation("0x" + data[:limit].hex().upper())
            data = data[:limit]
        return data.ljust(limit, b"\0") if padded else data

    return run


def _as_bytes(value: Value, source: SqlType, style: int) -> bytes:
    kind = family(source)
    if kind == "int":
        size = INT_SIZES[source.name]
        assert isinstance(value, int)
        return value.to_bytes(size, "big", signed=source.name not in ("tinyint", "bit"))
    text = str(value)
    if kind == "string":
        if style in (1, 2):
            digits = text[2:] if style == 1 and text[:2].lower() == "0x" else text
            try:
                if style == 1 and digits == text:
                    raise ValueError(text)
                return bytes.fromhex(digits)
            except ValueError:
                raise errors.converting(source.name, "varbinary") from None
        return text.encode("utf-16-le", "surrogatepass") if is_unicode(source) else encode(text, code_page(source))
    if kind == "guid":
        return uuid.UUID(text).bytes_le
    if source.name in ("money", "smallmoney"):
        return int(Decimal(text).scaleb(4)).to_bytes(8 if source.name == "money" else 4, "big", signed=True)
    raise errors.unsupported(f"conversion from {source.name} to binary")


def to_guid(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
    def run(value: Value) -> Value:
        if isinstance(value, bytes):
            return str(uuid.UUID(bytes_le=value[:16].ljust(16, b"\0"))).upper()
        match = _GUID.match(str(value))
        if match is None:
            raise errors.guid_conversion()
        return match[1].upper()

    return run
