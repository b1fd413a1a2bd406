"""The messages of one queue, subscription or dead-letter queue: ready, locked, deferred; what settlement does to them.

Knows neither wire nor wall clock: every method that depends on time takes `now` in milliseconds since the Unix epoch.
`MessageStore` holds what both kinds share; `CompetingStore` gives messages to whoever has credit, or forwards them;
`sessions.SessionStore` gives them to the owner of a session lock. Everything is in memory; what must outlive the process is
told to a shelf of the journal. No operation looks at more messages than it concerns.
Sources: learn.microsoft.com "Message transfers, locks, and settlement", "Message expiration", "Dead-letter queues".
"""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Final

from emulators.servicebus.amqp.values import AmqpError, Value
from emulators.servicebus.message import Message, MessageState
from emulators.servicebus.properties import change_user_properties

from .consumer import Consumer, StoreSettings
from .deadlines import NEVER, Deadlines
from .forwarding import Forwarder, Undeliverable
from .ready import ReadyQueue
from .sequence_index import SequenceIndex
from .shelf import Shelf

RETRY: Final = 1000
"""Milliseconds after which dead letters that their destination did not take are offered to it again."""


_TOKEN_PREFIX: Final = os.urandom(8)
_token_numbers = itertools.count(1)


class Outcome(Enum):
    """What a receiver wants done with a message it holds."""

    COMPLETE = auto()
    ABANDON = auto()
    RELEASE = auto()
    DEFER = auto()
    DEAD_LETTER = auto()


def lock_lost() -> AmqpError:
    """The answer to a token that locks nothing (any more)."""
    return AmqpError(
        "com.microsoft:message-lock-lost",
        "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue.",
    )


def _already_dead() -> AmqpError:
    """The answer to dead-lettering what is a dead letter."""
    return AmqpError("amqp:not-allowed", "A message of a dead-letter queue cannot be dead-lettered.")


def new_token() -> bytes:
    """A lock token, used once: 16 octets, a delivery tag on the wire."""
    return _TOKEN_PREFIX + next(_token_numbers).to_bytes(8, "big")


def _nobody(moment: int) -> None:
    """Nobody is to be woken: whoever uses the store sweeps it."""


class MessageStore(ABC):
    """What is common to stores. `dead_letters` is None for a dead-letter queue itself.

    `alarm` is called with a moment at which `sweep` must be called, whenever that comes earlier than was known.
    """

    def __init__(
        self,
        settings: StoreSettings,
        shelf: Shelf,
        dead_letters: MessageStore | None,
        alarm: Callable[[int], None] = _nobody,
    ) -> None:
        self.settings = settings
        self.shelf = shelf
        self.dead_letters = dead_letters
        self.alarm = alarm
        self.size = 0
        self.due = NEVER
        self._count = 0
        self._sequence = 0
        self._locked: dict[bytes, Message] = {}
        self._deferred: dict[int, Message] = {}
        self._expiries: Deadlines[Message] = Deadlines()
        self._index = SequenceIndex()

    # -- what the two kinds do differently

    @abstractmethod
    def _make_ready(self, message: Message, returned: bool) -> None: ...

    @abstractmethod
    def _withdraw(self, message: Message) -> None:
        """A ready message is not ready any more."""

    @abstractmethod
    def _ready_messages(self) -> Iterable[Message]: ...

    @abstractmethod
    def _lock_until(self, message: Message, now: int) -> int: ...

    @abstractmethod
    def _lock_begins(self, message: Message) -> None: ...

    @abstractmethod
    def _lock_ends(self, message: Message, token: bytes) -> None: ...

    @abstractmethod
    def _expire_locks(self, now: int) -> None: ...

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
        ttl, cap = message.ttl, self.settings.default_ttl
        if cap is not None and (ttl is None or ttl > cap):
            ttl = message.ttl = cap
        message.expires_at = None
        if ttl is not None and self.dead_letters is not None:
            message.expires_at = now + ttl
        self.shelf.save(message)
        self._add(message)
        self._offer(message, returned=False)
        return message.sequence

    def take_over(self, message: Message, reason: str | None, description: str | None) -> None:
        """Take in a dead letter with why it is one; the caller pumps. It keeps its sequence number and enqueued time, which
        only a schedule coming due changes (MicrosoftDocs/azure-docs issue 97032), and it no longer expires.
        """
        stated = {"DeadLetterReason": reason, "DeadLetterErrorDescription": description}
        extra = {name: text for name, text in stated.items() if text is not None}
        if extra:
            change_user_properties(message, extra)
        message.state = MessageState.ACTIVE
        message.expires_at = None
        self.shelf.save(message)
        self._add(message)
        self._make_ready(message, returned=True)

    def restore(self, message: Message) -> None:
        """Put back a message that the journal kept: nobody holds it any more."""
        message.lock_token = None
        self._add(message)
        if message.state is MessageState.DEFERRED:
            self._deferred[message.sequence] = message
        else:
            self._offer(message, returned=True)
            self.wake_at(message.enqueued_at)  # it may have to be forwarded

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

    # -- out

    def wake_at(self, moment: int) -> None:
        """Something happens at `moment`: `sweep` must be called then."""
        if moment < self.due:
            self.due = moment
            self.alarm(moment)

    def _hand_over(self, consumer: Consumer, message: Message, now: int) -> None:
        if message.expires_at is not None:
            self._expiries.discard(message)
        if consumer.receive_and_delete:
            self._remove(message)
            consumer.deliver(message, new_token(), None)
            return
        token = self._lock(message, self._lock_until(message, now))
        consumer.deliver(message, token, message.locked_until)

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
        self,
        token: bytes,
        outcome: Outcome,
        now: int,
        reason: tuple[str | None, str | None] = (None, None),
        changes: Mapping[str, Value] | None = None,
    ) -> None:
        """Apply an outcome; `reason` is reason and description of a dead letter, `changes` are user properties to set in a
        message that stays. The caller pumps. Raises AmqpError.
        """
        if self.due <= now:
            self.sweep(now)
        message = self._locked.get(token)
        if message is None:
            raise self.lost(token)
        if outcome is Outcome.DEAD_LETTER and self.dead_letters is None:
            raise _already_dead()
        self._unlock(message)
        if changes and outcome is not Outcome.COMPLETE:
            self.size += change_user_properties(message, changes)
            self.shelf.save(message)
        if outcome is Outcome.COMPLETE:
            self._remove(message)
        elif outcome is Outcome.ABANDON or outcome is Outcome.RELEASE:
            self._return(message, now, failed=outcome is Outcome.ABANDON)
        elif outcome is Outcome.DEFER:
            self._defer(message, now)
        else:
            self._dead_letter(message, now, *reason)

    def renew(self, token: bytes, now: int) -> int:
        """Extend a lock from now; the new expiry. Raises AmqpError."""
        if not self.holds(token, now):
            raise self.lost(token)
        message = self._locked[token]
        message.locked_until = self._lock_until(message, now)
        self._lock_begins(message)
        return message.locked_until

    def _remove(self, message: Message) -> None:
        """A message that is neither ready nor locked leaves the store."""
        self._deferred.pop(message.sequence, None)
        self.size -= message.size
        self._count -= 1
        self._index.remove(message)
        self.shelf.drop(message.sequence)

    def _return(self, message: Message, now: int, failed: bool) -> None:
        """A message that was locked is ready again, or deferred; a failed delivery counts."""
        if failed:
            if self._was_last_delivery(message, now):
                return
            self.shelf.save(message)
        if message.state is MessageState.DEFERRED:
            return
        self._offer(message, returned=True)

    def _defer(self, message: Message, now: int) -> None:
        if self._was_last_delivery(message, now):
            return
        message.state = MessageState.DEFERRED
        self._deferred[message.sequence] = message
        self.shelf.save(message)

    def _was_last_delivery(self, message: Message, now: int) -> bool:
        """Count a delivery that did not end the message; True when there may be no other, and it is a dead letter.

        Deferring counts (Azure/azure-service-bus issue 375), and in a dead-letter queue nothing does (azure-sdk-for-net issue 53437;
        Azure/azure-sdk-for-js, batchReceiver.spec.ts).
        """
        if self.dead_letters is None:
            return False
        message.delivery_count += 1
        limit = self.settings.max_delivery_count
        if limit is None or message.delivery_count < limit:
            return False
        text = f"Message could not be consumed after {message.delivery_count} delivery attempts."
        self._dead_letter(message, now, "MaxDeliveryCountExceeded", text)
        return True

    def _expire(self, message: Message, now: int) -> None:
        """A message that nobody holds has outlived its time."""
        if self.settings.dead_letter_expired:
            self._dead_letter(message, now, "TTLExpiredException", "The message expired and was dead lettered.")
        else:
            self._remove(message)

    def _dead_letter(self, message: Message, now: int, reason: str | None, description: str | None) -> None:
        assert self.dead_letters is not None
        self._remove(message)
        self.dead_letters.take_over(message, reason, description)
        self.dead_letters.pump(now)

    # -- deferred messages

    def take_deferred(self, sequences: Iterable[int], now: int, session: str | None, delete: bool) -> list[Message]:
        """Deferred messages by sequence number, locked (or removed); all or none. Raises AmqpError.

        They do not expire but when they are asked for (learn.microsoft.com "Message deferral").
        """
        if self.due <= now:
            self.sweep(now)
        asked = dict.fromkeys(sequences)
        for message in [self._deferred[sequence] for sequence in asked if sequence in self._deferred]:
            if message.lock_token is None and message.expires_at is not None and message.expires_at <= now:
                self._expire(message, now)
        wanted = [self._deferred.get(sequence) for sequence in asked]
        found = [m for m in wanted if m is not None and m.lock_token is None and session in (None, m.session_id)]
        if len(found) < len(wanted):
            raise AmqpError(
                "com.microsoft:message-not-found",
                "Failed to lock one or more specified messages. The message does not exist.",
            )
        locked_until = [0 if delete else self._lock_until(message, now) for message in found]
        for message, until in zip(found, locked_until, strict=True):
            if delete:
                self._remove(message)
            else:
                self._lock(message, until)
        return found

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

    # -- deletion

    def delete(self, most: int, before: int, session: str | None, now: int) -> int:
        """Delete up to so many of the oldest messages that are ready and were enqueued before a moment; how many these were.

        Source: learn.microsoft.com "Batch delete messages in Azure Service Bus".
        """
        if self.due <= now:
            self.sweep(now)
        ready = (m for m in self._index.since(0) if m.lock_token is None and m.state is MessageState.ACTIVE)
        wanted = (m for m in ready if m.enqueued_at < before and session in (None, m.session_id))
        found = list(itertools.islice(wanted, most))
        for message in found:
            self._expiries.discard(message)
            self._withdraw(message)
            self._remove(message)
        return len(found)

    # -- time

    def sweep(self, now: int) -> None:
        """Do what is due: expire locks and messages, deliver what comes back of it."""
        if now < self.due:
            return
        self.due = NEVER
        self._expire_locks(now)
        for message in self._expiries.take(now):
            self._withdraw(message)
            self._expire(message, now)
        self.wake_at(self._expiries.next)
        self.pump(now)


class CompetingStore(MessageStore):
    """Consumers with credit take turns. With a forwarder, messages go there instead; `give_up` takes those it does not."""

    def __init__(
        self,
        settings: StoreSettings,
        shelf: Shelf,
        dead_letters: MessageStore | None,
        alarm: Callable[[int], None] = _nobody,
    ) -> None:
        super().__init__(settings, shelf, dead_letters, alarm)
        self._ready = ReadyQueue()
        self._hungry: OrderedDict[Consumer, None] = OrderedDict()
        self._locks: Deadlines[Message] = Deadlines()
        self._forwarder: Forwarder | None = None
        self._give_up: Callable[[Message, Undeliverable, int], None] | None = None
        self._stranded: list[Message] = []
        self._retry_at = 0

    def leave(self, consumer: Consumer) -> None:
        """A receiver goes; what it holds stays locked until the locks expire."""
        self._hungry.pop(consumer, None)

    def feed(self, consumer: Consumer, now: int) -> None:
        """A receiver's credit changed."""
        if consumer.credit > 0:
            self._hungry.setdefault(consumer)
        self.pump(now)

    def pump(self, now: int) -> None:
        if self.due <= now:
            self.sweep(now)  # pumps again; what it leaves cannot be due
        if self._forwarder is not None:
            self._forward(self._forwarder, now)
            return
        ready, hungry = self._ready, self._hungry
        while ready and hungry:
            consumer = next(iter(hungry))
            if consumer.credit <= 0:
                del hungry[consumer]
                continue
            hungry.move_to_end(consumer)
            self._hand_over(consumer, ready.pop(), now)

    # -- forwarding

    def forward(
        self, forwarder: Forwarder | None, give_up: Callable[[Message, Undeliverable, int], None] | None = None
    ) -> None:
        """Forward from now on, or no longer; the caller pumps.

        Without `give_up` what the destination does not take stays, and is offered again after `RETRY`; so dead letters do
        (Azure/azure-service-bus issue 666). What can never be taken stays for good, and holds up nothing.
        """
        self._forwarder, self._give_up, self._retry_at = forwarder, give_up, 0
        for message in self._stranded:
            self._ready.put_back(message)
        self._stranded.clear()

    def _forward(self, forwarder: Forwarder, now: int) -> None:
        while self._ready and self._retry_at <= now:
            message = self._ready.pop()
            self._expiries.discard(message)
            try:
                forwarder.send(message, now)
            except Undeliverable as failure:
                if self._give_up is not None:
                    self._remove(message)
                    self._give_up(message, failure, now)
                elif failure.lasting:
                    self._stranded.append(message)
                else:
                    self._ready.put_back(message)
                    self._retry_at = now + RETRY
                    self.wake_at(self._retry_at)
            else:
                self._remove(message)

    # -- what the kinds do differently

    def _make_ready(self, message: Message, returned: bool) -> None:
        if returned:
            self._ready.put_back(message)
        else:
            self._ready.append(message)

    def _withdraw(self, message: Message) -> None:
        if message in self._stranded:
            self._stranded.remove(message)
        else:
            self._ready.remove(message)

    def _ready_messages(self) -> Iterable[Message]:
        return itertools.chain(self._ready, self._stranded)

    def _lock_until(self, message: Message, now: int) -> int:
        return now + self.settings.lock_duration

    def _lock_begins(self, message: Message) -> None:
        self._locks.set(message, message.locked_until)
        self.wake_at(message.locked_until)

    def _lock_ends(self, message: Message, token: bytes) -> None:
        self._locks.discard(message)

    def _expire_locks(self, now: int) -> None:
        for message in self._locks.take(now):
            self._unlock(message)
            self._return(message, now, failed=True)
        self.wake_at(self._locks.next)
        if self._retry_at > now:
            self.wake_at(self._retry_at)
