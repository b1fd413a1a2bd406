"""What an address leads to: one of the three kinds of entity, or one of its dead-letter queues."""

from __future__ import annotations

from typing import NamedTuple

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.store.message_store import MessageStore

from .admission import require_enabled
from .queue import Queue
from .subscription import Subscription
from .topic import Topic

Entity = Queue | Topic | Subscription


class Node(NamedTuple):
    """What an address leads to: an entity (`place` is empty), or one of its dead-letter queues."""

    entity: Entity
    place: str

    @property
    def dead_letters(self) -> bool:
        """Is it one of the dead-letter queues?"""
        return bool(self.place)

    @property
    def store(self) -> MessageStore | None:
        """Where its messages are; None for a topic."""
        if isinstance(self.entity, Topic):
            return None
        return self.entity.outlet.at(self.place)

    def require_receivable(self) -> None:
        """Raises AmqpError when receivers cannot be attached here, or must go."""
        entity = self.entity
        if isinstance(entity, Topic):
            raise AmqpError("amqp:not-allowed", f"'{entity.path}' is a topic: receive from its subscriptions.")
        require_enabled(entity.path, entity.description.status, ("ReceiveDisabled",))
        entity.outlet.require_receivable(self.place)


def split_place(path: str, places: tuple[str, ...]) -> tuple[str, str]:
    """The entity's path and which of the places stands behind it, or none; a longer place before its own end."""
    for place in places:
        if path.endswith(place):
            return path.removesuffix(place), place
    return path, ""
