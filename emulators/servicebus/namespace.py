"""The entities of a namespace by path, and the port through which they are administered.

Not thread-safe: everything here runs on the broker's event loop (`loop_admin.LoopAdmin` brings other threads there). Paths
compare without regard to case. Refuses by name what the broker does not do: forwarding, partitioning, deletion on idle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from .amqp.values import AmqpError
from .description import (
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
from .entity import Entity, Queue, Subscription, Topic
from .journal import Journal
from .store import MessageStore

_SUBSCRIPTIONS: Final = "/subscriptions/"
_DEAD_LETTER: Final = "/$deadletterqueue"
_STATUSES: Final = ("Active", "Disabled", "SendDisabled", "ReceiveDisabled")
_LONGEST_LOCK: Final = timedelta(minutes=5)
_FIXED: Final = ("requires_session", "requires_duplicate_detection", "enable_partitioning")


class Node(NamedTuple):
    """What an address leads to: an entity, or its dead-letter queue."""

    entity: Entity
    dead_letters: bool

    @property
    def store(self) -> MessageStore | None:
        """Where its messages are; None for a topic."""
        if isinstance(self.entity, Topic):
            return None
        outlet = self.entity.outlet
        return outlet.dead_letters if self.dead_letters else outlet.store


@dataclass(slots=True)
class _Entry:
    entity: Entity
    created_at: datetime
    updated_at: datetime
    accessed_at: datetime
    links: list[Callable[[AmqpError], None]] = field(default_factory=list)


class Namespace:
    """Implements `EntityAdmin` for callers on the event loop; `clock` in seconds since the Unix epoch."""

    def __init__(self, clock: Callable[[], float], journal: Journal) -> None:
        self._clock = clock
        self._journal = journal
        self._entries: dict[str, _Entry] = {}

    def now(self) -> int:
        """Milliseconds since the Unix epoch."""
        return int(self._clock() * 1000)

    def sweep(self) -> None:
        """Do everything that is due: expire, schedule, redeliver."""
        now = self.now()
        for entry in list(self._entries.values()):
            entry.entity.sweep(now)

    def find(self, path: str) -> Node:
        """Raises AmqpError amqp:not-found."""
        key = path.strip("/").lower()
        dead = key.endswith(_DEAD_LETTER)
        entry = self._entries.get(key.removesuffix(_DEAD_LETTER))
        if entry is None or (dead and isinstance(entry.entity, Topic)):
            raise AmqpError("amqp:not-found", f"The messaging entity '{path}' could not be found.")
        entry.accessed_at = self._moment()
        return Node(entry.entity, dead)

    def watch(self, entity: Entity, on_delete: Callable[[AmqpError], None]) -> Callable[[], None]:
        """Call `on_delete` when the entity is deleted; returns how to stop that."""
        links = self._entries[entity.path.lower()].links
        links.append(on_delete)
        return lambda: links.remove(on_delete) if on_delete in links else None

    # -- EntityAdmin

    def create(self, path: str, description: Description) -> EntityInfo:
        """Raises EntityExists, EntityMissing (a subscription's topic), InvalidEntity."""
        path = path.strip("/")
        key = path.lower()
        _validate(path, description)
        if isinstance(description, SubscriptionDescription):
            topic = self._topic_of(key)
        if key in self._entries:
            raise EntityExists(path)
        entity: Entity
        if isinstance(description, QueueDescription):
            entity = Queue(path, description)
        elif isinstance(description, TopicDescription):
            entity = Topic(path, description)
        else:
            entity = Subscription(path, description)
            topic.subscriptions[key] = entity
        moment = self._moment()
        self._entries[key] = _Entry(entity, moment, moment, moment)
        return self.get(path)

    def update(self, path: str, description: Description) -> EntityInfo:
        """Raises EntityMissing, InvalidEntity."""
        entry = self._entry(path)
        old = entry.entity.description
        if type(old) is not type(description):
            raise InvalidEntity(f"'{path}' is described by {type(old).__name__}")
        _validate(path, description)
        for name in _FIXED:
            if getattr(old, name, None) != getattr(description, name, None):
                raise InvalidEntity(f"{name} of '{path}' cannot be changed after creation")
        entry.entity.reconfigure(description)
        entry.updated_at = self._moment()
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
        failure = AmqpError("amqp:not-found", f"The messaging entity '{entity.path}' has been deleted.")
        for detach in list(entry.links):
            detach(failure)

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

    def _list(self, kind: type[Entity]) -> list[EntityInfo]:
        return [self._info(entry) for _, entry in sorted(self._entries.items()) if isinstance(entry.entity, kind)]

    def _entry(self, path: str) -> _Entry:
        entry = self._entries.get(path.strip("/").lower())
        if entry is None:
            raise EntityMissing(path)
        return entry

    def _topic_of(self, key: str) -> Topic:
        topic, separator, name = key.partition(_SUBSCRIPTIONS)
        if not separator or not name:
            raise InvalidEntity(f"a subscription's path is topic/Subscriptions/name, not '{key}'")
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

    def entities(self) -> Iterator[Entity]:
        """All of them."""
        return (entry.entity for entry in self._entries.values())


def _validate(path: str, description: Description) -> None:
    """Raises InvalidEntity."""
    if not path:
        raise InvalidEntity("an entity needs a name")
    if not isinstance(description, SubscriptionDescription) and _SUBSCRIPTIONS in path.lower():
        raise InvalidEntity(f"'{path}' is the path of a subscription")
    if description.status not in _STATUSES:
        raise InvalidEntity(f"status {description.status!r} is none of {', '.join(_STATUSES)}")
    for name in ("forward_to", "forward_dead_lettered_messages_to", "enable_partitioning"):
        if getattr(description, name, None):
            raise InvalidEntity(f"{name} is not supported by this emulator")
    if description.auto_delete_on_idle != FOREVER:
        raise InvalidEntity("auto_delete_on_idle is not supported by this emulator")
    if description.default_message_time_to_live <= timedelta(0):
        raise InvalidEntity("default_message_time_to_live must be positive")
    if isinstance(description, TopicDescription):
        return
    if not timedelta(0) < description.lock_duration <= _LONGEST_LOCK:
        raise InvalidEntity("lock_duration must be above zero and at most five minutes")
    if description.max_delivery_count < 1:
        raise InvalidEntity("max_delivery_count must be at least 1")
