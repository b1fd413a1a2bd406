"""What is in one place, and where in it each message is: ready, locked or deferred.

Keeps the count, the octets, the order of sequence numbers and the times at which something ends. Decides nothing about a message: that
is `message_store`. No operation looks at more messages than it concerns.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator

from emulators.servicebus.message import Message, MessageState

from .deadlines import NEVER, Deadlines
from .outcomes import new_token
from .sequence_index import SequenceIndex
from .shelf import Shelf


class Inventory(ABC):
    """Messages by state. `alarm` is called with a moment at which `sweep` must be called, whenever that comes earlier than was known."""

    def __init__(self, shelf: Shelf, alarm: Callable[[int], None]) -> None:
        self.shelf = shelf
        self.alarm = alarm
        self.size = 0
        self.due = NEVER
        self._count = 0
        self._locked: dict[bytes, Message] = {}
        self._deferred: dict[int, Message] = {}
        self._expiries: Deadlines[Message] = Deadlines()
        self._index = SequenceIndex()

    # -- what the kinds of stores do differently

    @abstractmethod
    def _make_ready(self, message: Message, returned: bool) -> None: ...

    @abstractmethod
    def _withdraw(self, message: Message) -> None:
        """A ready message is not ready any more."""

    @abstractmethod
    def _ready_messages(self) -> Iterable[Message]: ...

    @abstractmethod
    def _lock_begins(self, message: Message) -> None: ...

    @abstractmethod
    def _lock_ends(self, message: Message, token: bytes) -> None: ...

    # -- coming and going

    def _add(self, message: Message) -> None:
        self.size += message.size
        self._count += 1
        self._index.add(message)

    def _offer(self, message: Message, returned: bool) -> None:
        """Make a message ready, and remember when it expires."""
        if message.expires_at is not None:
            self._expiries.set(message, message.expires_at)
            self.wake_at(message.expires_at)
        self._make_ready(message, returned)

    def _remove(self, message: Message) -> None:
        """A message that is neither ready nor locked leaves the store."""
        self._deferred.pop(message.sequence, None)
        self.size -= message.size
        self._count -= 1
        self._index.remove(message)
        self.shelf.drop(message.sequence)

    # -- locks

    def _lock(self, message: Message, until: int) -> bytes:
        token = message.lock_token = new_token()
        message.locked_until = until
        self._locked[token] = message
        self._lock_begins(message)
        return token

    def _unlock(self, message: Message) -> None:
        token = message.lock_token
        assert token is not None
        del self._locked[token]
        message.lock_token = None
        self._lock_ends(message, token)

    # -- time

    def wake_at(self, moment: int) -> None:
        """Something happens at `moment`: `sweep` must be called then."""
        if moment < self.due:
            self.due = moment
            self.alarm(moment)

    # -- looking

    def messages(self) -> Iterator[Message]:
        """Everything that is here, in no particular order."""
        yield from self._ready_messages()
        yield from (m for m in self._locked.values() if m.state is not MessageState.DEFERRED)
        yield from self._deferred.values()

    def since(self, sequence: int) -> Iterator[Message]:
        """Everything that is here from a sequence number on, in order; nothing may come or go meanwhile."""
        return self._index.since(sequence)

    def __len__(self) -> int:
        return self._count

    def first(self, most: int) -> list[Message]:
        """Up to so many of the messages, at the cost of no more."""
        return list(itertools.islice(self.messages(), most))

    def tally(self) -> tuple[int, int, int]:
        """How many are ready, locked and deferred; one that is deferred and locked counts as locked."""
        few, many = sorted((self._locked.values(), self._deferred.values()), key=len)
        both = sum(m.lock_token is not None and m.state is MessageState.DEFERRED for m in few) if few and many else 0
        ready = self._count - len(self._locked) - len(self._deferred) + both
        return ready, len(self._locked), len(self._deferred) - both
