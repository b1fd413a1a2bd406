"""Items 57 and 58: making, finding, changing and deleting entities and rules, and what deletes itself."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus import ServiceBusMessage
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleAction, SqlRuleFilter

from tests.emulators.servicebus.contract.labels import item
from tests.emulators.servicebus.contract.namespace import Namespace
from tests.emulators.servicebus.contract.receiving import completed, take, take_one

FOREVER = timedelta(days=10_675_199)
"""As good as: .NET's largest span of time, and a bit less than a day less."""


# -- 57


@item(57, "documented")
def test_a_queue_has_the_defaults_of_the_service(namespace: Namespace) -> None:
    """A minute's lock, ten deliveries, no sessions, no time to live.

    Source: Microsoft, "Create Queue" (REST), QueueDescription; CreateQueueOptions Class.
    """
    name = namespace.queue(lock_duration=None)
    queue = namespace.admin.get_queue(name)
    assert queue.name == name
    assert (queue.lock_duration, queue.max_delivery_count) == (timedelta(minutes=1), 10)
    assert (queue.requires_session, queue.requires_duplicate_detection) == (False, False)
    assert (queue.dead_lettering_on_message_expiration, queue.enable_batched_operations) == (False, True)
    assert (queue.status, queue.forward_to, queue.user_metadata) == ("Active", None, None)
    assert isinstance(queue.default_message_time_to_live, timedelta)
    assert queue.default_message_time_to_live >= FOREVER


@item(57, "documented")
def test_settings_come_back_as_they_were_given(namespace: Namespace) -> None:
    """Of a queue, a topic and a subscription.

    Source: SDK test_mgmt_queue_create_with_queue_description, test_mgmt_topic_create_with_topic_description,
    test_mgmt_sub_create_w_sub_desc.
    """
    receiving: dict[str, Any] = {
        "lock_duration": timedelta(seconds=13), "max_delivery_count": 14, "requires_session": True,
        "dead_lettering_on_message_expiration": True,
    }  # fmt: skip
    common: dict[str, Any] = {
        "default_message_time_to_live": timedelta(minutes=11),
        "auto_delete_on_idle": timedelta(minutes=10),
        "user_metadata": "<a & b>",
    }
    sending: dict[str, Any] = {
        "requires_duplicate_detection": True,
        "duplicate_detection_history_time_window": timedelta(minutes=12),
        "max_size_in_megabytes": 3072,
    }
    queue = namespace.admin.get_queue(namespace.queue(**receiving, **common, **sending))
    name = namespace.topic(**common, **sending)
    topic = namespace.admin.get_topic(name)
    namespace.subscription(name, **receiving, **common, dead_lettering_on_filter_evaluation_exceptions=True)
    subscription = namespace.admin.get_subscription(name, "subscription")
    for found, settings in (
        (queue, receiving | common | sending),
        (topic, common | sending),
        (subscription, receiving | common | {"dead_lettering_on_filter_evaluation_exceptions": True}),
    ):
        assert {key: getattr(found, key) for key in settings} == settings


@item(57, "documented")
def test_what_is_there_cannot_be_created(namespace: Namespace) -> None:
    """409, for every kind and in any case; a topic and a queue share their names.

    Source: SDK test_mgmt_queue_create_duplicate, test_mgmt_topic_create_duplicate, test_mgmt_subscription_create_duplicate,
    test_mgmt_rule_create_duplicate.
    """
    queue, topic = namespace.queue(), namespace.topic()
    namespace.subscription(topic)
    admin = namespace.admin
    admin.create_rule(topic, "subscription", "rule", filter=CorrelationRuleFilter(label="x"))
    for create in (
        lambda: admin.create_queue(queue),
        lambda: admin.create_queue(queue.upper()),
        lambda: admin.create_topic(topic),
        lambda: admin.create_topic(queue),
        lambda: admin.create_subscription(topic, "subscription"),
        lambda: admin.create_rule(topic, "subscription", "rule", filter=CorrelationRuleFilter(label="y")),
    ):
        with pytest.raises(ResourceExistsError):
            create()


@item(57, "documented")
def test_what_is_not_there_is_not_found(namespace: Namespace) -> None:
    """404, to get, to change and to delete.

    Source: SDK test_mgmt_queue_get_runtime_properties_negative, test_mgmt_queue_delete_one_and_check_not_existing,
    and their like for topics and subscriptions.
    """
    admin, missing, topic = namespace.admin, namespace.new_name(), namespace.topic()
    namespace.subscription(topic)
    gone = admin.get_queue(namespace.queue())
    gone.name = missing
    for ask in (
        lambda: admin.get_queue(missing),
        lambda: admin.get_queue_runtime_properties(missing),
        lambda: admin.update_queue(gone),
        lambda: admin.delete_queue(missing),
        lambda: admin.get_topic(missing),
        lambda: admin.get_topic_runtime_properties(missing),
        lambda: admin.delete_topic(missing),
        lambda: admin.create_subscription(missing, "any"),
        lambda: admin.get_subscription(topic, missing),
        lambda: admin.delete_subscription(topic, missing),
        lambda: admin.get_rule(topic, "subscription", missing),
        lambda: admin.delete_rule(topic, "subscription", missing),
        lambda: list(admin.list_rules(topic, missing)),
    ):
        with pytest.raises(ResourceNotFoundError):
            ask()


@item(57, "documented")
def test_an_update_changes_what_it_says_and_no_more(namespace: Namespace) -> None:
    """From now on.

    Source: SDK test_mgmt_queue_update_success.
    """
    queue = namespace.queue(max_delivery_count=5, user_metadata="kept")
    description = namespace.admin.get_queue(queue)
    description.max_delivery_count = 2
    description.default_message_time_to_live = timedelta(minutes=1)
    namespace.admin.update_queue(description)
    found = namespace.admin.get_queue(queue)
    assert (found.max_delivery_count, found.default_message_time_to_live) == (2, timedelta(minutes=1))
    assert (found.user_metadata, found.lock_duration) == ("kept", timedelta(seconds=5))
    with pytest.raises(HttpResponseError):
        namespace.admin.update_queue(found, lock_duration=timedelta(minutes=6))


@item(57, "documented")
def test_entities_are_listed_with_all_others(namespace: Namespace) -> None:
    """Queues, topics, subscriptions, with settings and with counts.

    Source: SDK test_mgmt_queue_list_basic, test_mgmt_queue_list_runtime_properties_basic, test_mgmt_topic_list,
    test_mgmt_subscription_list.
    """
    queue, topic = namespace.queue(), namespace.topic()
    for name in ("one", "two"):
        namespace.subscription(topic, name)
    admin = namespace.admin
    assert queue in {found.name for found in admin.list_queues()}
    assert queue in {found.name for found in admin.list_queues_runtime_properties()}
    assert topic in {found.name for found in admin.list_topics()}
    assert topic not in {found.name for found in admin.list_queues()}
    assert sorted(found.name for found in admin.list_subscriptions(topic)) == ["one", "two"]
    assert sorted(found.name for found in admin.list_subscriptions_runtime_properties(topic)) == ["one", "two"]
    admin.delete_queue(queue)
    assert queue not in {found.name for found in admin.list_queues()}


@item(57, "documented")
def test_lists_come_in_pages_of_a_hundred(namespace: Namespace) -> None:
    """$skip and $top; nothing is left out, nothing is twice.

    Source: SDK test_mgmt_queue_list_basic (its paging); Microsoft, "List Queues" (REST).
    """
    topic = namespace.topic()
    namespace.subscription(topic)
    names = [f"r{number:03d}" for number in range(105)]
    for name in names:
        namespace.admin.create_rule(topic, "subscription", name, filter=CorrelationRuleFilter(label=name))
    found = [rule.name for rule in namespace.admin.list_rules(topic, "subscription")]
    assert sorted(found) == sorted(["$Default", *names])


@item(57, "documented")
def test_counts_tell_messages_apart_by_their_state(namespace: Namespace) -> None:
    """Active, dead letters, scheduled; the total is their sum.

    Source: Microsoft, "Message counters"; SDK test_mgmt_queue_get_runtime_properties_basic.
    """
    queue = namespace.queue()
    sender, receiver = namespace.sender(queue), namespace.receiver(queue)
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(4)])
    sender.schedule_messages(ServiceBusMessage("later"), namespace.now() + timedelta(days=1))
    dead, _ = take(receiver, 2)
    receiver.dead_letter_message(dead)
    told = namespace.admin.get_queue_runtime_properties(queue)
    assert (told.active_message_count, told.dead_letter_message_count, told.scheduled_message_count) == (3, 1, 1)
    assert (told.transfer_message_count, told.transfer_dead_letter_message_count) == (0, 0)
    assert told.total_message_count == 5
    assert (told.size_in_bytes or 0) > 0
    assert told.created_at_utc is not None
    assert told.updated_at_utc is not None
    assert told.accessed_at_utc is not None


@item(57, "documented")
def test_deferred_messages_count_as_active(namespace: Namespace) -> None:
    """They are neither scheduled nor dead.

    Source: Microsoft, "Message counters": "This includes deferred messages".
    """
    queue = namespace.queue()
    namespace.send(queue, "a")
    receiver = namespace.receiver(queue)
    receiver.defer_message(take_one(receiver))
    assert namespace.counts(queue)[:3] == (1, 0, 0)


@item(57, "documented")
@pytest.mark.parametrize("name", ["q" * 261, "-begins", "ends-", "has space", "percent%", "ques?tion", "ha#sh"])
def test_a_name_that_is_not_allowed_is_refused(namespace: Namespace, name: str) -> None:
    """260 characters; letters, digits, periods, hyphens, underscores and slashes; a letter or digit first and last.

    Source: Microsoft, "Service Bus quotas"; "Naming rules and restrictions for Azure resources", Microsoft.ServiceBus.
    """
    with pytest.raises(HttpResponseError):
        namespace.admin.create_queue(name)
    with pytest.raises(HttpResponseError):
        namespace.admin.create_topic(name)


@item(57, "documented")
def test_names_of_queues_may_be_long_and_have_slashes(namespace: Namespace) -> None:
    """260 characters.

    Source: Microsoft, "Service Bus quotas", Maximum size of any messaging entity path.
    """
    made = namespace.new_name()
    for name in (f"{made}/in/here.x_y", f"{made}{'q' * (260 - len(made))}"):
        namespace.admin.create_queue(name)
        namespace.send(name, "a")
        assert [str(m) for m in completed(namespace.receiver(name))] == ["a"]
        namespace.admin.delete_queue(name)


@item(57, "documented")
def test_subscriptions_and_rules_have_names_of_fifty_characters(namespace: Namespace) -> None:
    """And no more.

    Source: Microsoft, "Service Bus quotas": subscription, or subscription rule: 50 characters.
    """
    topic = namespace.topic()
    namespace.subscription(topic, "s" * 50)
    namespace.admin.create_rule(topic, "s" * 50, "r" * 50, filter=CorrelationRuleFilter(label="x"))
    with pytest.raises(HttpResponseError):
        namespace.admin.create_subscription(topic, "s" * 51)
    with pytest.raises(HttpResponseError):
        namespace.admin.create_rule(topic, "s" * 50, "r" * 51, filter=CorrelationRuleFilter(label="x"))


@item(57, "documented")
def test_rules_come_back_as_they_were_given(namespace: Namespace) -> None:
    """With parameters and action; an update replaces them.

    Source: SDK test_mgmt_rule_create, test_mgmt_rule_update_success.
    """
    topic, admin = namespace.topic(), namespace.admin
    namespace.subscription(topic)
    given = SqlRuleFilter("Priority = @param", parameters={"@param": "low", "@number": 5})
    admin.create_rule(topic, "subscription", "sql", filter=given, action=SqlRuleAction("SET Priority = 'low'"))
    rule = admin.get_rule(topic, "subscription", "sql")
    assert isinstance(rule.filter, SqlRuleFilter)
    assert rule.filter.sql_expression == "Priority = @param"
    assert rule.filter.parameters == {"@param": "low", "@number": 5}
    assert rule.action is not None
    assert rule.action.sql_expression == "SET Priority = 'low'"
    rule.filter, rule.action = CorrelationRuleFilter(correlation_id="c", properties={"key": "value"}), None
    admin.update_rule(topic, "subscription", rule)
    changed = admin.get_rule(topic, "subscription", "sql")
    assert isinstance(changed.filter, CorrelationRuleFilter)
    assert (changed.filter.correlation_id, changed.filter.properties) == ("c", {"key": "value"})
    assert (changed.action, changed.created_at_utc) == (None, rule.created_at_utc)


# -- 58


@item(58, "documented")
@pytest.mark.parametrize("setting", ["requires_session", "requires_duplicate_detection", "enable_partitioning"])
def test_what_is_fixed_at_creation_cannot_be_changed(namespace: Namespace, setting: str) -> None:
    """Sessions, duplicate detection, partitioning.

    Source: Microsoft, "Enable message sessions", "Enable duplicate message detection": cannot be changed after creation;
    "Partitioned queues and topics"; SDK test_mgmt_queue_update_invalid.
    """
    name = namespace.queue()
    queue = namespace.admin.get_queue(name)
    setattr(queue, setting, True)
    with pytest.raises(HttpResponseError):
        namespace.admin.update_queue(queue)
    assert getattr(namespace.admin.get_queue(name), setting) is False


@item(58, "documented")
def test_an_idle_entity_deletes_itself(namespace: Namespace) -> None:
    """After five minutes, the least there is.

    Source: Microsoft, "Message expiration", Temporary entities; CreateQueueOptions.AutoDeleteOnIdle Property.
    """
    queue = namespace.queue(auto_delete_on_idle=timedelta(minutes=5))
    namespace.let_pass(timedelta(minutes=4))
    assert queue in {found.name for found in namespace.admin.list_queues()}
    namespace.let_pass(timedelta(minutes=2))
    end = time.monotonic() + 60
    while queue in {found.name for found in namespace.admin.list_queues()}:
        assert time.monotonic() < end
        time.sleep(0.05)


@item(58, "documented")
def test_an_entity_in_use_does_not_delete_itself(namespace: Namespace) -> None:
    """Sends and receives count from anew.

    Source: Microsoft, "Message expiration", Temporary entities: Idleness (sends, receives, updates, scheduled messages, browsing).
    """
    queue = namespace.queue(auto_delete_on_idle=timedelta(minutes=5))
    for _ in range(2):
        namespace.let_pass(timedelta(minutes=4))
        namespace.send(queue, "a")
    assert namespace.counts(queue).active == 2


@item(58, "documented")
def test_less_than_five_minutes_of_idleness_is_refused(namespace: Namespace) -> None:
    """The minimum duration.

    Source: Microsoft, CreateQueueOptions.AutoDeleteOnIdle Property: "The minimum duration is 5 minutes".
    """
    with pytest.raises(HttpResponseError):
        namespace.queue(auto_delete_on_idle=timedelta(minutes=4, seconds=59))
