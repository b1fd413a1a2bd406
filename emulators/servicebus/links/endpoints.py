"""What stands behind the links of clients: sending to an entity, receiving from one, accepting a session.

Translates between the wire's words (outcomes, delivery tags, filters) and the stores' (settlement, lock tokens, sessions);
decides nothing about messages itself.
Sources: learn.microsoft.com "AMQP 1.0 in Azure Service Bus: protocol guide"; azure-servicebus 7.15 for link properties.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.link import Delivery, Link, filters_of, symbol_map, symbols
from emulators.servicebus.amqp.values import AmqpError, Described, Symbol, Value
from emulators.servicebus.entities.admission import too_large
from emulators.servicebus.entities.ingress import Ingress
from emulators.servicebus.entities.topic import Topic
from emulators.servicebus.message import BATCH_FORMAT, UNLOCKED, Message, parse_message, render, split_batch
from emulators.servicebus.store.competing import CompetingStore
from emulators.servicebus.store.message_store import MessageStore
from emulators.servicebus.store.outcomes import Outcome
from emulators.servicebus.store.sessions import SessionStore

from .fields import user_properties
from .passage import Passage

SESSION_FILTER: Final = "com.microsoft:session-filter"
_LOCKED_UNTIL: Final = "com.microsoft:locked-until-utc"
_TIMEOUT: Final = "com.microsoft:timeout"
_DEFAULT_TIMEOUT: Final = 65_000
"""Milliseconds; what the service tells of itself ("00:01:05", Azure/azure-sdk-for-python issue 28495)."""
_TICKS_TO_1970: Final = 621_355_968_000_000_000
_TICKS_PER_MILLISECOND: Final = 10_000

_EXPIRED: Final = Described(p.MODIFIED, [True, False, None])
"""What a lock that expires does to its message."""

Clock = Callable[[], int]


def _nothing() -> None:
    """Nobody wants to know that a link is gone."""


class SendEndpoint:
    """A client sends to a queue or topic."""

    def __init__(self, entity: Ingress, clock: Clock, passage: Passage) -> None:
        self.on_detach: Callable[[], None] = _nothing
        self._entity = entity
        self._passage = passage
        self._clock = clock

    def received(self, link: Link, delivery: Delivery) -> None:
        """Accept a message or a batch, whole or not at all."""
        try:
            if delivery.payload is None:
                raise too_large(None, self._entity.max_message_size)
            messages = self._messages(delivery.message_format, delivery.payload)
            self._passage.send([message.message_id for message in messages], filters_on(self._entity))
            self._entity.accept(messages, self._clock())
            self._passage.taken(len(delivery.payload))
        except AmqpError as failure:
            link.rejected(delivery, failure)
        else:
            link.accepted(delivery)

    @staticmethod
    def _messages(message_format: int, payload: bytes) -> list[Message]:
        if message_format == BATCH_FORMAT:
            return [parse_message(inner) for inner in split_batch(payload)]
        if message_format != 0:
            raise AmqpError("amqp:not-implemented", f"Message format 0x{message_format:08x} is not supported.")
        return [parse_message(payload)]

    def credited(self, link: Link) -> None:
        """Nothing is delivered on this link."""

    def settle(self, link: Link, tag: bytes, state: Described) -> AmqpError | None:
        """Nothing is delivered on this link."""
        return None

    def detached(self, link: Link) -> None:
        """Messages accepted stay."""
        self.on_detach()


class _Outgoing:
    """Messages on their way to a client."""

    def __init__(self, link: Link, clock: Clock, passage: Passage) -> None:
        self.link = link
        self.receive_and_delete = link.settled_deliveries
        self.on_detach: Callable[[], None] = _nothing
        self._passage = passage
        self._clock = clock

    @property
    def credit(self) -> int:
        """Messages the client will take."""
        return 0 if self._passage.closed else self.link.credit

    def deliver(self, message: Message, token: bytes, locked_until: int | None) -> None:
        """Send a message."""
        self._passage.deliver()
        lock = UNLOCKED if self.receive_and_delete else token
        self.link.send(lock, render(message, locked_until, lock), self.receive_and_delete)

    def received(self, link: Link, delivery: Delivery) -> None:
        """No client sends on a link it receives on."""

    def _asks(self) -> bool:
        """May the client have messages? If not it is detached: nothing else answers its asking."""
        if self.link.granted == 0:
            return True
        try:
            self._passage.ask()
        except AmqpError as failure:
            self.link.close(failure)
            return False
        return True


class ReceiveEndpoint(_Outgoing):
    """A client receives from a queue, a subscription or a dead-letter queue without sessions."""

    def __init__(self, link: Link, store: CompetingStore, clock: Clock, passage: Passage) -> None:
        super().__init__(link, clock, passage)
        self._store = store

    def detach(self, failure: AmqpError) -> None:
        """The client may not go on."""
        self.link.close(failure)

    def credited(self, link: Link) -> None:
        """Deliver what the client will take."""
        if self._asks():
            self._store.feed(self, self._clock())

    def settle(self, link: Link, tag: bytes, state: Described) -> AmqpError | None:
        """Apply an outcome; released messages come back in the same turn."""
        now = self._clock()
        lost = self._passage.settle()
        if lost is not None:
            settle(self._store, tag, _EXPIRED, now)
            return lost
        return settle(self._store, tag, state, now)

    def detached(self, link: Link) -> None:
        """What the client holds stays locked until it expires."""
        self._store.leave(self)
        self.on_detach()


class SessionEndpoint(_Outgoing):
    """A client receives the messages of one session, once it is granted."""

    def __init__(self, link: Link, store: SessionStore, clock: Clock, passage: Passage) -> None:
        super().__init__(link, clock, passage)
        wanted = filters_of(link).get(SESSION_FILTER)
        if not isinstance(wanted, str | None):
            raise AmqpError("amqp:invalid-field", "The session filter must be a string or null.")
        self.wanted: str | None = wanted
        self.session_id: str | None = None
        self._answered = False
        self._store = store

    def request(self) -> None:
        """Ask for the session; the attach is answered when it is granted or denied."""
        timeout = symbol_map(self.link.properties).get(_TIMEOUT)
        self.link.endpoint = self  # so that a detach meanwhile takes the request back
        self._store.request(self, self._clock(), timeout if isinstance(timeout, int) else _DEFAULT_TIMEOUT)

    def granted(self, session_id: str, locked_until: int) -> None:
        """Answer the attach with the session's name and the end of its lock (.NET ticks)."""
        self.session_id = session_id
        self._answered = True
        ticks = _TICKS_TO_1970 + locked_until * _TICKS_PER_MILLISECOND
        self.link.accept(
            self, filters=_session_filter(self.link, session_id), properties=symbols({_LOCKED_UNTIL: ticks})
        )

    def denied(self, failure: AmqpError) -> None:
        """Refuse the attach."""
        self._answered = True
        self.link.endpoint = None
        self.link.refuse(failure)
        self.on_detach()

    def detach(self, failure: AmqpError) -> None:
        """The session is lost, or its entity deleted."""
        if self._answered:
            self.link.close(failure)
        else:
            self._store.leave(self, self._clock())
            self.denied(failure)

    def credited(self, link: Link) -> None:
        """Deliver what the client will take."""
        if self._asks():
            self._store.feed(self, self._clock())

    def settle(self, link: Link, tag: bytes, state: Described) -> AmqpError | None:
        """Apply an outcome, under the session's lock."""
        now = self._clock()
        lost = self._passage.settle(session=True)
        if lost is not None:
            settle(self._store, tag, _EXPIRED, now)
            self._store.leave(self, now)
            return lost
        failure = settle(self._store, tag, state, now)
        return failure and self._store.lost_by(self)

    def detached(self, link: Link) -> None:
        """The session is free."""
        self._store.leave(self, self._clock())
        self.on_detach()


def filters_on(entity: Ingress) -> int:
    """How many filters a message sent to the entity is held against."""
    return sum(len(s.rules) for s in entity.subscriptions.values()) if isinstance(entity, Topic) else 0


def _session_filter(link: Link, session_id: str) -> dict[Value, Value]:
    """The filter with the session's name in it, described where the client's was: Go's client reads no other."""
    asked = link.source[7] if link.source else None
    was = asked.get(Symbol(SESSION_FILTER)) if isinstance(asked, dict) else None
    return symbols(
        {SESSION_FILTER: Described(was.descriptor, session_id) if isinstance(was, Described) else session_id}
    )


def settle(store: MessageStore, tag: bytes, state: Described, now: int) -> AmqpError | None:
    """Apply a delivery state to a locked message; None, or why that could not be."""
    try:
        outcome, reason, changes = _meaning(state)
        store.settle(tag, outcome, now, reason, changes)
    except AmqpError as failure:
        return failure
    if outcome is not Outcome.COMPLETE:
        store.pump(now)
    return None


def _meaning(state: Described) -> tuple[Outcome, tuple[str | None, str | None], dict[str, Value]]:
    """Outcome, reason and description of a dead letter, and user properties to change. Raises AmqpError.

    `modified` abandons or defers, whatever it says of delivery-failed: the clients for JavaScript and Go never set it, and what
    they abandon is counted as delivered ("Abandons the message; its delivery count is increased").
    The properties to modify that clients send are the annotations of `modified`, and what else is in the error of `rejected`.
    """
    none = (None, None)
    if state.descriptor == p.ACCEPTED:
        return Outcome.COMPLETE, none, {}
    if state.descriptor == p.RELEASED:
        return Outcome.RELEASE, none, {}
    fields: list[Value] = p.padded(list(state.value) if isinstance(state.value, list) else [], 3)
    if state.descriptor == p.MODIFIED:
        changes = {} if fields[2] is None else user_properties(fields[2], "message-annotations")
        if fields[1]:
            return Outcome.DEFER, none, changes
        return Outcome.ABANDON, none, changes
    error = fields[0]
    if not isinstance(error, Described) or not isinstance(error.value, list):
        return Outcome.DEAD_LETTER, none, {}
    info = p.padded(error.value, 3)[2]
    changes = {} if info is None else user_properties(info, "info")
    reason, description = changes.pop("DeadLetterReason", None), changes.pop("DeadLetterErrorDescription", None)
    words = (None if reason is None else str(reason), None if description is None else str(description))
    return Outcome.DEAD_LETTER, words, changes
