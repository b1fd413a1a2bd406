"""What a store needs to know of those who receive from it, and how it is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.message import Message


class Consumer(Protocol):
    """A receiver attached to a store."""

    @property
    def credit(self) -> int:
        """Messages it will take."""
        ...

    receive_and_delete: bool

    def deliver(self, message: Message, token: bytes, locked_until: int | None) -> None:
        """Send the message; uses one credit. `locked_until` is None for receive-and-delete."""
        ...

    def detach(self, failure: AmqpError) -> None:
        """The consumer may not go on."""
        ...


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Durations in milliseconds; None means without end or limit."""

    lock_duration: int
    max_delivery_count: int | None
    default_ttl: int | None
    dead_letter_expired: bool
