"""AMQP values to octets, in the shortest encoding each type has.

A value's Python type decides its AMQP type (see `values`); a type that stands for nothing is refused, never guessed.
Source: OASIS AMQP 1.0, part 1, section 1.6.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import cast
from uuid import UUID

from .values import (
    Array,
    Byte,
    Char,
    Decimal,
    Described,
    Float,
    Int,
    Raw,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Value,
)

_u8 = struct.Struct(">B").pack
_u16 = struct.Struct(">H").pack
_u32 = struct.Struct(">I").pack
_u64 = struct.Struct(">Q").pack
_i8 = struct.Struct(">b").pack
_i16 = struct.Struct(">h").pack
_i32 = struct.Struct(">i").pack
_i64 = struct.Struct(">q").pack
_f32 = struct.Struct(">f").pack
_f64 = struct.Struct(">d").pack


def encode(value: Value) -> bytes:
    """The octets of a value. Raises TypeError for a Python type that stands for no AMQP type, struct.error out of range."""
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        raise TypeError(f"{type(value).__name__} stands for no AMQP type")
    return encoder(value)


def encode_uint(number: int) -> bytes:
    """A uint in one, two or five octets."""
    if number == 0:
        return b"\x43"
    if 0 < number < 256:
        return bytes((0x52, number))
    return b"\x70" + _u32(number)


def encode_list(items: Iterable[bytes]) -> bytes:
    """A list of items that are encoded already."""
    parts = list(items)
    if not parts:
        return b"\x45"
    return _sized(0xC0, len(parts), b"".join(parts))


def encode_map(items: Iterable[bytes]) -> bytes:
    """A map of keys and values in turn, encoded already."""
    parts = list(items)
    return _sized(0xC1, len(parts), b"".join(parts))


def encode_map_body(count: int, body: bytes) -> bytes:
    """A map of `count` keys and values whose octets are `body`."""
    return _sized(0xC1, count, body)


def _sized(code: int, count: int, body: bytes) -> bytes:
    if len(body) < 255 and count < 256:
        return bytes((code, len(body) + 1, count)) + body
    return bytes((code + 0x10,)) + _u32(len(body) + 4) + _u32(count) + body


def _null(value: None) -> bytes:
    return b"\x40"


def _boolean(value: bool) -> bytes:
    return b"\x41" if value else b"\x42"


def _ulong(number: int) -> bytes:
    if number == 0:
        return b"\x44"
    if 0 < number < 256:
        return bytes((0x53, number))
    return b"\x80" + _u64(number)


def _int(number: int) -> bytes:
    return b"\x54" + _i8(number) if -128 <= number < 128 else b"\x71" + _i32(number)


def _long(number: int) -> bytes:
    return b"\x55" + _i8(number) if -128 <= number < 128 else b"\x81" + _i64(number)


def _text(short: int, octets: bytes) -> bytes:
    if len(octets) < 256:
        return bytes((short, len(octets))) + octets
    return bytes((short + 0x10,)) + _u32(len(octets)) + octets


def _binary(value: bytes) -> bytes:
    return _text(0xA0, value)


def _string(value: str) -> bytes:
    return _text(0xA1, value.encode("utf-8"))


def _symbol(value: str) -> bytes:
    return _text(0xA3, value.encode("ascii"))


def _list(value: list[Value]) -> bytes:
    return encode_list(encode(item) for item in value)


def _map(value: dict[Value, Value]) -> bytes:
    return encode_map(encode(part) for pair in value.items() for part in pair)


def _array(value: Array) -> bytes:
    code, item_encoder = _ELEMENTS[value.element]
    body = bytes((code,)) + b"".join(item_encoder(item) for item in value)
    return _sized(0xE0, len(value), body)


_DECIMALS = {4: b"\x74", 8: b"\x84", 16: b"\x94"}


def _decimal(value: Decimal) -> bytes:
    return _DECIMALS[len(value.octets)] + value.octets


def _described(value: Described) -> bytes:
    return b"\x00" + encode(value.descriptor) + encode(value.value)


def _fixed(code: int, pack: Callable[[Value], bytes]) -> Callable[[Value], bytes]:
    prefix = bytes((code,))
    return lambda value: prefix + pack(value)


def _long_bytes(octets: bytes) -> bytes:
    return _u32(len(octets)) + octets


def _uuid_bytes(value: UUID) -> bytes:
    return value.bytes


_ENCODERS: dict[type, Callable[[Value], bytes]] = {
    type(None): _null,
    bool: _boolean,
    UByte: _fixed(0x50, _u8),
    UShort: _fixed(0x60, _u16),
    UInt: encode_uint,
    ULong: _ulong,
    Byte: _fixed(0x51, _i8),
    Short: _fixed(0x61, _i16),
    Int: _int,
    int: _long,
    Float: _fixed(0x72, _f32),
    float: _fixed(0x82, _f64),
    Char: _fixed(0x73, lambda value: _u32(ord(value))),
    Timestamp: _fixed(0x83, _i64),
    Decimal: _decimal,
    UUID: _fixed(0x98, _uuid_bytes),
    bytes: _binary,
    str: _string,
    Symbol: _symbol,
    list: _list,
    dict: _map,
    Array: _array,
    Described: _described,
    Raw: lambda value: cast(bytes, value),
}

_ELEMENTS: dict[type, tuple[int, Callable[[Value], bytes]]] = {
    bool: (0x56, lambda value: b"\x01" if value else b"\x00"),
    UByte: (0x50, _u8),
    UShort: (0x60, _u16),
    UInt: (0x70, _u32),
    ULong: (0x80, _u64),
    Byte: (0x51, _i8),
    Short: (0x61, _i16),
    Int: (0x71, _i32),
    int: (0x81, _i64),
    Float: (0x72, _f32),
    float: (0x82, _f64),
    Char: (0x73, lambda value: _u32(ord(value))),
    Timestamp: (0x83, _i64),
    UUID: (0x98, _uuid_bytes),
    bytes: (0xB0, _long_bytes),
    str: (0xB1, lambda value: _long_bytes(value.encode("utf-8"))),
    Symbol: (0xB3, lambda value: _long_bytes(value.encode("ascii"))),
}
