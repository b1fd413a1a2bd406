"""Rules of subscriptions, as the emulator's own administration keeps them; what they let through is in the contract (items 37 to 41)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusMessage

from emulators.servicebus.description import (
    EntityExists,
    EntityMissing,
    InvalidEntity,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.rules.description import (
    CorrelationFilter,
    RuleDescription,
)
from tests.emulators.servicebus.conftest import Bus

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
