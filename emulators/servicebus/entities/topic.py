"""Topics: what is sent to one is given to each of its subscriptions, which makes copies of its own.

A topic keeps only what is scheduled; nothing is received from it.
Source: learn.microsoft.com "Queues, topics, and subscriptions".
"""

from __future__ import annotations

from emulators.servicebus.description import FOREVER, Description, RuntimeCounts, TopicDescription
from emulators.servicebus.message import Message
from emulators.servicebus.store.shelf import Shelf

from .ingress import Ingress
from .outlet import Surroundings, milliseconds
from .subscription import Subscription


class Topic(Ingress):
    """A topic and its subscriptions, by lower-case name."""

    description: TopicDescription

    def __init__(self, path: str, description: TopicDescription, around: Surroundings) -> None:
        super().__init__(path, around)
        self.description = description
        self.subscriptions: dict[str, Subscription] = {}
        self._shelf = Shelf(around.journal, path)
        self._sequence = 0

    @property
    def size(self) -> int:
        return self.schedule.size + sum(s.outlet.size for s in self.subscriptions.values())

    def reconfigure(self, description: Description, now: int) -> None:
        """New settings, from now on."""
        assert isinstance(description, TopicDescription)
        self.description = description

    def counts(self) -> RuntimeCounts:
        """What is here now."""
        return RuntimeCounts(
            scheduled=len(self.schedule), size_in_bytes=self.size, subscriptions=len(self.subscriptions)
        )

    @property
    def due(self) -> int:
        """When `sweep` must be called next."""
        return self.schedule.due

    def sweep(self, now: int) -> None:
        """Do what is due; its subscriptions are swept by themselves."""
        self.release_due(now)

    def restore_sequence(self, sequence: int) -> None:
        self._sequence = sequence

    def _next_sequence(self) -> int:
        self._sequence += 1
        self._shelf.save_sequence(self._sequence)
        return self._sequence

    def _enqueue(self, message: Message, now: int) -> int:
        sequence = self._next_sequence()
        ttl = self.description.default_message_time_to_live
        if ttl != FOREVER and (message.ttl is None or message.ttl > milliseconds(ttl)):
            message.ttl = milliseconds(ttl)
        message.sequence = sequence
        message.enqueued_at = now
        if message.enqueue_sequence is None:
            message.enqueue_sequence = sequence
        for subscription in self.subscriptions.values():
            subscription.take(message, now)
        return sequence

    def _pump(self, now: int) -> None:
        for subscription in self.subscriptions.values():
            subscription.outlet.store.pump(now)
