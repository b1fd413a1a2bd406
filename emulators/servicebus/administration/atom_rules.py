"""Rules to and from the management API's documents: filters and actions by their `xsi:type`, parameters with their types.

Refuses by name: kinds of filters and actions that do not exist, other compatibility levels than 20, expressions without
preprocessing, values of types no property of a message has here (decimals among them).
Sources: https://learn.microsoft.com/rest/api/servicebus/rules, learn.microsoft.com "RuleDescription", "Topic filters and actions".
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID
from xml.etree import ElementTree as ET

from emulators.servicebus.description import InvalidEntity
from emulators.servicebus.durations import duration_text, read_duration
from emulators.servicebus.rules.description import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    PropertyValue,
    RuleDescription,
    RuleInfo,
    SqlAction,
    SqlFilter,
    TrueFilter,
)

from . import feed
from .feed import CONNECT, XSI, XSI_TYPE, child
from .xml_text import write

_XSD: Final = "http://www.w3.org/2001/XMLSchema"
_SERIALIZATION: Final = "http://schemas.microsoft.com/2003/10/Serialization/"
"""Where .NET's data contracts keep the names of TimeSpan and Guid."""
_COMPATIBILITY: Final = "20"
_CONDITIONS: Final = {
    "CorrelationId": "correlation_id",
    "MessageId": "message_id",
    "To": "to",
    "ReplyTo": "reply_to",
    "Label": "label",
    "SessionId": "session_id",
    "ReplyToSessionId": "reply_to_session_id",
    "ContentType": "content_type",
}
_INT32: Final = range(-(1 << 31), 1 << 31)
_INT64: Final = range(-(1 << 63), 1 << 63)


# -- values


def _read_moment(text: str) -> datetime:
    """A moment without a zone stays without one: the service gives it back as it came."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidEntity(f"the value {text!r} is not a dateTime of XML Schema") from None


def _read_long(text: str) -> int:
    value = feed.read_int(text)
    if value not in _INT64:
        raise InvalidEntity(f"the value {text} does not fit 64 bits")
    return value


def _read_double(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidEntity(f"the value {text!r} is not a number") from None


def _read_guid(text: str) -> UUID:
    try:
        return UUID(text.strip())
    except ValueError:
        raise InvalidEntity(f"the value {text!r} is not a guid") from None


def _read_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise InvalidEntity(f"the value {text!r} is not base64") from None


_READERS: Final[Mapping[str, Callable[[str], PropertyValue]]] = {
    "string": str,
    "boolean": feed.read_bool,
    **dict.fromkeys(("byte", "short", "int", "long", "unsignedByte", "unsignedShort", "unsignedInt"), _read_long),
    "float": _read_double,
    "double": _read_double,
    "dateTime": _read_moment,
    "duration": read_duration,
    "guid": _read_guid,
    "base64Binary": _read_bytes,
}


def _typed(value: PropertyValue) -> tuple[str, str, str]:
    """Namespace and name of the type, and the text. None is not asked for here."""
    if isinstance(value, bool):
        return _XSD, "boolean", "true" if value else "false"
    if isinstance(value, int):
        return _XSD, "int" if value in _INT32 else "long", str(value)
    if isinstance(value, float):
        return _XSD, "double", repr(value)
    if isinstance(value, datetime):
        return _XSD, "dateTime", value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return _SERIALIZATION, "duration", duration_text(value)
    if isinstance(value, UUID):
        return _SERIALIZATION, "guid", str(value)
    if isinstance(value, bytes):
        return _XSD, "base64Binary", base64.b64encode(value).decode()
    return _XSD, "string", str(value)


def _write_values(parent: ET.Element, name: str, values: Mapping[str, PropertyValue]) -> None:
    if not values:
        return
    group = child(parent, CONNECT, name)
    for key, value in values.items():
        pair = child(group, CONNECT, "KeyValueOfstringanyType")
        child(pair, CONNECT, "Key", key)
        if value is None:
            child(pair, CONNECT, "Value", **{f"{{{XSI}}}nil": "true"})
            continue
        namespace, kind, text = _typed(value)
        # A prefix inside an attribute's value is unknown to ElementTree: it has to be declared by hand.
        child(pair, CONNECT, "Value", text, **{XSI_TYPE: f"d6p1:{kind}", "xmlns:d6p1": namespace})


def _read_values(group: ET.Element) -> dict[str, PropertyValue]:
    values: dict[str, PropertyValue] = {}
    for pair in group:
        key, value = pair.find(f"{{{CONNECT}}}Key"), pair.find(f"{{{CONNECT}}}Value")
        if key is None or not key.text or value is None:
            raise InvalidEntity(f"{feed.local_name(group)}: every pair has a Key and a Value")
        if key.text in values:
            raise InvalidEntity(f"{feed.local_name(group)}: {key.text!r} is there twice")
        if value.get(f"{{{XSI}}}nil") == "true":
            values[key.text] = None
            continue
        kind = value.get(XSI_TYPE, "").rpartition(":")[2]
        reader = _READERS.get(kind)
        if reader is None:
            raise InvalidEntity(
                f"{feed.local_name(group)}: {key.text!r} is of type {kind or 'none'}; supported: {', '.join(_READERS)}"
            )
        values[key.text] = reader(value.text or "")
    return values


# -- filters and actions


def _write_filter(parent: ET.Element, condition: Filter) -> None:
    where = child(parent, CONNECT, "Filter", **{XSI_TYPE: type(condition).__name__})
    if isinstance(condition, CorrelationFilter):
        for name, attribute in _CONDITIONS.items():
            if (value := getattr(condition, attribute)) is not None:
                child(where, CONNECT, name, value)
        _write_values(where, "Properties", condition.properties)
    elif isinstance(condition, SqlFilter):
        _write_sql(where, condition.expression, condition.parameters)
    else:
        _write_sql(where, "1=1" if isinstance(condition, TrueFilter) else "1=0", {})


def _write_sql(parent: ET.Element, expression: str, parameters: Mapping[str, PropertyValue]) -> None:
    child(parent, CONNECT, "SqlExpression", expression)
    child(parent, CONNECT, "CompatibilityLevel", _COMPATIBILITY)
    _write_values(parent, "Parameters", parameters)


def _read_filter(where: ET.Element) -> Filter:
    kind = where.get(XSI_TYPE, "").rpartition(":")[2]
    if kind == "CorrelationFilter":
        return _read_correlation(where)
    if kind not in {"SqlFilter", "TrueFilter", "FalseFilter"}:
        raise InvalidEntity(
            f"Filter: the type {kind or 'none'} is none of SqlFilter, CorrelationFilter, TrueFilter, FalseFilter"
        )
    expression, parameters = _read_sql(where)
    if kind == "SqlFilter":
        return SqlFilter(_expression(where, expression), parameters)
    return TrueFilter() if kind == "TrueFilter" else FalseFilter()


def _read_correlation(where: ET.Element) -> CorrelationFilter:
    values: dict[str, Any] = {}
    for element in where:
        name = feed.local_name(element)
        if name == "Properties":
            values["properties"] = _read_values(element)
        elif name in _CONDITIONS:
            if element.text:
                values[_CONDITIONS[name]] = element.text
        else:
            raise InvalidEntity(f"CorrelationFilter: {name} is not known to this emulator")
    return CorrelationFilter(**values)


def _read_sql(parent: ET.Element) -> tuple[str | None, dict[str, PropertyValue]]:
    expression: str | None = None
    parameters: dict[str, PropertyValue] = {}
    for element in parent:
        name, text = feed.local_name(element), element.text or ""
        if name == "SqlExpression":
            expression = text
        elif name == "Parameters":
            parameters = _read_values(element)
        elif name == "CompatibilityLevel":
            if text not in {"", _COMPATIBILITY}:
                raise InvalidEntity(f"CompatibilityLevel {text}: this emulator supports {_COMPATIBILITY} only")
        elif name == "RequiresPreprocessing":
            if text and not feed.read_bool(text):
                raise InvalidEntity("RequiresPreprocessing: false is not supported by this emulator")
        else:
            raise InvalidEntity(f"{feed.local_name(parent)}: {name} is not known to this emulator")
    return expression, parameters


def _expression(parent: ET.Element, expression: str | None) -> str:
    if not expression or not expression.strip():
        raise InvalidEntity(f"{feed.local_name(parent)}: SqlExpression is missing or empty")
    return expression


def _write_action(parent: ET.Element, action: SqlAction | None) -> None:
    node = child(parent, CONNECT, "Action", **{XSI_TYPE: "EmptyRuleAction" if action is None else "SqlRuleAction"})
    if action is not None:
        _write_sql(node, action.expression, action.parameters)


def _read_action(node: ET.Element) -> SqlAction | None:
    kind = node.get(XSI_TYPE, "").rpartition(":")[2]
    if kind == "EmptyRuleAction":
        return None
    if kind != "SqlRuleAction":
        raise InvalidEntity(f"Action: the type {kind or 'none'} is neither SqlRuleAction nor EmptyRuleAction")
    expression, parameters = _read_sql(node)
    return SqlAction(_expression(node, expression), parameters)


# -- documents


def _write_rule(parent: ET.Element | None, rule: RuleInfo, link: str) -> ET.Element:
    node, content = feed.entry(parent, rule.name, rule.created_at, link)
    described = child(content, CONNECT, "RuleDescription")
    _write_filter(described, rule.description.filter)
    _write_action(described, rule.description.action)
    child(described, CONNECT, "CreatedAt", feed.instant(rule.created_at))
    child(described, CONNECT, "Name", rule.name)
    return node


def rule_entry(rule: RuleInfo, rules_link: str) -> bytes:
    """One rule as an Atom entry; `rules_link` is the address of its subscription's rules."""
    return write(_write_rule(None, rule, f"{rules_link}/{rule.name}"))


def rule_feed(rules: Sequence[RuleInfo], rules_link: str, *, self_link: str, next_link: str | None) -> bytes:
    """A page of a subscription's rules."""
    node = feed.feed("Rules", self_link, next_link)
    for rule in rules:
        _write_rule(node, rule, f"{rules_link}/{rule.name}")
    return write(node)


def read_rule_description(described: ET.Element) -> tuple[str | None, RuleDescription]:
    """A RuleDescription element, or the DefaultRuleDescription of a subscription: the name it states, and the rule.

    Without a filter everything matches. Raises InvalidEntity.
    """
    name: str | None = None
    condition: Filter = TrueFilter()
    action: SqlAction | None = None
    for element in described:
        kind = feed.local_name(element)
        if kind == "Filter":
            condition = _read_filter(element)
        elif kind == "Action":
            action = _read_action(element)
        elif kind == "Name":
            name = element.text or None
        elif kind != "CreatedAt":
            raise InvalidEntity(f"RuleDescription: {kind} is not known to this emulator")
    return name, RuleDescription(condition, action)


def read_rule(body: bytes) -> tuple[str | None, RuleDescription]:
    """The rule in a PUT and the name it states. Raises InvalidEntity."""
    described = feed.read_content(body)
    if feed.local_name(described) != "RuleDescription":
        raise InvalidEntity(f"{feed.local_name(described)} is not a rule: RuleDescription is")
    return read_rule_description(described)
