"""The messages of one queue, subscription or dead-letter queue: ready, locked, deferred; what settlement does to them.

Knows neither wire nor wall clock: every method that depends on time takes `now` in milliseconds since the Unix epoch.
`MessageStore` holds what both kinds share; `CompetingStore` gives messages to whoever has credit, `sessions.SessionStore`
to the owner of a session lock. Everything is in memory; what must outlive the process is told to a shelf of the journal.
Sources: learn.microsoft.com "Message transfers, locks, and settlement", "Message expiration", "Dead-letter queues".
"""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from .amqp.values import AmqpError
from .deadlines import NEVER
from .message import Message, MessageState, with_application_properties
from .ready import ReadyQueue
from .shelf import Shelf

_TOKEN_PREFIX: Final = os.urandom(8)
_token_numbers = itertools.count(1)


class Outcome(Enum):
    """What a receiver wants done with a message it holds."""

    COMPLETE = auto()
    ABANDON = auto()
    RELEASE = auto()
    DEFER = auto()
    DEAD_LETTER = auto()


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


def lock_lost() -> AmqpError:
    """The answer to a token that locks nothing (any more)."""
    return AmqpError(
        "com.microsoft:message-lock-lost",
        "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue.",
    )


def new_token() -> bytes:
    """A lock token, used once: 16 octets, a delivery tag on the wire."""
    return _TOKEN_PREFIX + next(_token_numbers).to_bytes(8, "big")


class MessageStore(ABC):
    """What is common to stores. `dead_letters` is None for a dead-letter queue itself."""

    def __init__(self, settings: StoreSettings, shelf: Shelf, dead_letters: MessageStore | None) -> None:
        self.settings = settings
        self.shelf = shelf
        self.dead_letters = dead_letters
        self.size = 0
        self.due = NEVER
        self._next_expiry = NEVER
        self._sequence = 0
        self._locked: dict[bytes, Message] = {}
        self._deferred: dict[int, Message] = {}

    # -- what the two kinds do differently

    @abstractmethod
    def _make_ready(self, message: Message, returned: bool) -> None: ...

    @abstractmethod
    def _ready_queues(self) -> Iterable[ReadyQueue]: ...

    @abstractmethod
    def pump(self, now: int) -> None:
        """Deliver what credit allows."""

    # -- in

    def next_sequence(self) -> int:
        """A sequence number, larger than any before."""
        self._sequence += 1
        self.shelf.save_sequence(self._sequence)
        return self._sequence

    def restore_sequence(self, sequence: int) -> None:
        """Put back the last sequence number given out."""
        self._sequence = sequence

    def enqueue(self, message: Message, now: int) -> int:
        """Take a message in; the caller pumps after the last of its batch. Returns the sequence number."""
        message.sequence = self.next_sequence()
        message.enqueued_at = now
        message.state = MessageState.ACTIVE
        self.size += message.size
        ttl, cap = message.ttl, self.settings.default_ttl
        if cap is not None and (ttl is None or ttl > cap):
            ttl = message.ttl = cap
        message.expires_at = None
        if ttl is not None and self.dead_letters is not None:
            message.expires_at = now + ttl
        self.shelf.save(message)
        self._offer(message, returned=False)
        return message.sequence

    def take_over(self, message: Message) -> None:
        """Take in a dead letter. It keeps its sequence number and enqueued time, which only a schedule coming due changes
        (MicrosoftDocs/azure-docs issue 97032), and it no longer expires.
        """
        message.state = MessageState.ACTIVE
        message.expires_at = None
        self.size += message.size
        self.shelf.save(message)
        self._make_ready(message, returned=True)

    def take_in_dead(self, message: Message, reason: str | None, description: str | None) -> None:
        """Take in a dead letter with why it is one; the caller pumps."""
        self._annotate(message, reason, description)
        self.take_over(message)

    def restore(self, message: Message) -> None:
        """Put back a message that the journal kept: nobody holds it any more."""
        message.lock_token = None
        self.size += message.size
        if message.state is MessageState.DEFERRED:
            self._deferred[message.sequence] = message
        else:
            self._offer(message, returned=True)

    def _offer(self, message: Message, returned: bool) -> None:
        """Make a message ready, and remember when it expires."""
        if message.expires_at is not None and message.expires_at < self._next_expiry:
            self._next_expiry = message.expires_at
            self.wake_at(message.expires_at)
        self._make_ready(message, returned)

    # -- out

    def wake_at(self, moment: int) -> None:
        """Something happens at `moment`: `sweep` must be called then."""
        self.due = min(self.due, moment)

    def _hand_over(self, consumer: Consumer, message: Message, now: int) -> None:
        if consumer.receive_and_delete:
            self._remove(message)
            consumer.deliver(message, new_token(), None)
            return
        token = self._lock(message, self._lock_until(message, now))
        consumer.deliver(message, token, message.locked_until)

    def _lock_until(self, message: Message, now: int) -> int:
        return now + self.settings.lock_duration

    def _lock(self, message: Message, until: int) -> bytes:
        token = message.lock_token = new_token()
        message.locked_until = until
        self._locked[token] = message
        if until < self.due:
            self.due = until
        return token

    # -- settlement

    def lost(self, token: bytes) -> AmqpError:
        """Why a token locks nothing."""
        return lock_lost()

    def holds(self, token: bytes, now: int) -> bool:
        """Does the token lock a message?"""
        if self.due <= now:
            self.sweep(now)
        return token in self._locked

    def settle(
        self, token: bytes, outcome: Outcome, now: int, reason: tuple[str | None, str | None] = (None, None)
    ) -> None:
        """Apply an outcome; `reason` is reason and description of a dead letter. The caller pumps. Raises AmqpError."""
        if self.due <= now:
            self.sweep(now)
        message = self._locked.get(token)
        if message is None:
            raise self.lost(token)
        if outcome is Outcome.COMPLETE:
            del self._locked[token]
            self._remove(message)
        elif outcome is Outcome.ABANDON or outcome is Outcome.RELEASE:
            self._unlock(message, now, failed=outcome is Outcome.ABANDON)
        elif outcome is Outcome.DEFER:
            self._defer(message)
        else:
            del self._locked[token]
            self._dead_letter(message, now, *reason)

    def renew(self, token: bytes, now: int) -> int:
        """Extend a lock from now; the new expiry. Raises AmqpError."""
        if not self.holds(token, now):
            raise self.lost(token)
        message = self._locked[token]
        message.locked_until = self._lock_until(message, now)
        return message.locked_until

    def _remove(self, message: Message) -> None:
        message.lock_token = None
        self._deferred.pop(message.sequence, None)
        self.size -= message.size
        self.shelf.drop(message.sequence)

    def _unlock(self, message: Message, now: int, failed: bool) -> None:
        assert message.lock_token is not None
        del self._locked[message.lock_token]
        message.lock_token = None
        limit = self.settings.max_delivery_count
        if failed:
            message.delivery_count += 1
            if limit is not None and message.delivery_count >= limit and self.dead_letters is not None:
                text = f"Message could not be consumed after {message.delivery_count} delivery attempts."
                self._dead_letter(message, now, "MaxDeliveryCountExceeded", text)
                return
            self.shelf.save(message)
        if message.state is MessageState.DEFERRED:
            return
        self._offer(message, returned=True)

    def _defer(self, message: Message) -> None:
        assert message.lock_token is not None
        del self._locked[message.lock_token]
        message.lock_token = None
        message.delivery_count += 1
        message.state = MessageState.DEFERRED
        self._deferred[message.sequence] = message
        self.shelf.save(message)

    def _dead_letter(self, message: Message, now: int, reason: str | None, description: str | None) -> None:
        self._remove(message)
        if self.dead_letters is None:
            # A dead-letter queue has none of its own: the message stays, with the new reason.
            self.take_in_dead(message, reason, description)
            return
        self.dead_letters.take_in_dead(message, reason, description)
        self.dead_letters.pump(now)

    @staticmethod
    def _annotate(message: Message, reason: str | None, description: str | None) -> None:
        stated = {"DeadLetterReason": reason, "DeadLetterErrorDescription": description}
        extra = {name: text for name, text in stated.items() if text is not None}
        if extra:
            message.tail = with_application_properties(message.tail, extra)

    # -- deferred messages

    def take_deferred(self, sequences: Iterable[int], now: int, session: str | None, delete: bool) -> list[Message]:
        """Deferred messages by sequence number, locked (or removed); all or none. Raises AmqpError."""
        if self.due <= now:
            self.sweep(now)
        wanted = [self._deferred.get(sequence) for sequence in dict.fromkeys(sequences)]
        found = [m for m in wanted if m is not None and m.lock_token is None and session in (None, m.session_id)]
        if len(found) < len(wanted):
            raise AmqpError(
                "com.microsoft:message-not-found",
                "Failed to lock one or more specified messages. The message does not exist.",
            )
        for message in found:
            if delete:
                self._remove(message)
            else:
                self._lock(message, self._lock_until(message, now))
        return found

    # -- looking

    def messages(self) -> Iterator[Message]:
        """Everything that is here, in no particular order."""
        for ready in self._ready_queues():
            yield from ready
        yield from (m for m in self._locked.values() if m.state is not MessageState.DEFERRED)
        yield from self._deferred.values()

    def __len__(self) -> int:
        deferred_and_locked = sum(1 for m in self._locked.values() if m.state is MessageState.DEFERRED)
        ready = sum(len(queue) for queue in self._ready_queues())
        return ready + len(self._locked) + len(self._deferred) - deferred_and_locked

    # -- time

    def sweep(self, now: int) -> None:
        """Do what is due: expire locks and messages, deliver what comes back of it."""
        if now < self.due:
            return
        self.due = NEVER
        self._expire_locks(now)
        if self._next_expiry <= now:
            self._expire_messages(now)
        self._look_ahead()
        self.pump(now)

    def _expire_locks(self, now: int) -> None:
        for message in [m for m in self._locked.values() if m.locked_until <= now]:
            self._unlock(message, now, failed=True)

    def _expire_messages(self, now: int) -> None:
        self._next_expiry = NEVER
        for queue in list(self._ready_queues()):
            for message in queue.remove_if(lambda m: m.expires_at is not None and m.expires_at <= now):
                if self.settings.dead_letter_expired:
                    self._dead_letter(message, now, "TTLExpiredException", "The message expired and was dead lettered.")
                else:
                    self._remove(message)
            times = (m.expires_at for m in queue if m.expires_at is not None)
            self._next_expiry = min(self._next_expiry, min(times, default=NEVER))

    def _look_ahead(self) -> None:
        for message in self._locked.values():
            self.wake_at(message.locked_until)
        self.wake_at(self._next_expiry)


class CompetingStore(MessageStore):
    """Consumers with credit take turns."""

    def __init__(self, settings: StoreSettings, shelf: Shelf, dead_letters: MessageStore | None) -> None:
        super().__init__(settings, shelf, dead_letters)
        self._ready = ReadyQueue()
        self._hungry: deque[Consumer] = deque()

    def leave(self, consumer: Consumer) -> None:
        """A receiver goes; what it holds stays locked until the locks expire."""
        if consumer in self._hungry:
            self._hungry.remove(consumer)

    def feed(self, consumer: Consumer, now: int) -> None:
        """A receiver's credit changed."""
        if consumer.credit > 0 and consumer not in self._hungry:
            self._hungry.append(consumer)
        self.pump(now)

    def pump(self, now: int) -> None:
        if self.due <= now:
            self.sweep(now)  # pumps again; what it leaves cannot be due
        ready, hungry = self._ready, self._hungry
        while ready and hungry:
            consumer = hungry[0]
            if consumer.credit <= 0:
                hungry.popleft()
                continue
            self._hand_over(consumer, ready.pop(), now)
            hungry.rotate(-1)

    def _make_ready(self, message: Message, returned: bool) -> None:
        if returned:
            self._ready.put_back(message)
        else:
            self._ready.append(message)

    def _ready_queues(self) -> Iterable[ReadyQueue]:
        return (self._ready,)
