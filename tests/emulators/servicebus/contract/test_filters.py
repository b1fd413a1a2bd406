"""Items 38 to 41: what filters let through, and what actions make of it."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleFilter

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import Namespace
from tests.emulators.servicebus.contract.publishing import (
    Filter,
    bodies,
    delivered,
    message,
    subscribed,
    user_properties,
)
from tests.emulators.servicebus.contract.receiving import completed


def lets_through(namespace: Namespace, filter_: Filter, *messages: ServiceBusMessage) -> list[str]:
    return bodies(delivered(namespace, subscribed(namespace, {"rule": filter_}), *messages))


# -- 38


@item(38, "documented")
@pytest.mark.parametrize(
    ("condition", "attribute"),
    [
        ("correlation_id", "correlation_id"), ("message_id", "message_id"), ("to", "to"), ("reply_to", "reply_to"),
        ("label", "subject"), ("session_id", "session_id"), ("reply_to_session_id", "reply_to_session_id"),
        ("content_type", "content_type"),
    ],
)  # fmt: skip
def test_a_correlation_filter_compares_a_property(namespace: Namespace, condition: str, attribute: str) -> None:
    """Equal in every letter; a message without it, or with another value, does not match.

    Source: Microsoft, "Topic filters and actions", Correlation filters: the properties, and that the comparison is case-sensitive.
    """

    def sent(body: str, value: str | None) -> ServiceBusMessage:
        made = ServiceBusMessage(body)
        setattr(made, attribute, value)
        return made

    wanted: Any = CorrelationRuleFilter()
    setattr(wanted, condition, "Value")
    messages = [sent("equal", "Value"), sent("case", "value"), sent("longer", "Value2"), sent("none", None)]
    assert lets_through(namespace, wanted, *messages) == ["equal"]


@item(38, "documented")
def test_all_conditions_of_a_correlation_filter_must_be_met(namespace: Namespace) -> None:
    """A logical AND, over properties of the system and of the user.

    Source: Microsoft, "Topic filters and actions", Correlation filters.
    """
    wanted = CorrelationRuleFilter(label="red", correlation_id="high", properties={"size": "large", "shape": "round"})

    def sent(body: str, label: str, correlation: str, **properties: Any) -> ServiceBusMessage:
        made = message(body, **properties)
        made.subject, made.correlation_id = label, correlation
        return made

    found = lets_through(
        namespace,
        wanted,
        sent("all", "red", "high", size="large", shape="round", more="x"),
        sent("label", "blue", "high", size="large", shape="round"),
        sent("correlation", "red", "low", size="large", shape="round"),
        sent("value", "red", "high", size="small", shape="round"),
        sent("missing", "red", "high", size="large"),
    )
    assert found == ["all"]


@item(38, "documented")
@pytest.mark.parametrize("value", ["text", 5, 2.5, True])
def test_a_correlation_filter_compares_application_properties_of_every_type(namespace: Namespace, value: Any) -> None:
    """Equal in value.

    Source: Microsoft, "Topic filters and actions": Properties is a dictionary of names and objects.
    """
    wanted = CorrelationRuleFilter(properties={"p": value})
    assert lets_through(namespace, wanted, message("equal", p=value), message("other", p="other")) == ["equal"]


@item(38, "unverified")
def test_a_number_and_its_text_are_not_equal(namespace: Namespace) -> None:
    """Another type is another value.

    Source: nobody says it.
    """
    wanted = CorrelationRuleFilter(properties={"p": 1})
    assert lets_through(namespace, wanted, message("text", p="1"), message("number", p=1)) == ["number"]


# -- 39


@item(39, "documented")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("n = 5", "5"), ("n <> 5", "3 7"), ("n != 5", "3 7"), ("n > 5", "7"), ("n >= 5", "5 7"), ("n < 5", "3"),
        ("n <= 5", "3 5"), ("n + 2 = 7", "5"), ("n - 1 > 5", "7"), ("n * 2 < 8", "3"), ("n / 2 = 3", "7"), ("n % 5 = 0", "5"),
        ("-n = -7", "7"), ("(n + 1) * 2 = 8", "3"), ("n > 2.5 AND n < 5.5", "3 5"), ("n < 1e1", "3 5 7"),
        ("n = 3 OR n = 7", "3 7"), ("NOT n = 3", "5 7"), ("n = 3 OR n = 5 AND n = 7", "3"),
        ("n IN (3, 7)", "3 7"), ("n NOT IN (3, 7)", "5"),
    ],
)  # fmt: skip
def test_a_sql_filter_compares_and_calculates(namespace: Namespace, expression: str, expected: str) -> None:
    """Relational operators, simple arithmetic, logic, lists.

    Source: Microsoft, "Subscription Rule SQL Filter Syntax"; "Topic filters and actions", SQL filters.
    """
    numbers = [message(str(n), n=n) for n in (3, 5, 7)]
    assert " ".join(lets_through(namespace, expression, *numbers)) == expected


@item(39, "documented")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("c = 'blue'", "blue"), ("c LIKE 'b%'", "blue b_e"), ("c LIKE '_ed'", "red"), ("c LIKE '%u%'", "blue"),
        ("c NOT LIKE 'b%'", "red O'Neil"), ("c LIKE 'b!_e' ESCAPE '!'", "b_e"), ("c IN ('red', 'green')", "red"),
        ("c NOT IN ('red', 'blue')", "b_e O'Neil"), ("c = 'O''Neil'", "O'Neil"), ("user.c = 'red'", "red"),
        ("C = 'red'", "red"), ("[c] = 'red'", "red"), ('"c" = \'red\'', "red"), ("property('c') = 'red'", "red"),
        ("p('c') = 'red'", "red"),
    ],
)  # fmt: skip
def test_a_sql_filter_looks_at_texts(namespace: Namespace, expression: str, expected: str) -> None:
    """LIKE with %, _ and ESCAPE; IN; quoted and delimited names, in any case; the functions property and p.

    Source: Microsoft, "Subscription Rule SQL Filter Syntax".
    """
    texts = [message(text, c=text) for text in ("red", "blue", "b_e", "O'Neil")]
    assert " ".join(lets_through(namespace, expression, *texts)) == expected


@item(39, "documented")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a IS NULL", "none"), ("a IS NOT NULL", "one two"), ("EXISTS(a)", "one two"), ("NOT EXISTS(a)", "none"),
        ("a = 1", "one"), ("NOT a = 1", "two"), ("a <> 1", "two"), ("a = 1 OR a IS NULL", "none one"), ("a + 1 = 2", "one"),
        ("a LIKE '%'", ""), ("a NOT IN (1)", "two"), ("a > 0 OR TRUE = TRUE", "none one two"), ("a > 5 AND 1 = 1", ""),
        ("NOT (a > 5 AND 1 = 2)", "none one two"),
    ],
)  # fmt: skip
def test_a_property_that_is_missing_is_unknown(namespace: Namespace, expression: str, expected: str) -> None:
    """Not matched by what would be unknown, in three-valued logic; IS NULL and EXISTS tell.

    Source: Microsoft, "Subscription Rule SQL Filter Syntax", Property evaluation semantics.
    """
    text = expression.startswith("a LIKE")
    values = [message("none"), *(() if text else (message("one", a=1), message("two", a=2)))]
    assert " ".join(lets_through(namespace, expression, *values)) == expected


@item(39, "documented")
@pytest.mark.parametrize(
    "expression",
    [
        "sys.Label = 'subject'", "sys.label LIKE '%ject'", "sys.MessageId = 'id'", "sys.CorrelationId = 'correlation'",
        "sys.To = 'to'", "sys.ReplyTo = 'reply'", "sys.ContentType = 'type'", "sys.SessionId = 'session'",
        "sys.ReplyToSessionId = 'back'", "sys.To IN ('here', 'to') OR nothing = 'x'",
    ],
)  # fmt: skip
def test_properties_of_the_system_are_called_by_a_prefix(namespace: Namespace, expression: str) -> None:
    """sys. and the name; the same name without it is the user's.

    Source: Microsoft, "Topic filters and actions": all system properties must be prefixed with sys.
    """
    full = ServiceBusMessage(
        "full",
        subject="subject",
        message_id="id",
        correlation_id="correlation",
        to="to",
        reply_to="reply",
        content_type="type",
        session_id="session",
        reply_to_session_id="back",
    )
    user = message("user", Label="subject", To="to", MessageId="id")
    assert lets_through(namespace, expression, full, user) == ["full"]


@item(39, "documented")
def test_a_sql_filter_has_parameters(namespace: Namespace) -> None:
    """Named with @, of any type.

    Source: Microsoft, "Subscription Rule SQL Filter Syntax", Examples; SDK test_mgmt_rule_create.
    """
    wanted = SqlRuleFilter("source = @source AND size > @size", parameters={"@source": "orders", "@size": 3})
    found = lets_through(
        namespace,
        wanted,
        message("both", source="orders", size=5),
        message("small", source="orders", size=3),
        message("other", source="bills", size=5),
    )
    assert found == ["both"]


@item(39, "documented")
def test_truth_values_are_constants(namespace: Namespace) -> None:
    """TRUE and FALSE.

    Source: Microsoft, "Subscription Rule SQL Filter Syntax", boolean_constant.
    """
    values = [message("yes", f=True), message("no", f=False)]
    assert lets_through(namespace, "f = TRUE", *values) == ["yes"]
    assert lets_through(namespace, "f = false", *values) == ["no"]


@item(39, "documented")
def test_the_body_is_not_filtered(namespace: Namespace) -> None:
    """All filters evaluate message properties.

    Source: Microsoft, "Topic filters and actions", note on filters.
    """
    assert lets_through(namespace, "body = 'x'", ServiceBusMessage("x")) == []


@item(39, "documented")
def test_a_filter_has_at_most_1024_characters(namespace: Namespace) -> None:
    """The maximum length of a filter condition.

    Source: Microsoft, "Service Bus quotas".
    """
    assert lets_through(namespace, f"a = '{'x' * 1000}'", message("a", a="x" * 1000)) == ["a"]
    with pytest.raises(HttpResponseError):
        subscribed(namespace, {"long": f"a = '{'x' * 1024}'"})


# -- 40


@item(40, "documented")
@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("SET colour = 'blue'", {"colour": "blue", "n": 10}), ("SET extra = 1", {"colour": "red", "n": 10, "extra": 1}),
        ("REMOVE colour", {"n": 10}), ("SET n = n / 2;", {"colour": "red", "n": 5}),
        ("SET n = n + 1; REMOVE colour; SET a = 'x'", {"n": 11, "a": "x"}), ("REMOVE nothing", {"colour": "red", "n": 10}),
        ("SET [with space] = TRUE", {"colour": "red", "n": 10, "with space": True}),
        ("SET user.n = 2.5 * 2", {"colour": "red", "n": 5}),
    ],
)  # fmt: skip
def test_an_action_sets_and_removes_properties(namespace: Namespace, action: str, expected: dict[str, Any]) -> None:
    """On the copy, which names the rule in RuleName.

    Source: Microsoft, "Topic filters and actions", Actions; "Subscription Rule SQL Action Syntax".
    """
    topic = subscribed(namespace, {"mine": ("colour = 'red'", action)})
    (found,) = delivered(namespace, topic, message("m", colour="red", n=10))
    assert user_properties(found) == expected | {"RuleName": "mine"}


@item(40, "documented")
def test_an_action_sets_properties_of_the_system(namespace: Namespace) -> None:
    """As sys. and the name.

    Source: Microsoft, "Subscription Rule SQL Action Syntax", Arguments.
    """
    topic = subscribed(namespace, {"mine": ("1=1", "SET sys.Label = 'new'; SET sys.CorrelationId = 'c' + '1'")})
    (found,) = delivered(namespace, topic, ServiceBusMessage("m", subject="old"))[:1]
    assert (found.subject, found.correlation_id) == ("new", "c1")


@item(40, "documented")
def test_every_matching_rule_with_an_action_makes_a_copy(namespace: Namespace) -> None:
    """Two rules with actions and three without, all matching: three messages.

    Source: Microsoft, "Topic filters and actions", the scenario of five rules.
    """
    plain = dict.fromkeys(("one", "two", "three"), "colour = 'red'")
    topic = subscribed(
        namespace,
        plain | {"four": ("colour = 'red'", "SET by = 'four'"), "five": ("colour = 'red'", "SET by = 'five'")},
    )
    found = [user_properties(copy) for copy in delivered(namespace, topic, message("m", colour="red"))]
    assert sorted(found, key=lambda copy: str(copy.get("by", ""))) == [
        {"colour": "red"},
        {"colour": "red", "by": "five", "RuleName": "five"},
        {"colour": "red", "by": "four", "RuleName": "four"},
    ]


@item(40, "documented")
def test_an_action_runs_only_where_its_filter_matches(namespace: Namespace) -> None:
    """Another message has no copy of that rule.

    Source: Microsoft, "Topic filters and actions": the action runs after the message matches.
    """
    topic = subscribed(namespace, {"halved": ("colour = 'red'", "SET n = n / 2"), "all": "1=1"})
    found = delivered(namespace, topic, message("red", colour="red", n=10), message("blue", colour="blue", n=10))
    assert sorted((str(copy), user_properties(copy)["n"]) for copy in found) == [("blue", 10), ("red", 5), ("red", 10)]


@item(40, "documented")
def test_changes_are_private_to_the_subscription(namespace: Namespace) -> None:
    """Others get the message as it was sent.

    Source: Microsoft, "Topic filters and actions": changes are private to the message copied into the subscription.
    """
    topic = subscribed(namespace, {"mine": ("1=1", "SET colour = 'blue'")})
    namespace.subscription(topic, "other")
    delivered(namespace, topic, message("m", colour="red"))
    (untouched, _) = completed(namespace.subscriber(topic, "other"), 2)
    assert user_properties(untouched) == {"colour": "red"}


@item(40, "documented")
def test_an_action_with_an_unknown_value_does_not_fail(namespace: Namespace) -> None:
    """A property of the user that does not exist is unknown; the copy is made.

    Source: Microsoft, "Subscription Rule SQL Action Syntax", Considerations.
    """
    topic = subscribed(namespace, {"mine": ("1=1", "SET sum = missing + 1")})
    (found, *_) = delivered(namespace, topic, message("m"))
    assert str(found) == "m"
    assert user_properties(found).get("sum") is None


@item(40, "documented")
def test_setting_converts_to_the_type_that_was_there(namespace: Namespace) -> None:
    """If possible.

    Source: Microsoft, "Subscription Rule SQL Action Syntax", Considerations: implicit conversion.
    """
    topic = subscribed(namespace, {"mine": ("1=1", "SET n = 7")})
    (found, *_) = delivered(namespace, topic, message("m", n=2.5))
    assert user_properties(found)["n"] == 7
    assert type(user_properties(found)["n"]) is float


@item(40, "documented")
def test_an_action_that_is_no_statement_is_refused(namespace: Namespace) -> None:
    """When the rule is made.

    Source: Microsoft, "Service Bus messaging exceptions", RuleActionException: an attempt to create an invalid rule action.
    """
    with pytest.raises(HttpResponseError) as refused:
        subscribed(namespace, {"broken": ("1=1", "SET = 1")})
    assert refused.value.status_code == 400


# -- 41


@item(41, "documented")
def test_a_message_that_a_filter_fails_on_is_a_dead_letter(namespace: Namespace) -> None:
    """With the error; others go on.

    Source: Microsoft, "Overview of Service Bus dead-letter queues", Errors while processing subscription rules.
    """
    topic = subscribed(namespace, {"typed": "colour > 5"}, dead_lettering_on_filter_evaluation_exceptions=True)
    assert bodies(delivered(namespace, topic, message("text", colour="red"), message("number", colour=6))) == ["number"]
    assert namespace.subscription_counts(topic).dead == 1
    (dead,) = completed(namespace.subscriber(topic, sub_queue=ServiceBusSubQueue.DEAD_LETTER))
    assert str(dead) == "text"
    assert dead.dead_letter_reason
    assert dead.dead_letter_error_description


@item(41, "documented")
def test_without_the_setting_a_message_that_a_filter_fails_on_is_dropped(namespace: Namespace) -> None:
    """Neither delivered nor a dead letter.

    Source: Microsoft, "Overview of Service Bus dead-letter queues": "If you enable dead-lettering on filter evaluation exceptions".
    """
    topic = subscribed(namespace, {"typed": "colour > 5"}, dead_lettering_on_filter_evaluation_exceptions=False)
    assert delivered(namespace, topic, message("text", colour="red")) == []
    assert namespace.subscription_counts(topic).dead == 0


@item(41, "unverified")
def test_a_failing_filter_leaves_the_copies_of_other_rules(namespace: Namespace) -> None:
    """The message is delivered by them, and a dead letter too.

    Source: nobody says it.
    """
    topic = subscribed(
        namespace, {"typed": "colour > 5", "all": "1=1"}, dead_lettering_on_filter_evaluation_exceptions=True
    )
    assert bodies(delivered(namespace, topic, message("text", colour="red"))) == ["text"]
    assert namespace.subscription_counts(topic).dead == 1


@item(41, "documented")
def test_a_missing_property_is_no_error(namespace: Namespace) -> None:
    """It is unknown, and the message not matched.

    Source: Microsoft, "Subscription Rule SQL Filter Syntax", Remarks.
    """
    topic = subscribed(namespace, {"typed": "colour > 5"}, dead_lettering_on_filter_evaluation_exceptions=True)
    assert delivered(namespace, topic, message("none")) == []
    assert namespace.subscription_counts(topic).dead == 0
