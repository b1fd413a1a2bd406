"""Rules of subscriptions: which take a message, and what happens to one that a subscription cannot take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue

from emulators.servicebus.description import (
    EntityExists,
    EntityMissing,
    InvalidEntity,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.rules.description import (
    DEFAULT_RULE,
    CorrelationFilter,
    FalseFilter,
    RuleDescription,
    SqlAction,
    SqlFilter,
    TrueFilter,
)

from .conftest import Bus

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the SDK forgets failed ones

PATH = "events/Subscriptions/s"
LABELLED = RuleDescription(CorrelationFilter(label="wanted"))


@pytest.fixture
def subscription(bus: Bus) -> Iterator[str]:
    bus.create("events", TopicDescription())
    bus.emulator.admin.create(PATH, SubscriptionDescription())
    yield PATH
    bus.emulator.admin.delete(PATH)


def publish(bus: Bus, *messages: ServiceBusMessage) -> None:
    with bus.client.get_topic_sender("events") as sender:
        sender.send_messages(list(messages))


def received(bus: Bus, name: str = "s") -> list[str]:
    with bus.client.get_subscription_receiver("events", name, receive_mode="receiveanddelete") as receiver:
        return [str(m) for m in receiver.receive_messages(bus.active(f"events/Subscriptions/{name}"), max_wait_time=5)]


def test_a_new_subscription_has_a_default_rule_that_takes_everything(bus: Bus, subscription: str) -> None:
    """Row 37. topic-filters."""
    (rule,) = bus.emulator.admin.rules(subscription)
    assert (rule.name, rule.description) == (DEFAULT_RULE, RuleDescription(TrueFilter()))
    publish(bus, ServiceBusMessage("a"), ServiceBusMessage("b"))
    assert received(bus) == ["a", "b"]


def test_without_a_rule_nothing_is_delivered(bus: Bus, subscription: str) -> None:
    """Row 37. topic-filters."""
    bus.emulator.admin.delete_rule(subscription, "$DEFAULT")
    assert bus.emulator.admin.rules(subscription) == []
    publish(bus, ServiceBusMessage("nobody's"))
    assert bus.active(subscription) == bus.dead(subscription) == 0


def test_a_message_is_taken_when_any_rule_matches_and_only_once(bus: Bus, subscription: str) -> None:
    """Row 36, 38. topic-filters."""
    admin = bus.emulator.admin
    admin.create_rule(subscription, "label", LABELLED)
    admin.create_rule(subscription, "property", RuleDescription(CorrelationFilter(properties={"kind": "late"})))
    admin.delete_rule(subscription, DEFAULT_RULE)
    publish(
        bus,
        ServiceBusMessage("both", subject="wanted", application_properties={"kind": "late"}),
        ServiceBusMessage("neither", subject="other"),
        ServiceBusMessage("property", application_properties={"kind": "late"}),
    )
    assert received(bus) == ["both", "property"]


def test_a_changed_rule_holds_for_later_messages(bus: Bus, subscription: str) -> None:
    publish(bus, ServiceBusMessage("before"))
    created_at = bus.emulator.admin.rule(subscription, DEFAULT_RULE).created_at
    bus.emulator.admin.update_rule(subscription, DEFAULT_RULE, RuleDescription(FalseFilter()))
    assert bus.emulator.admin.rule(subscription, "$default").created_at == created_at
    publish(bus, ServiceBusMessage("after"))
    assert received(bus) == ["before"]


def test_a_subscription_may_begin_with_another_rule(bus: Bus, subscription: str) -> None:
    path = "events/Subscriptions/choosy"
    bus.emulator.admin.create(path, SubscriptionDescription(), ("Mine", LABELLED))
    assert [rule.name for rule in bus.emulator.admin.rules(path)] == ["Mine"]
    publish(bus, ServiceBusMessage("no"), ServiceBusMessage("yes", subject="wanted"))
    assert received(bus, "choosy") == ["yes"]
    bus.emulator.admin.delete(path)


def test_rules_have_names_of_their_own(bus: Bus, subscription: str) -> None:
    admin = bus.emulator.admin
    admin.create_rule(subscription, "Rule", LABELLED)
    with pytest.raises(EntityExists):
        admin.create_rule(subscription, "rULE", LABELLED)
    for name in ("", "x" * 51, "a/b", "what?"):
        with pytest.raises(InvalidEntity):
            admin.create_rule(subscription, name, LABELLED)
    for missing in (lambda: admin.rule(subscription, "other"), lambda: admin.delete_rule(subscription, "other")):
        with pytest.raises(EntityMissing):
            missing()
    with pytest.raises(EntityMissing):
        admin.rules("events")


def test_a_message_without_a_session_is_a_dead_letter_where_sessions_are_required(bus: Bus, subscription: str) -> None:
    """The topic takes it, and so do other subscriptions. service-bus-dead-letter-queues."""
    path = "events/Subscriptions/ordered"
    bus.emulator.admin.create(path, SubscriptionDescription(requires_session=True))
    publish(bus, ServiceBusMessage("loose"), ServiceBusMessage("bound", session_id="x"))
    assert received(bus) == ["loose", "bound"]
    assert (bus.active(path), bus.dead(path)) == (1, 1)
    with bus.client.get_subscription_receiver(
        "events", "ordered", sub_queue=ServiceBusSubQueue.DEAD_LETTER
    ) as receiver:
        (dead,) = receiver.receive_messages(1, max_wait_time=5)
        assert (str(dead), dead.dead_letter_reason) == ("loose", "Session ID is null")
        receiver.complete_message(dead)
    bus.emulator.admin.delete(path)


def test_a_message_that_a_filter_fails_on_is_a_dead_letter(bus: Bus, subscription: str) -> None:
    """Row 41. service-bus-dead-letter-queues; the reason is not documented."""
    bus.emulator.admin.create_rule(subscription, "broken", RuleDescription(SqlFilter("total / parts > 1")))
    bus.emulator.admin.delete_rule(subscription, DEFAULT_RULE)
    publish(bus, ServiceBusMessage("m", application_properties={"total": 1, "parts": 0}))
    assert (bus.active(subscription), bus.dead(subscription)) == (0, 1)
    with bus.client.get_subscription_receiver("events", "s", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        (dead,) = receiver.receive_messages(1, max_wait_time=5)
        assert (str(dead), dead.dead_letter_reason) == ("m", "FilterEvaluationException")
        assert "broken" in (dead.dead_letter_error_description or "")
        receiver.complete_message(dead)


def test_every_matching_rule_with_an_action_makes_a_copy_of_its_own(bus: Bus, subscription: str) -> None:
    """Row 40. topic-filters."""
    for name in ("one", "two"):
        action = SqlAction(f"SET colour = '{name}'")
        bus.emulator.admin.create_rule(subscription, name, RuleDescription(TrueFilter(), action))
    publish(bus, ServiceBusMessage("m"))
    with bus.client.get_subscription_receiver("events", "s", receive_mode="receiveanddelete") as receiver:
        messages = receiver.receive_messages(3, max_wait_time=5)
    assert [(m.application_properties or {}).get(b"colour") for m in messages] == [None, b"one", b"two"]
    assert [m.sequence_number for m in messages] == [1, 2, 3]
