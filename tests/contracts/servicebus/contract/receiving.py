"""Receiving in tests: so many messages and no fewer, what was in them, and how many are left."""

from __future__ import annotations

from typing import NamedTuple

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver

from tests.contracts.servicebus.contract.namespace import Namespace

WAIT = 10.0
"""Seconds after which a message that should be there is missing."""


def take(receiver: ServiceBusReceiver, count: int = 1) -> list[ServiceBusReceivedMessage]:
    """So many messages, unsettled; the service may hand them over in several goes."""
    messages: list[ServiceBusReceivedMessage] = []
    while len(messages) < count:
        arrived = receiver.receive_messages(count - len(messages), max_wait_time=WAIT)
        assert arrived, f"only {len(messages)} of {count} messages came"
        messages += arrived
    return messages


def take_one(receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
    """The next message, unsettled."""
    (message,) = take(receiver)
    return message


def complete(receiver: ServiceBusReceiver, count: int = 1) -> list[str]:
    """The bodies of so many messages, which are completed."""
    return [str(message) for message in completed(receiver, count)]


def completed(receiver: ServiceBusReceiver, count: int = 1) -> list[ServiceBusReceivedMessage]:
    """So many messages, completed."""
    messages = take(receiver, count)
    for message in messages:
        receiver.complete_message(message)
    return messages


class Counts(NamedTuple):
    """Messages of an entity, and its size in octets."""

    active: int
    dead: int
    scheduled: int
    size: int


def counts(namespace: Namespace, queue: str) -> Counts:
    """Of a queue, as the administration tells it."""
    told = namespace.admin.get_queue_runtime_properties(queue)
    return Counts(
        told.active_message_count or 0,
        told.dead_letter_message_count or 0,
        told.scheduled_message_count or 0,
        told.size_in_bytes or 0,
    )


def subscription_counts(namespace: Namespace, topic: str, subscription: str = "subscription") -> Counts:
    """Of a subscription, as the administration tells it, but for its size, which counts as the topic's."""
    told = namespace.admin.get_subscription_runtime_properties(topic, subscription)
    return Counts(told.active_message_count or 0, told.dead_letter_message_count or 0, 0, 0)
