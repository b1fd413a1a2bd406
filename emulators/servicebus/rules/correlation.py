"""Correlation filters: equality with every property that is given, system and user properties alike.

Strings compare with regard to case; numbers compare by value, whatever their width, and a string never equals a number.
Refuses a filter without any condition.
Sources: learn.microsoft.com "Topic filters and actions", "AMQP 1.0 in Azure Service Bus: request-response-based operations".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emulators.servicebus.properties import MessageProperties

from .description import CorrelationFilter
from .errors import InvalidRule
from .values import as_value, comparable, from_amqp

_SYSTEM: Final = (
    ("correlation_id", "CorrelationId"),
    ("message_id", "MessageId"),
    ("to", "To"),
    ("reply_to", "ReplyTo"),
    ("label", "Label"),
    ("session_id", "SessionId"),
    ("reply_to_session_id", "ReplyToSessionId"),
    ("content_type", "ContentType"),
)


def compile_correlation(description: CorrelationFilter) -> Callable[[MessageProperties], bool]:
    """Does a message match? Raises InvalidRule."""
    given = [(name, getattr(description, field)) for field, name in _SYSTEM]
    system = [(name, value) for name, value in given if value is not None]
    user = [(name, comparable(as_value(value))) for name, value in description.properties.items()]
    if not system and not user:
        raise InvalidRule("a correlation filter needs at least one property to compare with")

    def matches(message: MessageProperties) -> bool:
        return all(message.system(name) == value for name, value in system) and all(
            message.has_user(name) and comparable(from_amqp(message.user(name))) == value for name, value in user
        )

    return matches
