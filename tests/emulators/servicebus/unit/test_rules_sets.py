"""Rule sets: how many copies a subscription takes of a message, and which."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from emulators.servicebus.amqp.values import Float, Int, Symbol, Timestamp, UByte
from emulators.servicebus.message import parse_message
from emulators.servicebus.properties import MessageProperties
from emulators.servicebus.rules import InvalidRule, RuleSet
from emulators.servicebus.rules.description import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    PropertyValue,
    RuleDescription,
    RuleInfo,
    SqlAction,
    SqlFilter,
    TrueFilter,
)
from tests.emulators.servicebus.unit.messages import BODY
from tests.emulators.servicebus.unit.messages import make_message as message

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


def rules(*filters: Filter) -> RuleSet:
    return RuleSet(RuleInfo(f"r{n}", RuleDescription(each), MOMENT) for n, each in enumerate(filters))


def test_without_rules_nothing_is_taken() -> None:
    assert rules().copies(message()).messages == []
    assert not rules().takes_everything


def test_matching_rules_without_action_make_one_copy() -> None:
    original = message()
    (copy,) = rules(TrueFilter(), FalseFilter(), TrueFilter()).copies(original).messages
    assert copy is not original
    assert copy.tail == original.tail


def test_a_false_filter_takes_nothing() -> None:
    assert rules(FalseFilter()).copies(message()).messages == []


@pytest.mark.parametrize(
    ("filters", "everything"),
    [
        ([TrueFilter()], True),
        ([TrueFilter(), FalseFilter()], True),
        ([FalseFilter()], False),
        ([TrueFilter(), CorrelationFilter(label="a")], False),
        ([SqlFilter("1=1")], True),
        ([SqlFilter(" 1 = 1 "), SqlFilter("1=0")], True),
        ([SqlFilter("1=0")], False),
        ([TrueFilter(), SqlFilter("a=1")], False),
    ],
)
def test_what_takes_everything_is_known_beforehand(filters: list[Filter], everything: bool) -> None:
    assert rules(*filters).takes_everything is everything


FIELDS: dict[str, Any] = {
    "message_id": "m", "to": "t", "subject": "s", "reply_to": "r", "correlation_id": "c", "content_type": Symbol("x"),
    "group_id": "g", "reply_to_group_id": "h",
}  # fmt: skip
CONDITIONS = {
    "message_id": "m", "to": "t", "label": "s", "reply_to": "r", "correlation_id": "c", "content_type": "x",
    "session_id": "g", "reply_to_session_id": "h",
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), CONDITIONS.items())
def test_a_correlation_filter_compares_each_system_property(name: str, value: str) -> None:
    conditions: Any = {name: value}
    assert rules(CorrelationFilter(**conditions)).copies(message(**FIELDS)).messages
    conditions[name] = value.upper()
    assert not rules(CorrelationFilter(**conditions)).copies(message(**FIELDS)).messages


def test_all_conditions_of_a_correlation_filter_must_hold() -> None:
    both = CorrelationFilter(label="s", properties={"color": "red"})
    assert rules(both).copies(message({"color": "red"}, subject="s")).messages
    assert not rules(both).copies(message({"color": "blue"}, subject="s")).messages
    assert not rules(both).copies(message({"color": "red"}, subject="x")).messages
    assert not rules(both).copies(message({"color": "red"})).messages
    assert not rules(both).copies(message(subject="s")).messages


@pytest.mark.parametrize(
    ("wanted", "found", "equal"),
    [
        (5, Int(5), True),
        (5, UByte(5), True),
        (5.0, 5, True),
        (0.5, Float(0.5), True),
        (5, "5", False),
        (1, True, False),
        (True, True, True),
        ("a", Symbol("a"), True),
        ("a", "A", False),
        (None, None, True),
        (MOMENT, Timestamp(1_767_312_000_000), True),
        (1_767_312_000_000, Timestamp(1_767_312_000_000), False),
        (b"a", b"a", True),
    ],
)
def test_user_properties_correlate_by_value(wanted: PropertyValue, found: Any, equal: bool) -> None:
    correlate = rules(CorrelationFilter(properties={"p": wanted}))
    assert bool(correlate.copies(message({"p": found})).messages) is equal


def test_names_of_user_properties_compare_without_regard_to_case() -> None:
    assert rules(CorrelationFilter(properties={"COLOR": "red"})).copies(message({"color": "red"})).messages


def test_a_property_that_is_missing_is_not_null() -> None:
    assert not rules(CorrelationFilter(properties={"p": None})).copies(message({"q": None})).messages


def test_a_correlation_filter_without_conditions_is_refused() -> None:
    with pytest.raises(InvalidRule, match="at least one"):
        rules(CorrelationFilter())


def test_a_message_that_cannot_be_read_is_a_failure_and_other_rules_are_asked() -> None:
    broken = parse_message(b"\x00\x53\x74\xc1\x09\x02\xa1\x01p\x79\0\0\0\0" + BODY)
    copies = rules(CorrelationFilter(properties={"p": 1}), TrueFilter()).copies(broken)
    assert len(copies.messages) == 1
    assert copies.failure is not None
    assert copies.failure.startswith("Rule 'r0' could not be evaluated")


def test_a_sql_filter_takes_what_is_true_and_neither_false_nor_unknown() -> None:
    color = SqlFilter("color = 'red'")
    assert rules(color).copies(message({"color": "red"})).messages
    assert not rules(color).copies(message({"color": "blue"})).messages
    assert not rules(color).copies(message()).messages


def acting(*pairs: tuple[Filter, str | None]) -> RuleSet:
    """Rules named a0, a1, ... of a filter and an action each."""
    return RuleSet(
        RuleInfo(f"a{n}", RuleDescription(condition, None if action is None else SqlAction(action)), MOMENT)
        for n, (condition, action) in enumerate(pairs)
    )


def test_three_matches_without_action_and_two_with_make_three_messages() -> None:
    five = acting(
        (TrueFilter(), None), (TrueFilter(), "SET n = 1"), (TrueFilter(), None), (TrueFilter(), "SET n = 2"),
        (TrueFilter(), None),
    )  # fmt: skip
    original = message({"color": "red"})
    copies = five.copies(original).messages
    assert [MessageProperties(copy).user("n") for copy in copies] == [None, 1, 2]
    assert [MessageProperties(copy).user("RuleName") for copy in copies] == [None, "a1", "a3"]
    assert original.tail == message({"color": "red"}).tail
    assert not five.takes_everything


def test_an_action_that_fails_makes_no_copy_and_says_why() -> None:
    copies = acting((TrueFilter(), "SET n = 1 / 0"), (TrueFilter(), None)).copies(message())
    assert len(copies.messages) == 1
    assert copies.failure == "Rule 'a0' could not be evaluated: 1 / 0 has no value"


def test_a_filter_that_cannot_be_parsed_makes_no_rule_set() -> None:
    with pytest.raises(InvalidRule, match="position 8"):
        rules(SqlFilter("color ="))
