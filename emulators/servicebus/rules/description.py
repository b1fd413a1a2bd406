"""Rules as they are described to the management API and to `$management`; no behaviour.

Source: learn.microsoft.com "Topic filters and actions", https://learn.microsoft.com/rest/api/servicebus/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

PropertyValue = str | int | float | bool | bytes | datetime | timedelta | UUID | None
"""What a property or a parameter can be."""

DEFAULT_RULE = "$Default"


@dataclass(frozen=True, slots=True)
class TrueFilter:
    """Everything."""


@dataclass(frozen=True, slots=True)
class FalseFilter:
    """Nothing."""


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """A condition in the filters' SQL; parameters by name, with their `@`."""

    expression: str
    parameters: Mapping[str, PropertyValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CorrelationFilter:
    """Equality with every property that is given."""

    correlation_id: str | None = None
    message_id: str | None = None
    to: str | None = None
    reply_to: str | None = None
    label: str | None = None
    session_id: str | None = None
    reply_to_session_id: str | None = None
    content_type: str | None = None
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)


Filter = TrueFilter | FalseFilter | SqlFilter | CorrelationFilter


@dataclass(frozen=True, slots=True)
class SqlAction:
    """SET and REMOVE of properties."""

    expression: str
    parameters: Mapping[str, PropertyValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """One rule of a subscription."""

    filter: Filter = field(default_factory=TrueFilter)
    action: SqlAction | None = None


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """A rule under its name, as first spelled."""

    name: str
    description: RuleDescription
    created_at: datetime
