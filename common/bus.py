"""Ports to a message broker. `common/servicebus.py` is the adapter; loops see only this page.

What can be promised: a `send` that returns was accepted by the broker, in order. A delivery that was not settled comes again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from common.errors import PermanentError, TransientError
from common.message import Message

TimeLeft = Callable[[], float]
"""Seconds during which something may still be done; none are left at 0 and below."""


def for_ever() -> float:
    """A time that does not end."""
    return math.inf


class SendInterrupted(TransientError):
    """A send was broken off. `accepted`: what the broker is known to have taken before that; nothing is known of the others.

    `throttled`: the namespace refused for want of credits or of capacity, and what is not in `accepted` was not taken.
    `disabled`: the entity is switched off, for everybody.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        accepted: Sequence[Message] = (),
        throttled: bool = False,
        disabled: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.accepted = tuple(accepted)
        self.throttled = throttled
        self.disabled = disabled


class OutOfTime(SendInterrupted):
    """The caller's time was up before all was sent. What is not in `accepted` was not sent, but for the batch in flight, if there was one."""


class MessageRefused(PermanentError):
    """The entity takes other messages and not this one, whatever is done. `refused` is that message, `accepted` those that the broker
    took before it.

    `words`: what the broker said, or what of the message cannot be written. `by_entity`: the entity had a say, so that it may be the entity's
    fault when it refuses many.
    """

    by_entity: ClassVar[bool] = True

    def __init__(
        self, entity: str, refused: Message, words: str, *, accepted: Sequence[Message] = (), hint: str | None = None
    ) -> None:
        super().__init__(f"sending to {entity}: message {refused.message_id} {words}", hint=hint)
        self.refused = refused
        self.accepted = tuple(accepted)
        self.words = words


class MessageUnwritable(MessageRefused):
    """No broker can be told of it: an id of more than 128 characters, a text that is no Unicode. It was not sent, so the entity had no say."""

    by_entity = False


class MessageTooLarge(MessageRefused):
    """It fits no message of the entity. `size`: bytes of its body; `limit`: bytes of the entity's largest message, properties included."""

    by_entity = False

    def __init__(self, entity: str, refused: Message, *, limit: int, accepted: Sequence[Message] = ()) -> None:
        self.size, self.limit = len(refused.body), limit
        super().__init__(
            entity,
            refused,
            f"has a body of {self.size} bytes, and the entity takes messages of {limit}, properties included",
            accepted=accepted,
            hint="raise the entity's maximum message size (Premium tier)",
        )


class Sender(Protocol):
    """Sends to one entity. Not thread-safe: one sender a thread."""

    def batch_bytes(self) -> int:
        """What a batch may hold, as the broker says. Raises TransientError or DestinationUnavailable as `send` does."""
        ...

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        """Return when the broker has accepted all of `messages`, in as few batches as their size and sessions allow.

        The order within each session is kept; messages without a session keep theirs. A batch holds one session (the service
        asks for it), so those of other sessions may overtake. Raises SendInterrupted (of each session, nothing or a prefix was
        accepted; send the rest again, duplicate detection removes what was in doubt), MessageRefused (MessageTooLarge where it
        is that), or DestinationUnavailable (missing entity, missing right). After a SendInterrupted the same sender may be used again:
        it opens a new link by itself.

        `left`: seconds during which anything may still be sent, asked before each batch, and no batch is waited for longer; None:
        as long as it takes. Raises OutOfTime once it gives none.
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
        """Why `message` is not what was sent (a body that is no byte string), for a person; None as a rule."""
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
        """Complete all; return those whose lock was lost (they will come again).

        Raises TransientError when the answer did not come: some are completed, the others come again.
        """
        ...

    def dead_letter(self, delivery: Delivery, *, reason: str, description: str) -> None:
        """Move it to the dead-letter queue. Raises TransientError when its lock or the link is gone: it comes again."""
        ...

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """Give them back unread: they come again at once, and where the broker can, their delivery count does not rise."""
        ...

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        """Extend the lock of the session, or of these deliveries, when half of it is used up; free of cost otherwise.

        Raises TransientError when the lock is lost.
        """
        ...

    def lock_left(self, deliveries: Sequence[Delivery]) -> float:
        """Seconds that the lock of the session, or the first that ends of these deliveries', lasts at least; at 0 and below it may be lost.

        By a clock that cannot be set, since the lock was taken or renewed: of a process that was frozen it knows when it wakes.
        """
        ...

    def close(self) -> None:
        """Unsettled deliveries come again; a session is free for others. Never raises."""
        ...


class Receivers(Protocol):
    """Where receivers come from: the sessions of a queue, or a queue without sessions. Callable from any thread."""

    def open(self, *, max_wait: float, give_up: Callable[[], bool] | None = None) -> Receiver | None:
        """A receiver for the next session that holds messages and nobody's lock; None when none came within `max_wait` seconds, or soon
        after `give_up` says so, which is asked now and then meanwhile.

        Of a queue without sessions: a receiver for the queue, at once. Raises TransientError, or DestinationUnavailable (missing
        entity, missing right, a queue whose sessions do not match).
        """
        ...
