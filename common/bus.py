"""Ports to a message broker. `common/servicebus.py` is the adapter; loops see only this page.

What can be promised: a `send` that returns was accepted by the broker, in order. A delivery that was not settled comes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from common.message import Message


class Sender(Protocol):
    """Sends to one entity. Not thread-safe: one sender a thread."""

    def send(self, messages: Sequence[Message]) -> None:
        """Return when the broker has accepted all of `messages`, in their order, in as few batches as their size allows.

        Raises TransientError (nothing or a prefix was accepted; send all again, duplicate detection removes the prefix),
        or PermanentError (missing entity, missing right, a message that fits no message: see MessageTooLarge).
        """
        ...

    def close(self) -> None: ...


class Delivery(Protocol):
    """A received message under its peek-lock."""

    @property
    def message(self) -> Message: ...

    @property
    def delivery_count(self) -> int: ...


class Receiver(Protocol):
    """Receives from one queue, or from one session of it. Not thread-safe."""

    @property
    def session_id(self) -> str | None: ...

    def receive(self, *, max_count: int, max_wait: float) -> Sequence[Delivery]:
        """Up to `max_count` deliveries in order; empty when none came within `max_wait` seconds.

        Raises TransientError when the link or the session lock is gone: open a new receiver.
        """
        ...

    def settle_many(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Complete all; return those whose lock was lost (they will come again)."""
        ...

    def dead_letter(self, delivery: Delivery, *, reason: str, description: str) -> None: ...

    def abandon(self, delivery: Delivery) -> None: ...

    def close(self) -> None: ...
