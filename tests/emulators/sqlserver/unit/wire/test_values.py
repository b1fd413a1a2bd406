"""Values: what the row encoders write, the parameter decoders read back, for every type; TYPE_INFO is the same both ways."""

from __future__ import annotations

import struct
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulators.sqlserver import codepages
from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.wire.errors import ProtocolError
from emulators.sqlserver.wire.parameters import decimal_text, typed_value
from emulators.sqlserver.wire.reader import Reader
from emulators.sqlserver.wire.rows import cell_encoder, row_encoder
from emulators.sqlserver.wire.typeinfo import type_info

_DATES = st.dates(date(1, 1, 2), date(9999, 12, 30)).map(date.isoformat)
_CP1252 = st.text(st.sampled_from([bytes([n]).decode("cp1252", "ignore") or chr(n) for n in range(256)]), max_size=30)


@st.composite
def _times(draw: st.DrawFn, scale: int) -> str:
    hours, minutes, seconds = draw(st.integers(0, 23)), draw(st.integers(0, 59)), draw(st.integers(0, 59))
    text = f"{hours:02d}:{minutes:02d}:{seconds:02d}"
    return f"{text}.{draw(st.integers(0, 10**scale - 1)):0{scale}d}" if scale else text


@st.composite
def _offsets(draw: st.DrawFn) -> str:
    minutes = draw(st.integers(0, 840))
    sign = "+" if not minutes else draw(st.sampled_from("+-"))
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"


@st.composite
def _datetimes(draw: st.DrawFn) -> str:
    third = draw(st.integers(0, 299))
    return f"{draw(_DATES)} {draw(_times(0))}.{(third * 10 + 1) // 3:03d}"


@st.composite
def _decimals(draw: st.DrawFn) -> tuple[SqlType, Value]:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    unscaled = draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    name = draw(st.sampled_from(["decimal", "numeric"]))
    return SqlType(name, precision=precision, scale=scale), decimal_text(unscaled, scale)


def _scaled(name: str, text: Any) -> st.SearchStrategy[tuple[SqlType, Value]]:
    return st.integers(0, 7).flatmap(lambda scale: st.tuples(st.just(SqlType(name, scale=scale)), text(scale)))


def _of(type_: SqlType, values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[SqlType, Value]]:
    return st.tuples(st.just(type_), values)


_TEXT = st.text(max_size=30)
_TYPED = st.one_of(
    _of(SqlType("bit"), st.integers(0, 1)),
    _of(SqlType("tinyint"), st.integers(0, 255)),
    _of(SqlType("smallint"), st.integers(-(2**15), 2**15 - 1)),
    _of(SqlType("int"), st.integers(-(2**31), 2**31 - 1)),
    _of(SqlType("bigint"), st.integers(-(2**63), 2**63 - 1)),
    _of(SqlType("float"), st.floats(allow_nan=False, allow_infinity=False)),
    _of(SqlType("real"), st.floats(allow_nan=False, allow_infinity=False, width=32)),
    _of(SqlType("money"), st.integers(-(2**63), 2**63 - 1).map(lambda n: decimal_text(n, 4))),
    _of(SqlType("smallmoney"), st.integers(-(2**31), 2**31 - 1).map(lambda n: decimal_text(n, 4))),
    _decimals(),
    _of(SqlType("nvarchar", 200), _TEXT),
    _of(SqlType("nvarchar", MAX), _TEXT),
    _of(SqlType("nchar", 5), st.text(st.characters(max_codepoint=0xD7FF), max_size=5).map(lambda s: s.ljust(5))),
    _of(SqlType("varchar", 200), _CP1252),
    _of(SqlType("varchar", MAX), _CP1252),
    _of(SqlType("char", 40), _CP1252.map(lambda s: s.ljust(40))),
    _of(SqlType("xml"), _TEXT.filter(lambda s: not s.startswith("\ufeff"))),
    _of(SqlType("varbinary", 30), st.binary(max_size=30)),
    _of(SqlType("varbinary", MAX), st.binary(max_size=30)),
    _of(SqlType("binary", 10), st.binary(max_size=10).map(lambda b: b.ljust(10, b"\0"))),
    _of(SqlType("uniqueidentifier"), st.uuids().map(lambda u: str(u).upper())),
    _of(SqlType("date"), _DATES),
    _of(SqlType("datetime"), _datetimes()),
    _of(
        SqlType("smalldatetime"),
        st.tuples(
            st.dates(date(1900, 1, 1), date(2079, 6, 6)).map(date.isoformat), st.integers(0, 23), st.integers(0, 59)
        ).map(lambda t: f"{t[0]} {t[1]:02d}:{t[2]:02d}:00"),
    ),
    _scaled("time", _times),
    _scaled("datetime2", lambda scale: st.tuples(_DATES, _times(scale)).map(" ".join)),
    _scaled("datetimeoffset", lambda scale: st.tuples(_DATES, _times(scale), _offsets()).map(" ".join)),
)


@given(_TYPED, st.booleans())
def test_what_is_encoded_is_decoded_to_the_same_type_and_value(typed: tuple[SqlType, Value], null: bool) -> None:
    type_, value = typed
    sent = None if null else value
    reader = Reader(type_info(type_) + cell_encoder(type_)(sent))
    assert typed_value(reader) == (type_, sent)
    assert not reader.remaining


@given(st.lists(_TYPED, min_size=1, max_size=6))
def test_a_row_is_its_token_and_its_cells(typed: list[tuple[SqlType, Value]]) -> None:
    out: list[bytes] = []
    row_encoder(tuple(type_ for type_, _ in typed))([[value for _, value in typed]] * 2, out)
    assert b"".join(out) == (b"\xd1" + b"".join(cell_encoder(type_)(value) for type_, value in typed)) * 2


@given(st.binary(max_size=60))
def test_random_bytes_are_values_or_refused(data: bytes) -> None:
    try:
        type_, _ = typed_value(Reader(data))
    except (ProtocolError, SqlError):
        return
    type_info(type_)


@given(_TYPED, st.data())
def test_a_value_cut_short_is_refused(typed: tuple[SqlType, Value], data: st.DataObject) -> None:
    whole = type_info(typed[0]) + cell_encoder(typed[0])(typed[1])
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ProtocolError):
        typed_value(Reader(whole[:cut]))


@pytest.mark.parametrize("name", ["geography", "sql_variant", "hierarchyid"])
def test_a_type_without_a_form_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        type_info(SqlType(name))
    with pytest.raises(ValueError, match=name):
        cell_encoder(SqlType(name))


def test_a_column_longer_than_8000_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nvarchar\(4001\)"):
        type_info(SqlType("nvarchar", 4001))


def test_all_256_bytes_of_the_code_page_survive_and_others_become_question_marks() -> None:
    every = bytes(range(256))
    assert codepages.encode(codepages.decode(every)) == every
    assert codepages.encode("a\u4e2db") == b"a?b"


def test_rows_before_a_failing_one_are_kept() -> None:
    out: list[bytes] = []
    encode = row_encoder((SqlType("int"), SqlType("nvarchar", 5)))
    with pytest.raises(struct.error):
        encode([[1, "a"], ["x", "b"]], out)
    assert b"".join(out) == b"\xd1\x04\x01\0\0\0\x02\0a\0"


@pytest.mark.parametrize("text", ["-0.05", "0.00", "-12", "12345678901234567890123456789012345678"])
def test_decimal_text_keeps_its_digits(text: str) -> None:
    scale = len(text.partition(".")[2])
    assert decimal_text(int(text.replace(".", "")), scale) == text


@pytest.mark.parametrize(
    "bad",
    [
        b"\x28\x03\xff\xff\xff",  # a date after 9999
        b"\x29\x00\x03\x80\x51\x01",  # 24:00:00
        b"\x2b\x00\x08\x00\x00\x00\x00\x00\x00\x49\x03",  # an offset beyond 14 hours
        b"\x6a\x05\x01\x00\x05\x01\x0a\x00\x00\x00",  # 10 in a decimal(1, 0)
        b"\x6a\x05\x27\x00\x00",  # precision 39
        b"\x26\x03\x00",  # an integer of three bytes
        b"\x26\x04\x08" + bytes(8),  # eight bytes in an int
        b"\xe7\x04\x00" + bytes(5) + b"\x06\x00" + bytes(6),  # three characters in an nvarchar(2)
        b"\xe7\x04\x00" + bytes(5) + b"\x03\x00" + bytes(3),  # half a character
    ],
)
def test_a_value_that_cannot_be_is_refused(bad: bytes) -> None:
    with pytest.raises(ProtocolError):
        typed_value(Reader(bad))


def test_a_float_that_is_no_number_is_8023() -> None:
    with pytest.raises(SqlError) as raised:
        typed_value(Reader(b"\x6d\x08\x08" + struct.pack("<d", float("nan"))))
    assert raised.value.number == 8023
