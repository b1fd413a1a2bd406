"""Names and settings of entities: what may not be is refused by name.

Source: learn.microsoft.com "Service Bus quotas", https://learn.microsoft.com/rest/api/servicebus/.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from .description import FOREVER, Description, InvalidEntity, SubscriptionDescription, TopicDescription

_SUBSCRIPTIONS: Final = "/subscriptions/"
_STATUSES: Final = ("Active", "Disabled", "SendDisabled", "ReceiveDisabled")
_LONGEST_LOCK: Final = timedelta(minutes=5)
_NOT_IN_RULE_NAMES: Final = frozenset("@?#*/\\")
_FIXED: Final = ("requires_session", "requires_duplicate_detection", "enable_partitioning")


def require_valid(path: str, description: Description) -> None:
    """Raises InvalidEntity."""
    if not path:
        raise InvalidEntity("an entity needs a name")
    if not isinstance(description, SubscriptionDescription) and _SUBSCRIPTIONS in path.lower():
        raise InvalidEntity(f"'{path}' is the path of a subscription")
    if description.status not in _STATUSES:
        raise InvalidEntity(f"status {description.status!r} is none of {', '.join(_STATUSES)}")
    if getattr(description, "enable_partitioning", False):
        raise InvalidEntity("enable_partitioning is not supported by this emulator")
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


def require_unchanged(path: str, old: Description, new: Description) -> None:
    """Raises InvalidEntity when a setting differs that is fixed at creation."""
    if type(old) is not type(new):
        raise InvalidEntity(f"'{path}' is described by {type(old).__name__}")
    for name in _FIXED:
        if getattr(old, name, None) != getattr(new, name, None):
            raise InvalidEntity(f"{name} of '{path}' cannot be changed after creation")


def require_rule_name(name: str) -> None:
    """Raises InvalidEntity."""
    if not 0 < len(name) <= 50:
        raise InvalidEntity(f"the rule name {name[:60]!r} must have 1 to 50 characters")
    wrong = sorted(set(name) & _NOT_IN_RULE_NAMES)
    if wrong:
        raise InvalidEntity(f"the rule name {name!r} must not hold {wrong[0]!r}")
