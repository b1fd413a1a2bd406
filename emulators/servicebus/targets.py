"""What a path of the management API names, and the service's rules for names of entities. Rules' names are the broker's to judge.

Source: https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from .description import InvalidEntity

_ENTITY_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")
_SIMPLE_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


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


def check_names(target: Target) -> None:
    """Raises InvalidEntity when an entity's name breaks the service's naming rules."""
    check_entity_name(target.entity)
    if target.subscription is not None:
        check_subscription_name(target.subscription)


def check_entity_name(name: str) -> None:
    """A queue's or a topic's. Raises InvalidEntity."""
    _check_name("queue or topic", name, _ENTITY_NAME, 260, "letters, digits, '.', '-', '_' and '/'")


def check_subscription_name(name: str) -> None:
    """Raises InvalidEntity."""
    _check_name("subscription", name, _SIMPLE_NAME, 50, "letters, digits, '.', '-' and '_'")


def _check_name(kind: str, name: str, allowed: re.Pattern[str], longest: int, words: str) -> None:
    if len(name) > longest:
        raise InvalidEntity(
            f"the {kind} name {name[:40]!r}... has {len(name)} characters; at most {longest} are allowed"
        )
    if not allowed.fullmatch(name):
        raise InvalidEntity(
            f"the {kind} name {name!r} is not allowed: {words}, beginning and ending with a letter or digit"
        )
