"""Where entities forward to: what may not be is refused by name when an entity is created or changed.

A destination must exist by then, as documented. One that leads back, or the entity itself, is taken as the service takes it:
four hops on, what goes round is a dead letter.
Sources: learn.microsoft.com "Chaining Service Bus entities with autoforwarding"; azure-servicebus, test_mgmt_queue_update_success
(a queue to itself), test_mgmt_subscription_update_success (a subscription to its own topic).
"""

from __future__ import annotations

from collections.abc import Callable

from emulators.servicebus.description import Description, InvalidEntity, TopicDescription
from emulators.servicebus.store.forwarding import target_path

from .node import Entity
from .queue import Queue
from .topic import Topic

Find = Callable[[str], Entity | None]
"""The entity of a path in lower case."""


def require_forwarding(path: str, description: Description, old: Description | None, find: Find) -> None:
    """Raises InvalidEntity for a destination that cannot be; one that is as it was before is not asked about again."""
    if isinstance(description, TopicDescription):
        return
    if description.forward_to and description.requires_session:
        raise InvalidEntity(f"forward_to is not supported where sessions are required: '{path}'")
    for name in ("forward_to", "forward_dead_lettered_messages_to"):
        address = getattr(description, name)
        if not address or address == getattr(old, name, None):
            continue
        target = find(target_path(address).lower())
        if not isinstance(target, Queue | Topic):
            raise InvalidEntity(f"{name} of '{path}': there is no queue or topic '{address}'")
