"""Values of every type come back in the form of sqltypes.py, whatever they are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as strategy

from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import LoginRequest

from .conftest import Client


@pytest.fixture(scope="module")
def values() -> Iterator[Client]:
    engine = SqlEngine(users={"sa": "x"}, databases=["demo"])
    client = Client(engine.login(LoginRequest("sa", "x", "demo")))
    client.run(
        "CREATE TABLE v (a bigint, b decimal(38,10), c money, d nvarchar(max), e varbinary(max), f float, g datetime2(7), h datetime)"
    )
    yield client
    engine.close()


def back(client: Client, column: str, literal: str) -> object:
    client.run(f"DELETE FROM v INSERT INTO v ({column}) VALUES ({literal})")
    return client.value(f"SELECT {column} FROM v")


quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(strategy.integers(-(2**63), 2**63 - 1))
def test_bigint(values: Client, number: int) -> None:
    assert back(values, "a", str(number)) == number


@quick
@given(strategy.decimals(-(10**27), 10**27, allow_nan=False, places=10))
def test_decimal_keeps_every_digit(values: Client, number: Decimal) -> None:
    assert Decimal(str(back(values, "b", f"{number:f}"))) == number


@quick
@given(strategy.integers(-(2**63), 2**63 - 1))
def test_money_keeps_four_places(values: Client, units: int) -> None:
    text = f"{Decimal(units).scaleb(-4):.4f}"
    assert Decimal(str(back(values, "c", text))) == Decimal(text)


@quick
@given(strategy.text(strategy.characters(exclude_categories=["Cs"]), max_size=40))
def test_text(values: Client, text: str) -> None:
    literal = "N'" + text.replace("'", "''") + "'"
    assert back(values, "d", literal) == text
    assert values.value(f"SELECT {literal}") == text


@quick
@given(strategy.binary(max_size=40))
def test_bytes(values: Client, data: bytes) -> None:
    assert back(values, "e", "0x" + data.hex()) == data


@quick
@given(strategy.floats(allow_nan=False, allow_infinity=False))
def test_float(values: Client, number: float) -> None:
    assert back(values, "f", f"{number!r}" if "e" in repr(number) else f"{number!r}e0") == number


@quick
@given(strategy.datetimes(datetime(1753, 1, 1), datetime(9999, 12, 30)))
def test_datetime2_is_exact_and_datetime_within_its_tick(values: Client, when: datetime) -> None:
    text = when.strftime("%m-%d %H:%M:%S.%f")
    exact = f"{when.year:04}-{text}"
    assert back(values, "g", f"'{exact}'") == exact + "0"
    rounded = datetime.fromisoformat(str(back(values, "h", f"CAST('{exact}' AS datetime2)")))
    assert abs((rounded - when).total_seconds()) <= 0.002
    assert rounded.microsecond // 1000 % 10 in (0, 3, 7)


@pytest.mark.parametrize(
    ("kind", "literal", "expected"),
    [
        ("bit", "5", 1),
        ("tinyint", "255", 255),
        ("smallint", "-32768", -32768),
        ("numeric(5,2)", "-1.005", "-1.01"),
        ("smallmoney", "-0.05", "-0.0500"),
        ("real", "0.1", 0.10000000149011612),
        ("char(5)", "'ab'", "ab   "),
        ("nchar(3)", "N'é'", "é  "),
        ("nchar(4)", "N'🐎a'", "🐎a "),  # a character beyond the first plane counts twice
        ("text", "'x'", "x"),
        ("ntext", "N'x'", "x"),
        ("xml", "N'<a/>'", "<a/>"),
        ("date", "'20180713'", "2018-07-13"),
        ("time(7)", "'10:23:45.6789012'", "10:23:45.6789012"),
        ("time(0)", "'10:23:45.6'", "10:23:46"),
        ("smalldatetime", "'2018-07-13 13:23:30'", "2018-07-13 13:24:00"),
        ("datetime2(3)", "'2018-07-13T13:23:45.7806'", "2018-07-13 13:23:45.781"),
        ("datetimeoffset(7)", "'2018-07-13 12:23:45.456 +11:00'", "2018-07-13 12:23:45.4560000 +11:00"),
        ("binary(4)", "0x0102", b"\1\2\0\0"),
        ("image", "0xFF", b"\xff"),
        ("uniqueidentifier", "'6f9619ff-8b86-d011-b42d-00c04fc964ff'", "6F9619FF-8B86-D011-B42D-00C04FC964FF"),
        ("sysname", "N'x'", "x"),
    ],
)
def test_each_type_and_its_null(values: Client, kind: str, literal: str, expected: object) -> None:
    values.run(f"DROP TABLE IF EXISTS one CREATE TABLE one (v {kind} NULL) INSERT one VALUES ({literal}), (NULL)")
    assert values.rows("SELECT v FROM one") == [(expected,), (None,)]
