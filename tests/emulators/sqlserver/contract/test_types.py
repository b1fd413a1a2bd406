"""Items 11 to 15 and 72: values there and back, rounding, LSNs as values, and CHECKSUM."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from tests.emulators.sqlserver.contract.client import Connection, Database
from tests.emulators.sqlserver.contract.labels import item

_PLUS = dt.timezone(dt.timedelta(hours=14))
_GUID = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
_LONG = "ab" * 15_000  # also as nvarchar below the 65536 bytes that captured values may have

# type: literal, and what Python is to see of it; both drivers cut seven digits of a second to six.
TYPES: Mapping[str, tuple[str, Any]] = {
    "bit": ("1", True),
    "tinyint": ("255", 255),
    "smallint": ("-32768", -32768),
    "int": ("-2147483648", -(2**31)),
    "bigint": ("9223372036854775807", 2**63 - 1),
    "decimal(38,10)": ("-1234567890123456789012345678.0123456789", Decimal("-1234567890123456789012345678.0123456789")),
    "numeric(18,4)": ("0.0001", Decimal("0.0001")),
    "money": ("-922337203685477.5808", Decimal("-922337203685477.5808")),
    "smallmoney": ("214748.3647", Decimal("214748.3647")),
    "float": ("1.7976931348623157E+308", 1.7976931348623157e308),
    "real": ("3.4028235E+38", struct.unpack("f", struct.pack("f", 3.4028235e38))[0]),
    "char(5)": ("'ab'", "ab   "),
    "varchar(10)": ("''", ""),
    "varchar(max)": (f"'{_LONG}'", _LONG),
    "nchar(5)": ("N'üß'", "üß   "),
    "nvarchar(50)": ("N'Zoë 😀 日本'", "Zoë 😀 日本"),
    "nvarchar(max)": (f"N'{_LONG}é'", _LONG + "é"),
    "binary(4)": ("0x0102", b"\x01\x02\0\0"),
    "varbinary(8)": ("0x00FF", b"\0\xff"),
    "varbinary(max)": ("0x" + "00FF" * 10_000, b"\0\xff" * 10_000),
    "date": ("'0001-01-01'", dt.date(1, 1, 1)),
    "time(7)": ("'23:59:59.9999999'", dt.time(23, 59, 59, 999999)),
    "smalldatetime": ("'2079-06-06T23:59:00'", dt.datetime(2079, 6, 6, 23, 59)),
    "datetime": ("'1753-01-01T23:59:59.997'", dt.datetime(1753, 1, 1, 23, 59, 59, 997000)),
    "datetime2(0)": ("'2024-02-29T12:34:56'", dt.datetime(2024, 2, 29, 12, 34, 56)),
    "datetime2(7)": ("'9999-12-31T23:59:59.9999999'", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    "datetimeoffset(3)": ("'2018-07-13T12:23:45.456+14:00'", dt.datetime(2018, 7, 13, 12, 23, 45, 456000, _PLUS)),
    "uniqueidentifier": (f"'{_GUID}'", uuid.UUID(_GUID)),
    "xml": ("N'<a b=\"1\">ü</a>'", '<a b="1">ü</a>'),
}


@item(11, "documented")
@pytest.mark.parametrize("type_", TYPES)
def test_a_value_comes_back_as_it_went(database: Database, type_: str) -> None:
    """The end of each type's range, and NULL.

    Source: Microsoft, "Data types (Transact-SQL)"; Debezium AbstractSqlServerDatatypesTest.
    """
    literal, expected = TYPES[type_]
    database.run(f"CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, v {type_} NULL)")
    database.run(f"INSERT INTO dbo.t VALUES (1, {literal}), (2, NULL)")
    assert database.column("SELECT v FROM dbo.t ORDER BY id") == [expected, None]


@item(11, "documented")
@pytest.mark.parametrize(
    ("type_", "literals"),
    [
        ("tinyint", ["256", "-1"]),
        ("smallint", ["32768"]),
        ("int", ["2147483648"]),
        ("decimal(5,2)", ["1000"]),
        ("smallmoney", ["214748.3648"]),
    ],
)
def test_a_number_beyond_its_type_is_refused(database: Database, type_: str, literals: list[str]) -> None:
    """Arithmetic overflow: 220 for tinyint and smallint, 8115 for the others.

    Source: Microsoft, "int, bigint, smallint, and tinyint (Transact-SQL)"; errors, 220 and 8115.
    """
    database.run(f"CREATE TABLE dbo.t (v {type_} NULL)")
    for literal in literals:
        refused = database.error(f"INSERT INTO dbo.t VALUES ({literal})")
        assert refused.number in ((220,) if type_ in ("tinyint", "smallint") else (8115,)), literal
    assert database.rows("SELECT v FROM dbo.t") == []


@item(11, "documented")
def test_a_text_that_is_too_long_is_2628(database: Database) -> None:
    """The message names table, column and value.

    Source: Microsoft, "Database engine events and errors", 2628 (SQL Server 2019 and later).
    """
    database.run("CREATE TABLE dbo.t (v varchar(3) NULL)")
    refused = database.error("INSERT INTO dbo.t VALUES ('abcd')")
    assert refused.number == 2628
    assert "column 'v'" in refused.text
    assert "Truncated value: 'abc'" in refused.text


@item(11, "documented")
@pytest.mark.parametrize(
    ("type_", "value"),
    [
        *(("int", 0), ("int", -(2**31)), ("bigint", 2**63 - 1), ("decimal(23,3)", Decimal("12345678901234567890.123"))),
        *(
            ("nvarchar(50)", ""),
            ("nvarchar(50)", "Zoë 😀"),
            ("nvarchar(50)", "O'Hara"),
            ("varbinary(8)", b"\0\x01\xff"),
        ),
        *(
            ("date", dt.date(2024, 2, 29)),
            ("datetime2(3)", dt.datetime(2024, 2, 29, 12, 34, 56, 500000)),
            ("int", None),
        ),
    ],
    ids=repr,
)
def test_a_parameter_comes_back_as_it_went(connection: Connection, type_: str, value: Any) -> None:
    """pymssql writes it into the text, python-tds sends it typed.

    Source: MS-TDS 2.2.6.6 (RPC request); pymssql 2.4, _substitute_params.
    """
    assert connection.value(f"SELECT CONVERT({type_}, %s)", value) == value


@item(12, "documented")
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("01/01/98 23:59:59.999", "1998-01-02 00:00:00.000"),
        *((f"01/01/98 23:59:59.99{digit}", "1998-01-01 23:59:59.997") for digit in (5, 6, 7, 8)),
        *((f"01/01/98 23:59:59.99{digit}", "1998-01-01 23:59:59.993") for digit in (2, 3, 4)),
        *((f"01/01/98 23:59:59.99{digit}", "1998-01-01 23:59:59.990") for digit in (0, 1)),
    ],
)
def test_datetime_rounds_to_three_and_a_third_milliseconds(connection: Connection, given: str, kept: str) -> None:
    """The page's own table.

    Source: Microsoft, "datetime (Transact-SQL)", rounding of fractional second precision.
    """
    assert connection.value(f"SELECT CONVERT(varchar(23), CAST('{given}' AS datetime), 121)") == kept


@item(12, "documented")
@pytest.mark.parametrize(
    ("given", "kept"),
    [("2007-05-09 23:59:29.998", "2007-05-09 23:59"), ("2007-05-09 23:59:29.999", "2007-05-10 00:00")],
)
def test_smalldatetime_rounds_to_the_minute(connection: Connection, given: str, kept: str) -> None:
    """29.998 seconds go down, 29.999 go up.

    Source: Microsoft, "smalldatetime (Transact-SQL)".
    """
    assert connection.value(f"SELECT CONVERT(varchar(16), CAST('{given}' AS smalldatetime), 120)") == kept


@item(13, "documented")
def test_every_type_passes_through_the_change_table(cdc: Database) -> None:
    """What the table gives and what the change table gives are the same.

    Source: Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)"; Debezium DatatypesFromStreamingIT.
    """
    names = [f"c{number}" for number in range(len(TYPES))]
    columns = ", ".join(f"{name} {type_} NULL" for name, type_ in zip(names, TYPES, strict=True))
    cdc.run(f"CREATE TABLE dbo.Types (ID int NOT NULL PRIMARY KEY, {columns})")
    cdc.enable("Types")
    cdc.run(f"INSERT INTO dbo.Types VALUES (1, {', '.join(literal for literal, _ in TYPES.values())})")
    cdc.run("INSERT INTO dbo.Types (ID) VALUES (2)")
    cdc.captured(2, "dbo_Types")
    listed = ", ".join(("ID", *names))
    assert cdc.changes(listed, "dbo_Types") == cdc.rows(f"SELECT {listed} FROM dbo.Types ORDER BY ID")


@item(13, "documented")
def test_rowversion_is_captured_as_binary_and_identity_as_its_base_type(cdc: Database) -> None:
    """The change table has binary(8) and int, neither made by the server.

    Source: Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)", captured column data types.
    """
    cdc.run("CREATE TABLE dbo.T (ID int IDENTITY(7, 2) NOT NULL PRIMARY KEY, v rowversion NOT NULL, n int NULL)")
    cdc.enable("T")
    cdc.run("INSERT INTO dbo.T (n) VALUES (1), (2)")
    cdc.captured(2, "dbo_T")
    assert cdc.changes("ID, v, n", "dbo_T") == cdc.rows("SELECT ID, v, n FROM dbo.T ORDER BY ID")
    assert [row[0] for row in cdc.changes("ID", "dbo_T")] == [7, 9]
    types = cdc.rows(
        "SELECT c.name, TYPE_NAME(c.system_type_id), c.max_length, c.is_identity FROM sys.columns AS c "
        "WHERE c.object_id = OBJECT_ID(N'cdc.dbo_T_CT') AND c.name IN (N'ID', N'v') ORDER BY c.column_id"
    )
    assert [(name, type_, length, bool(identity)) for name, type_, length, identity in types] == [
        ("ID", "int", 4, False),
        ("v", "binary", 8, False),
    ]


@item(13, "documented")
def test_an_update_gives_the_row_another_rowversion_and_says_so_in_the_mask(cdc: Database) -> None:
    """Before the change the old one, after it a larger one; an identity stays.

    Source: Microsoft, "rowversion (Transact-SQL)"; Microsoft, "cdc.<capture_instance>_CT (Transact-SQL)".
    """
    cdc.run("CREATE TABLE dbo.T (ID int IDENTITY(5, 5) NOT NULL PRIMARY KEY, n int NULL, v rowversion NOT NULL)")
    cdc.enable("T")
    cdc.run("INSERT INTO dbo.T (n) VALUES (1)")
    cdc.run("UPDATE dbo.T SET n = 2")
    cdc.captured(3, "dbo_T")
    rows = cdc.changes("[__$operation], [__$update_mask], ID, v", "dbo_T")
    assert [row[:3] for row in rows] == [(2, b"\x07", 5), (3, b"\x06", 5), (4, b"\x06", 5)]
    assert rows[0][3] == rows[1][3] < rows[2][3]


LSN = bytes.fromhex("0000002D00000580001D")


@item(14, "documented")
def test_an_lsn_becomes_text_and_back(connection: Connection) -> None:
    """CONVERT with style 1 writes and reads the 0x.

    Source: Microsoft, "CAST and CONVERT (Transact-SQL)", binary styles.
    """
    assert connection.value("SELECT CONVERT(varchar(22), CONVERT(binary(10), %s), 1)", LSN) == "0x0000002D00000580001D"
    assert connection.value("SELECT CONVERT(binary(10), '0x0000002D00000580001D', 1)") == LSN
    assert connection.value("SELECT CONVERT(varchar(20), CONVERT(binary(10), %s), 2)", LSN) == "0000002D00000580001D"
    assert connection.value("SELECT CONVERT(binary(10), '0000002D00000580001D', 2)") == LSN


@item(14, "documented")
def test_a_text_that_is_no_hexadecimal_is_refused(connection: Connection) -> None:
    """Style 1 needs the 0x and pairs of digits.

    Source: Microsoft, "CAST and CONVERT (Transact-SQL)", binary styles; errors, 8114.
    """
    assert connection.error("SELECT CONVERT(binary(10), '0000002D', 1)").number == 8114
    assert connection.error("SELECT CONVERT(binary(10), '0xZZ', 1)").number == 8114


@item(14, "measured")
def test_a_binary_parameter_is_binary(connection: Connection) -> None:
    """Also one whose bytes are all ASCII, which pymssql would send as text if it were `bytes`.

    Source: pymssql 2.4, _quote_simple_value, measured; MS-TDS 2.2.5.4.
    """
    assert connection.value("SELECT %s", b"ABCDEFGHIJ") == b"ABCDEFGHIJ"
    assert connection.value("SELECT DATALENGTH(%s)", LSN) == 10


@item(14, "measured")
@pytest.mark.one_driver("pymssql", "its quoting of bytes is meant")
def test_pymssql_sends_bytes_that_are_all_ascii_as_text(connection: Connection) -> None:
    """Why LSNs are passed as bytearray.

    Source: pymssql 2.4, _quote_simple_value, measured.
    """
    with connection.raw.cursor() as cursor:
        cursor.execute("SELECT %s, %s", (b"ABCDEFGHIJ", b"\0ABC"))
        assert cursor.fetchone() == ("ABCDEFGHIJ", b"\0ABC")


@item(15, "documented")
def test_binary_values_compare_byte_by_byte_unsigned(database: Database) -> None:
    """As readers compare LSNs.

    Source: Microsoft, "binary and varbinary (Transact-SQL)"; Debezium Lsn.java.
    """
    values = [
        "00000000000000000000",
        "0000002D000005800001",
        "0000002D00000580001D",
        "7FFFFFFFFFFFFFFFFFFF",
        "80" + "00" * 9,
    ]
    database.run("CREATE TABLE dbo.t (lsn binary(10) NOT NULL)")
    for value in reversed(values):
        database.run("INSERT INTO dbo.t VALUES (%s)", bytes.fromhex(value))
    assert [value.hex().upper() for value in database.column("SELECT lsn FROM dbo.t ORDER BY lsn")] == values
    assert database.value("SELECT COUNT(*) FROM dbo.t WHERE lsn > %s", bytes.fromhex(values[1])) == 3
    assert database.value("SELECT MAX(lsn) FROM dbo.t") == bytes.fromhex(values[-1])
    assert database.value("SELECT CASE WHEN 0x01 = CONVERT(binary(2), 0x0100) THEN 1 ELSE 0 END") == 1


@item(15, "documented")
def test_a_short_binary_is_padded_with_zeros_on_the_right(connection: Connection) -> None:
    """And a long one cut.

    Source: Microsoft, "binary and varbinary (Transact-SQL)".
    """
    assert connection.value("SELECT CONVERT(binary(4), 0x0102)") == b"\x01\x02\0\0"
    assert connection.value("SELECT CONVERT(binary(2), 0x010203)") == b"\x01\x02"


@item(15, "documented")
@pytest.mark.parametrize(
    ("value", "octets"),
    [
        ("CAST(-2 AS smallint)", "FFFE"),
        ("CAST(1 AS bit)", "01"),
        ("-2", "FFFFFFFE"),
        ("CAST(-2 AS bigint)", "FFFFFFFFFFFFFFFE"),
        ("CAST(-0.0002 AS money)", "FFFFFFFFFFFFFFFE"),
        ("CAST(126 AS numeric(10, 4))", "0A040001E0391300"),
        ("CAST(-1 AS decimal(19, 6))", "1306000040420F00"),
        ("CAST(1 AS float)", "3FF0000000000000"),
        ("0x01 + CAST(NULL AS varbinary(1)) + 0x02", None),
        ("0x00 + CONVERT(binary(2), 258) + (0xFF + 0x00)", "000102FF00"),
    ],
)
def test_numbers_as_bytes(connection: Connection, value: str, octets: str | None) -> None:
    """Numbers have their highest byte first, decimals their precision and scale in front.

    Source: Microsoft, "binary and varbinary (Transact-SQL)"; for decimals Randolph West, "How SQL Server stores data types".
    """
    found = connection.value(f"SELECT CONVERT(varbinary(30), {value})")
    assert found == (None if octets is None else bytes.fromhex(octets))


EQUAL = {
    "int": ("7", "7"),
    "bigint": ("-1", "-1"),
    "decimal(18,4)": ("1.5", "1.5000"),
    "varchar(20)": ("'Straight'", "'straight  '"),
    "nvarchar(20)": ("N'ÄPFEL'", "N'äpfel'"),
    "char(5)": ("'ab'", "'ab '"),
    "uniqueidentifier": (f"'{_GUID}'", f"'{_GUID.lower()}'"),
    "datetime2(7)": ("'2024-05-06T07:08:09.1234567'", "'2024-05-06 07:08:09.1234567'"),
    "varbinary(8)": ("0x01", "0x0100"),
    "float": ("0e0", "-0e0"),
    "datetimeoffset(3)": ("'2024-05-06T07:08:09+00:00'", "'2024-05-06T09:08:09+02:00'"),
}


@item(72, "documented")
@pytest.mark.parametrize("kind", EQUAL)
def test_values_of_one_type_that_compare_equal_have_one_checksum(database: Database, kind: str) -> None:
    """Of columns of one type and collation, alone and in a list; a NULL is as good as another.

    Source: Microsoft, "CHECKSUM (Transact-SQL)", remarks.
    """
    one, other = EQUAL[kind]
    column = f"{kind} COLLATE Latin1_General_CI_AS" if "char" in kind else kind
    database.run(f"CREATE TABLE #sums (id int NOT NULL, value {column} NULL)")
    database.run(f"INSERT INTO #sums VALUES (1, {one}), (1, {other}), (1, NULL), (1, NULL)")
    assert database.value("SELECT COUNT(*) FROM #sums AS a JOIN #sums AS b ON a.value = b.value") == 4
    of_each = "SELECT COUNT(DISTINCT CHECKSUM({0})) FROM #sums WHERE value IS {1}NULL"
    assert [database.value(of_each.format("value", no)) for no in ("NOT ", "")] == [1, 1]
    assert [database.value(of_each.format("id, value", no)) for no in ("NOT ", "")] == [1, 1]


@item(72, "documented")
def test_a_checksum_tells_most_values_and_the_order_of_a_list_apart(database: Database) -> None:
    """An int of either sign; a list in another order is another list.

    Source: Microsoft, "CHECKSUM (Transact-SQL)", remarks.
    """
    assert database.value("SELECT CHECKSUM(1, 2)") != database.value("SELECT CHECKSUM(2, 1)")
    listed = ", ".join(f"({n})" for n in range(200))
    assert database.value(f"SELECT COUNT(DISTINCT CHECKSUM(v.n)) FROM (VALUES {listed}) AS v (n)") > 190


@item(72, "documented")
@pytest.mark.parametrize("kind", ["text", "ntext", "image", "xml"])
def test_a_type_that_cannot_be_compared_has_no_checksum(database: Database, kind: str) -> None:
    """An error.

    Source: Microsoft, "CHECKSUM (Transact-SQL)", arguments.
    """
    assert database.error(f"SELECT CHECKSUM(CAST(NULL AS {kind}))").number > 50
