"""Every SQL Server type reaches pymssql and python-tds as the value the engine gave, NULL included."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pymssql
import pytds
import pytest

from emulators.sqlserver.results import Value
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.sqltypes import MAX, SqlType
from tests.fakes.sql_engine import Script, ScriptedEngine, rows_of

Case = tuple[SqlType, Value, Any]

_GUID = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
_WIDE = "naïve 中文 \U0001f600"

CASES: list[Case] = [
    (SqlType("bit"), 1, True),
    (SqlType("bit"), 0, False),
    (SqlType("tinyint"), 255, 255),
    (SqlType("smallint"), -32768, -32768),
    (SqlType("int"), -2147483648, -2147483648),
    (SqlType("bigint"), 2**63 - 1, 2**63 - 1),
    (SqlType("bigint"), -(2**63), -(2**63)),
    (SqlType("decimal", precision=18, scale=4), "-0.0500", Decimal("-0.0500")),
    (SqlType("decimal", precision=5, scale=0), "-12345", Decimal(-12345)),
    (SqlType("numeric", precision=38, scale=10), "9" * 28 + "." + "9" * 10, Decimal("9" * 28 + "." + "9" * 10)),
    (SqlType("numeric", precision=38, scale=38), "-0." + "1" * 38, Decimal("-0." + "1" * 38)),
    (SqlType("money"), "922337203685477.5807", Decimal("922337203685477.5807")),
    (SqlType("money"), "-922337203685477.5808", Decimal("-922337203685477.5808")),
    (SqlType("smallmoney"), "-214748.3648", Decimal("-214748.3648")),
    (SqlType("float"), -1.7976931348623157e308, -1.7976931348623157e308),
    (SqlType("real"), 0.5, 0.5),
    (SqlType("char", 5), "ab   ", "ab   "),
    (SqlType("varchar", 50), "caf\xe9 \u20ac", "caf\xe9 \u20ac"),
    (SqlType("varchar", 50), "", ""),
    (SqlType("varchar", MAX), "x" * 20000, "x" * 20000),
    (SqlType("text"), "long text \xe9", "long text \xe9"),
    (SqlType("nchar", 4), "\u4e2d   ", "\u4e2d   "),
    (SqlType("nvarchar", 50), _WIDE, _WIDE),
    (SqlType("nvarchar", 50), "", ""),
    (SqlType("nvarchar", MAX), _WIDE * 500, _WIDE * 500),
    (SqlType("nvarchar", MAX), "", ""),
    (SqlType("ntext"), _WIDE, _WIDE),
    (SqlType("sysname"), "dbo", "dbo"),
    (SqlType("xml"), "<a>\u4e2d</a>", "<a>\u4e2d</a>"),
    (SqlType("binary", 10), b"\0" * 9 + b"\x2a", b"\0" * 9 + b"\x2a"),
    (SqlType("varbinary", 50), b"\0\xff", b"\0\xff"),
    (SqlType("varbinary", MAX), bytes(range(256)) * 40, bytes(range(256)) * 40),
    (SqlType("image"), b"\x89PNG\0", b"\x89PNG\0"),
    (SqlType("rowversion"), b"\0\0\0\0\0\0\x07\xd1", b"\0\0\0\0\0\0\x07\xd1"),
    (SqlType("uniqueidentifier"), _GUID, uuid.UUID(_GUID)),
    (SqlType("date"), "0001-01-01", dt.date(1, 1, 1)),
    (SqlType("date"), "9999-12-31", dt.date(9999, 12, 31)),
    (SqlType("time", scale=7), "23:59:59.9999990", dt.time(23, 59, 59, 999999)),
    (SqlType("time", scale=0), "10:23:45", dt.time(10, 23, 45)),
    (SqlType("time", scale=3), "10:23:45.678", dt.time(10, 23, 45, 678000)),
    (SqlType("datetime"), "1753-01-01 00:00:00.000", dt.datetime(1753, 1, 1)),
    (SqlType("datetime"), "9999-12-31 23:59:59.997", dt.datetime(9999, 12, 31, 23, 59, 59, 997000)),
    (SqlType("datetime"), "2018-07-13 13:23:45.780", dt.datetime(2018, 7, 13, 13, 23, 45, 780000)),
    (SqlType("smalldatetime"), "2079-06-06 23:59:00", dt.datetime(2079, 6, 6, 23, 59)),
    (SqlType("datetime2", scale=7), "2018-07-13 13:23:45.7801230", dt.datetime(2018, 7, 13, 13, 23, 45, 780123)),
    (SqlType("datetime2", scale=0), "0001-01-01 00:00:00", dt.datetime(1, 1, 1)),
    (SqlType("datetime2", scale=3), "9999-12-31 23:59:59.999", dt.datetime(9999, 12, 31, 23, 59, 59, 999000)),
    (
        SqlType("datetimeoffset", scale=7),
        "2018-07-13 00:23:45.4560000 +11:00",
        dt.datetime(2018, 7, 13, 0, 23, 45, 456000, dt.timezone(dt.timedelta(hours=11))),
    ),
    (
        SqlType("datetimeoffset", scale=0),
        "2018-07-13 20:00:00 -05:30",
        dt.datetime(2018, 7, 13, 20, 0, 0, 0, dt.timezone(-dt.timedelta(hours=5, minutes=30))),
    ),
]
_NULLS: list[Case] = [(type_, None, None) for type_ in dict.fromkeys(case[0] for case in CASES)]
_ALL = CASES + _NULLS


def _answering(type_: SqlType, stored: Value) -> Script:
    return lambda s, p, c: iter([rows_of({"v": type_}, [[stored]])])


@pytest.fixture(scope="module")
def server() -> Iterator[SqlServerEmulator]:
    engine = ScriptedEngine()
    for i, (type_, stored, _) in enumerate(_ALL):
        engine.script(f"case {i}", _answering(type_, stored))
    columns = {f"c{i}": type_ for i, (type_, _, _) in enumerate(CASES)}
    row = [stored for _, stored, _ in CASES]
    engine.script("all", lambda s, p, c: iter([rows_of(columns, [row, [None] * len(row), row])]))
    with SqlServerEmulator(engine) as running:
        yield running


@pytest.fixture(scope="module", params=["pymssql", "pytds"])
def cursor(request: pytest.FixtureRequest, server: SqlServerEmulator) -> Iterator[Any]:
    if request.param == "pymssql":
        connection: Any = pymssql.connect(
            server="127.0.0.1", port=str(server.port), user="sa", password="secret", autocommit=True
        )
    else:
        connection = pytds.connect("127.0.0.1", port=server.port, user="sa", password="secret", autocommit=True)
    with connection:
        yield connection.cursor()


def _named(case: Case) -> str:
    return f"{case[0].name}-{case[0].length or case[0].scale}-{str(case[1])[:20]!r}"


@pytest.mark.parametrize("index", range(len(_ALL)), ids=[_named(case) for case in _ALL])
def test_a_value_arrives_as_the_engine_gave_it(cursor: Any, index: int) -> None:
    cursor.execute(f"case {index}")
    (value,) = cursor.fetchone()
    expected = _ALL[index][2]
    assert value == expected
    assert type(value) is type(expected)


def test_a_row_of_every_type_and_a_row_of_nulls_keep_their_columns_apart(cursor: Any) -> None:
    cursor.execute("all")
    rows = [list(row) for row in cursor.fetchall()]
    full = [expected for _, _, expected in CASES]
    assert rows == [full, [None] * len(full), full]
    assert [d[0] for d in cursor.description] == [f"c{i}" for i in range(len(full))]
