"""Topics: every subscription has its own copy, its own locks, its own counts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiver, ServiceBusSubQueue

from emulators.servicebus.description import SubscriptionDescription, TopicDescription

from .conftest import LOCK, Bus

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the SDK forgets failed ones


@pytest.fixture(scope="module")
def topic(bus: Bus) -> str:
    bus.create("news", TopicDescription(requires_duplicate_detection=True))
    for name in ("one", "two"):
        bus.emulator.admin.create(f"news/Subscriptions/{name}", SubscriptionDescription(lock_duration=LOCK))
    bus.emulator.admin.create(
        "news/Subscriptions/ordered", SubscriptionDescription(lock_duration=LOCK, requires_session=True)
    )
    return "news"


def publish(bus: Bus, topic: str, *messages: ServiceBusMessage) -> None:
    with bus.client.get_topic_sender(topic) as sender:
        sender.send_messages(list(messages))


def receive(receiver: ServiceBusReceiver, count: int) -> list[Any]:
    return receiver.receive_messages(count, max_wait_time=5)


def test_every_subscription_settles_its_own_copy(bus: Bus, topic: str) -> None:
    """Row 36, 37: the $Default filter lets everything through. topic-filters."""
    publish(bus, topic, *(ServiceBusMessage(str(n), message_id=f"m{n}", session_id="s") for n in range(3)))
    publish(bus, topic, ServiceBusMessage("again", message_id="m0", session_id="s"))
    with (
        bus.client.get_subscription_receiver(topic, "one") as one,
        bus.client.get_subscription_receiver("NEWS", "TWO") as two,
    ):
        for message in receive(one, 3):
            one.complete_message(message)
        messages = receive(two, 3)
        assert [str(m) for m in messages] == ["0", "1", "2"]
        two.abandon_message(messages[0])
        two.dead_letter_message(messages[1], reason="no")
        two.complete_message(messages[2])
        (again,) = receive(two, 1)
        assert (str(again), again.delivery_count) == ("0", 1)
        two.complete_message(again)
    assert (bus.active("news/Subscriptions/one"), bus.dead("news/Subscriptions/one")) == (0, 0)
    assert (bus.active("news/Subscriptions/two"), bus.dead("news/Subscriptions/two")) == (0, 1)
    with bus.client.get_subscription_receiver(topic, "two", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters:
        (dead,) = receive(dead_letters, 1)
        assert (str(dead), dead.dead_letter_reason) == ("1", "no")
        dead_letters.complete_message(dead)
    with bus.client.get_subscription_receiver(topic, "ordered", session_id="s") as session:
        for message in receive(session, 3):
            session.complete_message(message)


def test_scheduled_messages_of_a_topic_reach_the_subscriptions_when_due(bus: Bus, topic: str) -> None:
    """Row 21 on a topic. message-sequencing."""
    from datetime import UTC, datetime

    due = datetime.now(UTC) + timedelta(seconds=bus.clock.offset + 60)
    with bus.client.get_topic_sender(topic) as sender:
        sender.schedule_messages(ServiceBusMessage("later", session_id="s"), due)
    assert bus.active("news/Subscriptions/one") == 0
    assert bus.emulator.admin.get(topic).counts.scheduled == 1
    bus.clock.advance(timedelta(seconds=61))
    with bus.client.get_subscription_receiver(topic, "one") as one:
        (message,) = receive(one, 1)
        assert str(message) == "later"
        one.complete_message(message)
    assert bus.active("news/Subscriptions/two") == 1


def test_settings_and_counts_are_seen_by_the_administration(bus: Bus, topic: str) -> None:
    """Row 57, runtime counts; names compare without regard to case."""
    info = bus.emulator.admin.get("NEWS")
    assert (info.path, info.counts.subscriptions) == ("news", 3)
    names = [s.path for s in bus.emulator.admin.subscriptions("News")]
    assert names == ["news/Subscriptions/one", "news/Subscriptions/ordered", "news/Subscriptions/two"]
