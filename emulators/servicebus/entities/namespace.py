"""The entities of a namespace by path, and the port through which they are administered.

Not thread-safe: everything here runs on the broker's event loop (`administration.loop_admin` brings other threads there).
Paths compare without regard to case. What may not be is refused by name (`validation`, `topology`). An entity that was not used for as long as its settings say is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

from emulators.servicebus.amqp.values import AmqpError, Value
from emulators.servicebus.description import (
    FOREVER,
    Description,
    EntityExists,
    EntityInfo,
    EntityMissing,
    InvalidEntity,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.journal import DEAD_LETTERS, SCHEDULE, TRANSFER_DEAD_LETTERS, Journal
from emulators.servicebus.message import Message
from emulators.servicebus.rules.description import DEFAULT_RULE, RuleDescription, RuleInfo
from emulators.servicebus.store.deadlines import NEVER, Deadlines
from emulators.servicebus.store.forwarding import NO_SESSION, Undeliverable
from emulators.servicebus.store.message_store import MessageStore
from emulators.servicebus.store.sessions import SessionStore

from .entity import Entity, Queue, Subscription, Topic, require_enabled
from .outlet import Surroundings, milliseconds
from .topology import require_forwarding
from .validation import as_kept, require_rule_name, require_settings, require_unchanged, require_valid

_SUBSCRIPTIONS: Final = "/subscriptions/"


Detach = Callable[[AmqpError], None]


class Node(NamedTuple):
    """What an address leads to: an entity (`place` is empty), or one of its dead-letter queues."""

    entity: Entity
    place: str

    @property
    def dead_letters(self) -> bool:
        """Is it one of the dead-letter queues?"""
        return bool(self.place)

    @property
    def store(self) -> MessageStore | None:
        """Where its messages are; None for a topic."""
        if isinstance(self.entity, Topic):
            return None
        return self.entity.outlet.at(self.place)

    def require_receivable(self) -> None:
        """Raises AmqpError when receivers cannot be attached here, or must go."""
        entity = self.entity
        if isinstance(entity, Topic):
            raise AmqpError("amqp:not-allowed", f"'{entity.path}' is a topic: receive from its subscriptions.")
        require_enabled(entity.path, entity.description.status, ("ReceiveDisabled",))
        entity.outlet.require_receivable(self.place)


class _Link(NamedTuple):
    node: Node
    right: str
    detach: Detach


@dataclass(slots=True)
class _Entry:
    entity: Entity
    created_at: datetime
    updated_at: datetime
    accessed_at: datetime
    links: list[_Link] = field(default_factory=list)

    @property
    def idle_at(self) -> int:
        """When the entity will have been idle for too long (milliseconds since the Unix epoch), or NEVER."""
        limit = self.entity.description.auto_delete_on_idle
        return NEVER if limit == FOREVER else int(self.accessed_at.timestamp() * 1000) + milliseconds(limit)

    @property
    def in_use(self) -> bool:
        """Do links or scheduled messages keep it from being idle?"""
        entity = self.entity
        return bool(self.links) or (not isinstance(entity, Subscription) and len(entity.schedule) > 0)


class Namespace:
    """Implements `EntityAdmin` for callers on the event loop; `clock` in seconds since the Unix epoch."""

    def __init__(self, clock: Callable[[], float], journal: Journal) -> None:
        self._clock = clock
        self._journal = journal
        self._entries: dict[str, _Entry] = {}
        self._agenda: Deadlines[str] = Deadlines()
        self._idle: Deadlines[str] = Deadlines()

    def now(self) -> int:
        """Milliseconds since the Unix epoch."""
        return int(self._clock() * 1000)

    def sweep(self) -> None:
        """Do everything that is due: expire, schedule, redeliver."""
        now = self.now()
        for key in self._agenda.take(now):
            entry = self._entries.get(key)
            if entry is not None:
                if entry.in_use:
                    entry.accessed_at = self._moment()  # what is scheduled may be no longer, after this
                entry.entity.sweep(now)
                self._agenda.advance(key, entry.entity.due)
        for key in self._idle.take(now):
            self._end_idle(key, now)

    def _end_idle(self, key: str, now: int) -> None:
        """Delete an entity that nobody used for too long. A link counts as use for as long as it is attached."""
        entry = self._entries.get(key)
        if entry is None:
            return
        if entry.in_use:
            entry.accessed_at = self._moment()
        if entry.idle_at <= now:
            self.delete(key)
        else:
            self._idle.set(key, entry.idle_at)

    def transfer(self, target: str, message: Message, now: int) -> None:
        """Give a forwarded message to another entity. Raises Undeliverable."""
        entry = self._entries.get(target.lower())
        entity = None if entry is None else entry.entity
        if entry is None or not isinstance(entity, Queue | Topic):
            raise Undeliverable("amqp:not-found", f"The messaging entity '{target}' could not be found.")
        if isinstance(entity, Queue) and entity.description.requires_session and message.session_id is None:
            raise Undeliverable(*NO_SESSION)
        entry.accessed_at = self._moment()
        try:
            entity.accept([message], now)
        except AmqpError as failure:
            raise Undeliverable(failure.condition, failure.description or "") from None

    def find(self, path: str) -> Node:
        """Raises AmqpError amqp:not-found."""
        key, place = _split(path.strip("/").lower(), (TRANSFER_DEAD_LETTERS, DEAD_LETTERS))
        entry = self._entries.get(key)
        if entry is None or (place and isinstance(entry.entity, Topic)):
            raise AmqpError("amqp:not-found", f"The messaging entity '{path}' could not be found.")
        entry.accessed_at = self._moment()
        return Node(entry.entity, place)

    def watch(self, node: Node, right: str, detach: Detach) -> Callable[[], None]:
        """Have a link detached when its entity is deleted, or one with the right Listen when nothing can be received any more.

        Returns how to stop that.
        """
        entry = self._entries[node.entity.path.lower()]
        link = _Link(node, right, detach)
        entry.links.append(link)

        def unwatch() -> None:
            if link in entry.links:
                entry.links.remove(link)
                entry.accessed_at = self._moment()

        return unwatch

    # -- EntityAdmin

    def create(
        self, path: str, description: Description, default_rule: tuple[str, RuleDescription] | None = None
    ) -> EntityInfo:
        """See `EntityAdmin`."""
        path = path.strip("/")
        key = path.lower()
        require_valid(path, description)
        description = as_kept(description)
        if isinstance(description, SubscriptionDescription):
            self._topic_of(key)
        if key in self._entries:
            raise EntityExists(path)
        require_forwarding(path, description, None, self._find)
        moment = self._moment()
        entry = self._add(path, description, moment, moment)
        self._save(entry)
        if isinstance(entry.entity, Subscription):
            name, rule = default_rule or (DEFAULT_RULE, RuleDescription())
            try:
                self.create_rule(path, name, rule)
            except InvalidEntity:
                self.delete(path)
                raise
        return self._info(entry)

    def _add(self, path: str, description: Description, created_at: datetime, updated_at: datetime) -> _Entry:
        key = path.lower()
        around = Surroundings(self._journal, self.transfer, partial(self._agenda.advance, key))
        entity: Entity
        if isinstance(description, QueueDescription):
            entity = Queue(path, description, around)
        elif isinstance(description, TopicDescription):
            entity = Topic(path, description, around)
        else:
            entity = Subscription(path, description, around)
            self._topic_of(key).subscriptions[key] = entity
        entry = self._entries[key] = _Entry(entity, created_at, updated_at, self._moment())
        self._idle.set(key, entry.idle_at)
        return entry

    def _save(self, entry: _Entry) -> None:
        entity = entry.entity
        self._journal.save_entity(entity.path, entity.description, entry.created_at, entry.updated_at)

    def update(self, path: str, description: Description) -> EntityInfo:
        """Raises EntityMissing, InvalidEntity."""
        entry = self._entry(path)
        old = entry.entity.description
        require_unchanged(path, old, description)
        require_settings(description)
        description = as_kept(description)
        require_forwarding(entry.entity.path, description, old, self._find)
        entry.entity.reconfigure(description, self.now())
        entry.updated_at = entry.accessed_at = self._moment()
        self._idle.set(entry.entity.path.lower(), entry.idle_at)
        self._save(entry)
        for link in [link for link in entry.links if link.right == "Listen"]:
            try:
                link.node.require_receivable()
            except AmqpError as failure:
                link.detach(failure)
        return self.get(path)

    def get(self, path: str) -> EntityInfo:
        """Raises EntityMissing."""
        return self._info(self._entry(path))

    def delete(self, path: str) -> None:
        """Raises EntityMissing."""
        entry = self._entry(path)
        entity = entry.entity
        if isinstance(entity, Topic):
            for subscription in list(entity.subscriptions.values()):
                self.delete(subscription.path)
        elif isinstance(entity, Subscription):
            del self._topic_of(entity.path.lower()).subscriptions[entity.path.lower()]
        del self._entries[entity.path.lower()]
        self._journal.drop_entity(entity.path)
        failure = AmqpError("amqp:not-found", f"The messaging entity '{entity.path}' has been deleted.")
        for link in list(entry.links):
            link.detach(failure)

    def queues(self) -> Sequence[EntityInfo]:
        """In order of path."""
        return self._list(Queue)

    def topics(self) -> Sequence[EntityInfo]:
        """In order of path."""
        return self._list(Topic)

    def subscriptions(self, topic: str) -> Sequence[EntityInfo]:
        """Raises EntityMissing."""
        entity = self._entry(topic).entity
        if not isinstance(entity, Topic):
            raise EntityMissing(topic)
        return [self._info(self._entries[key]) for key in sorted(entity.subscriptions)]

    def rules(self, subscription: str) -> Sequence[RuleInfo]:
        """See `EntityAdmin`."""
        return list(self._subscription(subscription).rules.values())

    def rule(self, subscription: str, name: str) -> RuleInfo:
        """See `EntityAdmin`."""
        return self._subscription(subscription).rule(name)

    def create_rule(self, subscription: str, name: str, description: RuleDescription) -> RuleInfo:
        """See `EntityAdmin`."""
        require_rule_name(name)
        rule = self._subscription(subscription).create_rule(name, description, self._moment())
        self._entry(subscription).accessed_at = rule.created_at
        return rule

    def update_rule(self, subscription: str, name: str, description: RuleDescription) -> RuleInfo:
        """See `EntityAdmin`."""
        return self._subscription(subscription).update_rule(name, description)

    def delete_rule(self, subscription: str, name: str) -> None:
        """See `EntityAdmin`."""
        self._subscription(subscription).delete_rule(name)

    def _subscription(self, path: str) -> Subscription:
        entity = self._entry(path).entity
        if not isinstance(entity, Subscription):
            raise EntityMissing(path)
        return entity

    def _list(self, kind: type[Entity]) -> list[EntityInfo]:
        return [self._info(entry) for _, entry in sorted(self._entries.items()) if isinstance(entry.entity, kind)]

    def _entry(self, path: str) -> _Entry:
        entry = self._entries.get(path.strip("/").lower())
        if entry is None:
            raise EntityMissing(path)
        return entry

    def _find(self, key: str) -> Entity | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.entity

    def _topic_of(self, key: str) -> Topic:
        topic, _, _ = key.partition(_SUBSCRIPTIONS)
        entry = self._entries.get(topic)
        if entry is None or not isinstance(entry.entity, Topic):
            raise EntityMissing(topic)
        return entry.entity

    def _info(self, entry: _Entry) -> EntityInfo:
        entity = entry.entity
        times = (entry.created_at, entry.updated_at, entry.accessed_at)
        return EntityInfo(entity.path, replace(entity.description), entity.counts(), *times)

    def _moment(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    # -- what a journal kept: before anybody connects; none of this is told to the journal

    def restore_entity(self, path: str, description: Description, created_at: datetime, updated_at: datetime) -> None:
        """Put back an entity, a topic before its subscriptions; a subscription without any rule."""
        self._add(path, description, created_at, updated_at)

    def restore_rule(self, subscription: str, rule: RuleInfo) -> None:
        """Put back a rule, in order of creation. Raises EntityMissing, InvalidEntity."""
        self._subscription(subscription).restore_rule(rule)

    def restore_sequence(self, shelf: str, sequence: int) -> None:
        """Put back the last sequence number given out. Raises EntityMissing."""
        entity = self._entry(shelf).entity
        if isinstance(entity, Subscription):
            entity.outlet.store.restore_sequence(sequence)
        else:
            entity.restore_sequence(sequence)

    def restore_message(self, shelf: str, message: Message) -> None:
        """Put back a message, deferred, scheduled or ready by its state: locks have ended. Fastest in order of sequence.

        Raises EntityMissing, ValueError for a shelf the entity does not have.
        """
        path, place = _split(shelf, (TRANSFER_DEAD_LETTERS, DEAD_LETTERS, SCHEDULE))
        entity = self._entry(path).entity
        if place == SCHEDULE and not isinstance(entity, Subscription):
            entity.schedule.restore(message)
        elif place != SCHEDULE and not isinstance(entity, Topic):
            entity.outlet.at(place).restore(message)
        else:
            raise ValueError(f"no messages are kept at '{shelf}'")

    def restore_session_state(self, shelf: str, session_id: str, state: bytes, changed_at: int) -> None:
        """Put back a session's state. Raises EntityMissing, ValueError for an entity without sessions."""
        entity = self._entry(shelf).entity
        store = None if isinstance(entity, Topic) else entity.outlet.store
        if not isinstance(store, SessionStore):
            raise ValueError(f"'{shelf}' has no sessions")
        store.restore_session_state(session_id, state, changed_at)

    def restore_seen(self, path: str, message_id: Value, at: int) -> None:
        """Put back an id of duplicate detection; in order of `at`. Raises EntityMissing, ValueError for a subscription."""
        entity = self._entry(path).entity
        if isinstance(entity, Subscription):
            raise ValueError(f"the subscription '{path}' detects no duplicates")
        entity.history.restore(message_id, at)

    def entities(self) -> Iterator[Entity]:
        """All of them."""
        return (entry.entity for entry in self._entries.values())

    def attached(self, path: str) -> tuple[Entity, list[str]]:
        """An entity, and of each link to it the right it uses; no access that counts. Raises EntityMissing."""
        entry = self._entry(path)
        return entry.entity, [link.right for link in entry.links]


def _split(path: str, places: tuple[str, ...]) -> tuple[str, str]:
    """The entity's path and which of the places stands behind it, or none; a longer place before its own end."""
    for place in places:
        if path.endswith(place):
            return path.removesuffix(place), place
    return path, ""
