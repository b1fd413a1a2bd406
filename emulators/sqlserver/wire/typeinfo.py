"""TYPE_INFO of every type (MS-TDS 2.2.5.6): how COLMETADATA and RETURNVALUE announce what follows.

The nullable form of each type is always used, which every client reads for NOT NULL columns too.
"""

from __future__ import annotations

import struct

from emulators.sqlserver.collation import known
from emulators.sqlserver.sqltypes import MAX, SqlType

_INTN, _BITN, _FLTN, _MONEYN, _DATETIMN = 0x26, 0x68, 0x6D, 0x6E, 0x6F
_GUID, _DATE, _TIME, _DATETIME2, _DATETIMEOFFSET, _XML = 0x24, 0x28, 0x29, 0x2A, 0x2B, 0xF1
_TEXT, _IMAGE, _NTEXT = 0x23, 0x22, 0x63
_LONG = 0x7FFFFFFF
_PLP = 0xFFFF

_PLAIN = {
    "tinyint": bytes([_INTN, 1]),
    "smallint": bytes([_INTN, 2]),
    "int": bytes([_INTN, 4]),
    "bigint": bytes([_INTN, 8]),
    "bit": bytes([_BITN, 1]),
    "real": bytes([_FLTN, 4]),
    "float": bytes([_FLTN, 8]),
    "smallmoney": bytes([_MONEYN, 4]),
    "money": bytes([_MONEYN, 8]),
    "smalldatetime": bytes([_DATETIMN, 4]),
    "datetime": bytes([_DATETIMN, 8]),
    "uniqueidentifier": bytes([_GUID, 16]),
    "date": bytes([_DATE]),
    "xml": bytes([_XML, 0]),
    "rowversion": b"\xad\x08\x00",
    "image": bytes([_IMAGE]) + struct.pack("<I", _LONG),
}
_COLLATED = {
    "sysname": b"\xe7" + struct.pack("<H", 256),
    "text": bytes([_TEXT]) + struct.pack("<I", _LONG),
    "ntext": bytes([_NTEXT]) + struct.pack("<I", _LONG - 1),
}
"""What stands before the collation."""
_TEMPORAL = {"time": _TIME, "datetime2": _DATETIME2, "datetimeoffset": _DATETIMEOFFSET}
_EXACT = {"decimal": 0x6A, "numeric": 0x6C}
_SIZED = {"varbinary": 0xA5, "varchar": 0xA7, "binary": 0xAD, "char": 0xAF, "nvarchar": 0xE7, "nchar": 0xEF}
_WIDE = frozenset({"nvarchar", "nchar"})
_BINARY = frozenset({"varbinary", "binary"})
_USER_TYPES = {"rowversion": 0x50}


def type_info(type_: SqlType) -> bytes:
    """TYPE_INFO. Raises ValueError for a type TDS has no form for."""
    name = type_.name
    if name in _PLAIN:
        return _PLAIN[name]
    if name in _COLLATED:
        return _COLLATED[name] + known(type_.collation).wire
    if name in _EXACT:
        precision, scale = precision_scale(type_)
        return bytes([_EXACT[name], decimal_size(precision), precision, scale])
    if name in _TEMPORAL:
        return bytes([_TEMPORAL[name], fraction(type_)])
    if name in _SIZED:
        collation = b"" if name in _BINARY else known(type_.collation).wire
        return bytes([_SIZED[name]]) + struct.pack("<H", _byte_size(type_)) + collation
    raise ValueError(f"no TDS form is known for the type {name}")


def user_type(type_: SqlType) -> int:
    """UserType of COLMETADATA: tells a rowversion from a binary(8)."""
    return _USER_TYPES.get(type_.name, 0)


def is_long(type_: SqlType) -> bool:
    """text, ntext and image: a table name in COLMETADATA, a text pointer before each value."""
    return type_.name in ("text", "ntext", "image")


def is_plp(type_: SqlType) -> bool:
    return type_.name == "xml" or type_.length == MAX


def precision_scale(type_: SqlType) -> tuple[int, int]:
    return type_.precision or 18, type_.scale or 0


def fraction(type_: SqlType) -> int:
    """Fractional digits of time, datetime2, datetimeoffset: 7 unless told."""
    return 7 if type_.scale is None else type_.scale


def decimal_size(precision: int) -> int:
    """Bytes of a decimal on the wire, its sign byte included."""
    return 5 if precision <= 9 else 9 if precision <= 19 else 13 if precision <= 28 else 17


def _byte_size(type_: SqlType) -> int:
    if type_.length == MAX:
        return _PLP
    length = type_.length if type_.length else 1
    size = length * 2 if type_.name in _WIDE else length
    if size > 8000:
        raise ValueError(f"{type_.name}({length}) is longer than 8000 bytes")
    return size
