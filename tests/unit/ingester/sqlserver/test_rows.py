from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.errors import PermanentError
from common.names import TableName
from ingester.change import Change
from ingester.source import CapturedColumn
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.pages.place import positions
from ingester.sqlserver.position import LogPosition
from ingester.sqlserver.rows import RowReader
from ingester.sqlserver.values import projection
from tests.fakes.ingester import lsn, position

CASES = [
    ("bit", True, True),
    ("tinyint", 255, 255),
    ("bigint", 2**63 - 1, 2**63 - 1),
    ("decimal", "6.3230", "6.3230"),
    ("money", (2**63 - 1).to_bytes(8, "big"), "922337203685477.5807"),
    ("money", (-5000).to_bytes(8, "big", signed=True), "-0.5000"),
    ("smallmoney", (1).to_bytes(4, "big"), "0.0001"),
    ("float", 0.1, 0.1),
    ("real", struct.unpack("<f", struct.pack("<f", 0.1))[0], 0.1),
    ("nvarchar", "žluťoučký 🐎".encode("utf-16-le"), "žluťoučký 🐎"),
    ("char", "ab   ".encode("utf-16-le"), "ab   "),
    ("xml", b"", ""),
    ("date", date(2018, 7, 13), "2018-07-13"),
    ("time", bytes.fromhex("07FFBF692AC9"), "23:59:59.9999999"),
    ("datetime", datetime(2018, 7, 13, 13, 23, 45, 780_000), "2018-07-13T13:23:45.780"),
    ("datetime", datetime(1753, 1, 1), "1753-01-01T00:00:00.000"),
    ("smalldatetime", datetime(2018, 7, 13, 13, 24), "2018-07-13T13:24:00"),
    ("datetime2", bytes.fromhex("0709000000006D0100"), "0002-01-01T00:00:00.0000009"),
    ("datetime2", bytes.fromhex("00000000000000"), "0001-01-01T00:00:00"),
    ("datetimeoffset", bytes.fromhex("0757C62D4093A8330BD200"), "2010-12-15T21:04:03.6934231+03:30"),
    ("datetimeoffset", bytes.fromhex("00FB0700A8330BE2FF"), "2010-12-15T00:04:03-00:30"),
    ("varbinary", b"\x00\xff", "AP8="),
    ("timestamp", b"\x00\x00\x00\x00\x00\x00\x07\xd1", "AAAAAAAAB9E="),
    (
        "uniqueidentifier",
        bytes.fromhex("FF19966F868B11D0B42D00C04FC964FF"),
        "6F9619FF-8B86-D011-B42D-00C04FC964FF",
    ),
]


@pytest.mark.parametrize(("sql_type", "driver", "json"), CASES, ids=[f"{c[0]}-{c[2]}" for c in CASES])
def test_values(sql_type: str, driver: object, json: object) -> None:
    found = projection(sql_type, decimals_as_numbers=False)
    assert found is not None
    assert found.convert(driver) == json


@pytest.mark.parametrize(
    ("sql_type", "data"),
    [
        ("time", "FFBF692AC9"),
        ("time", "08FFBF692AC9"),
        ("time", "07FFFFFFFFFF"),
        ("time", ""),
        ("datetime2", "09000000006D0100"),
        ("datetime2", "070900000000FFFFFF"),
        ("datetimeoffset", "0700C62D4093A8330B"),
    ],
)
def test_a_time_of_another_layout_is_refused_and_never_guessed(sql_type: str, data: str) -> None:
    found = projection(sql_type, decimals_as_numbers=False)
    assert found is not None
    with pytest.raises(PermanentError, match="have a layout that DStream does not know"):
        found.convert(bytes.fromhex(data))


@pytest.mark.parametrize(("units", "json"), [("\ud83d", b'"\\ud83d"'), ("a\udc00\ud83db", b'"a\\udc00\\ud83db"')])
def test_half_a_surrogate_pair_is_kept_as_the_escape_that_json_has_for_it(units: str, json: bytes) -> None:
    """The driver would make a question mark of it, or end the text there, and tell nobody."""
    found = projection("nvarchar", 20, decimals_as_numbers=False)
    assert found is not None
    assert orjson.dumps(found.convert(units.encode("utf-16-le", "surrogatepass"))) == json


@pytest.mark.parametrize(
    ("sql_type", "length", "select"),
    [
        ("nvarchar", 8000, "CONVERT(varbinary(8000), {})"),
        ("nvarchar", -1, "CONVERT(varbinary(max), {})"),
        ("nvarchar", None, "CONVERT(varbinary(max), {})"),
        ("char", 4000, "CONVERT(varbinary(8000), CONVERT(nvarchar(4000), {}))"),
        ("varchar", 4001, "CONVERT(varbinary(max), CONVERT(nvarchar(max), {}))"),
        ("varchar", -1, "CONVERT(varbinary(max), CONVERT(nvarchar(max), {}))"),
    ],
)
def test_text_is_converted_to_a_type_that_holds_all_of_it(sql_type: str, length: int | None, select: str) -> None:
    found = projection(sql_type, length, decimals_as_numbers=False)
    assert found is not None
    assert found.select == select


def test_decimals_as_numbers_keep_every_digit() -> None:
    found = projection("decimal", decimals_as_numbers=True)
    assert found is not None
    assert orjson.dumps({"d": found.convert("-12345678901234567890.3230")}) == b'{"d":-12345678901234567890.3230}'


def _digits(value: float) -> int:
    """How many significant digits it is written with."""
    return len(Decimal(repr(value)).normalize().as_tuple().digits)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(999999986991104.0)  # 1E15, which repr() writes longer
def test_a_reals_shortest_form_reads_back_to_the_same_value(value: float) -> None:
    found = projection("real", decimals_as_numbers=False)
    assert found is not None
    shortest = found.convert(value)
    assert isinstance(shortest, float)
    assert struct.pack("<f", shortest) == struct.pack("<f", value)
    assert _digits(shortest) <= _digits(value)


COLUMNS = (
    CapturedColumn("ID", "int", 1, key_ordinal=2),
    CapturedColumn("Short", "nvarchar", 2),
    CapturedColumn("Long", "nvarchar", 3, large=True),
    CapturedColumn("Old", "text", 4),
    CapturedColumn("Sum", "int", 5, computed=True),
    CapturedColumn("Part", "int", 6, key_ordinal=1),
    *(CapturedColumn(f"C{n}", "int", n) for n in range(7, 12)),
)


def _table(name: str, *columns: CapturedColumn) -> ChangeTable:
    start = LogPosition.before(lsn(1))
    return ChangeTable(name, TableName("dbo", "T"), start, columns, change_table=f"{name}_CT")


TABLE = _table("dbo_T", *COLUMNS)


Given = tuple[object, ...]


def row(operation: int, *values: object, mask: int = 0, columns: Sequence[CapturedColumn] = COLUMNS) -> Given:
    """Values as the driver hands them over: those of a fixed length within the row's place, and text as UTF-16."""
    at = position(1)
    begins = at.lsn.value + at.command_id.to_bytes(4) + at.seqval + operation.to_bytes(4)
    whole = [*values, *[None] * (len(columns) - len(values))]
    joined, alone = b"", list[object]()
    for column, value in zip(columns, whole, strict=True):
        if column.type == "int":
            joined += struct.pack(">?i", value is None, value or 0)
        else:
            alone.append(value.encode("utf-16-le") if isinstance(value, str) else value)
    return (begins + joined + mask.to_bytes(2), *alone)


def read(row: Given, before: Given | None = None, reader: RowReader | None = None) -> Change:
    reader = reader or RowReader(TABLE, decimals_as_numbers=False, before_images=False)
    rows = [row] if before is None else [before, row]
    [change] = reader.changes(rows, positions(rows), [(None, 0) if before is None else (0, 1)], [None] * len(rows))
    return change


def test_a_deletes_text_column_is_unavailable_and_not_null() -> None:
    found = read(row(1, 1, "s", "l", None, None, 2))
    assert found.unavailable == ("Old", "Sum")
    assert "Old" not in found.data
    assert found.data["Short"] == "s"


def test_a_delete_carries_the_row_as_its_before_image_where_those_are_wanted() -> None:
    reader = RowReader(TABLE, decimals_as_numbers=False, before_images=True)
    found = read(row(1, 1, "s", "l", None, None, 2), reader=reader)
    assert found.before == found.data
    assert read(row(1, 1, "s", "l", None, None, 2)).before is None


def test_null_stays_null_where_capture_holds_the_value() -> None:
    found = read(row(2, 1, None, None, None, None, 2))
    assert [found.data[c] for c in ("Short", "Long", "Old")] == [None, None, None]
    assert found.unavailable == ("Sum",)


def test_an_unchanged_max_columns_before_image_is_unavailable_but_a_short_columns_is_null() -> None:
    found = read(row(4, 1, "new", "l", "t", None, 2, mask=0b10), row(3, 1, None, None, None, None, 2, mask=0b10))
    assert found.before is not None
    assert "Long" not in found.before
    assert found.before["Short"] is None
    assert found.data["Long"] == "l"
    assert found.unavailable == ("Long", "Old", "Sum")


def test_a_changed_max_columns_null_before_image_is_null() -> None:
    found = read(row(4, 1, "s", "l", "t", None, 2, mask=0b100), row(3, 1, "s", None, None, None, 2, mask=0b100))
    assert found.before is not None
    assert found.before["Long"] is None


def test_the_mask_names_the_changed_columns_beyond_the_eighth() -> None:
    mask = int.from_bytes(b"\x05\x02", "big")
    assert read(row(4, 1, mask=mask)).changed_columns == ("Short", "C9", "C11")


@pytest.mark.parametrize("operation", [1, 2, 4])
@pytest.mark.parametrize("mask", [0b0010, 0b0100, 0b1110])
def test_what_a_filter_may_ask_of_columns_that_are_not_read_is_as_if_they_were(operation: int, mask: int) -> None:
    few = RowReader(TABLE, decimals_as_numbers=False, before_images=False, columns=("Short",))
    assert len(few.selected) == 1
    before = row(3, 1, "s", "l" if mask & 0b100 else None, None, None, 2, mask=mask) if operation == 4 else None
    after = row(operation, 1, "s", "l", None if operation == 1 else "t", None, 2, mask=mask)
    whole = read(after, before)
    those = [column for column in COLUMNS if column.name in ("ID", "Short", "Part")]
    narrow = row(3, 1, "s", 2, mask=mask, columns=those) if operation == 4 else None
    found = read(row(operation, 1, "s", 2, mask=mask, columns=those), narrow, few)
    assert found.data.keys() == {"ID", "Short", "Part"}
    assert found.changed_columns == whole.changed_columns
    assert sorted(found.unavailable) == sorted(whole.unavailable)


def test_the_key_is_in_key_order() -> None:
    assert read(row(2, 1, None, None, None, None, 2)).key == (2, 1)


def test_names_are_quoted() -> None:
    table = _table("i", CapturedColumn("a]b%s", "decimal", 1))
    assert RowReader(table, decimals_as_numbers=False, before_images=False).selected == [
        "CONVERT(varchar(41), ct.[a]]b%s]) AS [a]]b%s]"
    ]


def test_a_type_that_cannot_be_carried_is_refused_by_name() -> None:
    table = _table("i", CapturedColumn("v", "sql_variant", 1))
    with pytest.raises(PermanentError, match="column 'v' has type sql_variant"):
        RowReader(table, decimals_as_numbers=False, before_images=False)
