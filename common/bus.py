"""Ports to a message broker. `common/servicebus/namespace.py` is the adapter; loops see only this page.

What can be promised: a `send` that returns was accepted by the broker, in order. A delivery that was not settled comes again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar, Protocol

from common.errors import PermanentError, TransientError
from common.message import Message

TimeLeft = Callable[[], float]
"""Seconds during which something may still be done; none are left at 0 and below."""


def for_ever() -> float:
    """A time that does not end."""
    return math.inf


class SendInterrupted(TransientError):
    """A send was interrupted. `accepted`: places, in the sequence that was given to `send`, of the messages that the broker is known to have
    accepted; the state of the others is unknown. They need not be the first ones: sessions go one after the other. A message that is in
    the sequence twice has two places, and each is accepted on its own.

    `throttled`: the namespace lacked credits or capacity, and what is not in `accepted` was not accepted.
    `disabled`: the entity is disabled, for all clients.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        accepted: Collection[int] = (),
        throttled: bool = False,
        disabled: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.accepted = frozenset(accepted)
        self.throttled = throttled
        self.disabled = disabled


class OutOfTime(SendInterrupted):
    """The caller's time was up before all was sent. What is not in `accepted` was not sent, except for a batch in flight."""


class MessageRefused(PermanentError):
    """The entity accepts other messages but never this one: `refused`, at the place `at` of the sequence that was given to `send`.

    `accepted`: places of the messages that the broker accepted before it; see SendInterrupted. The others were not sent.
    `words`: the broker's answer, or which part of the message cannot be written. `by_entity`: the entity answered, so it may be at fault
    when it refuses many.
    """

    by_entity: ClassVar[bool] = True

    def __init__(
        self,
        entity: str,
        refused: Message,
        words: str,
        *,
        at: int,
        accepted: Collection[int] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(f"sending to {entity}: message {refused.message_id} {words}", hint=hint)
        self.refused = refused
        self.at = at
        self.accepted = frozenset(accepted)
        self.words = words


class MessageUnwritable(MessageRefused):
    """It cannot be written in AMQP: an id of more than 128 characters, text that is not Unicode. It was not sent; the entity did not answer."""

    by_entity = False


class MessageTooLarge(MessageRefused):
    """Too large for the entity. `size`: bytes of its body; `limit`: bytes of the entity's largest message, properties included."""

    by_entity = False

    def __init__(self, entity: str, refused: Message, *, at: int, limit: int, accepted: Collection[int] = ()) -> None:
        self.size, self.limit = len(refused.body), limit
        super().__init__(
            entity,
            refused,
            f"has a body of {self.size} bytes, and the entity takes messages of {limit}, properties included",
            at=at,
            accepted=accepted,
            hint="raise the entity's maximum message size (Premium tier)",
        )


class Sender(Protocol):
    """Sends to one entity. Not thread-safe: one sender a thread."""

    def batch_bytes(self) -> int:
        """The broker's limit for a batch. Raises TransientError or DestinationUnavailable as `send` does."""
        ...

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        """Return when the broker has accepted all of `messages`, in as few batches as their size and sessions allow.

        The order within each session is kept; messages without a session keep theirs. A batch holds one session (the service
        requires it), so those of other sessions may overtake. Raises SendInterrupted (nothing or a prefix of each session was
        accepted; send the rest again, and duplicate detection removes what was in doubt), MessageRefused (MessageTooLarge for its
        size), or DestinationUnavailable (missing entity, missing right). After a SendInterrupted the same sender may be used again:
        it opens a new link by itself.

        `left` returns the seconds that remain for sending. It is called before each batch, and no batch is waited for longer; None:
        as long as it takes. Raises OutOfTime when no time is left.
        """
        ...

    def close(self) -> None: ...


class Delivery(Protocol):
    """A received message under its peek-lock, or under its session's lock."""

    @property
    def message(self) -> Message: ...

    @property
    def delivery_count(self) -> int:
        """How often it was delivered and not settled before this time: 0 for the first delivery."""
        ...

    @property
    def fault(self) -> str | None:
        """Why `message` is not what was sent (its body is not a byte string), for a person; usually None."""
        ...


class Receiver(Protocol):
    """Receives from one queue, or from one session of it. Not thread-safe."""

    @property
    def session_id(self) -> str | None: ...

    def receive(self, *, max_count: int, max_wait: float) -> Sequence[Delivery]:
        """Up to `max_count` deliveries in order, as soon as there is one; empty when none came within `max_wait` seconds.

        Raises TransientError when the link or the session lock is gone: close this receiver and open a new one.
        """
        ...

    def settle_many(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Complete all; return those whose lock was lost (they come again).

        Raises TransientError without an answer: some are completed, the others come again.
        """
        ...

    def dead_letter(self, delivery: Delivery, *, reason: str, description: str) -> None:
        """Move it to the dead-letter queue. Raises TransientError when its lock or the link is lost: it comes again."""
        ...

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """Give them back unread: they come again at once, and where the broker can, their delivery count does not rise."""
        ...

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        """Renew the lock of the session, or of these deliveries, when half of it is used up; does nothing before.

        Raises TransientError when the lock is lost.
        """
        ...

    def lock_left(self, deliveries: Sequence[Delivery]) -> float:
        """Seconds for which the session's lock, or the lock of these deliveries that ends first, is sure to last; at 0 and below it may be lost.

        Counted by a clock that cannot be set, from when the lock was taken or renewed. The clock also counts while the process is frozen.
        """
        ...

    def close(self) -> None:
        """Unsettled deliveries come again; a session is free for others. Never raises."""
        ...


class Receivers(Protocol):
    """Where receivers come from: the sessions of a queue, or a queue without sessions. Callable from any thread."""

    def open(self, *, max_wait: float, give_up: Callable[[], bool] | None = None) -> Receiver | None:
        """A receiver for the next session that holds messages and is not locked; None when none came within `max_wait` seconds, or soon
        after `give_up` returns True; it is called now and then meanwhile.

        For a queue without sessions: a receiver for the queue, at once. Raises TransientError, or DestinationUnavailable (missing
        entity, missing right, a queue whose sessions do not match).
        """
        ...
