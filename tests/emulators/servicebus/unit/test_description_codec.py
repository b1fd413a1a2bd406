"""Descriptions as JSON: every setting comes back as it was, and nothing unknown is guessed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulators.servicebus.description import FOREVER, QueueDescription, SubscriptionDescription, TopicDescription
from emulators.servicebus.rules.description import (
    CorrelationFilter,
    FalseFilter,
    PropertyValue,
    RuleDescription,
    SqlAction,
    SqlFilter,
    TrueFilter,
)
from emulators.servicebus.storage.description_codec import (
    entity_from_json,
    entity_to_json,
    rule_from_json,
    rule_to_json,
)

DURATIONS = st.timedeltas(min_value=timedelta(0)) | st.just(FOREVER)
ENTITIES = st.one_of(
    *(
        st.builds(kind, default_message_time_to_live=DURATIONS, auto_delete_on_idle=DURATIONS, user_metadata=st.text())
        for kind in (QueueDescription, TopicDescription, SubscriptionDescription)
    )
)
VALUES: st.SearchStrategy[PropertyValue] = st.one_of(
    st.none(), st.text(), st.integers(), st.floats(allow_nan=False), st.booleans(), st.binary(), st.timedeltas(), st.uuids(),
    st.datetimes(timezones=st.none() | st.just(UTC)).map(lambda moment: moment.replace(fold=0)),
)  # fmt: skip
PROPERTIES = st.dictionaries(st.text(), VALUES)
FILTERS = st.one_of(
    st.just(TrueFilter()),
    st.just(FalseFilter()),
    st.builds(SqlFilter, st.text(), PROPERTIES),
    st.builds(CorrelationFilter, label=st.none() | st.text(), properties=PROPERTIES),
)
RULES = st.builds(RuleDescription, FILTERS, st.none() | st.builds(SqlAction, st.text(), PROPERTIES))


@given(ENTITIES)
def test_settings_come_back_as_they_were(description: QueueDescription) -> None:
    assert entity_from_json(entity_to_json(description)) == description


@given(RULES)
def test_rules_come_back_as_they_were(description: RuleDescription) -> None:
    again = rule_from_json(rule_to_json(description))
    assert again == description
    assert repr(again) == repr(description)  # 1, 1.0 and True are equal


def test_a_setting_that_an_older_emulator_did_not_know_has_its_default() -> None:
    assert entity_from_json('{"kind": "queue", "max_delivery_count": 3}') == QueueDescription(max_delivery_count=3)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"kind": "queue", "colour": 1}', "colour"),
        ('{"kind": "relay"}', "relay"),
        ("[]", "no object"),
    ],
)
def test_what_is_unknown_of_an_entity_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        entity_from_json(text)


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"filter": {"kind": "regex"}, "action": None}, "regex"),
        ({"filter": {"kind": "true"}, "action": None, "priority": 1}, "priority"),
        (
            {"filter": {"kind": "sql", "expression": "a = @a", "parameters": {"@a": {"money": 1}}}, "action": None},
            "money",
        ),
    ],
)
def test_what_is_unknown_of_a_rule_is_refused_by_name(facts: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        rule_from_json(json.dumps(facts))


def test_a_value_of_another_type_is_refused_when_it_is_told() -> None:
    other: Any = object()
    with pytest.raises(ValueError, match="object is no value of a rule"):
        rule_to_json(RuleDescription(SqlFilter("a = @a", {"@a": other})))


def test_what_json_cannot_say_is_named() -> None:
    values: dict[str, PropertyValue] = {"at": datetime(2026, 1, 1, tzinfo=UTC), "id": UUID(int=1), "octets": b"\x00"}
    text = rule_to_json(RuleDescription(CorrelationFilter(properties=values)))
    assert json.loads(text)["filter"]["properties"]["octets"] == {"bytes": "00"}
