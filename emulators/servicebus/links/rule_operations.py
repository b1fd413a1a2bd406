"""Rules over `$management`: add, remove and enumerate, in the forms the protocol gives them.

Refuses by name a description with both filters or none, and filters or actions that are none. The protocol has no
parameters of SQL expressions and no update.
Source: learn.microsoft.com "AMQP 1.0 in Azure Service Bus: request-response-based operations", section "Rule operations".
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from emulators.servicebus.amqp.values import AmqpError, Described, ULong, Value
from emulators.servicebus.description import EntityExists, EntityMissing, InvalidEntity
from emulators.servicebus.entities.subscription import Subscription
from emulators.servicebus.entities.validation import require_rule_name
from emulators.servicebus.rules.description import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    RuleDescription,
    RuleInfo,
    SqlAction,
    SqlFilter,
    TrueFilter,
)
from emulators.servicebus.rules.errors import FilterError
from emulators.servicebus.rules.values import as_given, as_value, from_amqp, to_amqp

from .fields import Fields, invalid, user_properties
from .requests import OK, Response

_RULE: Final = ULong(0x13700000004)
_EMPTY_ACTION: Final = ULong(0x13700000005)
_SQL_ACTION: Final = ULong(0x13700000006)
_SQL_FILTER: Final = ULong(0x1370000006)
_TRUE_FILTER: Final = ULong(0x1370000007)
_FALSE_FILTER: Final = ULong(0x1370000008)
_CORRELATION_FILTER: Final = ULong(0x1370000009)
_CORRELATED: Final = {
    "correlation-id": "correlation_id",
    "message-id": "message_id",
    "to": "to",
    "reply-to": "reply_to",
    "label": "label",
    "session-id": "session_id",
    "reply-to-session-id": "reply_to_session_id",
    "content-type": "content_type",
}
"""Fields of a correlation filter, in the order of its described list."""


def add_rule(subscription: Subscription, body: Fields, now: int) -> Response:
    """409 for a name that is there. Raises AmqpError."""
    name, description = body.text("rule-name"), _description(body.fields("rule-description"))
    try:
        require_rule_name(name)
        subscription.create_rule(name, description, datetime.fromtimestamp(now / 1000, UTC))
    except EntityExists as error:
        raise AmqpError("com.microsoft:entity-already-exists", str(error)) from None
    except InvalidEntity as error:
        raise AmqpError("amqp:invalid-field", str(error)) from None
    return Response(200, OK)


def remove_rule(subscription: Subscription, body: Fields) -> Response:
    """404 for a name that is not there. Raises AmqpError."""
    try:
        subscription.delete_rule(body.text("rule-name"))
    except EntityMissing as error:
        raise AmqpError("amqp:not-found", str(error)) from None
    return Response(200, OK)


def enumerate_rules(subscription: Subscription, body: Fields) -> Response:
    """A page; 204 behind the last one. Raises AmqpError."""
    skip, top = body.integer("skip"), body.integer("top")
    page = list(subscription.rules.values())[skip : skip + top]
    if not page:
        return Response(204, "No rules.")
    return Response(200, OK, {"rules": [{"rule-description": _described(rule)} for rule in page]})


def _description(given: Fields) -> RuleDescription:
    if ("sql-filter" in given) == ("correlation-filter" in given):
        raise invalid("rule-description", "must have either a sql-filter or a correlation-filter")
    action = SqlAction(given.fields("sql-rule-action").text("expression")) if "sql-rule-action" in given else None
    if "sql-filter" in given:
        return RuleDescription(SqlFilter(given.fields("sql-filter").text("expression")), action)
    return RuleDescription(_correlation(given.fields("correlation-filter")), action)


def _correlation(given: Fields) -> CorrelationFilter:
    conditions = {field: given.optional_text(name) for name, field in _CORRELATED.items()}
    properties = {}
    if "properties" in given:
        for name, value in user_properties(given.value("properties"), given.called("properties")).items():
            try:
                properties[name] = as_given(from_amqp(value))
            except (FilterError, OverflowError) as error:
                raise invalid(given.called(f"properties.{name}"), f"is not supported: {error}") from None
    return CorrelationFilter(**conditions, properties=properties)


def _described(rule: RuleInfo) -> Value:
    action = rule.description.action
    described_action = Described(_EMPTY_ACTION, []) if action is None else Described(_SQL_ACTION, [action.expression])
    return Described(_RULE, [_described_filter(rule.description.filter), described_action, rule.name])


def _described_filter(given: Filter) -> Value:
    match given:
        case TrueFilter():
            return Described(_TRUE_FILTER, [])
        case FalseFilter():
            return Described(_FALSE_FILTER, [])
        case SqlFilter(expression):
            return Described(_SQL_FILTER, [expression])
        case CorrelationFilter():
            values = [getattr(given, field) for field in _CORRELATED.values()]
            properties = {name: to_amqp(as_value(value)) for name, value in given.properties.items()}
            return Described(_CORRELATION_FILTER, [*values, properties])
