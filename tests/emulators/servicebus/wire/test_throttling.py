"""Credits: what operations cost (service-bus-throttling), and how Azure's client fares when they are used up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusServerBusyError
from azure.servicebus.management import ServiceBusAdministrationClient

from emulators.servicebus.description import QueueDescription, SubscriptionDescription, TopicDescription
from emulators.servicebus.server import ServiceBusEmulator
from tests.emulators.servicebus.conftest import forget_sockets

from .administration import PlainHttp


class Clock:
    """Stands still until it is moved, so that a period ends when the test says so."""

    def __init__(self) -> None:
        self.now = float(int(datetime.now(UTC).timestamp()))

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttled(clock: Clock) -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator(credits_per_second=10, clock=clock) as running:
        running.admin.create("q", QueueDescription())
        yield running
    forget_sockets()


@pytest.fixture
def client(throttled: ServiceBusEmulator) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(throttled.connection_string, retry_total=0, keep_alive=0) as giving_up:
        yield giving_up


def messages(count: int) -> list[ServiceBusMessage]:
    return [ServiceBusMessage(str(number)) for number in range(count)]


def test_what_counts_and_what_does_not() -> None:
    """One per message sent, received or peeked, one per filter a message is held against, ten per management operation."""
    with ServiceBusEmulator() as emulator:
        emulator.admin.create("q", QueueDescription())
        emulator.admin.create("t", TopicDescription())
        for name in "ab":
            emulator.admin.create(f"t/Subscriptions/{name}", SubscriptionDescription())
        with ServiceBusClient.from_connection_string(emulator.connection_string, keep_alive=0) as client:
            with client.get_topic_sender("t") as topic:
                topic.send_messages(messages(3))
            with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
                sender.send_messages(messages(4))
                (number,) = sender.schedule_messages(messages(1), datetime.now(UTC) + timedelta(hours=1))
                sender.cancel_scheduled_messages(number)
                assert len(receiver.peek_messages(2)) == 2
                first, second, third, _ = receiver.receive_messages(4, max_wait_time=5)
                receiver.renew_message_lock(first)
                receiver.complete_message(first)
                receiver.abandon_message(second)
                receiver.defer_message(third)
                assert third.sequence_number is not None
                receiver.receive_deferred_messages(third.sequence_number)
        at_http = emulator.connection_string.replace(f":{emulator.port};", f":{emulator.http_port};")
        with ServiceBusAdministrationClient.from_connection_string(at_http, transport=PlainHttp()) as admin:
            admin.delete_queue("q")
        spent = emulator.credits
    redelivered = spent.pop("received") - 5  # the abandoned message, when the receiver still had credit
    assert redelivered in (0, 1)
    assert spent == {"sent": 8, "peeked": 2, "filter evaluations": 6, "management operations": 10}


def test_who_has_used_up_the_credits_waits_for_the_next_second(
    throttled: ServiceBusEmulator, client: ServiceBusClient, clock: Clock
) -> None:
    with client.get_queue_sender("q") as sender:
        sender.send_messages(messages(10))
        with pytest.raises(ServiceBusServerBusyError, match=r"50009\. Please wait 2 seconds"):
            sender.send_messages(messages(1))
        with pytest.raises(ServiceBusServerBusyError, match=r"50009\. Please wait 2 seconds"):
            sender.schedule_messages(messages(1), datetime.now(UTC))
        clock.now += 1
        sender.send_messages(messages(1))
    assert throttled.admin.get("q").counts.active == 11
    assert throttled.credits["sent"] == 11


def test_what_is_overdrawn_is_missing_from_the_next_seconds(
    throttled: ServiceBusEmulator, client: ServiceBusClient, clock: Clock
) -> None:
    with client.get_queue_sender("q") as sender:
        sender.send_messages(messages(25))
        for _ in range(2):
            with pytest.raises(ServiceBusServerBusyError):
                sender.send_messages(messages(1))
            clock.now += 1
        sender.send_messages(messages(1))
        clock.now += 100
        sender.send_messages(messages(10))
        with pytest.raises(ServiceBusServerBusyError):
            sender.send_messages(messages(1))
    assert throttled.refusals == 3


def test_messages_asked_for_in_time_come_as_credits_do(
    throttled: ServiceBusEmulator, client: ServiceBusClient, clock: Clock
) -> None:
    with client.get_queue_receiver("q", prefetch_count=20) as receiver, client.get_queue_sender("q") as sender:
        assert receiver.receive_messages(1, max_wait_time=0.2) == []
        sender.send_messages(messages(6))
        first = receiver.receive_messages(6, max_wait_time=1)
        assert len(first) == 4
        clock.now += 1
        assert [str(m) for m in receiver.receive_messages(6, max_wait_time=5)] == ["4", "5"]


def test_a_receiver_that_asks_too_late_waits_and_a_peek_is_refused(
    throttled: ServiceBusEmulator, client: ServiceBusClient, clock: Clock
) -> None:
    with client.get_queue_sender("q") as sender:
        sender.send_messages(messages(9))
    with client.get_queue_receiver("q") as receiver:
        (message,) = receiver.receive_messages(1, max_wait_time=5)
        assert receiver.receive_messages(1, max_wait_time=0.2) == []
        receiver.complete_message(message)
        with pytest.raises(ServiceBusServerBusyError):
            receiver.peek_messages()
        clock.now += 1
        assert [str(m) for m in receiver.receive_messages(1, max_wait_time=5)] == ["1"]


def test_a_namespace_without_credits_is_none() -> None:
    with pytest.raises(ValueError, match="at least one credit"):
        ServiceBusEmulator(credits_per_second=0)
