"""Names and settings of entities: what may not be is refused by name.

Sources: learn.microsoft.com "Service Bus quotas" (lengths), "Naming rules and restrictions for Azure resources" (characters),
"Duplicate detection", "Message expiration", "Suspend and reactivate messaging entities", and
https://learn.microsoft.com/rest/api/servicebus/.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Final

from emulators.servicebus.description import (
    FOREVER,
    Description,
    InvalidEntity,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)

_SUBSCRIPTIONS: Final = "/subscriptions/"
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")
_SUBSCRIPTION_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_LONGEST_NAME: Final = 260
_LONGEST_SUBSCRIPTION_NAME: Final = 50
_NOT_IN_RULE_NAMES: Final = frozenset("@?#*/\\")
_STATUSES: Final = {
    QueueDescription: ("Active", "Disabled", "SendDisabled", "ReceiveDisabled"),
    TopicDescription: ("Active", "Disabled", "SendDisabled"),
    SubscriptionDescription: ("Active", "Disabled", "ReceiveDisabled"),
}
_LONGEST_LOCK: Final = timedelta(minutes=5)
_WINDOW: Final = (timedelta(seconds=20), timedelta(days=7))
_SHORTEST_IDLE: Final = timedelta(minutes=5)
_LARGEST_MESSAGE: Final = 100 * 1024
_LONGEST_METADATA: Final = 1024
_FIXED: Final = ("requires_session", "requires_duplicate_detection", "enable_partitioning")


def require_valid(path: str, description: Description) -> None:
    """A new entity's name and settings. Raises InvalidEntity."""
    _require_name(path, description)
    require_settings(description)


def _require_name(path: str, description: Description) -> None:
    entity, separator, subscription = path.lower().partition(_SUBSCRIPTIONS)
    if isinstance(description, SubscriptionDescription):
        if not separator or not subscription:
            raise InvalidEntity(f"a subscription's path is topic/Subscriptions/name, not '{path}'")
        _require("subscription", subscription, _SUBSCRIPTION_NAME, _LONGEST_SUBSCRIPTION_NAME)
    elif separator:
        raise InvalidEntity(f"'{path}' is the path of a subscription")
    _require("queue or topic", entity, _NAME, _LONGEST_NAME)


def _require(kind: str, name: str, allowed: re.Pattern[str], longest: int) -> None:
    if len(name) > longest:
        raise InvalidEntity(
            f"the {kind} name '{name[:40]}...' has {len(name)} characters; at most {longest} are allowed"
        )
    if not allowed.fullmatch(name):
        slashes = " or slashes" if allowed is _NAME else ""
        raise InvalidEntity(
            f"the {kind} name {name!r} is not allowed: letters, digits, periods, hyphens, underscores{slashes}, "
            "a letter or digit first and last"
        )


def require_rule_name(name: str) -> None:
    """Raises InvalidEntity."""
    if not 0 < len(name) <= _LONGEST_SUBSCRIPTION_NAME:
        raise InvalidEntity(f"the rule name {name[:60]!r} must have 1 to {_LONGEST_SUBSCRIPTION_NAME} characters")
    wrong = sorted(set(name) & _NOT_IN_RULE_NAMES)
    if wrong:
        raise InvalidEntity(f"the rule name {name!r} must not hold {wrong[0]!r}")


def require_settings(description: Description) -> None:
    """Raises InvalidEntity."""
    statuses = _STATUSES[type(description)]
    if description.status not in statuses:
        raise InvalidEntity(f"status {description.status!r} is none of {', '.join(statuses)}")
    if description.default_message_time_to_live <= timedelta(0):
        raise InvalidEntity("default_message_time_to_live must be positive")
    if description.auto_delete_on_idle < _SHORTEST_IDLE:
        raise InvalidEntity("auto_delete_on_idle must be at least five minutes")
    if len(description.user_metadata or "") > _LONGEST_METADATA:
        raise InvalidEntity(f"user_metadata must not have more than {_LONGEST_METADATA} characters")
    if not isinstance(description, SubscriptionDescription):
        _require_sending(description)
    if not isinstance(description, TopicDescription):
        _require_receiving(description)


def _require_sending(description: QueueDescription | TopicDescription) -> None:
    if description.enable_partitioning:
        raise InvalidEntity("enable_partitioning is not supported by this emulator")
    if not _WINDOW[0] <= description.duplicate_detection_history_time_window <= _WINDOW[1]:
        raise InvalidEntity("duplicate_detection_history_time_window must be from 20 seconds to 7 days")
    if description.max_size_in_megabytes < 1:
        raise InvalidEntity("max_size_in_megabytes must be at least 1")
    if not 1 <= description.max_message_size_in_kilobytes <= _LARGEST_MESSAGE:
        raise InvalidEntity(f"max_message_size_in_kilobytes must be from 1 to {_LARGEST_MESSAGE}")


def _require_receiving(description: QueueDescription | SubscriptionDescription) -> None:
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


def as_kept(description: Description) -> Description:
    """The settings as the service keeps them: what forwards is never idle."""
    if isinstance(description, TopicDescription) or not (
        description.forward_to or description.forward_dead_lettered_messages_to
    ):
        return description
    return replace(description, auto_delete_on_idle=FOREVER)
