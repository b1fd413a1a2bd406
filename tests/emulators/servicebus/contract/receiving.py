"""Receiving in tests: so many messages and no fewer, and what was in them."""

from __future__ import annotations

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver

WAIT = 30.0
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
