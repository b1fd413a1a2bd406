"""What a queue and a topic have in common: messages can be sent to them.

Accepting is atomic: a batch goes in whole or not at all. Duplicates inside the detection window are accepted and dropped
without a word. A scheduled message waits with a sequence number of its own and gets another one when it is enqueued.
Sources: learn.microsoft.com "Duplicate detection", "Message sequencing and timestamps".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.description import QueueDescription, TopicDescription
from emulators.servicebus.journal import SCHEDULE
from emulators.servicebus.message import Message
from emulators.servicebus.store.schedule import Schedule
from emulators.servicebus.store.shelf import Shelf

from .admission import require_enabled, too_large
from .duplicates import DuplicateHistory
from .outlet import Surroundings, milliseconds

SendSettings = QueueDescription | TopicDescription


class Ingress(ABC):
    """An entity one can send to."""

    description: SendSettings

    def __init__(self, path: str, around: Surroundings) -> None:
        self.path = path
        self.schedule = Schedule(Shelf(around.journal, path + SCHEDULE), around.alarm)
        self.history = DuplicateHistory(around.journal, path)

    @property
    def max_message_size(self) -> int:
        """Octets."""
        return self.description.max_message_size_in_kilobytes * 1024

    @property
    @abstractmethod
    def size(self) -> int:
        """Octets of all messages."""

    @abstractmethod
    def restore_sequence(self, sequence: int) -> None:
        """Put back the last sequence number given out."""

    @abstractmethod
    def _next_sequence(self) -> int: ...

    @abstractmethod
    def _enqueue(self, message: Message, now: int) -> int: ...

    @abstractmethod
    def _pump(self, now: int) -> None: ...

    def _check(self, messages: list[Message]) -> None:
        """May these come in? Raises AmqpError."""
        require_enabled(self.path, self.description.status, ("SendDisabled",))
        for message in messages:
            if message.size > self.max_message_size:
                raise too_large(message.size, self.max_message_size)
        if self.size + sum(m.size for m in messages) > self.description.max_size_in_megabytes << 20:
            text = f"The maximum entity size of '{self.path}' has been reached or exceeded."
            raise AmqpError("amqp:resource-limit-exceeded", text)

    def accept(self, messages: list[Message], now: int) -> list[int]:
        """Take messages in, all or none; their sequence numbers. Raises AmqpError.

        A dropped duplicate has the number 0, or one of its own if it was scheduled (Azure/azure-service-bus issue 265).
        """
        self._check(messages)
        self.release_due(now)
        sequences = [self._accept_one(message, now) for message in messages]
        self._pump(now)
        return sequences

    def _accept_one(self, message: Message, now: int) -> int:
        due = message.scheduled_at if message.scheduled_at is not None and message.scheduled_at > now else None
        if self.description.requires_duplicate_detection and message.message_id is not None:
            window = milliseconds(self.description.duplicate_detection_history_time_window)
            if not self.history.is_new(message.message_id, now, window):
                return 0 if due is None else self._next_sequence()
        if due is None:
            return self._enqueue(message, now)
        message.sequence = self._next_sequence()
        message.enqueued_at = now
        self.schedule.add(message, due)
        return message.sequence

    def cancel_scheduled(self, sequences: Iterable[int]) -> None:
        """Raises AmqpError."""
        self.schedule.cancel(sequences)

    def release_due(self, now: int) -> None:
        """Enqueue the scheduled messages whose time has come."""
        if self.schedule.due > now:
            return
        for message in self.schedule.take_due(now):
            self._enqueue(message, now)
        self._pump(now)
