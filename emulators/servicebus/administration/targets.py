"""What a path of the management API names. Whether the names may be is the broker's to judge."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from emulators.servicebus.description import InvalidEntity


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: an entity, a subscription (with its topic in `entity`), or the rules of one."""

    entity: str
    subscription: str | None = None
    lists_subscriptions: bool = False
    rules: bool = False
    rule: str | None = None

    @property
    def path(self) -> str:
        return self.entity if self.subscription is None else f"{self.entity}/Subscriptions/{self.subscription}"


def read_target(path: str) -> Target:
    """`/orders`, `/orders/subscriptions[/name[/rules[/rule]]]`; entity names may hold slashes. Raises InvalidEntity."""
    parts = unquote(path).strip("/").split("/")
    marker = next((at for at, part in enumerate(parts) if at and part.lower() == "subscriptions"), len(parts))
    entity, rest = "/".join(parts[:marker]), parts[marker + 1 :]
    if marker == len(parts):
        return Target(entity)
    if not rest:
        return Target(entity, lists_subscriptions=True)
    if len(rest) == 1:
        return Target(entity, rest[0])
    if rest[1].lower() == "rules" and len(rest) <= 3:
        return Target(entity, rest[0], rules=True, rule=rest[2] if len(rest) == 3 else None)
    raise InvalidEntity(f"the path {path!r} names neither an entity nor a subscription nor a rule")
