"""Queues: what is sent to one is received from it."""

from __future__ import annotations

from dataclasses import replace

from emulators.servicebus.description import Description, QueueDescription, RuntimeCounts
from emulators.servicebus.message import Message

from .admission import require_sessions
from .ingress import Ingress
from .outlet import Outlet, Surroundings


class Queue(Ingress):
    """A queue."""

    description: QueueDescription

    def __init__(self, path: str, description: QueueDescription, around: Surroundings) -> None:
        super().__init__(path, around)
        self.description = description
        self.outlet = Outlet(path, description, around)

    @property
    def size(self) -> int:
        return self.outlet.size + self.schedule.size

    def reconfigure(self, description: Description, now: int) -> None:
        """New settings, from now on."""
        assert isinstance(description, QueueDescription)
        self.description = description
        self.outlet.reconfigure(description, now)

    def counts(self) -> RuntimeCounts:
        """What is here now."""
        return replace(self.outlet.counts(), scheduled=len(self.schedule), size_in_bytes=self.size)

    @property
    def due(self) -> int:
        """When `sweep` must be called next."""
        return min(self.schedule.due, self.outlet.due)

    def sweep(self, now: int) -> None:
        """Do what is due."""
        self.release_due(now)
        self.outlet.sweep(now)

    def _check(self, messages: list[Message]) -> None:
        super()._check(messages)
        if self.description.requires_session:
            require_sessions(self.path, messages)

    def restore_sequence(self, sequence: int) -> None:
        self.outlet.store.restore_sequence(sequence)

    def _next_sequence(self) -> int:
        return self.outlet.store.next_sequence()

    def _enqueue(self, message: Message, now: int) -> int:
        return self.outlet.store.enqueue(message, now)

    def _pump(self, now: int) -> None:
        self.outlet.store.pump(now)
