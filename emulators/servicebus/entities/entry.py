"""An entity in its namespace: when it was made, changed and used, by which links it is used, and so whether it is idle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.description import FOREVER
from emulators.servicebus.store.deadlines import NEVER

from .node import Entity, Node
from .outlet import milliseconds
from .subscription import Subscription

Detach = Callable[[AmqpError], None]


class Link(NamedTuple):
    """A link to an entity: the right it uses, and how it ends."""

    node: Node
    right: str
    detach: Detach


@dataclass(slots=True)
class Entry:
    """One entity. `accessed_at` is the last use that is over: what uses it still is asked for by `in_use`."""

    entity: Entity
    created_at: datetime
    updated_at: datetime
    accessed_at: datetime
    links: list[Link] = field(default_factory=list)

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
