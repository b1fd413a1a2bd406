"""Columns of a fixed length, as the server joins them and as they are read."""

from __future__ import annotations

import struct

import pytest

from common.errors import PermanentError
from common.names import TableName
from ingester.source import CapturedColumn
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.pages.joined import MOST, Joined, read_as
from ingester.sqlserver.pages.place import BEGINS_WITH
from ingester.sqlserver.position import LogPosition
from ingester.sqlserver.rows import RowReader
from tests.fakes.ingester import lsn

NUMBER, FLAG = CapturedColumn("a]%s", "bigint", 1), CapturedColumn("F", "bit", 2)
PRICE = CapturedColumn("P", "smallmoney", 3)


def test_a_column_stands_behind_a_mark_and_has_as_many_bytes_when_it_is_null() -> None:
    assert Joined([NUMBER, FLAG], decimals_as_numbers=False).selected == (
        "ISNULL(0x00 + CONVERT(binary(8), ct.[a]]%s]), 0x010000000000000000) + "
        "ISNULL(0x00 + CONVERT(binary(1), ct.[F]), 0x0100)"
    )


def test_values_are_taken_apart_and_nulls_with_them() -> None:
    joined = Joined([NUMBER, FLAG, PRICE], decimals_as_numbers=False)
    price = (-5000).to_bytes(4, signed=True)
    rows = [
        struct.pack(">?q??", False, -(2**63), False, True) + b"\0" + price,
        struct.pack(">?q??", True, 0, True, False) + b"\1" + bytes(4),
        struct.pack(">?q??", False, 0, False, False) + b"\0" + price,
    ]
    assert joined.apart(rows) == [
        [-(2**63), None, 0],
        [True, None, False],
        ["-0.5000", None, "-0.5000"],
    ]


@pytest.mark.parametrize("octets", [b"", bytes(10), bytes(12), None, "0"])
def test_bytes_of_another_length_are_refused_and_never_guessed(octets: object) -> None:
    """As a server would return them that masks the columns of a login without UNMASK."""
    with pytest.raises(PermanentError, match="have a layout that DStream does not know"):
        Joined([NUMBER, FLAG], decimals_as_numbers=False).apart([octets])


def test_columns_within_a_place_have_other_bytes_on_both_sides() -> None:
    joined = Joined([NUMBER, FLAG], decimals_as_numbers=False, place=True)
    rows = [bytes(BEGINS_WITH) + struct.pack(">?q??", False, 7, True, False) + b"mask"]
    assert joined.octets == 11
    assert joined.apart(rows) == [(7,), [None]]
    with pytest.raises(PermanentError, match="have a layout that DStream does not know"):
        joined.apart([bytes(BEGINS_WITH)])


@pytest.mark.parametrize(
    ("sql_type", "read"),
    [
        ("tinyint", "B"),
        ("smallmoney", "4s"),
        ("uniqueidentifier", "16s"),
        ("datetime2", None),
        ("float", None),
        ("decimal", None),
    ],
)
def test_only_types_whose_bytes_are_known_and_as_many_are_joined(sql_type: str, read: str | None) -> None:
    assert read_as(CapturedColumn("C", sql_type, 1)) == read


def test_a_wide_table_has_more_than_one_joined_value_and_each_column_its_own() -> None:
    columns = tuple(CapturedColumn(f"C{number}", "int", number + 1) for number in range(2 * MOST + 1))
    table = ChangeTable("i", TableName("dbo", "T"), LogPosition.before(lsn(1)), columns, change_table="i_CT")
    reader = RowReader(table, decimals_as_numbers=False, before_images=False)
    assert len(reader.selected) == 2
    beside, *others = [
        b"".join(struct.pack(">?i", number == 3, number) for number in range(at, min(at + MOST, 2 * MOST + 1)))
        for at in (0, MOST, 2 * MOST)
    ]
    found = reader._converted([[bytes(BEGINS_WITH) + beside + b"mask"], *([value] for value in others)])
    assert found == [(number,) if number != 3 else [None] for number in range(2 * MOST + 1)]
