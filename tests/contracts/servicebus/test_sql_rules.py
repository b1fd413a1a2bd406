"""SQL filters and actions of subscriptions, as messages of Azure's own client meet them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusSubQueue

from emulators.servicebus.description import SubscriptionDescription, TopicDescription
from emulators.servicebus.rules.description import RuleDescription, SqlAction, SqlFilter

from .conftest import Bus

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the SDK forgets failed ones

PATH = "filtered/Subscriptions/s"


@pytest.fixture
def subscription(bus: Bus) -> Iterator[str]:
    bus.create("filtered", TopicDescription())
    bus.emulator.admin.create(PATH, SubscriptionDescription())
    bus.emulator.admin.delete_rule(PATH, "$Default")
    yield PATH
    bus.emulator.admin.delete(PATH)


def publish(bus: Bus, *messages: ServiceBusMessage) -> None:
    with bus.client.get_topic_sender("filtered") as sender:
        sender.send_messages(list(messages))


def received(bus: Bus, **options: Any) -> list[ServiceBusReceivedMessage]:
    info = bus.emulator.admin.get(PATH).counts
    count = info.dead_letter if options else info.active
    with bus.client.get_subscription_receiver("filtered", "s", receive_mode="receiveanddelete", **options) as receiver:
        return list(receiver.receive_messages(count, max_wait_time=5)) if count else []


def order(body: str, color: str, quantity: int) -> ServiceBusMessage:
    properties: dict[str | bytes, Any] = {"color": color, "quantity": quantity}
    return ServiceBusMessage(body, subject=color, application_properties=properties)


def test_a_sql_filter_takes_what_is_true(bus: Bus, subscription: str) -> None:
    """Row 39. service-bus-messaging-sql-filter."""
    text = "sys.Label LIKE 'r%' AND quantity > @least AND NOT EXISTS(hidden)"
    bus.emulator.admin.create_rule(subscription, "sql", RuleDescription(SqlFilter(text, {"@least": 5})))
    publish(bus, order("a", "red", 10), order("b", "blue", 10), order("c", "red", 5), ServiceBusMessage("d"))
    assert [str(m) for m in received(bus)] == ["a"]


def test_an_action_changes_the_copy_it_makes(bus: Bus, subscription: str) -> None:
    """Row 40. topic-filters, service-bus-messaging-sql-rule-action."""
    action = SqlAction("SET quantity = quantity / 2; REMOVE color; SET sys.CorrelationId = 'low'")
    for name, rule in (
        ("halved", RuleDescription(SqlFilter("color = 'red'"), action)),
        ("plain", RuleDescription(SqlFilter("quantity = 10"))),
        ("too", RuleDescription(SqlFilter("1=1"))),
    ):
        bus.emulator.admin.create_rule(subscription, name, rule)
    publish(bus, order("a", "red", 10))
    plain, halved = received(bus)
    assert plain.application_properties == {b"color": b"red", b"quantity": 10}
    assert plain.correlation_id is None
    assert halved.application_properties == {b"quantity": 5, b"RuleName": b"halved"}
    assert (halved.correlation_id, halved.subject, str(halved)) == ("low", "red", "a")


def test_a_filter_that_fails_makes_a_dead_letter_that_says_why(bus: Bus, subscription: str) -> None:
    """Row 41. service-bus-dead-letter-queues."""
    bus.emulator.admin.create_rule(subscription, "typed", RuleDescription(SqlFilter("color > 5")))
    publish(bus, order("a", "red", 10), ServiceBusMessage("no color: unknown, not a failure"))
    assert received(bus) == []
    (dead,) = received(bus, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    assert str(dead) == "a"
    description = "Rule 'typed' could not be evaluated: the operator > cannot be applied to string and long"
    assert dead.dead_letter_error_description == description
