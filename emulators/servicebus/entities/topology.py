"""Where entities forward to: what may not be is refused by name when an entity is created or changed.

A destination must exist by then, as documented. An entity that would forward to itself, at once or through others, is
refused too: its messages could only end as dead letters.
Source: learn.microsoft.com "Chaining Service Bus entities with autoforwarding".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from emulators.servicebus.description import Description, InvalidEntity, TopicDescription
from emulators.servicebus.store.forwarding import target_path

from .node import Entity
from .queue import Queue
from .subscription import Subscription
from .topic import Topic

Find = Callable[[str], Entity | None]
"""The entity of a path in lower case."""


def require_forwarding(path: str, description: Description, old: Description | None, find: Find) -> None:
    """Raises InvalidEntity for a destination that cannot be; one that is as it was before is not asked about again."""
    if isinstance(description, TopicDescription):
        return
    if description.forward_to and description.requires_session:
        raise InvalidEntity(f"forward_to is not supported where sessions are required: '{path}'")
    source = path.lower().partition("/subscriptions/")[0]  # what comes round to its topic comes round to a subscription
    for name in ("forward_to", "forward_dead_lettered_messages_to"):
        address = getattr(description, name)
        if not address or address == getattr(old, name, None):
            continue
        target = find(target_path(address).lower())
        if not isinstance(target, Queue | Topic):
            raise InvalidEntity(f"{name} of '{path}': there is no queue or topic '{address}'")
        if name == "forward_to" and source in _reached(target, find):
            raise InvalidEntity(f"{name} of '{path}': '{address}' leads back to it")
        if target.path.lower() == path.lower():
            raise InvalidEntity(f"{name} of '{path}' names the entity itself")


def _reached(start: Entity, find: Find) -> set[str]:
    """Paths of queues and topics to which messages get from an entity, itself among them."""
    found: set[str] = set()
    waiting: list[Entity] = [start]
    while waiting:
        entity = waiting.pop()
        if entity.path.lower() in found:
            continue
        found.add(entity.path.lower())
        waiting += filter(None, (find(target_path(address).lower()) for address in _destinations(entity)))
    return found


def _destinations(entity: Entity) -> Iterator[str]:
    if isinstance(entity, Topic):
        for subscription in entity.subscriptions.values():
            yield from _destinations(subscription)
    elif isinstance(entity, Queue | Subscription) and entity.description.forward_to:
        yield entity.description.forward_to
