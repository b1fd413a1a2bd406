"""The messages of one queue, subscription or dead-letter queue: how they come in, and what settlement and time do to them.

Knows neither wire nor wall clock: every method that depends on time takes `now` in milliseconds since the Unix epoch.
`MessageStore` holds what both kinds share; `competing.CompetingStore` gives messages to whoever has credit, or forwards them;
`sessions.SessionStore` gives them to the owner of a session lock. Everything is in memory; what must outlive the process is
told to a shelf of the journal.
Sources: learn.microsoft.com "Message transfers, locks, and settlement", "Message expiration", "Dead-letter queues".
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping

from emulators.servicebus.amqp.values import AmqpError, Value
from emulators.servicebus.message import Message, MessageState
from emulators.servicebus.properties import change_user_properties

from .consumer import Consumer, StoreSettings
from .deadlines import NEVER
from .inventory import Inventory
from .outcomes import Outcome, already_dead, lock_lost, new_token
from .shelf import Shelf


def nobody(moment: int) -> None:
    """Nobody is to be woken: whoever uses the store sweeps it."""


class MessageStore(Inventory):
    """What is common to stores. `dead_letters` is None for a dead-letter queue itself."""

    def __init__(
        self,
        settings: StoreSettings,
        shelf: Shelf,
        dead_letters: MessageStore | None,
        alarm: Callable[[int], None] = nobody,
    ) -> None:
        super().__init__(shelf, alarm)
        self.settings = settings
        self.dead_letters = dead_letters
        self._sequence = 0

    # -- what the two kinds do differently

    @abstractmethod
    def _lock_until(self, message: Message, now: int) -> int: ...

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

    # -- out

    def _hand_over(self, consumer: Consumer, message: Message, now: int) -> None:
        if message.expires_at is not None:
            self._expiries.discard(message)
        if consumer.receive_and_delete:
            self._remove(message)
            consumer.deliver(message, new_token(), None)
            return
        token = self._lock(message, self._lock_until(message, now))
        consumer.deliver(message, token, message.locked_until)

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
            raise already_dead()
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
