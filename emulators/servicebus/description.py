"""Entities as the management API describes them: the settings of queues, topics and subscriptions, and the port to change them.

Defaults are Microsoft's for the Standard tier.
Source: https://learn.microsoft.com/rest/api/servicebus/ and the quotas page of Service Bus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from .rules.description import RuleDescription, RuleInfo

FOREVER = timedelta.max
"""A time to live or auto-delete interval that never ends (P10675199DT2H48M5.4775807S on the wire)."""


@dataclass(frozen=True, slots=True)
class QueueDescription:
    """Settings of a queue. Durations are timedeltas, sizes in megabytes unless named otherwise."""

    lock_duration: timedelta = timedelta(minutes=1)
    max_size_in_megabytes: int = 1024
    requires_duplicate_detection: bool = False
    requires_session: bool = False
    default_message_time_to_live: timedelta = FOREVER
    dead_lettering_on_message_expiration: bool = False
    duplicate_detection_history_time_window: timedelta = timedelta(minutes=10)
    max_delivery_count: int = 10
    enable_batched_operations: bool = True
    status: str = "Active"
    auto_delete_on_idle: timedelta = FOREVER
    enable_partitioning: bool = False
    forward_to: str | None = None
    forward_dead_lettered_messages_to: str | None = None
    user_metadata: str | None = None
    max_message_size_in_kilobytes: int = 256


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """Settings of a topic."""

    default_message_time_to_live: timedelta = FOREVER
    max_size_in_megabytes: int = 1024
    requires_duplicate_detection: bool = False
    duplicate_detection_history_time_window: timedelta = timedelta(minutes=10)
    enable_batched_operations: bool = True
    status: str = "Active"
    support_ordering: bool = True
    auto_delete_on_idle: timedelta = FOREVER
    enable_partitioning: bool = False
    user_metadata: str | None = None
    max_message_size_in_kilobytes: int = 256


@dataclass(frozen=True, slots=True)
class SubscriptionDescription:
    """Settings of a subscription."""

    lock_duration: timedelta = timedelta(minutes=1)
    requires_session: bool = False
    default_message_time_to_live: timedelta = FOREVER
    dead_lettering_on_message_expiration: bool = False
    dead_lettering_on_filter_evaluation_exceptions: bool = True
    max_delivery_count: int = 10
    enable_batched_operations: bool = True
    status: str = "Active"
    forward_to: str | None = None
    forward_dead_lettered_messages_to: str | None = None
    auto_delete_on_idle: timedelta = FOREVER
    user_metadata: str | None = None


Description = QueueDescription | TopicDescription | SubscriptionDescription


@dataclass(frozen=True, slots=True)
class RuntimeCounts:
    """What the management API tells of a living entity."""

    active: int = 0
    dead_letter: int = 0
    scheduled: int = 0
    transfer: int = 0
    transfer_dead_letter: int = 0
    size_in_bytes: int = 0
    subscriptions: int = 0


@dataclass(frozen=True, slots=True)
class EntityInfo:
    """One entity: its path ("orders", "orders/Subscriptions/sub1") as first spelled, its settings, its counts, its times (UTC)."""

    path: str
    description: Description
    counts: RuntimeCounts
    created_at: datetime
    updated_at: datetime
    accessed_at: datetime


class EntityExists(Exception):
    """Create of an entity that is there: HTTP 409, amqp com.microsoft:entity-already-exists."""


class EntityMissing(Exception):
    """The entity is not there: HTTP 404, amqp:not-found."""


class InvalidEntity(Exception):
    """The name or a setting is not allowed (HTTP 400); the text says which and why."""


class EntityAdmin(Protocol):
    """What the management API needs of the broker. Paths compare without regard to case.

    Callable from any thread: the broker runs on its own event loop, the HTTP server may not.
    """

    def create(
        self, path: str, description: Description, default_rule: tuple[str, RuleDescription] | None = None
    ) -> EntityInfo:
        """Raises EntityExists, EntityMissing (a subscription's topic), InvalidEntity.

        `default_rule` is the name and description of the first rule of a subscription (DefaultRuleDescription);
        without it, that is `$Default`, which takes everything.
        """
        ...

    def update(self, path: str, description: Description) -> EntityInfo: ...

    def get(self, path: str) -> EntityInfo:
        """Raises EntityMissing."""
        ...

    def delete(self, path: str) -> None:
        """Raises EntityMissing; a topic takes its subscriptions along; attached links are detached with amqp:not-found."""
        ...

    def queues(self) -> Sequence[EntityInfo]: ...

    def topics(self) -> Sequence[EntityInfo]: ...

    def subscriptions(self, topic: str) -> Sequence[EntityInfo]:
        """Raises EntityMissing."""
        ...

    def rules(self, subscription: str) -> Sequence[RuleInfo]:
        """Rules of a subscription, by its path, in order of their creation. Raises EntityMissing."""
        ...

    def rule(self, subscription: str, name: str) -> RuleInfo:
        """Names compare without regard to case. Raises EntityMissing."""
        ...

    def create_rule(self, subscription: str, name: str, description: RuleDescription) -> RuleInfo:
        """Raises EntityExists, EntityMissing (the subscription), InvalidEntity (name, filter or action)."""
        ...

    def update_rule(self, subscription: str, name: str, description: RuleDescription) -> RuleInfo:
        """Raises EntityMissing, InvalidEntity."""
        ...

    def delete_rule(self, subscription: str, name: str) -> None:
        """Raises EntityMissing."""
        ...
