"""Filters on messages: types, promotion, unknown values, system properties."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from emulators.servicebus.amqp.values import (
    Byte,
    Char,
    Decimal,
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
from emulators.servicebus.properties import MessageProperties
from emulators.servicebus.rules.errors import FilterError
from emulators.servicebus.rules.evaluate import condition
from emulators.servicebus.rules.parser import parse_filter
from tests.emulators.servicebus.unit.messages import make_message

SOME_UUID = UUID(int=7)


def holds(text: str, application: dict[str, Any] | None = None, /, **fields: Any) -> bool | None:
    """The truth of a filter without parameters for a message."""
    return condition(parse_filter(text, {}))(MessageProperties(make_message(application, **fields)))


@pytest.mark.parametrize(
    "text",
    [
        "color = 'red'", "user.COLOR = 'red'", "[color] LIKE 'r%'", '"color" IN (\'blue\', \'red\')', "color <> 'Red'",
        "quantity = 10", "quantity = 10.0", "quantity > 2.08", "quantity IN (9, 10)", "quantity % 3 = 1",
        "quantity / 4 = 2", "quantity / 4.0 = 2.5", "-quantity = -10", "+quantity = 10", "2 + 3 * 4 = 14",
        "10 - 2 - 3 = 5", "(2 + 3) * 4 = 20", "-7 / 2 = -3", "-7 % 2 = -1", "7 % -2 = 1",
        "color + '!' = 'red!'", "'n' + quantity = 'n10'", "'t' + paid = 'tTrue'", "'h' + 0.5 = 'h0.5'", "'i' + 2.0 = 'i2'",
        "paid = TRUE", "paid <> FALSE", "EXISTS(color)", "NOT EXISTS(size)", "EXISTS(nothing)",
        "nothing IS NULL", "size IS NULL", "color IS NOT NULL", "property('color') = 'red'", "p('col' + 'or') = 'red'",
        "NOT color = 'blue'", "color = 'red' AND quantity = 10", "color = 'blue' OR quantity = 10",
        "9223372036854775807 + 1 = -9223372036854775808", "1.0 / 0 > 1000", "newid() <> newid()", "uid = uid",
        "size IS NULL OR size = 1", "quantity NOT IN (1, 2)", "color NOT LIKE 'b%'", "blob = blob", "c + 'b' = 'ab'",
        "c = 97", "c >= c", "text = 'sym'", "link = 'http://x/'",
    ],
)  # fmt: skip
def test_true(text: str) -> None:
    application = {
        "color": "red", "quantity": Int(10), "paid": True, "nothing": None, "uid": SOME_UUID, "blob": b"x",
        "c": Char("a"), "text": Symbol("sym"), "link": Described(Symbol("com.microsoft:uri"), "http://x/"),
    }  # fmt: skip
    assert holds(text, application) is True


@pytest.mark.parametrize(
    "text",
    [
        "size = 1", "size <> 1", "NOT size = 1", "size + 1 = 1", "-size = 1", "1 + size = 1", "size LIKE 'x'",
        "'x' LIKE size", "'x' LIKE 'x' ESCAPE size", "size IN (1, 2)", "size NOT IN (1, 2)", "1 IN (2, size)",
        "nothing = NULL", "nothing <> NULL", "NULL = NULL", "property(size) = 1", "size = 1 OR 1 = 2", "size = 1 AND 1 = 1",
    ],
)  # fmt: skip
def test_unknown(text: str) -> None:
    assert holds(text, {"nothing": None}) is None


@pytest.mark.parametrize("text", ["size = 1 AND 1 = 2", "1 = 2 AND size = 1", "1 = 2 OR 1 = 3", "1 IN (2, 3)"])
def test_false(text: str) -> None:
    assert holds(text) is False


@pytest.mark.parametrize(
    "text",
    [
        "color = 10", "color > 'a'", "paid > FALSE", "paid = 1", "uid = 'x'", "uid < uid", "color - 'r' = 'x'", "color * 2 = 4",
        "-color = 1", "+paid = 1", "quantity LIKE '1%'", "color LIKE 'r' ESCAPE 'ab'", "color LIKE 'r' ESCAPE ''",
        "color LIKE 'r!' ESCAPE '!'", "quantity / 0 = 1", "quantity % 0 = 1", "sys.Nonsense = 1", "sys.Nonsense IS NULL",
        "EXISTS(sys.Nonsense)", "property(1) = 1", "listed = 1", "c = 'a'", "-big = 1", "big + -1 = 1", "blob + 'x' = 'x'",
        "-9223372036854775808 / -1 = 1", "at + 1 = at",
    ],
)  # fmt: skip
def test_a_failure(text: str) -> None:
    application = {
        "color": "red", "quantity": 10, "paid": True, "uid": SOME_UUID, "c": Char("a"), "big": ULong(1), "blob": b"x",
        "listed": Described(Symbol("x"), 1), "at": Timestamp(5),
    }  # fmt: skip
    with pytest.raises(FilterError):
        holds(text, application)


def test_a_failure_names_operator_and_types() -> None:
    with pytest.raises(FilterError, match="the operator > cannot be applied to string and long"):
        holds("color > 10", {"color": "red"})


def test_a_decimal_is_there_but_cannot_be_compared() -> None:
    application = {"price": Decimal(bytes(16)), "color": "red"}
    assert holds("color = 'red' AND EXISTS(price)", application)
    with pytest.raises(FilterError, match="a property of type Decimal cannot be evaluated"):
        holds("price = 1", application)


def test_and_and_or_stop_when_the_result_is_certain() -> None:
    assert holds("1 = 2 AND sys.Nonsense = 1") is False
    assert holds("1 = 1 OR sys.Nonsense = 1") is True


@pytest.mark.parametrize(
    "number", [Byte(5), UByte(5), Short(5), UShort(5), Int(5), UInt(5), 5, ULong(5), Float(5.0), 5.0]
)
def test_numbers_of_every_width_compare_by_value(number: Any) -> None:
    assert (
        holds("n = 5 AND n < 6 AND n >= 4.5 AND n + 1 = 6 AND n IN (5) AND m = n", {"n": number, "m": Byte(5)}) is True
    )


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        (Int(2**31 - 1), Int(1), "a + b = -2147483648"),
        (Byte(127), Byte(1), "a + b = 128"),
        (UShort(65535), UShort(1), "a + b = 65536"),
        (UInt(2**32 - 1), UInt(1), "a + b = 0"),
        (UInt(2**32 - 1), Int(1), "a + b = 4294967296"),
        (UInt(1), UInt(2), "a - b = 4294967295"),
        (UInt(5), Int(0), "-a = -5"),
        (ULong(2**64 - 1), ULong(1), "a + b = 0"),
        (ULong(2**64 - 1), 1, "a + b = 0"),
        (Float(0.1), 0.1, "a <> b"),
        (Float(0.1), Float(0.1), "a = b"),
        (Float(16777216.0), Int(1), "a + b = 16777216"),
        (16777216.0, Int(1), "a + b = 16777217"),
        (Float(3e38), Float(3e38), "a + b > 1e300"),
    ],
)
def test_operands_meet_in_the_type_that_c_sharp_has_for_them(left: Any, right: Any, text: str) -> None:
    assert holds(text, {"a": left, "b": right}) is True


def test_moments_and_durations() -> None:
    parameters: dict[str, Any] = {
        "@moment": datetime(2026, 1, 1, tzinfo=UTC), "@naive": datetime(2026, 1, 1), "@hour": timedelta(hours=1),
    }  # fmt: skip
    start = 1_767_225_600_000
    application = {
        "first": Timestamp(start), "second": Timestamp(start + 3_600_000),
        "span": Described(Symbol("com.microsoft:timespan"), 36_000_000_000),
        "offset": Described(Symbol("com.microsoft:datetime-offset"), 621_355_968_000_000_000 + start * 10_000),
    }  # fmt: skip
    message = MessageProperties(make_message(application))
    for text in (
        "first = @moment", "first = @naive", "offset = first", "second > @moment", "(second - first) <= @hour",
        "second - first = span", "first + span = second", "second - span = first", "span + span > @hour", "span - span < span",
        "-span < +span", "sys.EnqueuedTimeUtc < first",
    ):  # fmt: skip
        assert condition(parse_filter(text, parameters))(message) is True, text


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("sys.MessageId = 'm' AND sys.messageid = 'm'", True),
        ("sys.Label LIKE '%bus%' AND sys.Subject = sys.Label", True),
        ("sys.To = 't' AND sys.ReplyTo = 'r' AND sys.CorrelationId = '00000000-0000-0000-0000-000000000007'", True),
        ("sys.ContentType = 'application/json'", True),
        ("sys.SessionId = 's' AND sys.ReplyToSessionId IS NULL", True),
        ("sys.ReplyToSessionId = 'x'", None),
        ("sys.PartitionKey IS NULL AND NOT EXISTS(sys.PartitionKey) AND EXISTS(sys.To)", True),
        ("sys.DeliveryCount = 0 AND sys.Size > 20", True),
        ("sys.LockToken IS NULL AND sys.State IS NULL", True),
        ("to = 't'", None),
    ],
)
def test_system_properties(text: str, truth: bool | None) -> None:
    fields = {
        "message_id": "m", "subject": "a bus!", "to": "t", "reply_to": "r", "correlation_id": SOME_UUID,
        "content_type": Symbol("application/json"), "group_id": "s",
    }  # fmt: skip
    assert holds(text, **fields) is truth


def test_the_first_of_two_names_that_differ_in_case_counts() -> None:
    assert holds("COLOR = 'red'", {"Color": "red", "color": "blue"}) is True


@pytest.mark.parametrize(
    ("pattern", "escape", "text", "matches"),
    [
        ("", None, "", True), ("", None, "a", False), ("%", None, "", True), ("%", None, "a\nb", True), ("_", None, "\n", True),
        ("_", None, "", False), ("a%", None, "abc", True), ("a%", None, "ba", False), ("%a", None, "ba", True),
        ("%a", None, "ab", False), ("a%a", None, "a", False), ("a%a", None, "aa", True), ("%ab%ab", None, "ab", False),
        ("%ab%ab", None, "abab", True), ("a%b%c", None, "axxbxxc", True), ("a%b%c", None, "acb", False),
        ("%_a%", None, "a", False), ("%_a%", None, "aa", True), ("a_c", None, "abc", True), ("A", None, "a", False),
        (".*", None, "x", False), ("ABC\\%", "\\", "ABC%", True), ("ABC\\%", "\\", "ABCD", False), ("!_%", "!", "_x", True),
        ("!!", "!", "!", True), ("!a", "!", "a", True), ("%!%", "!", "50%", True), ("%!%", "!", "50", False),
    ],
)  # fmt: skip
def test_like(pattern: str, escape: str | None, text: str, matches: bool) -> None:
    tail = "" if escape is None else " ESCAPE e"
    assert holds(f"t LIKE p {tail}", {"t": text, "p": pattern, "e": escape}) is matches
