"""Messages of a queue or topic that are not due yet.

Each waits under a sequence number of its own, by which it can be cancelled; it gets another one when it is enqueued.
Source: learn.microsoft.com "Message sequencing and timestamps".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.message import Message, MessageState

from .deadlines import Deadlines
from .sequence_index import SequenceIndex
from .shelf import Shelf


class Schedule:
    """Messages by sequence number, and by the time they are due (milliseconds since the Unix epoch), which `alarm` is told."""

    def __init__(self, shelf: Shelf, alarm: Callable[[int], None]) -> None:
        self.size = 0
        self._shelf = shelf
        self._alarm = alarm
        self._messages: dict[int, Message] = {}
        self._deadlines: Deadlines[int] = Deadlines()
        self._index = SequenceIndex()

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages.values())

    def since(self, sequence: int) -> Iterator[Message]:
        """Messages from a sequence number on, in order; nothing may come or go meanwhile."""
        return self._index.since(sequence)

    @property
    def due(self) -> int:
        """When the next message is due, or NEVER."""
        return self._deadlines.next

    def add(self, message: Message, at: int) -> None:
        """Keep a message that has its sequence number until `at`."""
        message.state = MessageState.SCHEDULED
        self._put(message, at)
        self._shelf.save(message)

    def restore(self, message: Message) -> None:
        """Put back a message that the journal kept."""
        self._put(message, message.scheduled_at or 0)

    def _put(self, message: Message, at: int) -> None:
        self.size += message.size
        self._messages[message.sequence] = message
        self._index.add(message)
        self._deadlines.set(message.sequence, at)
        self._alarm(at)

    def cancel(self, sequences: Iterable[int]) -> None:
        """Forget messages, all or none. Raises AmqpError."""
        wanted = dict.fromkeys(sequences)
        for sequence in wanted:
            if sequence not in self._messages:
                text = f"The scheduled message with sequence number {sequence} does not exist."
                raise AmqpError("com.microsoft:message-not-found", text)
        for sequence in wanted:
            self._take(sequence)

    def take_due(self, now: int) -> list[Message]:
        """Messages whose time has come, in order of their time."""
        return [self._take(sequence) for sequence in self._deadlines.take(now)]

    def _take(self, sequence: int) -> Message:
        message = self._messages.pop(sequence)
        self.size -= message.size
        self._index.remove(message)
        self._deadlines.discard(sequence)
        self._shelf.drop(sequence)
        return message
