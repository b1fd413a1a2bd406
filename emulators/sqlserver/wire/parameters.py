"""RPC parameters: TYPE_INFO and value of every type, decoded into the storage forms of sqltypes.py (MS-TDS 2.2.5.4-2.2.5.6).

Types this server has no form for (sql_variant, CLR types, table-valued parameters) are refused by name with SqlError 50001;
a length or a value that cannot be is a ProtocolError.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable

from emulators.sqlserver import codepages, collation
from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.wire import temporal
from emulators.sqlserver.wire.errors import ProtocolError
from emulators.sqlserver.wire.reader import Reader, decode_ucs2

Typed = tuple[SqlType, Value]

_PLP = 0xFFFF
_NULL_SHORT = 0xFFFF
_INTEGERS = {1: "tinyint", 2: "smallint", 4: "int", 8: "bigint"}


def typed_value(reader: Reader) -> Typed:
    """TYPE_INFO and the value behind it. Raises ProtocolError, and SqlError 50001 for a type that is not supported."""
    token = reader.u8()
    if token in _REFUSED:
        raise SqlError(50001, f"The emulator does not support parameters of type {_REFUSED[token]}.")
    if token not in _DECODERS:
        raise ProtocolError(f"0x{token:02x} is no type")
    return _DECODERS[token](reader)


def _sized(reader: Reader, allowed: tuple[int, ...]) -> tuple[int, bytes]:
    """(declared size, bytes of the value) of a type with one length byte in each place; no bytes mean NULL."""
    declared = reader.u8()
    size = reader.u8()
    if declared not in allowed or (size and size not in allowed) or size > declared:
        raise ProtocolError(f"a value of {size} bytes in a type of {declared}")
    return declared, reader.take(size)


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=len(data) > 1)


def _intn(reader: Reader) -> Typed:
    declared, data = _sized(reader, (1, 2, 4, 8))
    return SqlType(_INTEGERS[declared]), _integer(data) if data else None


def _bitn(reader: Reader) -> Typed:
    _, data = _sized(reader, (1,))
    return SqlType("bit"), int(data != b"\0") if data else None


def _fltn(reader: Reader) -> Typed:
    declared, data = _sized(reader, (4, 8))
    type_ = SqlType("real" if declared == 4 else "float")
    return type_, _float(data) if data else None


def _float(data: bytes) -> float:
    reader = Reader(data)
    value = reader.f32() if len(data) == 4 else reader.f64()
    if not math.isfinite(value):
        raise SqlError(
            8023,
            "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is incorrect. "
            "The supplied value is not a valid instance of data type float.",
        )
    return value


def _moneyn(reader: Reader) -> Typed:
    declared, data = _sized(reader, (4, 8))
    return SqlType("smallmoney" if declared == 4 else "money"), _money(data) if data else None


def _money(data: bytes) -> str:
    if len(data) == 4:
        return decimal_text(_integer(data), 4)
    return decimal_text((_integer(data[:4]) << 32) + int.from_bytes(data[4:], "little"), 4)


def _datetimn(reader: Reader) -> Typed:
    declared, data = _sized(reader, (4, 8))
    return SqlType("smalldatetime" if declared == 4 else "datetime"), _datetime(data) if data else None


def _datetime(data: bytes) -> str:
    if len(data) == 4:
        return temporal.smalldatetime_text(int.from_bytes(data[:2], "little"), int.from_bytes(data[2:], "little"))
    return temporal.datetime_text(_integer(data[:4]), int.from_bytes(data[4:], "little"))


def decimal_text(unscaled: int, scale: int) -> str:
    """An integer of 10**-scale units as text with exactly `scale` digits after the point."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits


def _decimal(name: str) -> Callable[[Reader], Typed]:
    def decode(reader: Reader) -> Typed:
        reader.u8()
        precision, scale = reader.u8(), reader.u8()
        if not 1 <= precision <= 38 or scale > precision:
            raise ProtocolError(f"{name}({precision},{scale}) is no type")
        type_ = SqlType(name, precision=precision, scale=scale)
        size = reader.u8()
        if not size:
            return type_, None
        data = reader.take(size)
        magnitude = int.from_bytes(data[1:], "little")
        if magnitude >= 10**precision:
            raise ProtocolError(f"a {name}({precision},{scale}) of more digits than it has")
        return type_, decimal_text(magnitude if data[0] else -magnitude, scale)

    return decode


def _guid(reader: Reader) -> Typed:
    # the JDBC driver declares a NULL with length 0
    _, data = _sized(reader, (0, 16))
    return SqlType("uniqueidentifier"), str(uuid.UUID(bytes_le=data)).upper() if data else None


def _date(reader: Reader) -> Typed:
    size = reader.u8()
    if size not in (0, 3):
        raise ProtocolError(f"a date of {size} bytes")
    return SqlType("date"), temporal.date_text(int.from_bytes(reader.take(3), "little")) if size else None


def _scaled(name: str, extra: int) -> Callable[[Reader], Typed]:
    """time, datetime2 (3 bytes of date more) and datetimeoffset (2 bytes of offset more)."""

    def decode(reader: Reader) -> Typed:
        scale = reader.u8()
        if scale > 7:
            raise ProtocolError(f"{name}({scale}) is no type")
        type_ = SqlType(name, scale=scale)
        size = reader.u8()
        if not size:
            return type_, None
        width = temporal.time_size(scale)
        if size != width + extra:
            raise ProtocolError(f"a {name}({scale}) of {size} bytes")
        return type_, _moment(reader.take(size), width, scale)

    return decode


def _moment(data: bytes, width: int, scale: int) -> str:
    ticks = int.from_bytes(data[:width], "little")
    if len(data) == width:
        return temporal.time_text(ticks, scale)
    day = int.from_bytes(data[width : width + 3], "little")
    if len(data) == width + 3:
        return f"{temporal.date_text(day)} {temporal.time_text(ticks, scale)}"
    return temporal.from_utc(day, ticks, _integer(data[width + 3 :]), scale)


def _code_page(reader: Reader) -> int:
    """Of the five bytes of a collation."""
    return collation.code_page_of(reader.take(collation.WIRE_SIZE))


def _characters(name: str, wide: bool, padded: bool) -> Callable[[Reader], Typed]:
    unit = 2 if wide else 1

    def decode(reader: Reader) -> Typed:
        limit = reader.u16()
        page = _code_page(reader)
        length = MAX if limit == _PLP else max(limit // unit, 1)
        data = _short_or_plp(reader, limit)
        if data is None:
            return SqlType(name, length), None
        text = decode_ucs2(data) if wide else codepages.decode(data, page)
        return SqlType(name, length), text.ljust(length) if padded else text

    return decode


def _bytes(name: str, padded: bool) -> Callable[[Reader], Typed]:
    def decode(reader: Reader) -> Typed:
        limit = reader.u16()
        length = MAX if limit == _PLP else max(limit, 1)
        data = _short_or_plp(reader, limit)
        if data is None:
            return SqlType(name, length), None
        return SqlType(name, length), data.ljust(length, b"\0") if padded else data

    return decode


def _short_or_plp(reader: Reader, limit: int) -> bytes | None:
    if limit == _PLP:
        return reader.plp()
    if limit > 8000:
        raise ProtocolError(f"a type of {limit} bytes without (max)")
    size = reader.u16()
    if size == _NULL_SHORT:
        return None
    if size > limit:
        raise ProtocolError(f"a value of {size} bytes in a type of {limit}")
    return reader.take(size)


def _long(name: str) -> Callable[[Reader], Typed]:
    """text, ntext, image: as parameters they come without table name and text pointer."""

    def decode(reader: Reader) -> Typed:
        reader.u32()
        page = _code_page(reader) if name != "image" else 0
        size = reader.i32()
        if size == -1:
            return SqlType(name), None
        if size < 0:
            raise ProtocolError(f"a {name} of {size} bytes")
        data = reader.take(size)
        if name == "image":
            return SqlType(name), data
        return SqlType(name), decode_ucs2(data) if name == "ntext" else codepages.decode(data, page)

    return decode


def _xml(reader: Reader) -> Typed:
    if reader.u8():
        reader.b_varchar()
        reader.b_varchar()
        reader.us_varchar()
    data = reader.plp()
    return SqlType("xml"), None if data is None else decode_ucs2(data).removeprefix("\ufeff")


def _fixed(name: str, size: int, decode: Callable[[bytes], Value]) -> Callable[[Reader], Typed]:
    return lambda reader: (SqlType(name), decode(reader.take(size)))


_REFUSED = {0x62: "sql_variant", 0xF0: "CLR user-defined type", 0xF3: "table-valued parameter"}

_DECODERS: dict[int, Callable[[Reader], Typed]] = {
    0x1F: lambda reader: (SqlType("int"), None),
    0x30: _fixed("tinyint", 1, _integer),
    0x32: _fixed("bit", 1, lambda data: int(data != b"\0")),
    0x34: _fixed("smallint", 2, _integer),
    0x38: _fixed("int", 4, _integer),
    0x7F: _fixed("bigint", 8, _integer),
    0x3B: _fixed("real", 4, _float),
    0x3E: _fixed("float", 8, _float),
    0x3C: _fixed("money", 8, _money),
    0x7A: _fixed("smallmoney", 4, _money),
    0x3A: _fixed("smalldatetime", 4, _datetime),
    0x3D: _fixed("datetime", 8, _datetime),
    0x26: _intn,
    0x68: _bitn,
    0x6D: _fltn,
    0x6E: _moneyn,
    0x6F: _datetimn,
    0x6A: _decimal("decimal"),
    0x6C: _decimal("numeric"),
    0x24: _guid,
    0x28: _date,
    0x29: _scaled("time", 0),
    0x2A: _scaled("datetime2", 3),
    0x2B: _scaled("datetimeoffset", 5),
    0xE7: _characters("nvarchar", wide=True, padded=False),
    0xEF: _characters("nchar", wide=True, padded=True),
    0xA7: _characters("varchar", wide=False, padded=False),
    0xAF: _characters("char", wide=False, padded=True),
    0xA5: _bytes("varbinary", padded=False),
    0xAD: _bytes("binary", padded=True),
    0x23: _long("text"),
    0x63: _long("ntext"),
    0x22: _long("image"),
    0xF1: _xml,
}
