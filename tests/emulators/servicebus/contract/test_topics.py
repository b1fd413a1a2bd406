"""Items 36 and 37: every subscription gets its own copy, as its rules let it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusError
from azure.servicebus.management import CorrelationRuleFilter, FalseRuleFilter, TrueRuleFilter

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import LOCK, Namespace
from tests.emulators.servicebus.contract.publishing import DEFAULT_RULE, bodies, delivered, message, subscribed
from tests.emulators.servicebus.contract.receiving import complete, completed, take, take_one


def topic_with(namespace: Namespace, *subscriptions: str) -> str:
    topic = namespace.topic()
    for name in subscriptions:
        namespace.subscription(topic, name)
    return topic


# -- 36


@item(36, "documented")
def test_every_subscription_gets_a_copy_in_order(namespace: Namespace) -> None:
    """Of each message sent to the topic.

    Source: Microsoft, "Service Bus queues, topics, and subscriptions"; "Topic filters and actions", Usage patterns.
    """
    topic = topic_with(namespace, "one", "two")
    namespace.topic_sender(topic).send_messages([ServiceBusMessage(body) for body in "abc"])
    for name in ("one", "two"):
        assert complete(namespace.subscriber(topic, name), 3) == ["a", "b", "c"]


@item(36, "documented")
def test_settling_a_copy_leaves_the_others_alone(namespace: Namespace) -> None:
    """Completed here, abandoned or dead-lettered there.

    Source: Microsoft, "Service Bus queues, topics, and subscriptions": a subscription resembles a virtual queue that receives copies.
    """
    topic = topic_with(namespace, "one", "two")
    namespace.topic_sender(topic).send_messages([ServiceBusMessage(body) for body in "ab"])
    one, two = namespace.subscriber(topic, "one"), namespace.subscriber(topic, "two")
    assert complete(one, 2) == ["a", "b"]
    first, second = take(two, 2)
    two.dead_letter_message(second, reason="no")
    two.abandon_message(first)
    (again,) = completed(two)
    assert (str(again), again.delivery_count) == ("a", 1)
    assert namespace.subscription_counts(topic, "one").dead == 0
    assert namespace.subscription_counts(topic, "two").dead == 1
    (dead,) = completed(namespace.subscriber(topic, "two", sub_queue=ServiceBusSubQueue.DEAD_LETTER))
    assert (str(dead), dead.dead_letter_reason) == ("b", "no")


@item(36, "documented")
def test_every_copy_has_a_lock_of_its_own(namespace: Namespace) -> None:
    """And counts its own deliveries.

    Source: Microsoft, "Service Bus queues, topics, and subscriptions".
    """
    topic = topic_with(namespace, "one", "two")
    namespace.topic_sender(topic).send_messages(ServiceBusMessage("a"))
    locked = take_one(namespace.subscriber(topic, "one"))
    other = take_one(namespace.subscriber(topic, "two"))
    assert locked.lock_token != other.lock_token
    namespace.let_pass(LOCK)
    receiver = namespace.subscriber(topic, "one")
    (again,) = completed(receiver)
    assert again.delivery_count == 1


@item(36, "documented")
def test_subscriptions_count_their_own_messages(namespace: Namespace) -> None:
    """The administration tells them apart.

    Source: Microsoft, "Message counters"; SDK test_mgmt_sub_get_runtime_props_basic.
    """
    topic = topic_with(namespace, "one", "two")
    namespace.topic_sender(topic).send_messages([ServiceBusMessage(body) for body in "abc"])
    complete(namespace.subscriber(topic, "one"), 2)
    assert namespace.subscription_counts(topic, "one").active == 1
    assert namespace.subscription_counts(topic, "two").active == 3
    assert namespace.admin.get_topic_runtime_properties(topic).subscription_count == 2


@item(36, "documented")
def test_a_topic_without_subscriptions_takes_messages(namespace: Namespace) -> None:
    """Only with filtering before publishing is it an error that nobody wants one.

    Source: Microsoft, "Service Bus messaging exceptions", NoMatchingSubscriptionException.
    """
    namespace.topic_sender(namespace.topic()).send_messages(ServiceBusMessage("nobody's"))


@item(36, "unverified")
def test_a_new_subscription_gets_nothing_of_before(namespace: Namespace) -> None:
    """Copies are made when messages are sent.

    Source: nobody says it outright.
    """
    topic = namespace.topic()
    sender = namespace.topic_sender(topic)
    sender.send_messages(ServiceBusMessage("before"))
    namespace.subscription(topic)
    sender.send_messages(ServiceBusMessage("after"))
    assert complete(namespace.subscriber(topic)) == ["after"]


@item(36, "documented")
def test_nothing_is_received_from_a_topic_itself(namespace: Namespace) -> None:
    """Only from subscriptions; and nothing is sent to these.

    Source: Microsoft, "Service Bus queues, topics, and subscriptions": messages are received from a topic through its subscriptions.
    """
    topic = topic_with(namespace, "one")
    with pytest.raises(ServiceBusError):
        namespace.receiver(topic)
    with pytest.raises(ServiceBusError):
        namespace.sender(f"{topic}/Subscriptions/one")


@item(36, "documented")
def test_names_of_topics_and_subscriptions_have_no_case(namespace: Namespace) -> None:
    """In another one they lead to the same place.

    Source: Microsoft, "Naming rules and restrictions for Azure resources", Microsoft.ServiceBus.
    """
    topic = topic_with(namespace, "One")
    namespace.topic_sender(topic.upper()).send_messages(ServiceBusMessage("a"))
    assert complete(namespace.subscriber(topic.upper(), "oNE")) == ["a"]


@item(36, "documented")
def test_a_scheduled_message_reaches_the_subscriptions_when_it_is_due(namespace: Namespace) -> None:
    """Until then the topic has it, where it can be cancelled.

    Source: Microsoft, "Message sequencing and timestamps", Scheduled messages: to a queue or topic.
    """
    topic = topic_with(namespace, "one", "two")
    sender = namespace.topic_sender(topic)
    due = namespace.now() + timedelta(seconds=20)
    sender.schedule_messages(ServiceBusMessage("later"), due)
    cancelled = sender.schedule_messages(ServiceBusMessage("never"), due)
    assert namespace.admin.get_topic_runtime_properties(topic).scheduled_message_count == 2
    sender.cancel_scheduled_messages(cancelled)
    assert namespace.subscription_counts(topic, "one").active == 0
    namespace.let_pass(timedelta(seconds=21))
    for name in ("one", "two"):
        assert complete(namespace.subscriber(topic, name)) == ["later"]
    assert namespace.subscription_counts(topic, "one").active == 0


@item(36, "documented")
def test_a_topic_drops_duplicates_for_all_its_subscriptions(namespace: Namespace) -> None:
    """The history is the topic's.

    Source: Microsoft, "Duplicate detection".
    """
    topic = namespace.topic(requires_duplicate_detection=True)
    namespace.subscription(topic)
    sender = namespace.topic_sender(topic)
    for body, message_id in (("a", "1"), ("again", "1"), ("b", "2")):
        sender.send_messages(ServiceBusMessage(body, message_id=message_id))
    assert complete(namespace.subscriber(topic), 2) == ["a", "b"]
    assert namespace.subscription_counts(topic).active == 0


@item(36, "documented")
def test_a_copy_without_a_session_is_a_dead_letter_where_sessions_are_required(namespace: Namespace) -> None:
    """The topic takes the message, and so do other subscriptions.

    Source: Microsoft, "Overview of Service Bus dead-letter queues": "Session ID is null".
    """
    topic = topic_with(namespace, "plain")
    namespace.subscription(topic, "ordered", requires_session=True)
    namespace.topic_sender(topic).send_messages(
        [ServiceBusMessage("loose"), ServiceBusMessage("bound", session_id="s")]
    )
    assert complete(namespace.subscriber(topic, "plain"), 2) == ["loose", "bound"]
    assert complete(namespace.subscriber(topic, "ordered", session_id="s")) == ["bound"]
    (dead,) = completed(namespace.subscriber(topic, "ordered", sub_queue=ServiceBusSubQueue.DEAD_LETTER))
    assert str(dead) == "loose"
    assert (dead.dead_letter_reason or "").startswith("Session ID is null")
    text = "Session enabled entity doesn't allow a message whose session identifier is null."
    assert dead.dead_letter_error_description == text


# -- 37


@item(37, "documented")
def test_a_new_subscription_has_a_default_rule_that_takes_everything(namespace: Namespace) -> None:
    """Its filter is true and it has no action.

    Source: Microsoft, "Topic filters and actions"; SDK test_mgmt_rule_list_and_delete.
    """
    topic = topic_with(namespace, "one")
    (rule,) = namespace.admin.list_rules(topic, "one")
    assert (rule.name, type(rule.filter), rule.action) == (DEFAULT_RULE, TrueRuleFilter, None)
    namespace.topic_sender(topic).send_messages([message("a"), message("b", colour="red")])
    assert complete(namespace.subscriber(topic, "one"), 2) == ["a", "b"]


@item(37, "documented")
def test_without_a_rule_nothing_is_delivered(namespace: Namespace) -> None:
    """Not as a dead letter either.

    Source: Microsoft, "Topic filters and actions": rules say which messages a subscriber wants.
    """
    topic = topic_with(namespace, "none", "all")
    namespace.admin.delete_rule(topic, "none", DEFAULT_RULE)
    assert list(namespace.admin.list_rules(topic, "none")) == []
    namespace.topic_sender(topic).send_messages(message("a"))
    assert complete(namespace.subscriber(topic, "all")) == ["a"]
    assert namespace.subscription_counts(topic, "none")[:2] == (0, 0)


@item(37, "documented")
def test_rules_without_actions_make_one_message_together(namespace: Namespace) -> None:
    """Any of them is enough.

    Source: Microsoft, "Topic filters and actions": combined using an OR condition.
    """
    topic = subscribed(
        namespace,
        {
            "labelled": CorrelationRuleFilter(label="wanted"),
            "late": CorrelationRuleFilter(properties={"kind": "late"}),
            "sql": "kind = 'late'",
        },
    )
    both = ServiceBusMessage("both", subject="wanted", application_properties={"kind": "late"})
    found = delivered(namespace, topic, both, message("neither"), message("one", kind="late"))
    assert bodies(found) == ["both", "one"]


@item(37, "documented")
def test_true_and_false_filters_take_all_and_nothing(namespace: Namespace) -> None:
    """Boolean filters.

    Source: Microsoft, "Topic filters and actions", Boolean filters.
    """
    nothing = subscribed(namespace, {"false": FalseRuleFilter()})
    assert delivered(namespace, nothing, message("a"), message("b")) == []
    everything = subscribed(namespace, {"true": TrueRuleFilter()})
    assert bodies(delivered(namespace, everything, message("a"), message("b"))) == ["a", "b"]
    as_sql = subscribed(namespace, {"sql": "1=1"})
    assert bodies(delivered(namespace, as_sql, message("a"))) == ["a"]


@item(37, "unverified")
def test_a_changed_rule_is_for_messages_of_later(namespace: Namespace) -> None:
    """What is there already stays.

    Source: nobody says it; filters are evaluated against arriving messages ("Topic filters and actions").
    """
    topic = topic_with(namespace, "one", "all")
    sender = namespace.topic_sender(topic)
    sender.send_messages(message("before"))
    rule = namespace.admin.get_rule(topic, "one", DEFAULT_RULE)
    rule.filter = FalseRuleFilter()
    namespace.admin.update_rule(topic, "one", rule)
    sender.send_messages(message("after"))
    assert complete(namespace.subscriber(topic, "all"), 2) == ["before", "after"]
    assert complete(namespace.subscriber(topic, "one")) == ["before"]
    assert namespace.subscription_counts(topic, "one").active == 0


@item(37, "documented")
def test_a_filter_that_is_no_expression_is_refused(namespace: Namespace) -> None:
    """When the rule is made.

    Source: Microsoft, "Service Bus messaging exceptions", FilterException: an attempt to create an invalid filter.
    """
    with pytest.raises(HttpResponseError) as refused:
        subscribed(namespace, {"broken": "colour = "})
    assert refused.value.status_code == 400
