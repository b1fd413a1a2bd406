"""Built-in functions answer as Microsoft's pages say; what is known there and not here is refused by name."""

from __future__ import annotations

import hashlib

import pytest

from .conftest import Client

# https://learn.microsoft.com/sql/t-sql/functions/string-functions-transact-sql
STRINGS = [
    ("STUFF('abcdef', 2, 3, 'ijklmn')", "aijklmnef"),
    ("STUFF('abc', 2, 1, NULL)", "ac"),
    ("STUFF('abc', 9, 1, 'x')", None),
    ("PATINDEX('%ter%', 'interesting data')", 3),
    ("PATINDEX('ter%', 'interesting data')", 0),
    ("PATINDEX('%[0-9]%', 'abc7')", 4),
    ("PATINDEX('in%', 'interesting')", 1),
    ("PATINDEX('%data', 'data in data')", 9),
    ("TRANSLATE('2*[3+4]/{7-2}', '[]{}', '()()')", "2*(3+4)/(7-2)"),
    ("CONCAT_WS(',', 'a', NULL, 'b', 3)", "a,b,3"),
    ("CONCAT_WS(NULL, 'a', 'b')", "ab"),
    ("REVERSE('abc')", "cba"),
    ("SPACE(3) + 'x'", "   x"),
    ("LEFT('abcdefg', 2)", "ab"),
    ("RIGHT('abcdefg', 2)", "fg"),
    ("RIGHT('abc', 0)", ""),
    ("ASCII('A')", 65),
    ("CHAR(65)", "A"),
    ("UNICODE(N'Å')", 197),
    ("NCHAR(197)", "Å"),
    ("LTRIM('xxa', 'x')", "a"),
    ("RTRIM('a  ')", "a"),
    ("PARSENAME('server.db.dbo.t', 3)", "db"),
    ("PARSENAME('dbo.t', 3)", None),
    ("QUOTENAME('a]b')", "[a]]b]"),
    ("REPLICATE('ab', 3)", "ababab"),
    ("CHARINDEX('b', 'abcb', 3)", 4),
    ("STR(123.45, 6, 1)", " 123.5"),
]
NUMBERS = [
    ("CAST(1 AS float) / 4", 0.25),
    ("-CAST(2.5 AS float)", -2.5),
    ("FLOOR(-1.5)", "-2"),
    ("CEILING(1.2)", "2"),
    ("ROUND(123.456, 1)", "123.500"),
    ("ROUND(150.75, 0, 1)", "150.00"),
    ("ABS(-3)", 3),
    ("ISNUMERIC('1e5')", 1),
    ("ISNUMERIC('$12.50')", 1),
    ("ISNUMERIC('-')", 1),
    ("ISNUMERIC('12a')", 0),
    ("ISNUMERIC(NULL)", 0),
]
DATES = [
    (
        "SWITCHOFFSET(CAST('1998-09-20 07:45:50.7134500 -05:00' AS datetimeoffset), '-08:00')",
        "1998-09-20 04:45:50.7134500 -08:00",
    ),
    ("EOMONTH('2024-02-03')", "2024-02-29"),
    ("EOMONTH('2024-01-31', 1)", "2024-02-29"),
    ("DATENAME(month, '2024-02-03')", "February"),
    ("DATENAME(weekday, '2024-02-03')", "Saturday"),
    ("DATEDIFF_BIG(nanosecond, '2024-01-01', '2024-01-02')", 86_400_000_000_000),
    ("DATETRUNC(month, CAST('2024-02-03 10:11:12.1234567' AS datetime2))", "2024-02-01 00:00:00.0000000"),
    ("DATETRUNC(hour, CAST('2024-02-03 10:11:12' AS datetime))", "2024-02-03 10:00:00.000"),
    ("ISDATE('2009-05-12 10:19:41.177')", 1),
    ("ISDATE('x')", 0),
    ("ISDATE(GETDATE())", 1),
]
LOGIC = [
    ("CHOOSE(3, 'Manager', 'Director', 'Developer')", "Developer"),
    ("CHOOSE(4, 'a', 'b')", None),
    ("CHOOSE(1, 1, 2.5)", "1.0"),
    ("CHOOSE(1, 1, 1/0)", 1),
    ("GREATEST('6.62', 3.1415, N'7')", "7.0000"),
    ("LEAST(2, NULL, 1)", 1),
    ("GREATEST('apple', 'Banana')", "Banana"),
    ("IIF(1 > 2, 'a', 'b')", "b"),
]


@pytest.mark.parametrize(("expression", "expected"), [*STRINGS, *NUMBERS, *DATES, *LOGIC])
def test_the_examples_of_the_functions_pages(client: Client, expression: str, expected: object) -> None:
    """https://learn.microsoft.com/sql/t-sql/functions/functions, the page of each function."""
    assert client.value(f"SELECT {expression}") == expected


@pytest.mark.parametrize(
    ("name", "digest"), [("MD5", "md5"), ("SHA1", "sha1"), ("SHA2_256", "sha256"), ("sha2_512", "sha512")]
)
def test_hashes_are_the_real_ones_over_the_stored_bytes(client: Client, name: str, digest: str) -> None:
    """https://learn.microsoft.com/sql/t-sql/functions/hashbytes-transact-sql"""
    assert client.value(f"SELECT HASHBYTES('{name}', 'abc')") == hashlib.new(digest, b"abc").digest()
    assert (
        client.value(f"SELECT HASHBYTES('{name}', N'abc')") == hashlib.new(digest, "abc".encode("utf-16-le")).digest()
    )


@pytest.mark.parametrize(
    "call",
    [
        "FORMAT(1, 'N')",
        "BINARY_CHECKSUM(1)",
        "RAND()",
        "JSON_VALUE('{}', '$.a')",
        "HASHBYTES('MD2', 'a')",
        "SOUNDEX('a')",
        "POWER(2, 10)",
        "PI()",
        "DATEFROMPARTS(2010, 12, 31)",
    ],
)
def test_a_known_function_that_is_not_imitated_is_refused_by_name(client: Client, call: str) -> None:
    number, text = client.error(f"SELECT {call}")
    assert number == 50001
    assert call.split("(")[0] in text


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("SELECT TRANSLATE('a', 'ab', 'c')", 9828),
        ("SELECT NOSUCH(1)", 195),
        ("SELECT STUFF('a', 1)", 174),
    ],
)
def test_the_errors_of_functions(client: Client, sql: str, number: int) -> None:
    assert client.error(sql)[0] == number


def test_properties_have_the_type_that_their_value_has_inside_a_variant(client: Client) -> None:
    """https://learn.microsoft.com/sql/t-sql/functions/serverproperty-transact-sql"""
    row = client.rows(
        "SELECT SERVERPROPERTY('EngineEdition'), SERVERPROPERTY('ProductVersion'), SERVERPROPERTY('IsClustered'), "
        "SERVERPROPERTY('NoSuch'), SERVERPROPERTY(N'InstanceName'), DATABASEPROPERTYEX('demo', 'Status'), "
        "DATABASEPROPERTYEX('demo', 'IsAutoClose'), CAST(SERVERPROPERTY('ProductMajorVersion') AS int), "
        "CONNECTIONPROPERTY('net_transport'), SESSIONPROPERTY('ANSI_NULLS'), "
        "COLLATIONPROPERTY('SQL_Latin1_General_CP1_CI_AS', 'CodePage')"
    )[0]
    assert row == (3, "16.0.1000.6", 0, None, None, "ONLINE", 0, 16, "TCP", 1, 1252)


def test_the_metadata_functions_know_tables_columns_and_indexes(client: Client) -> None:
    """https://learn.microsoft.com/sql/t-sql/functions/metadata-functions-transact-sql"""
    client.run(
        "CREATE TABLE t (id int IDENTITY(5, 2) CONSTRAINT pk PRIMARY KEY, name varchar(20) NULL) INSERT t VALUES ('a'), ('b')"
    )
    row = client.rows(
        "SELECT OBJECTPROPERTY(OBJECT_ID('t'), 'IsUserTable'), OBJECTPROPERTY(OBJECT_ID('t'), 'TableHasPrimaryKey'), "
        "OBJECTPROPERTY(OBJECT_ID('t'), 'SchemaId'), OBJECTPROPERTYEX(OBJECT_ID('t'), 'BaseType'), "
        "OBJECTPROPERTYEX(OBJECT_ID('t'), 'Cardinality'), COLUMNPROPERTY(OBJECT_ID('t'), 'id', 'IsIdentity'), "
        "COLUMNPROPERTY(OBJECT_ID('t'), 'name', 'PRECISION'), INDEXPROPERTY(OBJECT_ID('t'), 'pk', 'IsClustered'), "
        "INDEX_COL('t', 1, 1), TYPE_NAME(56), TYPE_ID('nvarchar'), IDENT_SEED('t'), IDENT_INCR('t'), IDENT_CURRENT('t'), "
        "OBJECTPROPERTY(12, 'IsTable')"
    )[0]
    assert row == (1, 1, 1, "U", 2, 1, 20, 1, "id", "int", 231, "5", "2", "7", None)


def test_the_globals_that_tools_read(client: Client) -> None:
    """https://learn.microsoft.com/sql/t-sql/functions/configuration-functions-transact-sql"""
    row = client.rows(
        "SELECT @@MAX_PRECISION, @@LANGUAGE, @@DATEFIRST, @@OPTIONS, @@MICROSOFTVERSION / 0x01000000, @@LANGID, @@PROCID"
    )
    assert row == [(38, "us_english", 7, 5496, 16, 0, 0)]
    client.run("SET NOCOUNT ON")
    assert client.value("SELECT @@OPTIONS & 512") == 512
