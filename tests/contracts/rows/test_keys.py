"""Rows are read in the server's own order of their keys, each once, whatever the key's type and the pages' size."""

from __future__ import annotations

from itertools import count, pairwise

import pytest

from ingester.history.rows import RowsQuery
from tests.contracts.rows.conftest import RowsPlace

_TEXT = ["N''", "N'a'", "N'B'", "N'b2'", "N'ä'", "N'z '", "N'0x41'", "N'it''s'", "N' a'", "N'a b'", "N'a-b'", "N'ab'"]
TYPES: dict[str, list[str]] = {
    "tinyint": ["0", "1", "255"],
    "smallint": ["-32768", "-1", "0", "32767"],
    "int": ["-2147483648", "-1", "0", "7", "2147483647"],
    "bigint": ["-9223372036854775808", "0", "9223372036854775807"],
    "decimal(38, 10)": [
        "-9999999999999999999999999999.9999999999",
        "-0.0000000001",
        "0",
        "0.5",
        "12345678901234567890.5",
    ],
    "numeric(5, 0)": ["-99999", "3"],
    "money": ["-922337203685477.5808", "-0.0001", "0", "922337203685477.5807"],
    "smallmoney": ["-214748.3648", "0.01"],
    "float": [
        "-1.7976931348623157E308",
        "-0.1",
        "0",
        "5E-324",
        "0.1",
        "0.30000000000000004",
        "1E22",
        "1.7976931348623157E308",
    ],
    "real": ["-3.4028235E38", "0.1", "0.2", "16777216"],
    "bit": ["0", "1"],
    "date": ["'0001-01-01'", "'1999-12-31'", "'9999-12-31'"],
    "time(7)": ["'00:00:00'", "'12:34:56.1234567'", "'12:34:56.1234568'", "'23:59:59.9999999'"],
    "time(0)": ["'00:00:01'", "'23:59:59'"],
    "datetime": ["'1753-01-01'", "'2024-02-29 12:34:56.997'", "'2024-02-29 12:34:57'", "'9999-12-31 23:59:59.997'"],
    "smalldatetime": ["'1900-01-01'", "'2079-06-06 23:59'"],
    "datetime2(7)": [
        "'0001-01-01'",
        "'2024-02-29 12:34:56.1234567'",
        "'2024-02-29 12:34:56.1234568'",
        "'9999-12-31 23:59:59.9999999'",
    ],
    "datetime2(3)": ["'2024-02-29 12:34:56.123'", "'2024-02-29 12:34:56.124'"],
    "datetimeoffset(7)": [
        "'2024-01-01 00:00:00.0000001 +14:00'",
        "'2024-01-01 00:00:00 -12:00'",
        "'2023-12-31 23:30:00 -01:00'",
    ],
    "uniqueidentifier": [
        "'00000000-0000-0000-0000-0000000000FF'",
        "'FF000000-0000-0000-0000-000000000000'",
        "'00000000-0000-0000-FF00-000000000000'",
        "'6F9619FF-8B86-D011-B42D-00C04FC964FF'",
    ],
    "binary(4)": ["0x00000000", "0x7FFFFFFF", "0xFF000000"],
    "varbinary(12)": ["0x", "0x00FF", "0x0100FF", "0x01", "0x00112233445566778899", "0xFF"],
    "char(5)": _TEXT,
    "varchar(20)": _TEXT,
    "nchar(5)": _TEXT,
    "nvarchar(20)": [*_TEXT, "N'Ж'", "N'日本'", "N'😀'", "NCHAR(9)", "NCHAR(160)"],
    "varchar(20) COLLATE Latin1_General_BIN2": _TEXT,
    "nvarchar(20) COLLATE Latin1_General_BIN2": [*_TEXT, "N'A'"],
    "varchar(20) COLLATE Latin1_General_CS_AS": [*_TEXT, "N'A'", "N'Ab'"],
    "nvarchar(20) COLLATE Latin1_General_CI_AI": [one for one in _TEXT if one != "N'ä'"],
    "varchar(20) COLLATE Cyrillic_General_CI_AS": ["N''", "N'Ж'", "N'жз'", "N'a'", "N'я '"],
    "varchar(20) COLLATE Japanese_CI_AS": ["N'日本'", "N'a'", "N'ｱ漢'"],
    "varchar(20) COLLATE Latin1_General_100_CI_AS_SC_UTF8": [*_TEXT, "N'Ж'", "N'日本'", "N'😀'"],
    "varchar(20) COLLATE SQL_Latin1_General_CP1_CS_AS": [*_TEXT, "N'A'", "CHAR(129)"],
    "sysname": _TEXT,
}
DIRECTIONS = ["ASC", "DESC"]
_numbers = count(1)


@pytest.mark.parametrize("sql_type", TYPES)
def test_keys_of_every_type_come_once_and_in_the_server_s_order(place: RowsPlace, sql_type: str) -> None:
    for direction in DIRECTIONS:
        name = f"T{list(TYPES).index(sql_type)}{direction}"
        place.make(name, f"K {sql_type} NOT NULL, N INT, PRIMARY KEY (K {direction})")
        for number, value in enumerate(TYPES[sql_type]):
            place.execute(f"INSERT INTO dbo.{name} VALUES ({value}, {number})")
        place._cursor.execute(f"SELECT N FROM dbo.{name} ORDER BY K {direction}")
        order = [row[0] for row in place._cursor.fetchall()]
        table = place.table(name)
        whole = place.rows.page(RowsQuery(table, 1000))
        assert [row.data["N"] for row in whole.rows] == order
        assert not whole.full
        keys = [row.at for row in whole.rows]
        assert len(set(keys)) == len(order)
        assert place.keys(table, 1) == keys
        assert place.keys(table, 3, upto=keys[1]) == keys[:2]


def _lines(place: RowsPlace, directions: tuple[str, str, str]) -> str:
    """The name of a table whose regions differ in case only here and there: to the server they are equal, and the number decides."""
    first, second, third = directions
    name = f"Lines{next(_numbers)}"
    place.make(
        name,
        "Region NVARCHAR(10) NOT NULL, Number INT NOT NULL, Part CHAR(3) NOT NULL, Note INT,"
        f"PRIMARY KEY (Region {first}, Number {second}, Part {third})",
    )
    rows = [
        f"(N'{region.upper() if number == 2 else region}', {number}, '{part}', 0)"
        for region in ("a", "b", "ä")
        for number in (-1, 2, 3)
        for part in ("x", "y")
    ]
    place.execute(f"INSERT INTO dbo.{name} VALUES {', '.join(rows[1:])}")
    return name


@pytest.mark.parametrize(
    "directions", [("ASC", "ASC", "ASC"), ("DESC", "DESC", "DESC"), ("ASC", "DESC", "ASC"), ("DESC", "ASC", "DESC")]
)
def test_a_composite_key_comes_in_the_directions_of_its_index(
    place: RowsPlace, directions: tuple[str, str, str]
) -> None:
    name = _lines(place, directions)
    columns = ("Region", "Number", "Part")
    order = ", ".join(f"{name} {direction}" for name, direction in zip(columns, directions, strict=True))
    place._cursor.execute(f"SELECT Region, Number, Part FROM dbo.{name} ORDER BY {order}")
    expected = [(region, number, part) for region, number, part in place._cursor.fetchall()]
    table = place.table(name)
    found = place.rows.page(RowsQuery(table, 1000)).rows
    assert [tuple(row.data[name] for name in columns) for row in found] == expected
    assert [row.key for row in found] == expected
    keys = [row.at for row in found]
    for rows in (1, 2, 3):
        assert place.keys(table, rows) == keys
    ends = [None, *keys]
    for low in range(len(ends)):
        for high in range(low + 1, len(ends), 4):
            page = place.rows.page(RowsQuery(table, 20, after=ends[low], upto=ends[high]))
            assert [row.at for row in page.rows] == keys[low:high]


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 100])
def test_bounds_cut_a_table_into_runs_and_leave_a_row_behind(place: RowsPlace, rows: int) -> None:
    table = place.table(_lines(place, ("ASC", "DESC", "ASC")))
    keys = place.keys(table, 50)
    for begin in (None, *keys[::3]):
        rest = keys[keys.index(begin) + 1 :] if begin is not None else keys
        cuts = rest[rows - 1 :: rows]
        expected = [one for one in cuts if one != rest[-1]]
        assert list(place.rows.bounds(RowsQuery(table, rows, after=begin), 100)) == expected
        assert list(place.rows.bounds(RowsQuery(table, rows, after=begin), 2)) == expected[:2]
    edges = [None, *place.rows.bounds(RowsQuery(table, rows), 100), None]
    assert [key for low, high in pairwise(edges) for key in place.keys(table, rows, low, high)] == keys
