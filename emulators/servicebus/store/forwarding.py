"""Auto-forwarding: the messages of a queue, a subscription or a dead-letter queue go on to another entity of the namespace.

A message makes at most four hops; its dead letter may be forwarded once more, so that it can reach the place where dead
letters are gathered, and every chain ends all the same. What arrives is a new message of its destination: with a sequence
number, a time to live and a delivery count of its own.
Sources: learn.microsoft.com "Chaining Service Bus entities with autoforwarding", "Dead-letter queues", "Message sequencing
and timestamps" (the enqueued sequence number is that of the place where the message was sent first).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from emulators.servicebus.message import Message

MAX_HOPS: Final = 4
TOO_MANY_HOPS: Final = "MaxTransferHopCountExceeded"
_TOO_MANY_HOPS_TEXT: Final = (
    "The maximum number of allowed hops when forwarding between queues exceeded the limit. This value is set to 4."
)


NO_SESSION: Final = (
    "Session ID is null",
    "Session enabled entity doesn't allow a message whose session identifier is null.",
)
"""Reason and description of a dead letter, as documented."""
_TOO_LARGE: Final = "amqp:link:message-size-exceeded"


class Undeliverable(Exception):
    """The destination does not take a message: reason and description of a dead letter."""

    def __init__(self, reason: str, description: str) -> None:
        super().__init__(f"{reason}: {description}")
        self.reason = reason
        self.description = description

    @property
    def lasting(self) -> bool:
        """Is it the message, rather than the destination, that would have to change?"""
        return self.reason in (TOO_MANY_HOPS, NO_SESSION[0], _TOO_LARGE)


Transfer = Callable[[str, Message, int], None]
"""Give a message to the entity of a path, at a time in milliseconds. Raises Undeliverable."""


class Forwarder(NamedTuple):
    """Where the messages of one store go. `source` is the entity's path, given when the store holds its dead letters."""

    target: str
    transfer: Transfer
    source: str | None

    def send(self, message: Message, now: int) -> None:
        """Forward a copy; the message itself is not changed. Raises Undeliverable."""
        if message.hops >= MAX_HOPS + (self.source is not None):
            raise Undeliverable(TOO_MANY_HOPS, _TOO_MANY_HOPS_TEXT)
        copy = message.copy()
        copy.hops += 1
        copy.delivery_count = 0
        copy.scheduled_at = None
        if copy.enqueue_sequence is None:
            copy.enqueue_sequence = message.sequence
        if self.source is not None:
            copy.dead_letter_source = self.source
        self.transfer(self.target, copy, now)


def target_path(address: str) -> str:
    """The path in a setting: alone, or in a URI as the SDKs send it ("sb://host/queue")."""
    _, separator, rest = address.partition("://")
    return (rest.partition("/")[2] if separator else address).strip("/")
