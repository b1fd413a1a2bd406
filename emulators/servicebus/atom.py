"""The management API's documents: entity settings to and from Atom entries, feeds and error bodies. No I/O, no HTTP.

Element names, namespaces and their order are those of the REST reference (the service reads a DataContract, where order counts).
Settings the emulator does not imitate (express, partitioned entities, own authorization rules, a default rule that filters)
are refused by name instead of being dropped.

Sources: https://learn.microsoft.com/rest/api/servicebus/create-queue, .../create-topic, .../create-subscription.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree as ET

from emulators.servicebus.description import (
    FOREVER,
    Description,
    EntityInfo,
    InvalidEntity,
    QueueDescription,
    RuntimeCounts,
    SubscriptionDescription,
    TopicDescription,
)

ATOM = "http://www.w3.org/2005/Atom"
CONNECT = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
COUNTS = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
XSI = "http://www.w3.org/2001/XMLSchema-instance"

FOREVER_TEXT = "P10675199DT2H48M5.4775807S"
"""The largest .NET TimeSpan: how the service writes 'never'."""

_FOREVER_DAYS = 10_675_199

_DURATION = re.compile(
    r"P(?:(?P<days>\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(?P<hours>\d+(?:\.\d+)?)H)?(?:(?P<minutes>\d+(?:\.\d+)?)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)

_READ_ONLY = {
    "SizeInBytes",
    "MessageCount",
    "CountDetails",
    "CreatedAt",
    "UpdatedAt",
    "AccessedAt",
    "SubscriptionCount",
}

_ORDER: dict[type, tuple[str, ...]] = {
    QueueDescription: (
        "LockDuration",
        "MaxSizeInMegabytes",
        "RequiresDuplicateDetection",
        "RequiresSession",
        "DefaultMessageTimeToLive",
        "DeadLetteringOnMessageExpiration",
        "DuplicateDetectionHistoryTimeWindow",
        "MaxDeliveryCount",
        "EnableBatchedOperations",
        "SizeInBytes",
        "MessageCount",
        "Status",
        "ForwardTo",
        "UserMetadata",
        "CreatedAt",
        "UpdatedAt",
        "AccessedAt",
        "CountDetails",
        "AutoDeleteOnIdle",
        "EnablePartitioning",
        "ForwardDeadLetteredMessagesTo",
        "MaxMessageSizeInKilobytes",
    ),
    TopicDescription: (
        "DefaultMessageTimeToLive",
        "MaxSizeInMegabytes",
        "RequiresDuplicateDetection",
        "DuplicateDetectionHistoryTimeWindow",
        "EnableBatchedOperations",
        "SizeInBytes",
        "Status",
        "CreatedAt",
        "UpdatedAt",
        "AccessedAt",
        "SupportOrdering",
        "CountDetails",
        "SubscriptionCount",
        "AutoDeleteOnIdle",
        "EnablePartitioning",
        "UserMetadata",
        "MaxMessageSizeInKilobytes",
    ),
    SubscriptionDescription: (
        "LockDuration",
        "RequiresSession",
        "DefaultMessageTimeToLive",
        "DeadLetteringOnMessageExpiration",
        "DeadLetteringOnFilterEvaluationExceptions",
        "MessageCount",
        "MaxDeliveryCount",
        "EnableBatchedOperations",
        "Status",
        "ForwardTo",
        "CreatedAt",
        "UpdatedAt",
        "AccessedAt",
        "CountDetails",
        "UserMetadata",
        "ForwardDeadLetteredMessagesTo",
        "AutoDeleteOnIdle",
    ),
}

_KINDS = {kind.__name__: kind for kind in _ORDER}

_NOT_IMITATED = {
    "EnableExpress": "express entities are not supported by this emulator",
    "FilteringMessagesBeforePublishing": "filtering before publishing is not supported by this emulator",
    "EnablePartitioning": "partitioned entities are not supported by this emulator",
    "EnableSubscriptionPartitioning": "partitioned subscriptions are not supported by this emulator",
    "IsAnonymousAccessible": "anonymous access is not supported by this emulator",
}

_IMMUTABLE = ("requires_session", "requires_duplicate_detection", "enable_partitioning")
"""What the service fixes when the entity is created."""


def attribute_of(element: str) -> str:
    """`MaxSizeInMegabytes` -> `max_size_in_megabytes`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", element).lower()


def duration_text(value: timedelta) -> str:
    """ISO 8601, whole parts down to microseconds; FOREVER and beyond as the service's largest TimeSpan."""
    if value.days >= _FOREVER_DAYS:
        return FOREVER_TEXT
    seconds = f"{value.seconds}.{value.microseconds:06d}" if value.microseconds else str(value.seconds)
    return f"P{value.days}DT{seconds}S"


def read_duration(text: str) -> timedelta:
    """An ISO 8601 duration of days and smaller; from 10,675,199 days on it is FOREVER. Raises InvalidEntity."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise InvalidEntity(f"the value {text!r} is not an ISO 8601 duration of days, hours, minutes and seconds")
    parts = {unit: float(number) for unit, number in match.groupdict().items() if number}
    if parts.get("days", 0) >= _FOREVER_DAYS:
        return FOREVER
    return timedelta(**parts)


def _instant(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, datetime):
        return _instant(value)
    return str(value)


def _element(parent: ET.Element, namespace: str, name: str, text: str | None = None, **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, f"{{{namespace}}}{name}", attributes)
    element.text = text
    return element


def _count_details(parent: ET.Element, counts: RuntimeCounts) -> None:
    details = _element(parent, CONNECT, "CountDetails")
    for name, value in (
        ("ActiveMessageCount", counts.active),
        ("DeadLetterMessageCount", counts.dead_letter),
        ("ScheduledMessageCount", counts.scheduled),
        ("TransferMessageCount", counts.transfer),
        ("TransferDeadLetterMessageCount", counts.transfer_dead_letter),
    ):
        _element(details, COUNTS, name, str(value))


def _runtime_values(info: EntityInfo) -> dict[str, object]:
    counts = info.counts
    return {
        "SizeInBytes": counts.size_in_bytes,
        "MessageCount": counts.active
        + counts.dead_letter
        + counts.scheduled
        + counts.transfer
        + counts.transfer_dead_letter,
        "CreatedAt": info.created_at,
        "UpdatedAt": info.updated_at,
        "AccessedAt": info.accessed_at,
        "SubscriptionCount": counts.subscriptions,
    }


def _describe(parent: ET.Element, info: EntityInfo) -> None:
    kind = type(info.description)
    described = _element(parent, CONNECT, kind.__name__)
    runtime = _runtime_values(info)
    for name in _ORDER[kind]:
        if name == "CountDetails":
            _count_details(described, info.counts)
            continue
        value = runtime[name] if name in runtime else getattr(info.description, attribute_of(name))
        if value is not None:
            _element(described, CONNECT, name, _text(value))


def _head(node: ET.Element, identity: str, title: str, updated: datetime) -> None:
    _element(node, ATOM, "id", identity)
    _element(node, ATOM, "title", title, type="text")
    _element(node, ATOM, "updated", _instant(updated))


def _entry(parent: ET.Element | None, info: EntityInfo, base: str) -> ET.Element:
    entry = ET.Element(f"{{{ATOM}}}entry") if parent is None else _element(parent, ATOM, "entry")
    link = f"{base}/{info.path}"
    _head(entry, link, info.path.rsplit("/Subscriptions/", 1)[-1], info.updated_at)
    _element(entry, ATOM, "link", rel="self", href=link)
    _describe(_element(entry, ATOM, "content", type="application/xml"), info)
    return entry


def _serialize(root: ET.Element) -> bytes:
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


def entity_entry(info: EntityInfo, base: str) -> bytes:
    """One entity as an Atom entry; `base` is the address the caller used, without a slash at its end."""
    return _serialize(_entry(None, info, base))


def _feed(title: str, self_link: str, next_link: str | None) -> ET.Element:
    feed = ET.Element(f"{{{ATOM}}}feed")
    _head(feed, self_link, title, datetime.now(UTC))
    _element(feed, ATOM, "link", rel="self", href=self_link)
    if next_link is not None:
        _element(feed, ATOM, "link", rel="next", href=next_link)
    return feed


def entity_feed(title: str, infos: Sequence[EntityInfo], *, base: str, self_link: str, next_link: str | None) -> bytes:
    """A page of a list; `next_link` is there when more follow."""
    feed = _feed(title, self_link, next_link)
    for info in infos:
        _entry(feed, info, base)
    return _serialize(feed)


def _default_rule(parent: ET.Element | None, created: datetime, link: str) -> ET.Element:
    entry = ET.Element(f"{{{ATOM}}}entry") if parent is None else _element(parent, ATOM, "entry")
    _head(entry, link, "$Default", created)
    _element(entry, ATOM, "link", rel="self", href=link)
    content = _element(entry, ATOM, "content", type="application/xml")
    rule = _element(content, CONNECT, "RuleDescription")
    xsi_type = f"{{{XSI}}}type"
    where = _element(rule, CONNECT, "Filter", **{xsi_type: "TrueFilter"})
    _element(where, CONNECT, "SqlExpression", "1=1")
    _element(where, CONNECT, "CompatibilityLevel", "20")
    _element(rule, CONNECT, "Action", **{xsi_type: "EmptyRuleAction"})
    _element(rule, CONNECT, "CreatedAt", _instant(created))
    _element(rule, CONNECT, "Name", "$Default")
    return entry


def default_rule_entry(created: datetime, link: str) -> bytes:
    """The rule that every subscription is created with: true for all messages, no action."""
    return _serialize(_default_rule(None, created, link))


def default_rule_feed(created: datetime, link: str, *, empty: bool) -> bytes:
    """The rules of a subscription: `$Default` alone; `empty` for a page past it."""
    feed = _feed("Rules", link, None)
    if not empty:
        _default_rule(feed, created, f"{link}/$Default")
    return _serialize(feed)


def namespace_entry(name: str, created: datetime, link: str) -> bytes:
    """`GET /$namespaceinfo`: the emulator answers as a Standard namespace."""
    entry = ET.Element(f"{{{ATOM}}}entry")
    _head(entry, link, name, created)
    info = _element(_element(entry, ATOM, "content", type="application/xml"), CONNECT, "NamespaceInfo")
    for element, text in (
        ("CreatedTime", _instant(created)),
        ("MessagingSKU", "Standard"),
        ("ModifiedTime", _instant(created)),
        ("Name", name),
        ("NamespaceType", "Messaging"),
    ):
        _element(info, CONNECT, element, text)
    return _serialize(entry)


def error_body(status: int, detail: str) -> bytes:
    """`<Error><Code/><Detail/></Error>`, in no namespace, as the service answers."""
    error = ET.Element("Error")
    ET.SubElement(error, "Code").text = str(status)
    ET.SubElement(error, "Detail").text = detail
    return _serialize(error)


def _read_bool(text: str) -> bool:
    if text.strip().lower() not in {"true", "false", "1", "0"}:
        raise InvalidEntity(f"the value {text!r} is neither true nor false")
    return text.strip().lower() in {"true", "1"}


def _read_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidEntity(f"the value {text!r} is not a whole number") from None


_READERS: dict[type, Callable[[str], Any]] = {bool: _read_bool, int: _read_int, timedelta: read_duration, str: str}


def _settings(kind: type, described: ET.Element) -> dict[str, Any]:
    """The writable settings in a description element, by attribute name. Raises InvalidEntity naming what it refuses."""
    defaults = kind()
    known = {spec.name: getattr(defaults, spec.name) for spec in fields(kind)}
    values: dict[str, Any] = {}
    for element in described:
        name, text = element.tag.rpartition("}")[2], element.text or ""
        if name in _READ_ONLY or (not text and len(element) == 0):
            continue
        if name in _NOT_IMITATED:
            if _read_bool(text):
                raise InvalidEntity(f"{name}: {_NOT_IMITATED[name]}")
        elif name == "AuthorizationRules":
            raise InvalidEntity("AuthorizationRules: rules of single entities are not supported by this emulator")
        elif name == "DefaultRuleDescription":
            _check_default_rule(element)
        elif attribute_of(name) in known:
            default = known[attribute_of(name)]
            values[attribute_of(name)] = _READERS[type(default) if default is not None else str](text)
    return values


def _check_default_rule(element: ET.Element) -> None:
    where = element.find(f"{{{CONNECT}}}Filter")
    kind = "none" if where is None else where.get(f"{{{XSI}}}type", "none")
    if kind != "TrueFilter":
        raise InvalidEntity(f"DefaultRuleDescription: a filter of type {kind} is not supported by this emulator")


def _described(body: bytes) -> tuple[type, ET.Element]:
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise InvalidEntity("a document type declaration is not allowed in a management request")
    try:
        entry = ET.fromstring(body)
    except ET.ParseError as error:
        raise InvalidEntity(f"the body is not well-formed XML: {error}") from None
    content = entry.find(f"{{{ATOM}}}content")
    described = next(iter(content), None) if content is not None else None
    if described is None:
        raise InvalidEntity("the body holds no Atom entry with content")
    kind = _KINDS.get(described.tag.rpartition("}")[2])
    if kind is None:
        raise InvalidEntity(f"{described.tag.rpartition('}')[2]} is not a description this emulator knows")
    return kind, described


def read_description(body: bytes, current: Description | None = None) -> Description:
    """The settings in a PUT: over the defaults, or over `current` when it updates one.

    Raises InvalidEntity for what is malformed, not imitated, or fixed at creation and different from `current`.
    """
    kind, described = _described(body)
    if current is not None and type(current) is not kind:
        raise InvalidEntity(f"the entity is a {type(current).__name__.removesuffix('Description').lower()}")
    values = _settings(kind, described)
    if current is None:
        fresh: Description = kind(**values)
        return fresh
    for name in _IMMUTABLE:
        if name in values and values[name] != getattr(current, name):
            raise InvalidEntity(f"{name} is fixed when the entity is created and cannot be changed")
    return replace(current, **values)
