"""CONVERT's styles, conversions that are refused, the results of arithmetic, and comparisons: as Microsoft's pages say."""

from __future__ import annotations

import pytest

from .conftest import Client

_WHEN = "CAST('2024-03-05 14:07:09.123' AS datetime)"


@pytest.mark.parametrize(
    ("style", "text"),
    [
        (0, "Mar  5 2024  2:07PM"),
        (1, "03/05/24"),
        (2, "24.03.05"),
        (3, "05/03/24"),
        (4, "05.03.24"),
        (5, "05-03-24"),
        (6, "05 Mar 24"),
        (7, "Mar 05, 24"),
        (8, "14:07:09"),
        (9, "Mar  5 2024  2:07:09:123PM"),
        (10, "03-05-24"),
        (11, "24/03/05"),
        (12, "240305"),
        (13, "05 Mar 2024 14:07:09:123"),
        (14, "14:07:09:123"),
        (20, "2024-03-05 14:07:09"),
        (21, "2024-03-05 14:07:09.123"),
        (22, "03/05/24  2:07:09 PM"),
        (23, "2024-03-05"),
        (24, "14:07:09"),
        (25, "2024-03-05 14:07:09.123"),
        (100, "Mar  5 2024  2:07PM"),
        (101, "03/05/2024"),
        (102, "2024.03.05"),
        (103, "05/03/2024"),
        (104, "05.03.2024"),
        (105, "05-03-2024"),
        (106, "05 Mar 2024"),
        (107, "Mar 05, 2024"),
        (108, "14:07:09"),
        (109, "Mar  5 2024  2:07:09:123PM"),
        (110, "03-05-2024"),
        (111, "2024/03/05"),
        (112, "20240305"),
        (113, "05 Mar 2024 14:07:09:123"),
        (114, "14:07:09:123"),
        (120, "2024-03-05 14:07:09"),
        (121, "2024-03-05 14:07:09.123"),
        (126, "2024-03-05T14:07:09.123"),
        (127, "2024-03-05T14:07:09.123"),
    ],
)
def test_every_style_of_a_datetime(client: Client, style: int, text: str) -> None:
    """https://learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql#date-and-time-styles"""
    assert client.value(f"SELECT CONVERT(varchar(40), {_WHEN}, {style})") == text


@pytest.mark.parametrize("style", [130, 131, 15, 99, 128])
def test_a_style_that_is_not_imitated_is_refused(client: Client, style: int) -> None:
    assert client.error(f"SELECT CONVERT(varchar(40), {_WHEN}, {style})")[0] == 50001


@pytest.mark.parametrize(
    ("text", "style", "day"),
    [
        ("05/03/2024", 101, "2024-05-03"),
        ("05/03/2024", 103, "2024-03-05"),
        ("05.03.2024", 104, "2024-03-05"),
        ("05-03-2024", 105, "2024-03-05"),
        ("05-03-2024", 110, "2024-05-03"),
        ("24.03.05", 2, "2024-03-05"),
        ("24/03/05", 11, "2024-03-05"),
        ("2024/03/05", 111, "2024-03-05"),
        ("20240305", 112, "2024-03-05"),
        ("240305", 12, "2024-03-05"),
        ("03/05/49", 1, "2049-03-05"),
        ("03/05/50", 1, "1950-03-05"),
        ("05 Mar 2024", 106, "2024-03-05"),
        ("Mar 5, 2024", 107, "2024-03-05"),
        ("2024-03-05", 120, "2024-03-05"),
        ("2024-03-05T10:00:00", 126, "2024-03-05"),
    ],
)
def test_a_style_says_how_text_is_read(client: Client, text: str, style: int, day: str) -> None:
    """The same table, and the two-digit year cutoff of 2049."""
    assert client.value(f"SELECT CONVERT(date, '{text}', {style})") == day


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("SELECT CONVERT(date, '2024-03-05 10:00', 126)", 241),
        ("SELECT CONVERT(date, '31/12/2024', 101)", 241),
        ("SELECT CONVERT(datetime, '2024-03-05', 103)", 50001),
        ("SELECT CAST('abc' AS int)", 245),
        ("SELECT CAST('1.5' AS int)", 245),
        ("SELECT CAST('99999999999' AS int)", 248),
        ("SELECT CAST('x' AS numeric(5,2))", 8114),
        ("SELECT CAST('x' AS float)", 8114),
        ("SELECT CAST(123456 AS numeric(5,2))", 8115),
        ("SELECT CAST(3000000000 AS int)", 8115),
        ("SELECT 2147483647 + 1", 8115),
        ("SELECT CAST(300 AS tinyint)", 220),
        ("SELECT 1 / 0", 8134),
        ("SELECT 1.0 / 0", 8134),
        ("SELECT 1 % 0", 8134),
        ("SELECT CAST('x' AS uniqueidentifier)", 8169),
        ("SELECT CAST(1 AS uniqueidentifier)", 529),
        ("SELECT CAST(CAST('2024-01-01' AS date) AS int)", 529),
        ("CREATE TABLE c (d date) INSERT c VALUES (5)", 206),
        ("SELECT 1 WHERE CAST('2024-01-01' AS date) = 5", 206),
        ("CREATE TABLE c (b varbinary(5)) INSERT c VALUES ('abc')", 257),
        ("CREATE TABLE c (i int) INSERT c SELECT GETDATE()", 257),
        ("SELECT CAST('2024-01-01' AS date) + 1", 206),
        ("SELECT CAST('2024-01-01' AS date) + CAST('10:00' AS time)", 402),
        ("SELECT 5e0 % 2e0", 402),
        ("SELECT 1 WHERE CAST('a' AS text) = 'a'", 402),
    ],
)
def test_the_errors_of_conversions_and_arithmetic(client: Client, sql: str, number: int) -> None:
    """https://learn.microsoft.com/sql/t-sql/data-types/data-type-conversion-database-engine and the errors' pages."""
    assert client.error(sql)[0] == number


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("CONVERT(varchar(20), CAST(1234567.891 AS money))", "1234567.89"),
        ("CONVERT(varchar(20), CAST(1234567.891 AS money), 1)", "1,234,567.89"),
        ("CONVERT(varchar(20), CAST(1234567.891 AS money), 2)", "1234567.8910"),
        ("CONVERT(varchar(20), CAST(1234567.891 AS money), 126)", "1234567.8910"),
        ("CONVERT(varchar(40), 1234567.891e0)", "1.23457e+006"),
        ("CONVERT(varchar(40), 0.5e0, 1)", "5.0000000e-001"),
        ("CONVERT(varchar(40), 0.1e0, 2)", "1.000000000000000e-001"),
        ("CONVERT(varchar(40), 0.1e0, 3)", "1.0000000000000001e-001"),
        ("CONVERT(varchar(40), 0.1e0, 126)", "1.000000000000000e-001"),
        ("CONVERT(varchar(10), 0x4E616D65)", "Name"),
        ("CONVERT(varchar(10), 0x4E616D65, 1)", "0x4E616D65"),
        ("CONVERT(varchar(10), 0x4E616D65, 2)", "4E616D65"),
    ],
)
def test_money_float_and_binary_styles(client: Client, expression: str, text: str) -> None:
    """https://learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql#float-and-real-styles and below"""
    assert client.value(f"SELECT {expression}") == text


def test_text_becomes_binary_by_its_style(client: Client) -> None:
    assert client.rows(
        "SELECT CONVERT(binary(4), 'Name'), CONVERT(varbinary(8), '0x4E61', 1), CONVERT(varbinary(8), '4E61', 2)"
    ) == [(b"Name", b"Na", b"Na")]
    assert client.error("SELECT CONVERT(varbinary(8), '4E61', 1)")[0] == 8114


@pytest.mark.parametrize(
    ("left", "operator", "right", "precision", "scale"),
    [
        ((10, 2), "+", (8, 4), 13, 4),
        ((10, 2), "-", (8, 4), 13, 4),
        ((10, 2), "*", (8, 4), 19, 6),
        ((10, 2), "/", (8, 4), 23, 11),
        ((10, 2), "%", (8, 4), 8, 4),
        ((38, 10), "+", (38, 10), 38, 10),
        ((38, 20), "*", (38, 20), 38, 6),
        ((38, 10), "/", (38, 10), 38, 6),
        ((20, 4), "*", (10, 2), 31, 6),
    ],
)
def test_the_shape_of_decimal_results(
    client: Client, left: tuple[int, int], operator: str, right: tuple[int, int], precision: int, scale: int
) -> None:
    """https://learn.microsoft.com/sql/t-sql/data-types/precision-scale-and-length-transact-sql"""
    from emulators.sqlserver.sqltypes import SqlType
    from emulators.sqlserver.tsql.values.types import arithmetic

    found = arithmetic(operator, SqlType("decimal", None, *left), SqlType("decimal", None, *right))
    assert (found.precision, found.scale) == (precision, scale)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("1.0 / 3", "0.333333"),
        ("10.0 * 3", "30.0"),
        ("CAST(1 AS decimal(38,0)) / 3", "0.333333"),
        ("CAST('2024-01-01' AS datetime) + 1", "2024-01-02 00:00:00.000"),
        ("CAST('2024-01-01' AS datetime) + 0.5", "2024-01-01 12:00:00.000"),
        ("CAST('2024-01-03' AS datetime) - CAST('2024-01-01' AS datetime)", "1900-01-03 00:00:00.000"),
        ("CAST('2024-01-01 10:00:00.005' AS datetime)", "2024-01-01 10:00:00.007"),
        ("CAST('2024-01-01 10:00:29.998' AS smalldatetime)", "2024-01-01 10:00:00"),
        ("CAST('2024-01-01 10:00:29.999' AS smalldatetime)", "2024-01-01 10:01:00"),
        ("CAST(CAST('2024-01-01 23:59:59.9999999' AS datetime2) AS datetime2(3))", "2024-01-02 00:00:00.000"),
        ("CAST('10:20:30.1234567' AS time(3))", "10:20:30.123"),
        (
            "CASE WHEN CAST('2024-01-01 10:00 +02:00' AS datetimeoffset) = '2024-01-01 08:00 +00:00' THEN 1 ELSE 0 END",
            1,
        ),
        ("CASE WHEN 'ABC  ' = N'abc' THEN 1 ELSE 0 END", 1),
        ("CASE WHEN N'ÅRE' = N'åre' THEN 1 ELSE 0 END", 1),
        ("CASE WHEN 'abc' LIKE 'abc ' THEN 1 ELSE 0 END", 0),
        ("CASE WHEN '5' = 5 THEN 1 ELSE 0 END", 1),
    ],
)
def test_arithmetic_rounding_and_comparison(client: Client, expression: str, value: object) -> None:
    """The pages of the operators and types: integers divide whole, literals keep their digits, instants compare."""
    assert client.value(f"SELECT {expression}") == value


_NOW = "CAST('2010-12-15 21:04:03.6934231 +03:30' AS datetimeoffset(7))"


@pytest.mark.parametrize(
    ("expression", "data"),
    [
        (f"CAST({_NOW} AS datetimeoffset(0))", "000CF700A8330BD200"),
        (f"CAST({_NOW} AS datetimeoffset(1))", "0175A609A8330BD200"),
        (f"CAST({_NOW} AS datetimeoffset(2))", "02918060A8330BD200"),
        (f"CAST({_NOW} AS datetimeoffset(3))", "03AD05C503A8330BD200"),
        (f"CAST({_NOW} AS datetimeoffset(4))", "04C638B225A8330BD200"),
        (f"CAST({_NOW} AS datetimeoffset(5))", "05BE37F67801A8330BD200"),
        (f"CAST({_NOW} AS datetimeoffset(6))", "066F2D9EB90EA8330BD200"),
        (_NOW, "0757C62D4093A8330BD200"),
        ("CAST('2010-12-15 00:04:03 -00:30' AS datetimeoffset(0))", "00FB0700A8330BE2FF"),
        ("CAST('00020101 00:00:00.0000009' AS datetime2)", "0709000000006D0100"),
        ("CAST('00020101 00:00:00.000008' AS datetime2(6))", "0608000000006D0100"),
        ("CAST('23:59:59.9999999' AS time)", "07FFBF692AC9"),
        ("CAST('00:00:01' AS time(0))", "00010000"),
        ("CAST('0002-01-01' AS date)", "6D0100"),
        ("CAST('1900-01-02 00:00:01' AS datetime)", "000000010000012C"),
        ("CAST('1899-12-31' AS datetime)", "FFFFFFFF00000000"),
        ("CAST('1900-01-02 00:01' AS smalldatetime)", "00010001"),
        ("CAST(-0.5 AS money)", "FFFFFFFFFFFFEC78"),
        ("CAST('6F9619FF-8B86-D011-B42D-00C04FC964FF' AS uniqueidentifier)", "FF19966F868B11D0B42D00C04FC964FF"),
    ],
)
def test_dates_times_and_others_as_they_are_stored(client: Client, expression: str, data: str) -> None:
    """Peter Larsson's and Kalman Toth's outputs of a real server (datetimeoffset, datetime2)."""
    assert client.value(f"SELECT CONVERT(varbinary(20), {expression})") == bytes.fromhex(data)


def test_bytes_of_a_time_that_do_not_fit_are_refused(client: Client) -> None:
    assert client.error("SELECT CONVERT(binary(8), CAST('2017-10-04 08:59:21.8910199' AS datetime2))")[0] == 8152
    assert client.value("SELECT CONVERT(binary(10), CAST('00020101' AS datetime2))") == bytes.fromhex(
        "0700000000006D010000"
    )
