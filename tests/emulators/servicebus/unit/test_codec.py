"""AMQP values: what is written is read back as the same value of the same type, and nothing else is read at all."""

from __future__ import annotations

import contextlib
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulators.servicebus.amqp.decode import decode, skip
from emulators.servicebus.amqp.encode import encode
from emulators.servicebus.amqp.values import (
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
)

LONG = st.integers(-(2**63), 2**63 - 1)
SCALARS: dict[type, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    UByte: st.integers(0, 2**8 - 1).map(UByte),
    UShort: st.integers(0, 2**16 - 1).map(UShort),
    UInt: st.integers(0, 2**32 - 1).map(UInt),
    ULong: st.integers(0, 2**64 - 1).map(ULong),
    Byte: st.integers(-(2**7), 2**7 - 1).map(Byte),
    Short: st.integers(-(2**15), 2**15 - 1).map(Short),
    Int: st.integers(-(2**31), 2**31 - 1).map(Int),
    int: LONG,
    Float: st.floats(width=32, allow_nan=False).map(Float),
    float: st.floats(allow_nan=False),
    Char: st.characters(exclude_categories=["Cs"]).map(Char),
    Timestamp: LONG.map(Timestamp),
    UUID: st.uuids(),
    bytes: st.one_of(st.binary(max_size=20), st.binary(min_size=250, max_size=260)),
    str: st.one_of(st.text(max_size=20), st.text(min_size=250, max_size=260)),
    Symbol: st.text(st.characters(max_codepoint=127), max_size=20).map(Symbol),
}
SCALAR = st.one_of(st.none(), *SCALARS.values())
ARRAYS = st.sampled_from(list(SCALARS)).flatmap(
    lambda kind: st.lists(SCALARS[kind], min_size=1, max_size=8).map(lambda items: Array(kind, items))
)
VALUES = st.recursive(
    st.one_of(SCALAR, ARRAYS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(st.one_of(SCALARS[str], SCALARS[Symbol], LONG), inner, max_size=4),
        st.builds(Described, SCALARS[ULong], inner),
    ),
    max_leaves=20,
)


def same(left: Any, right: Any) -> bool:
    """Equal in value and in type, all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, Array):
        return left.element is right.element and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return len(left) == len(right) and all(
            same(a, b) for pair in zip(left.items(), right.items(), strict=True) for a, b in zip(*pair, strict=True)
        )
    if isinstance(left, Described):
        return same(left.descriptor, right.descriptor) and same(left.value, right.value)
    return bool(left == right)


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_a_value_is_read_back_as_it_was_written(value: Any) -> None:
    encoded = encode(value)
    read, end = decode(encoded)
    assert same(read, value)
    assert end == len(encoded)


@settings(max_examples=150, deadline=None)
@given(VALUES, st.binary(max_size=4))
def test_skipping_ends_where_reading_ends(value: Any, behind: bytes) -> None:
    encoded = encode(value)
    assert skip(encoded + behind, 0) == len(encoded) == decode(encoded + behind)[1]


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=60))
def test_any_octets_are_a_value_or_a_decode_error(octets: bytes) -> None:
    for reading in (lambda: decode(octets), lambda: skip(octets, 0)):
        with contextlib.suppress(DecodeError):
            reading()


@settings(max_examples=200, deadline=None)
@given(VALUES, st.data())
def test_a_value_cut_short_is_a_decode_error(value: Any, data: st.DataObject) -> None:
    encoded = encode(value)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(DecodeError):
        decode(encoded[:cut])


@pytest.mark.parametrize(("octets", "value"), [
    (b"\x40", None), (b"\x56\x01", True), (b"\x41", True), (b"\x43", UInt(0)), (b"\x52\x07", UInt(7)),
    (b"\x70\x00\x00\x00\x07", UInt(7)), (b"\x44", ULong(0)), (b"\x53\x10", ULong(16)), (b"\x54\xff", Int(-1)),
    (b"\x55\xff", -1), (b"\x45", []), (b"\xa3\x01a", Symbol("a")), (b"\xb1\x00\x00\x00\x01a", "a"),
    (b"\xc0\x03\x02\x40\x41", [None, True]), (b"\xd1\x00\x00\x00\x07\x00\x00\x00\x02\xa1\x00\x40", {"": None}),
    (b"\xe0\x04\x02\x50\x01\x02", Array(UByte, [1, 2])),
    (b"\x73\x00\x01\xf6\x00", Char("\U0001f600")), (b"\x83" + b"\xff" * 8, Timestamp(-1)),
])  # fmt: skip
def test_octets_of_the_specification(octets: bytes, value: Any) -> None:
    assert decode(octets) == (value, len(octets))


@pytest.mark.parametrize(("constructor", "width"), [(0x74, 4), (0x84, 8), (0x94, 16)])
def test_a_decimal_keeps_its_octets(constructor: int, width: int) -> None:
    octets = bytes((constructor, *range(width)))
    value, end = decode(octets + b"behind")
    assert (value, end) == (Decimal(octets[1:]), width + 1)
    assert encode(value) == octets
    with pytest.raises(DecodeError, match="decimal"):
        decode(octets[:-1])


@pytest.mark.parametrize("octets", [b"\xe0\x01\x00", b"\xf0\x00\x00\x00\x04\x00\x00\x00\x00"])
def test_an_empty_array_may_lack_its_constructor(octets: bytes) -> None:
    """As azure-servicebus writes it."""
    assert decode(octets + b"behind") == ([], len(octets))


def test_an_array_of_nulls_as_one_client_writes_it_is_malformed() -> None:
    """azure-servicebus leaves the constructor out of the size; section 1.6.24 has it in: the reader would go on inside the array."""
    with pytest.raises(DecodeError, match="size and count"):
        decode(b"\xe0\x01\x01\x40")


@pytest.mark.parametrize("octets", [
    b"\xd0\x00\x00\x00\x04\xff\xff\xff\xff", b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40", b"\xc1\x02\x01\x40",
    b"\xc0\x02\x01\x40\x40\x40"[:3], b"\xc0\x09\x01\x40", b"\x00" * 2000, b"\xc0\x02\x01" * 200, b"\xa1\x02\xff\xff",
    b"\x56\x02", b"\xc1\x03\x02\x45\x40", b"\x73\xff\xff\xff\xff", b"", b"\xe0\x03\x01\x00\x40",
])  # fmt: skip
def test_malformed_values_are_decode_errors(octets: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(octets)


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j])
def test_a_python_type_that_stands_for_nothing_is_not_written(value: object) -> None:
    with pytest.raises(TypeError):
        encode(value)


@pytest.mark.parametrize("value", [UInt(2**32), ULong(-1), 2**63, Int(2**31)])
def test_a_number_out_of_range_is_not_written(value: int) -> None:
    with pytest.raises(struct.error):
        encode(value)
