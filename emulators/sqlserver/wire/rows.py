"""ROW tokens: values in their storage form turned into bytes, fast.

One encoder is compiled for each shape of result set: a Python function whose source names every column once, so that a row
costs one call and no dispatch by type. Only indexes and names chosen here enter that source. It converts nothing: a value
that is not in the form sqltypes.py asks for raises, and that is a defect of the engine.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from emulators.sqlserver import codepages
from emulators.sqlserver.collation import known
from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.wire import temporal
from emulators.sqlserver.wire.typeinfo import decimal_size, fraction, is_plp, precision_scale

CellEncoder = Callable[[Any], bytes]
"""Any: each encoder takes the one storage form of its type, which the engine guarantees and nobody checks a cell at a time."""

RowEncoder = Callable[[Iterable[Sequence[Value]], list[bytes]], None]
"""Appends the ROW tokens of all given rows to the list; what it appended before an exception of the iterable stays valid."""

_NULL = b"\0"
_NULL_SHORT = b"\xff\xff"
_NULL_PLP = b"\xff" * 8
_TEXT_POINTER = b"\x10" + b"dstream-textptr\0" + b"timestmp"

_u16 = struct.Struct("<H").pack
_u32 = struct.Struct("<I").pack
_u64 = struct.Struct("<Q").pack
_i32_cell = struct.Struct("<Bi").pack
_money_cell = struct.Struct("<BiI").pack
_datetime_cell = struct.Struct("<BiI").pack
_smalldatetime_cell = struct.Struct("<BHH").pack

_INLINE = {
    "tinyint": ("<BB", 1),
    "bit": ("<BB", 1),
    "smallint": ("<Bh", 2),
    "int": ("<Bi", 4),
    "bigint": ("<Bq", 8),
    "real": ("<Bf", 4),
    "float": ("<Bd", 8),
}


@lru_cache(maxsize=256)
def row_encoder(types: tuple[SqlType, ...]) -> RowEncoder:
    """Compile the encoder for rows of these types. Raises ValueError for a type without a TDS form."""
    names: dict[str, Any] = {}
    cells = []
    for i, type_ in enumerate(types):
        if type_.name in _INLINE:
            layout, size = _INLINE[type_.name]
            names[f"p{i}"] = struct.Struct(layout).pack
            cells.append(f"(b'\\0' if r[{i}] is None else p{i}({size}, r[{i}]))")
        else:
            names[f"e{i}"] = cell_encoder(type_)
            cells.append(f"e{i}(r[{i}])")
    source = f"def encode(rows, out):\n    for r in rows:\n        out += (b'\\xd1', {', '.join(cells)})\n"
    exec(compile(source, "<row encoder>", "exec"), names)
    encoder: RowEncoder = names["encode"]
    return encoder


def cell_encoder(type_: SqlType) -> CellEncoder:
    """Encoder of one value, as in ROW and RETURNVALUE. Raises ValueError for a type without a TDS form."""
    if type_.name in _INLINE:
        return _fixed(*_INLINE[type_.name])
    if is_plp(type_):
        return _plp(_to_bytes(type_))
    if type_.name in _SIMPLE:
        return _SIMPLE[type_.name]
    if type_.name in _MADE:
        return _MADE[type_.name](type_)
    raise ValueError(f"no TDS form is known for the type {type_.name}")


def _fixed(layout: str, size: int) -> CellEncoder:
    pack = struct.Struct(layout).pack
    return lambda v: _NULL if v is None else pack(size, v)


def utf16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _to_bytes(type_: SqlType) -> Callable[[Any], bytes]:
    if type_.name in ("nvarchar", "nchar", "ntext", "sysname", "xml"):
        return utf16
    if type_.name not in ("varchar", "char", "text"):
        return bytes
    return codepages.encoder(known(type_.collation).code_page)


def _plp(to_bytes: Callable[[Any], bytes]) -> CellEncoder:
    def encode(value: Any) -> bytes:
        if value is None:
            return _NULL_PLP
        data = to_bytes(value)
        if not data:
            return bytes(12)
        return b"".join((_u64(len(data)), _u32(len(data)), data, bytes(4)))

    return encode


def _short(type_: SqlType) -> CellEncoder:
    to_bytes = _to_bytes(type_)

    def encode(value: Any) -> bytes:
        if value is None:
            return _NULL_SHORT
        data = to_bytes(value)
        return _u16(len(data)) + data

    return encode


def _wide_short(value: Any) -> bytes:
    if value is None:
        return _NULL_SHORT
    data = value.encode("utf-16-le", "surrogatepass")
    return _u16(len(data)) + bytes(data)


def _long(type_: SqlType) -> CellEncoder:
    to_bytes = _to_bytes(type_)

    def encode(value: Any) -> bytes:
        if value is None:
            return _NULL
        data = to_bytes(value)
        return b"".join((_TEXT_POINTER, _u32(len(data)), data))

    return encode


def _decimal(type_: SqlType) -> CellEncoder:
    precision, _ = precision_scale(type_)
    size = decimal_size(precision) - 1
    plus, minus = bytes([size + 1, 1]), bytes([size + 1, 0])

    def encode(value: Any) -> bytes:
        if value is None:
            return _NULL
        unscaled = int(value.replace(".", ""))
        if unscaled < 0:
            return minus + (-unscaled).to_bytes(size, "little")
        return plus + unscaled.to_bytes(size, "little")

    return encode


def _money(value: Any) -> bytes:
    if value is None:
        return _NULL
    unscaled = int(value.replace(".", ""))
    # The high half travels first, each half little-endian.
    return _money_cell(8, unscaled >> 32, unscaled & 0xFFFFFFFF)


def _smallmoney(value: Any) -> bytes:
    return _NULL if value is None else _i32_cell(4, int(value.replace(".", "")))


def _uniqueidentifier(value: Any) -> bytes:
    if value is None:
        return _NULL
    b = bytes.fromhex(value.replace("-", ""))
    # The first three groups are little-endian integers.
    return b"\x10" + b[3::-1] + b[5:3:-1] + b[7:5:-1] + b[8:16]


def _date(value: Any) -> bytes:
    return _NULL if value is None else b"\x03" + temporal.days(value).to_bytes(3, "little")


def _datetime(value: Any) -> bytes:
    if value is None:
        return _NULL
    return _datetime_cell(8, temporal.days(value[:10]) - temporal.DAYS_TO_1900, temporal.datetime_ticks(value[11:]))


def _smalldatetime(value: Any) -> bytes:
    if value is None:
        return _NULL
    minutes = temporal.ticks(value[11:], 0) // 60
    return _smalldatetime_cell(4, temporal.days(value[:10]) - temporal.DAYS_TO_1900, minutes)


def _time(type_: SqlType) -> CellEncoder:
    scale = fraction(type_)
    size = temporal.time_size(scale)
    head = bytes([size])
    return lambda v: _NULL if v is None else head + temporal.ticks(v, scale).to_bytes(size, "little")


def _datetime2(type_: SqlType) -> CellEncoder:
    scale = fraction(type_)
    size = temporal.time_size(scale)
    head = bytes([size + 3])
    days, ticks = temporal.days, temporal.ticks

    def encode(value: Any) -> bytes:
        if value is None:
            return _NULL
        return head + ticks(value[11:], scale).to_bytes(size, "little") + days(value[:10]).to_bytes(3, "little")

    return encode


def _datetimeoffset(type_: SqlType) -> CellEncoder:
    scale = fraction(type_)
    size = temporal.time_size(scale)
    head = bytes([size + 5])

    def encode(value: Any) -> bytes:
        if value is None:
            return _NULL
        day, ticks, offset = temporal.to_utc(value, scale)
        zone = offset.to_bytes(2, "little", signed=True)
        return b"".join((head, ticks.to_bytes(size, "little"), day.to_bytes(3, "little"), zone))

    return encode


_SIMPLE: dict[str, CellEncoder] = {
    "nvarchar": _wide_short,
    "nchar": _wide_short,
    "sysname": _wide_short,
    "money": _money,
    "smallmoney": _smallmoney,
    "uniqueidentifier": _uniqueidentifier,
    "date": _date,
    "datetime": _datetime,
    "smalldatetime": _smalldatetime,
}
_MADE: dict[str, Callable[[SqlType], CellEncoder]] = {
    "decimal": _decimal,
    "numeric": _decimal,
    "varchar": _short,
    "char": _short,
    "varbinary": _short,
    "binary": _short,
    "rowversion": _short,
    "text": _long,
    "ntext": _long,
    "image": _long,
    "time": _time,
    "datetime2": _datetime2,
    "datetimeoffset": _datetimeoffset,
}
