"""Octets to AMQP values, and `skip` for those who only need to know where a value ends.

Every length is checked against the buffer and nesting is bounded, so that hostile input ends in DecodeError and in
nothing else. Takes an empty array without the constructor that the specification asks for: azure-servicebus writes it so.
Source: OASIS AMQP 1.0, part 1, sections 1.2 (encodings) and 1.6 (primitive types).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from uuid import UUID

from .values import (
    Array,
    Byte,
    Char,
    Decimal,
    DecodeError,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Value,
)

MAX_DEPTH = 32
"""Service Bus messages nest three or four levels; more than this is an attack on the stack."""
MAX_EMPTY_ITEMS = 65_536
"""Items of an array may take no octets at all (null, true, uint0), so their count needs a bound of its own."""

_u16 = struct.Struct(">H").unpack_from
_u32 = struct.Struct(">I").unpack_from
_u64 = struct.Struct(">Q").unpack_from
_i8 = struct.Struct(">b").unpack_from
_i16 = struct.Struct(">h").unpack_from
_i32 = struct.Struct(">i").unpack_from
_i64 = struct.Struct(">q").unpack_from
_f32 = struct.Struct(">f").unpack_from
_f64 = struct.Struct(">d").unpack_from

Decoder = Callable[[bytes, int, int], tuple[Value, int]]

_MALFORMED = (IndexError, struct.error, UnicodeDecodeError, ValueError, TypeError, OverflowError)


def decode(buffer: bytes, at: int = 0) -> tuple[Value, int]:
    """The value at `at` and the offset behind it. Raises DecodeError."""
    try:
        return _DECODERS[buffer[at]](buffer, at + 1, 0)
    except _MALFORMED as error:
        raise DecodeError(f"malformed value at octet {at}: {error}") from error


def skip(buffer: bytes, at: int) -> int:
    """The offset behind the value at `at`, its inside not looked at. Raises DecodeError."""
    try:
        code = buffer[at]
        while code == 0x00:
            at = skip(buffer, at + 1)
            code = buffer[at]
        kind = code >> 4
        if kind < 0xA:
            end = at + 1 + _FIXED_WIDTH[kind]
        elif kind & 1:
            end = at + 5 + _u32(buffer, at + 1)[0]
        else:
            end = at + 2 + buffer[at + 1]
    except (IndexError, KeyError, struct.error, RecursionError) as error:
        raise DecodeError(f"malformed value at octet {at}: {error}") from error
    if end > len(buffer):
        raise DecodeError(f"value at octet {at} runs past the end of its frame")
    return end


def compound(buffer: bytes, at: int) -> tuple[int, int, int]:
    """Of the list or map at `at`: number of items, offset of the first, offset behind the last. Raises DecodeError."""
    try:
        code = buffer[at]
        if code == 0x45:
            return 0, at + 1, at + 1
        if code in (0xC0, 0xC1):
            count, first, end = buffer[at + 2], at + 3, at + 2 + buffer[at + 1]
        elif code in (0xD0, 0xD1):
            count, first, end = _u32(buffer, at + 5)[0], at + 9, at + 5 + _u32(buffer, at + 1)[0]
        else:
            raise DecodeError(f"expected a list or map at octet {at}, found constructor 0x{code:02x}")
    except (IndexError, struct.error) as error:
        raise DecodeError(f"malformed list or map at octet {at}: {error}") from error
    if end > len(buffer) or first > end:
        raise DecodeError(f"list or map at octet {at} runs past the end of its frame")
    return count, first, end


_FIXED_WIDTH = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}


def _unknown(code: int) -> Decoder:
    def refuse(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
        raise DecodeError(f"unknown constructor 0x{code:02x} at octet {at - 1}")

    return refuse


def _decimal(width: int) -> Decoder:
    def decimal(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
        octets = buffer[at : at + width]
        if len(octets) < width:
            raise DecodeError(f"decimal at octet {at} runs past the end of its frame")
        return Decimal(bytes(octets)), at + width

    return decimal


def _constant(value: Value) -> Decoder:
    def constant(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
        return value, at

    return constant


def _fixed(unpack: Callable[[bytes, int], tuple[Value, ...]], width: int, kind: Callable[[Value], Value]) -> Decoder:
    def fixed(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
        return kind(unpack(buffer, at)[0]), at + width

    return fixed


def _plain(unpack: Callable[[bytes, int], tuple[Value, ...]], width: int) -> Decoder:
    def plain(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
        return unpack(buffer, at)[0], at + width

    return plain


def _small(kind: Callable[[int], Value]) -> Decoder:
    def small(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
        return kind(buffer[at]), at + 1

    return small


def _boolean(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
    if buffer[at] > 1:
        raise DecodeError(f"boolean at octet {at} is neither 0 nor 1")
    return buffer[at] == 1, at + 1


def _char(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
    return Char(chr(_u32(buffer, at)[0])), at + 4


def _uuid(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
    return UUID(bytes=buffer[at : at + 16]), at + 16


def _binary(text: bytes) -> Value:
    return text


def _string(text: bytes) -> Value:
    return text.decode("utf-8")


def _symbol(text: bytes) -> Value:
    return Symbol(text.decode("ascii"))


def _short_text(kind: Callable[[bytes], Value]) -> Decoder:
    def text(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
        end = at + 1 + buffer[at]
        if end > len(buffer):
            raise DecodeError(f"text at octet {at} runs past the end of its frame")
        return kind(buffer[at + 1 : end]), end

    return text


def _long_text(kind: Callable[[bytes], Value]) -> Decoder:
    def text(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
        end = at + 4 + _u32(buffer, at)[0]
        if end > len(buffer):
            raise DecodeError(f"text at octet {at} runs past the end of its frame")
        return kind(buffer[at + 4 : end]), end

    return text


def _items(buffer: bytes, at: int, count: int, end: int, depth: int) -> list[Value]:
    if depth >= MAX_DEPTH:
        raise DecodeError(f"values nested more than {MAX_DEPTH} deep")
    if end > len(buffer):
        raise DecodeError(f"list or map at octet {at} runs past the end of its frame")
    items = []
    for _ in range(count):
        item, at = _DECODERS[buffer[at]](buffer, at + 1, depth + 1)
        items.append(item)
        if at > end:
            break
    if at != end:
        raise DecodeError("size and count of a list or map disagree")
    return items


def _list8(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
    end = at + 1 + buffer[at]
    return _items(buffer, at + 2, buffer[at + 1], end, depth), end


def _list32(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
    end = at + 4 + _u32(buffer, at)[0]
    return _items(buffer, at + 8, _u32(buffer, at + 4)[0], end, depth), end


def _as_map(items: list[Value]) -> dict[Value, Value]:
    if len(items) % 2:
        raise DecodeError("a map with a key but no value")
    return dict(zip(items[::2], items[1::2], strict=True))


def _map8(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
    items, end = _list8(buffer, at, depth)
    return _as_map(items), end


def _map32(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
    items, end = _list32(buffer, at, depth)
    return _as_map(items), end


def _array(buffer: bytes, at: int, count: int, end: int, depth: int) -> tuple[Value, int]:
    if depth >= MAX_DEPTH:
        raise DecodeError(f"values nested more than {MAX_DEPTH} deep")
    if end > len(buffer):
        raise DecodeError(f"array at octet {at} runs past the end of its frame")
    if at == end and count == 0:
        return Array(object), end
    code = buffer[at]
    if code == 0x00:
        raise DecodeError("arrays of described values are not supported")
    at += 1
    if count > MAX_EMPTY_ITEMS and count > end - at:
        raise DecodeError(f"array of {count} items in {end - at} octets")
    decoder = _DECODERS[code]
    items = Array(_ELEMENT.get(code, object))
    for _ in range(count):
        item, at = decoder(buffer, at, depth + 1)
        items.append(item)
    if at != end:
        raise DecodeError("size and count of an array disagree")
    return items, end


def _array8(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
    return _array(buffer, at + 2, buffer[at + 1], at + 1 + buffer[at], depth)


def _array32(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
    return _array(buffer, at + 8, _u32(buffer, at + 4)[0], at + 4 + _u32(buffer, at)[0], depth)


def _described(buffer: bytes, at: int, depth: int) -> tuple[Value, int]:
    if depth >= MAX_DEPTH:
        raise DecodeError(f"values nested more than {MAX_DEPTH} deep")
    descriptor, at = _DECODERS[buffer[at]](buffer, at + 1, depth + 1)
    value, at = _DECODERS[buffer[at]](buffer, at + 1, depth + 1)
    return Described(descriptor, value), at


_DECODERS: list[Decoder] = [_unknown(code) for code in range(256)]
_DECODERS[0x00] = _described
for _code, _value in ((0x40, None), (0x41, True), (0x42, False), (0x43, UInt(0)), (0x44, ULong(0))):
    _DECODERS[_code] = _constant(_value)
_DECODERS[0x45] = lambda buffer, at, depth: ([], at)
_DECODERS[0x50] = _small(UByte)
_DECODERS[0x51] = _fixed(_i8, 1, Byte)
_DECODERS[0x52] = _small(UInt)
_DECODERS[0x53] = _small(ULong)
_DECODERS[0x54] = _fixed(_i8, 1, Int)
_DECODERS[0x55] = _plain(_i8, 1)
_DECODERS[0x56] = _boolean
_DECODERS[0x60] = _fixed(_u16, 2, UShort)
_DECODERS[0x61] = _fixed(_i16, 2, Short)
_DECODERS[0x70] = _fixed(_u32, 4, UInt)
_DECODERS[0x71] = _fixed(_i32, 4, Int)
_DECODERS[0x72] = _fixed(_f32, 4, Float)
_DECODERS[0x73] = _char
_DECODERS[0x74] = _decimal(4)
_DECODERS[0x80] = _fixed(_u64, 8, ULong)
_DECODERS[0x81] = _plain(_i64, 8)
_DECODERS[0x82] = _plain(_f64, 8)
_DECODERS[0x83] = _fixed(_i64, 8, Timestamp)
_DECODERS[0x84] = _decimal(8)
_DECODERS[0x94] = _decimal(16)
_DECODERS[0x98] = _uuid
for _code, _kind in ((0xA0, _binary), (0xA1, _string), (0xA3, _symbol)):
    _DECODERS[_code] = _short_text(_kind)
    _DECODERS[_code + 0x10] = _long_text(_kind)
_DECODERS[0xC0] = _list8
_DECODERS[0xD0] = _list32
_DECODERS[0xC1] = _map8
_DECODERS[0xD1] = _map32
_DECODERS[0xE0] = _array8
_DECODERS[0xF0] = _array32

_ELEMENT: dict[int, type] = {
    0x41: bool, 0x42: bool, 0x56: bool, 0x50: UByte, 0x60: UShort, 0x43: UInt, 0x52: UInt, 0x70: UInt,
    0x44: ULong, 0x53: ULong, 0x80: ULong, 0x51: Byte, 0x61: Short, 0x54: Int, 0x71: Int, 0x55: int, 0x81: int,
    0x72: Float, 0x82: float, 0x73: Char, 0x83: Timestamp, 0x98: UUID,
    0xA0: bytes, 0xB0: bytes, 0xA1: str, 0xB1: str, 0xA3: Symbol, 0xB3: Symbol,
}  # fmt: skip
