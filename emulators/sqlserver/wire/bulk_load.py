"""The rows of a bulk load: COLMETADATA, ROW after ROW and DONE, as a client sends them behind INSERT BULK (MS-TDS 2.2.6.1).

A value is what it is as a parameter (parameters.py), but its TYPE_INFO stands once, in front of all rows. What the rows are for is not
decided here; what cannot be is a ProtocolError.
"""

from __future__ import annotations

from dataclasses import dataclass

from emulators.sqlserver.results import Column, Value
from emulators.sqlserver.wire.errors import ProtocolError
from emulators.sqlserver.wire.parameters import typed_value
from emulators.sqlserver.wire.reader import Reader

_METADATA, _ROW, _COMPRESSED_ROW, _DONE = 0x81, 0xD1, 0xD2, 0xFD
_NO_METADATA = 0xFFFF
_WITH_POINTER = (0x22, 0x23, 0x63)
"""image, text, ntext: their columns have the table's name, their values a pointer and a timestamp in front."""
_COLLATED = (0x23, 0x63, 0xA7, 0xAF, 0xE7, 0xEF)
_SIZES = {
    **dict.fromkeys((0x24, 0x26, 0x68, 0x6D, 0x6E, 0x6F, 0x29, 0x2A, 0x2B, 0xF1), 1),
    **dict.fromkeys((0xA5, 0xAD, 0xA7, 0xAF, 0xE7, 0xEF), 2),
    **dict.fromkeys((0x6A, 0x6C), 3),
    **dict.fromkeys(_WITH_POINTER, 4),
}
"""Octets of TYPE_INFO behind the type, without the five of a collation; every other type has none."""
_COLLATION = 5
_NULL_BY_ONES = (*_WITH_POINTER, 0xA5, 0xAD, 0xA7, 0xAF, 0xE7, 0xEF, 0xF1)
"""The other types say NULL, or a value that there is, with zeros."""


@dataclass(frozen=True, slots=True)
class _Described:
    """`info`: its TYPE_INFO."""

    column: Column
    info: bytes


class _Spliced(Reader):
    """The TYPE_INFO of a column, and behind it the value in a row."""

    __slots__ = ("_rows",)

    def __init__(self, info: bytes, rows: Reader) -> None:
        super().__init__(info)
        self._rows = rows

    def take(self, count: int) -> bytes:
        return super().take(count) if self.position < len(self.data) else self._rows.take(count)

    def peek(self) -> int:
        return super().peek() if self.position < len(self.data) else self._rows.peek()

    def u8(self) -> int:
        return self.take(1)[0]


def parse(body: bytes) -> tuple[list[Column], list[tuple[Value, ...]]]:
    """The columns and the rows of a whole message. Raises ProtocolError, and SqlError 50001 for a type that is not supported."""
    reader = Reader(body)
    if not reader.remaining:
        return [], []
    described = _metadata(reader)
    rows: list[tuple[Value, ...]] = []
    while reader.remaining:
        token = reader.u8()
        if token == _DONE:
            break
        if token not in (_ROW, _COMPRESSED_ROW):
            raise ProtocolError(f"0x{token:02x} is no token of a bulk load")
        nulls = reader.take((len(described) + 7) // 8) if token == _COMPRESSED_ROW else b""
        rows.append(
            tuple(
                None if nulls and nulls[place // 8] >> place % 8 & 1 else _value(reader, column.info)
                for place, column in enumerate(described)
            )
        )
    return [one.column for one in described], rows


def _metadata(reader: Reader) -> list[_Described]:
    if reader.u8() != _METADATA:
        raise ProtocolError("a bulk load begins with the description of its columns")
    count = reader.u16()
    if count == _NO_METADATA:
        raise ProtocolError("a bulk load without columns")
    return [_described(reader) for _ in range(count)]


def _described(reader: Reader) -> _Described:
    reader.u32()
    nullable = bool(reader.u16() & 1)
    token = reader.peek()
    begin = reader.position
    reader.take(1 + _SIZES.get(token, 0) + _COLLATION * (token in _COLLATED))
    info = reader.data[begin : reader.position]
    if token in _WITH_POINTER:
        reader.us_varchar()
    kind, _ = typed_value(Reader(info + (b"\xff" * 8 if token in _NULL_BY_ONES else b"\0" * 16)))
    return _Described(Column(reader.b_varchar(), kind, nullable), info)


def _value(reader: Reader, info: bytes) -> Value:
    if info[0] in _WITH_POINTER:
        size = reader.u8()
        if not size:
            return None
        reader.take(size + 8)
    return typed_value(_Spliced(info, reader))[1]
