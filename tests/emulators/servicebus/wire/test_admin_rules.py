"""Rules over the management API: Azure's own client reads back what it wrote, value for value, and errors have their types."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from emulators.servicebus.administration.atom_rules import read_rule, rule_entry
from emulators.servicebus.description import InvalidEntity, SubscriptionDescription, TopicDescription
from emulators.servicebus.rules.description import (
    CorrelationFilter,
    FalseFilter,
    RuleDescription,
    RuleInfo,
    SqlAction,
    SqlFilter,
    TrueFilter,
)
from emulators.servicebus.server import ServiceBusEmulator
from tests.emulators.servicebus.wire.administration import KEYS, Entities, api, connect, described

VALUES: dict[str, Any] = {
    "text": "a < b & c",
    "number": 1,
    "large": 3_000_000_000,
    "small": -5,
    "real": 2.5,
    "truth": True,
    "moment": datetime(2026, 1, 2, 3, 4, 5),
    "span": timedelta(days=1, hours=2, seconds=3.5),
}


@pytest.fixture(scope="module")
def emulator() -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator(keys=KEYS) as running:
        running.admin.create("events", TopicDescription())
        yield running


@pytest.fixture
def client(emulator: ServiceBusEmulator) -> Iterator[ServiceBusAdministrationClient]:
    """For a topic "events" with a subscription "sub1" just made."""
    emulator.admin.create("events/Subscriptions/sub1", SubscriptionDescription())
    with connect(emulator) as opened:
        yield opened
    emulator.admin.delete("events/Subscriptions/sub1")


def names(client: ServiceBusAdministrationClient) -> list[str]:
    return [rule.name for rule in client.list_rules("events", "sub1")]


def test_sql_rule_comes_back_with_its_parameters_and_action(client: ServiceBusAdministrationClient) -> None:
    parameters = {f"@{name}": value for name, value in VALUES.items()}
    made = client.create_rule(
        "events",
        "sub1",
        "of-region",
        filter=SqlRuleFilter("region = @text AND size < @number", parameters=parameters),
        action=SqlRuleAction("SET urgent = @truth", parameters={"@truth": False}),
    )

    read = client.get_rule("events", "sub1", "of-region")

    for rule in (made, read):
        assert isinstance(rule.filter, SqlRuleFilter)
        assert rule.filter.sql_expression == "region = @text AND size < @number"
        assert rule.filter.parameters == parameters
        assert rule.action is not None
        assert (rule.action.sql_expression, rule.action.parameters) == ("SET urgent = @truth", {"@truth": False})


def test_correlation_rule_comes_back_with_every_condition(client: ServiceBusAdministrationClient) -> None:
    conditions = {
        name: f"the {name}"
        for name in (
            "correlation_id",
            "message_id",
            "to",
            "reply_to",
            "label",
            "session_id",
            "reply_to_session_id",
            "content_type",
        )
    }
    client.create_rule("events", "sub1", "exact", filter=CorrelationRuleFilter(**conditions, properties=VALUES))

    read = client.get_rule("events", "sub1", "exact").filter

    assert isinstance(read, CorrelationRuleFilter)
    assert {name: getattr(read, name) for name in conditions} == conditions
    assert read.properties == VALUES


def test_true_and_false_filters_keep_their_kind(client: ServiceBusAdministrationClient) -> None:
    client.create_rule("events", "sub1", "all", filter=TrueRuleFilter())
    client.create_rule("events", "sub1", "none", filter=FalseRuleFilter())
    assert type(client.get_rule("events", "sub1", "all").filter) is TrueRuleFilter
    assert type(client.get_rule("events", "sub1", "none").filter) is FalseRuleFilter


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"filter": SqlRuleFilter("")}, "SqlExpression"),
        ({"filter": SqlRuleFilter("a = ")}, "."),
        ({"filter": CorrelationRuleFilter()}, "at least one"),
        ({"action": SqlRuleAction("")}, "SqlExpression"),
        ({"action": SqlRuleAction("SET = 1")}, "."),
    ],
)
def test_a_rule_that_says_nothing_is_refused(
    client: ServiceBusAdministrationClient, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(HttpResponseError, match=complaint) as refused:
        client.create_rule("events", "sub1", "wrong", **options)
    assert refused.value.status_code == 400
    assert names(client) == ["$Default"]


# What the other SDKs send, and nobody should.


@pytest.fixture
def entities() -> Entities:
    entities = Entities()
    entities.create("events", TopicDescription())
    return entities


DEFAULT_RULE = (
    "<RequiresSession>true</RequiresSession>"
    '<DefaultRuleDescription><Filter i:type="CorrelationFilter"><Label>x</Label></Filter>'
    '<Action i:type="EmptyRuleAction"/><Name>{}</Name></DefaultRuleDescription>'
)


def test_a_subscription_can_be_created_with_another_first_rule(entities: Entities) -> None:
    body = described("SubscriptionDescription", DEFAULT_RULE.format("labelled"))
    assert api(entities).answer("PUT", "/events/Subscriptions/sub1", {}, body).status == 201

    (rule,) = entities.rules("events/Subscriptions/sub1")
    assert (rule.name, rule.description.filter) == ("labelled", CorrelationFilter(label="x"))


def test_a_first_rule_without_a_name_is_the_default_rule(entities: Entities) -> None:
    body = described("SubscriptionDescription", DEFAULT_RULE.format(""))
    api(entities).answer("PUT", "/events/Subscriptions/sub1", {}, body)
    assert [rule.name for rule in entities.rules("events/Subscriptions/sub1")] == ["$Default"]


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ('<Filter i:type="RegexFilter"/>', "RegexFilter"),
        ("<Filter/>", "the type none"),
        ('<Filter i:type="SqlFilter"><Sql>1=1</Sql></Filter>', "Sql is not known"),
        (
            (
                '<Filter i:type="SqlFilter"><SqlExpression>1=1</SqlExpression>'
                "<CompatibilityLevel>25</CompatibilityLevel></Filter>"
            ),
            "CompatibilityLevel 25",
        ),
        (
            '<Filter i:type="TrueFilter"><RequiresPreprocessing>false</RequiresPreprocessing></Filter>',
            "RequiresPreprocessing",
        ),
        ('<Filter i:type="CorrelationFilter"><Subject>x</Subject></Filter>', "Subject is not known"),
        ('<Action i:type="Other"/>', "Other"),
        ("<Tag>x</Tag>", "Tag is not known"),
        (
            (
                '<Filter i:type="CorrelationFilter"><Properties><KeyValueOfstringanyType><Key>k</Key>'
                '<Value i:type="d6p1:decimal">1.0</Value></KeyValueOfstringanyType></Properties></Filter>'
            ),
            "'k' is of type decimal",
        ),
        (
            (
                '<Filter i:type="CorrelationFilter"><Properties><KeyValueOfstringanyType><Key>k</Key>'
                '<Value i:type="d6p1:int">one</Value></KeyValueOfstringanyType></Properties></Filter>'
            ),
            "'one' is not a whole number",
        ),
    ],
)
def test_what_is_not_imitated_is_refused_by_name(rule: str, complaint: str) -> None:
    with pytest.raises(InvalidEntity, match=complaint):
        read_rule(described("RuleDescription", rule))


def test_the_name_in_the_body_has_to_be_the_one_in_the_path(entities: Entities) -> None:
    entities.create("events/Subscriptions/sub1", SubscriptionDescription())
    body = described("RuleDescription", "<Name>other</Name>")
    assert api(entities).answer("PUT", "/events/Subscriptions/sub1/rules/this", {}, body).status == 400


@pytest.mark.parametrize(
    "rule",
    [
        RuleDescription(),
        RuleDescription(FalseFilter()),
        RuleDescription(SqlFilter("a = @b", {"@b": None}), SqlAction("SET a = @b", {"@b": b"\x00\xff"})),
        RuleDescription(CorrelationFilter(properties={"id": UUID(int=7), "empty": "", "least": -(1 << 63)})),
        RuleDescription(TrueFilter(), SqlAction("REMOVE a")),
    ],
)
def test_every_rule_survives_the_document(rule: RuleDescription) -> None:
    written = rule_entry(RuleInfo("mine", rule, datetime.fromisoformat("2026-01-01T00:00:00+00:00")), "http://h/rules")
    assert read_rule(written) == ("mine", rule)
