"""The configuration file of Microsoft's emulator: what it declares, in which order, and what is said of mistakes."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from emulators.servicebus.description import QueueDescription, SubscriptionDescription, TopicDescription
from emulators.servicebus.provisioning.configuration import read_configuration
from emulators.servicebus.provisioning.json_reader import InvalidDocument
from emulators.servicebus.provisioning.provision import Asked
from emulators.servicebus.rules.description import CorrelationFilter, RuleDescription, SqlAction, SqlFilter


def document(*, queues: list[Any] | None = None, topics: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    namespace = {"Name": "sbemulatorns", "Queues": queues or [], "Topics": topics or []}
    return {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "File"}, **more}}


def read(**parts: Any) -> list[Asked]:
    return list(read_configuration(json.dumps(document(**parts))))


def problems(**parts: Any) -> list[str]:
    return problems_of(json.dumps(document(**parts)))


def problems_of(text: str) -> list[str]:
    with pytest.raises(InvalidDocument) as refused:
        read_configuration(text)
    return list(refused.value.problems)


def queue(name: str = "q", **properties: Any) -> dict[str, Any]:
    return {"Name": name, "Properties": properties}


def topic_with(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"Name": "t", "Subscriptions": [{"Name": "s", "Rules": list(rules)}]}


def rule(name: str = "r", **properties: Any) -> dict[str, Any]:
    return {"Name": name, "Properties": properties}


IN_QUEUE = "UserConfig.Namespaces[0].Queues[0]"
IN_RULE = "UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Rules[0]"


def test_every_setting_of_a_queue_arrives() -> None:
    (entity,) = read(
        queues=[
            queue(
                DeadLetteringOnMessageExpiration=True,
                DefaultMessageTimeToLive="PT2H",
                DuplicateDetectionHistoryTimeWindow="PT30S",
                ForwardDeadLetteredMessagesTo="",
                ForwardTo="",
                LockDuration="PT45S",
                MaxDeliveryCount=5,
                RequiresDuplicateDetection=True,
                RequiresSession=True,
            )
        ]
    )
    assert entity.description == QueueDescription(
        dead_lettering_on_message_expiration=True,
        default_message_time_to_live=timedelta(hours=2),
        duplicate_detection_history_time_window=timedelta(seconds=30),
        lock_duration=timedelta(seconds=45),
        max_delivery_count=5,
        requires_duplicate_detection=True,
        requires_session=True,
    )


def test_what_is_left_out_has_the_schemas_defaults() -> None:
    plain, topic, subscription = read(queues=[{"Name": "q"}], topics=[topic_with()])
    assert plain.description == QueueDescription(
        default_message_time_to_live=timedelta(hours=1),
        duplicate_detection_history_time_window=timedelta(seconds=20),
        max_delivery_count=3,
    )
    assert topic.description == TopicDescription(
        default_message_time_to_live=timedelta(hours=1), duplicate_detection_history_time_window=timedelta(seconds=20)
    )
    assert subscription.description == SubscriptionDescription(
        default_message_time_to_live=timedelta(hours=1), max_delivery_count=3
    )


def test_rules_arrive_with_filter_and_action() -> None:
    *_, subscription = read(
        topics=[
            topic_with(
                rule(
                    "exact",
                    FilterType="Correlation",
                    CorrelationFilter={"Label": "new", "Properties": {"region": "north", "urgent": True, "size": 2}},
                ),
                rule(
                    "sql",
                    FilterType="Sql",
                    SqlFilter={"SqlExpression": "size > 1"},
                    Action={"SqlExpression": "SET size = 1"},
                ),
            )
        ]
    )
    assert subscription.path == "t/Subscriptions/s"
    assert subscription.rules == {
        "exact": RuleDescription(
            CorrelationFilter(label="new", properties={"region": "north", "urgent": True, "size": 2})
        ),
        "sql": RuleDescription(SqlFilter("size > 1"), SqlAction("SET size = 1")),
    }


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"LockDurations": "PT1M"}, ".Properties: the key 'LockDurations' is not known; did you mean 'LockDuration'?"),
        ({"lockduration": "PT1M"}, ".Properties: the key 'lockduration' is not known; did you mean 'LockDuration'?"),
        ({"Xyz": 1}, ".Properties: the key 'Xyz' is not known; known here: DeadLetteringOnMessageExpiration, "),
        ({"RequiresSession": "true"}, '.Properties.RequiresSession: must be true or false, without quotes, not "true"'),
        ({"MaxDeliveryCount": "3"}, '.Properties.MaxDeliveryCount: must be a whole number, without quotes, not "3"'),
        ({"MaxDeliveryCount": True}, ".Properties.MaxDeliveryCount: must be a whole number, without quotes, not true"),
        ({"MaxDeliveryCount": 0}, ": max_delivery_count must be at least 1"),
        ({"LockDuration": "1 minute"}, ".Properties.LockDuration: the value '1 minute' is not an ISO 8601 duration"),
        ({"LockDuration": 60}, ".Properties.LockDuration: must be a string, not 60"),
        ({"LockDuration": "PT10M"}, ": lock_duration must be"),
        ({"DefaultMessageTimeToLive": "P1M"}, ".Properties.DefaultMessageTimeToLive: the value 'P1M' is not"),
    ],
)
def test_a_wrong_setting_is_told_with_its_path(properties: dict[str, Any], complaint: str) -> None:
    (problem,) = problems(queues=[queue(**properties)])
    assert problem.startswith(IN_QUEUE + complaint)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (rule(FilterType="SqlFilter", SqlFilter={"SqlExpression": "1=1"}), ".Properties.FilterType: must be 'Correl"),
        (rule(SqlFilter={"SqlExpression": "1=1"}), ".Properties: 'FilterType' is missing"),
        (rule(FilterType="Sql"), ".Properties: 'SqlFilter' is missing: the FilterType 'Sql' has one"),
        (
            rule(FilterType="Sql", SqlFilter={"SqlExpression": "1=1"}, CorrelationFilter={"Label": "x"}),
            ".Properties.CorrelationFilter: does not go with the FilterType 'Sql'",
        ),
        (rule(FilterType="Sql", SqlFilter={}), ".Properties.SqlFilter: 'SqlExpression' is missing"),
        (
            rule(FilterType="Sql", SqlFilter={"SqlExpression": ""}),
            ".Properties.SqlFilter.SqlExpression: is empty: say something, or leave it out",
        ),
        (rule(FilterType="Correlation", CorrelationFilter={}), ": a correlation filter needs at least one property"),
        (rule(FilterType="Sql", SqlFilter={"SqlExpression": "a = "}), ": "),
        (
            rule(FilterType="Correlation", CorrelationFilter={"Subject": "x"}),
            ".Properties.CorrelationFilter: the key 'Subject' is not known",
        ),
        (
            rule(FilterType="Correlation", CorrelationFilter={"Properties": {"a": [1]}}),
            ".Properties.CorrelationFilter.Properties.a: must be a string, a number, true or false",
        ),
        ({"Name": "r"}, ": 'Properties' is missing"),
        (rule("r@", FilterType="Sql", SqlFilter={"SqlExpression": "1=1"}), ": the rule name"),
    ],
)
def test_a_wrong_rule_is_told_with_its_path(given: dict[str, Any], complaint: str) -> None:
    (problem,) = problems(topics=[topic_with(given)])
    assert problem.startswith(IN_RULE + complaint)


def test_names_are_taken_once_whatever_their_case() -> None:
    assert problems(queues=[queue("a"), queue("A")], topics=[{"Name": "a"}]) == [
        "UserConfig.Namespaces[0].Queues[1]: 'A' is the name of UserConfig.Namespaces[0].Queues[0] already",
        "UserConfig.Namespaces[0].Topics[0]: 'a' is the name of UserConfig.Namespaces[0].Queues[0] already",
    ]


def test_rule_names_are_taken_once_whatever_their_case() -> None:
    same = {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "1=1"}}
    (problem,) = problems(topics=[topic_with(rule("a", **same), rule("A", **same))])
    assert problem.endswith("Rules[1]: there is a rule 'A' already")


def test_every_mistake_is_told_at_once() -> None:
    assert len(problems(queues=[queue("-"), queue(LockDuration=1, Other=2)], Extra={})) == 4


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "line 1, column 2: this is not JSON"),
        ('{"UserConfig": {}, "UserConfig": {}}', "the key 'UserConfig' is given twice in one object"),
        ("[" * 200_000, "this is nested too deeply to be read"),
        ("[]", "the document: must be an object, not []"),
        ("{}", "the document: 'UserConfig' is missing"),
        ('{"UserConfig": {"Namespaces": {}}}', "UserConfig.Namespaces: must be an array, not {}"),
        ('{"UserConfig": {"Namespaces": []}}', "UserConfig.Namespaces: there is one namespace in the emulator, not 0"),
        ('{"UserConfig": {"Namespaces": [{}]}}', "UserConfig.Namespaces[0]: 'Name' is missing"),
        (
            '{"UserConfig": {"Namespaces": [{"Name": "a"}], "Logging": {"Type": "Syslog"}}}',
            "UserConfig.Logging.Type: must be one of 'Console', 'File', 'File,Console', 'Console,File', not 'Syslog'",
        ),
    ],
)
def test_a_document_of_another_shape_is_told(text: str, complaint: str) -> None:
    (problem,) = problems_of(text)
    assert problem.startswith(complaint)


def test_a_schema_for_editors_may_be_named() -> None:
    assert read_configuration(json.dumps({"$schema": "./schema.json", **document()})) == []


@pytest.mark.parametrize("ending", ["ForwardTo", "ForwardDeadLetteredMessagesTo"])
def test_destinations_come_before_their_sources_wherever_they_are_declared(ending: str) -> None:
    ordered = read(
        queues=[queue("first", **{ending: "Second"}), queue("second", **{ending: "third"})],
        topics=[{"Name": "third", "Subscriptions": [{"Name": "s", "Properties": {ending: "first"}}]}],
    )
    assert [entity.path for entity in ordered] == ["third", "second", "first", "third/Subscriptions/s"]


def test_forwarding_in_a_circle_is_told_with_its_stations() -> None:
    (problem,) = problems(queues=[queue("a", ForwardTo="b"), queue("b", ForwardTo="c"), queue("c", ForwardTo="b")])
    assert problem.startswith("UserConfig.Namespaces[0].Queues[1]: forwards in a circle: b -> c -> b")


def test_a_destination_that_is_not_declared_is_told() -> None:
    (problem,) = problems(queues=[queue(ForwardTo="nowhere")])
    assert problem == f"{IN_QUEUE}: ForwardTo names 'nowhere', which is neither a queue nor a topic of this file"


def test_a_subscription_is_no_destination() -> None:
    (problem,) = problems(queues=[queue(ForwardTo="t/Subscriptions/s")], topics=[topic_with()])
    assert "neither a queue nor a topic" in problem
