"""Ports to a message bus. `common/buses.py` chooses the adapter by the `type` of the settings; everything else sees only this page.

What can be promised: a `send` that returns was accepted by the broker, in order. A delivery that was not settled comes again.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal, Protocol

from common.bus.depths import Depth, TopicDepths
from common.bus.fetch_ahead import FetchAhead
from common.check import Finding, Fix
from common.errors import DStreamError, PermanentError, TransientError
from common.message import Message

Provision = Literal["create", "verify", "none"]
"""What a start does with entities: create missing ones, refuse missing or unfit ones, or nothing (and makes no management call)."""

DUPLICATE_DETECTION_WINDOW = timedelta(minutes=10)
"""How long an entity remembers message ids. After a crash at most one page is sent again, as soon as another process holds
the lock (a lease lasts 60 s). Ten minutes cover that several times; a longer window costs throughput."""

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
    """The caller's time was up, or others have their turn. What is not in `accepted` was not sent, except for a batch in flight."""


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
        """The broker's limit for a batch. Raises TransientError or EntityUnavailable as `send` does."""
        ...

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        """Return when the broker has accepted all of `messages`, in as few batches as their size and sessions allow.

        The order within each session is kept; messages without a session keep theirs. A batch holds one session (the service
        requires it), so those of other sessions may overtake. Raises SendInterrupted (nothing or a prefix of each session was
        accepted; send the rest again, and duplicate detection removes what was in doubt), MessageRefused (MessageTooLarge for its
        size), or EntityUnavailable (missing entity, missing right). After a SendInterrupted the same sender may be used again:
        it opens a new link by itself.

        `left` returns the seconds that remain for sending. It is called before each batch, and no batch is waited for longer; None:
        as long as it takes. Raises OutOfTime when no time is left.
        """
        ...

    def close(self) -> None: ...


class OpenableSender(Sender, Protocol):
    """A sender that can find a missing entity or right before the first message."""

    def open(self) -> None:
        """Raises TransientError or EntityUnavailable."""
        ...


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

    @property
    def position(self) -> tuple[int, int]:
        """Its sequence number in the queue, which rises within a session and stays the same when it comes again; and its place in a pack, else 0."""
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

    def state(self) -> bytes | None:
        """What `set_state` last kept with the session, by whoever had it; None without a session or without a state.
        https://learn.microsoft.com/azure/service-bus-messaging/message-sessions. Raises TransientError."""
        ...

    def set_state(self, state: bytes | None) -> None:
        """Keep `state` with the session, whether it has messages or not; None removes it. It needs the session's lock, and no right beside
        Listen. Does nothing without a session. Raises TransientError."""
        ...

    def close(self) -> None:
        """Unsettled deliveries come again; a session is free for others. Never raises."""
        ...


class Receivers(Protocol):
    """Where receivers come from: the sessions of a queue, or a queue without sessions. Callable from any thread."""

    def open(self, *, max_wait: float, give_up: Callable[[], bool] | None = None) -> Receiver | None:
        """A receiver for the next session that holds messages and is not locked; None when none came within `max_wait` seconds, or soon
        after `give_up` returns True; it is called now and then meanwhile.

        For a queue without sessions: a receiver for the queue, at once. Raises TransientError, or EntityUnavailable (missing
        entity, missing right, a queue whose sessions do not match).
        """
        ...


@dataclass(frozen=True, slots=True)
class QueueNeed:
    """A queue as DStream needs it."""

    name: str
    sessions: bool
    duplicate_window: timedelta = DUPLICATE_DETECTION_WINDOW


@dataclass(frozen=True, slots=True)
class TopicNeed:
    """A topic, and the subscriptions to create on it (none: nobody reads it yet, and it stays empty).

    `mark`: a text that a topic gets when it is created, and that only who may manage entities can write; see `EntityManager.marked`.
    """

    name: str
    subscriptions: tuple[str, ...] = ()
    duplicate_window: timedelta = DUPLICATE_DETECTION_WINDOW
    mark: str | None = None


Need = QueueNeed | TopicNeed


@dataclass(frozen=True, slots=True)
class Storage:
    """`used` of `limit` bytes; a limit of 0 is unknown. Of a queue also the messages that wait, and those that are dead letters."""

    used: int
    limit: int
    active: int | None = None
    dead_letters: int | None = None

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit else 0.0


class QueueState(Protocol):
    """A queue, as its topics are compared with it. `largest`: bytes of its largest message; None when the bus's tier determines it."""

    @property
    def waiting(self) -> int: ...

    @property
    def largest(self) -> int | None: ...


class EntityManager(Protocol):
    """Makes the entities of a bus and looks at them. Needs more rights than sending and receiving. Never used for a message."""

    def provision(
        self, needs: Sequence[Need], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        """Create or check `needs`, depending on `how`; "none" returns at once. Returns the topics that could not be created now, each logged.

        Raises PermanentError (a missing right; one error names all entities that cannot work or that "verify" misses), TransientError (not
        reachable, throttled; for topics, only when each of them failed so) and, once `stop` is set, Stopped.
        """
        ...

    def marked(self, mark: str, *, stop: threading.Event | None = None) -> Collection[str]:
        """The topics with this mark, in lower case, by one listing of all. Raises PermanentError, TransientError or Stopped."""
        ...

    def queue_storage(self, name: str, *, stop: threading.Event | None = None) -> Storage | None:
        """None if the queue does not exist. Raises PermanentError, TransientError or Stopped."""
        ...

    def topics_storage(self, names: Sequence[str], *, stop: threading.Event | None = None) -> Mapping[str, Storage]:
        """Of those that exist, by name as given. Raises as `queue_storage`."""
        ...

    def queue_state(self, name: str) -> QueueState | None:
        """None when the queue does not exist, or without the right to see it. Raises TransientError."""
        ...

    def queue_findings(
        self, name: str, *, sessions: bool, provision: Provision, sends: bool, used: bool = False
    ) -> Iterator[Finding]:
        """For `dstream check`. `sends`: try whether the queue accepts a sender, else a receiver. `used`: changes may have been sent to it.

        Raises DStreamError when the bus cannot be reached.
        """
        ...

    def topic_findings(
        self, names: Sequence[str], *, subscriptions: Sequence[str], provision: Provision, queue: QueueState | None
    ) -> Iterator[Finding]:
        """For `dstream check`: findings on each topic, in order, each as soon as it is there. `queue`: the ingest queue, where it is known.
        Raises DStreamError when the bus cannot be reached."""
        ...

    def queue_depth(self, name: str, *, stop: threading.Event | None = None) -> Depth | None:
        """None if the queue does not exist. Raises PermanentError, TransientError or Stopped."""
        ...

    def topic_depths(
        self, names: Sequence[str], *, fewest: int = 0, stop: threading.Event | None = None
    ) -> TopicDepths:
        """Of all `names`, within half a minute altogether: what was not read by then is an error in its place. A topic with fewer than
        `fewest` subscriptions is never `Unlisted`. Raises as `queue_depth` when nothing can be read."""
        ...

    def fix_of_subscription(self, topic: str, name: str) -> Fix:
        """How to create the subscription `name`."""
        ...

    def fix_of_sending(self, name: str, trouble: DStreamError) -> Fix:
        """What corrects that nothing can be sent to the queue `name`."""
        ...

    def trouble_sending(self, name: str) -> DStreamError | None:
        """Why nothing can be sent to `name`: a link is opened and closed, no message is sent."""
        ...


class Bus(Protocol):
    """One namespace of a message bus. Holds no connection of its senders and receivers; callable from any thread."""

    @property
    def host(self) -> str:
        """Its host, and the port where one was given: the same text for the same namespace."""
        ...

    @property
    def hostname(self) -> str:
        """Its host without a port."""
        ...

    @property
    def most_connections(self) -> int | None:
        """The most connections that it accepts from all clients together; None: no limit."""
        ...

    @property
    def entities(self) -> EntityManager: ...

    def sender(self, entity: str, *, proven: bool | None = None) -> OpenableSender:
        """A sender for a queue or topic, not opened yet.

        `proven`: another process could send to it with the same right, so a refusal when it opens is transient; None: as for the whole bus.
        """
        ...

    def receivers(
        self, queue: str, *, sessions: bool, prefetch: int, ahead: FetchAhead | None = None, proven: bool = False
    ) -> Receivers:
        """Receivers of a queue with or without sessions. They fetch `prefetch` messages ahead, or as many as `ahead` decides.

        `proven`: the queue existed, with the right to it.
        """
        ...

    def cut_calls(self) -> None:
        """End every call in flight of the senders and receivers that this object made, from any thread: it raises TransientError."""
        ...

    def close(self) -> None:
        """Senders and receivers are closed where they were opened."""
        ...
