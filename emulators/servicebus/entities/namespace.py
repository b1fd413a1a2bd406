"""The entities of a namespace by path, and the port through which they are administered.

Not thread-safe: everything here runs on the broker's event loop (`administration.loop_admin` brings other threads there).
Paths compare without regard to case. What may not be is refused by name (`validation`, `topology`). An entity
that was not used for as long as its settings say is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.description import (
    Description,
    EntityExists,
    EntityInfo,
    EntityMissing,
    InvalidEntity,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.journal import DEAD_LETTERS, TRANSFER_DEAD_LETTERS, Journal
from emulators.servicebus.message import Message
from emulators.servicebus.rules.description import DEFAULT_RULE, RuleDescription, RuleInfo
from emulators.servicebus.store.deadlines import Deadlines
from emulators.servicebus.store.forwarding import NO_SESSION, Undeliverable

from .entry import Detach, Entry, Link
from .node import Entity, Node, split_place
from .outlet import Surroundings
from .queue import Queue
from .subscription import Subscription
from .topic import Topic
from .topology import require_forwarding
from .validation import as_kept, require_rule_name, require_settings, require_unchanged, require_valid

_SUBSCRIPTIONS: Final = "/subscriptions/"


class Namespace:
    """Implements `EntityAdmin` for callers on the event loop; `clock` in seconds since the Unix epoch."""

    def __init__(self, clock: Callable[[], float], journal: Journal) -> None:
        self._clock = clock
        self._journal = journal
        self._entries: dict[str, Entry] = {}
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
        key, place = split_place(path.strip("/").lower(), (TRANSFER_DEAD_LETTERS, DEAD_LETTERS))
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
        link = Link(node, right, detach)
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

    def _add(self, path: str, description: Description, created_at: datetime, updated_at: datetime) -> Entry:
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
        entry = self._entries[key] = Entry(entity, created_at, updated_at, self._moment())
        self._idle.set(key, entry.idle_at)
        return entry

    def _save(self, entry: Entry) -> None:
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

    def _entry(self, path: str) -> Entry:
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

    def _info(self, entry: Entry) -> EntityInfo:
        entity = entry.entity
        times = (entry.created_at, entry.updated_at, entry.accessed_at)
        return EntityInfo(entity.path, replace(entity.description), entity.counts(), *times)

    def _moment(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    # -- what a journal kept (see `restoration`)

    def restore_entity(self, path: str, description: Description, created_at: datetime, updated_at: datetime) -> None:
        """Put back an entity, a topic before its subscriptions; a subscription without any rule. The journal is not told."""
        self._add(path, description, created_at, updated_at)

    # -- looking: no access that counts

    def entities(self) -> Iterator[Entity]:
        """All of them."""
        return (entry.entity for entry in self._entries.values())

    def entity(self, path: str) -> Entity:
        """Raises EntityMissing."""
        return self._entry(path).entity

    def holds(self, path: str) -> bool:
        """Is there a queue or topic of that path, whatever place or subscription of it is meant? The empty path is the namespace."""
        key, _ = split_place(path.strip("/").lower(), (TRANSFER_DEAD_LETTERS, DEAD_LETTERS))
        return not key or key.partition(_SUBSCRIPTIONS)[0] in self._entries

    def attached(self, path: str) -> list[str]:
        """Of each link to an entity the right it uses. Raises EntityMissing."""
        return [link.right for link in self._entry(path).links]
