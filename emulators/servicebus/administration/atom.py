"""The management API's documents of queues, topics and subscriptions: their settings to and from Atom. No I/O, no HTTP.

An update keeps what it does not name, but for what may be absent: forwarding and the user metadata go when they are left out.
Settings the emulator does not imitate (express, partitioned entities, own authorization rules) and elements it does not know
are refused by name instead of being dropped.

Sources: https://learn.microsoft.com/rest/api/servicebus/create-queue, .../create-topic, .../create-subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from emulators.servicebus.description import Description, EntityInfo, InvalidEntity, RuntimeCounts, TopicDescription
from emulators.servicebus.durations import duration_text, read_duration
from emulators.servicebus.rules.description import DEFAULT_RULE, RuleDescription

from . import feed
from .atom_elements import ADDED, CONSTANT, KINDS, NOT_IMITATED, ORDER, READ_ONLY, attribute_of
from .atom_rules import read_rule_description
from .feed import CONNECT, child
from .xml_text import write

COUNTS: Final = "http://schemas.microsoft.com/netservices/2011/06/servicebus"

_FORWARDING: Final = ("forward_to", "forward_dead_lettered_messages_to")
_IMMUTABLE: Final = ("requires_session", "requires_duplicate_detection", "enable_partitioning")
"""What the service fixes when the entity is created."""
_LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}


class FilterCounts(NamedTuple):
    """Rules of all subscriptions of a topic, by kind of filter; true and false filters are SQL filters."""

    sql: int
    correlation: int


class ReadDescription(NamedTuple):
    """What a PUT asks for: the settings, and the first rule of a new subscription when it names one."""

    settings: Description
    default_rule: tuple[str, RuleDescription] | None = None


# -- out


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, datetime):
        return feed.instant(value)
    return str(value)


def _count_details(parent: ET.Element, counts: RuntimeCounts) -> None:
    details = child(parent, CONNECT, "CountDetails")
    for name, value in (
        ("ActiveMessageCount", counts.active),
        ("DeadLetterMessageCount", counts.dead_letter),
        ("ScheduledMessageCount", counts.scheduled),
        ("TransferMessageCount", counts.transfer),
        ("TransferDeadLetterMessageCount", counts.transfer_dead_letter),
    ):
        child(details, COUNTS, name, str(value))


def _runtime_values(info: EntityInfo, filters: FilterCounts | None) -> dict[str, object]:
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
        "SqlFilterCount": None if filters is None else filters.sql,
        "CorrelationFilterCount": None if filters is None else filters.correlation,
    }


class EntityWriter:
    """Documents of entities for one request. `base`: the address the caller used, without a slash at its end."""

    def __init__(
        self, base: str, api_version: str, filters: Callable[[EntityInfo], FilterCounts] | None = None
    ) -> None:
        self._base = base
        self._version = api_version
        self._filters = filters

    def entry(self, info: EntityInfo) -> bytes:
        """One entity as an Atom entry."""
        return write(self._entry(None, info))

    def page(self, title: str, infos: Sequence[EntityInfo], self_link: str, next_link: str | None) -> bytes:
        """A page of a list."""
        node = feed.feed(title, self_link, next_link)
        for info in infos:
            self._entry(node, info)
        return write(node)

    def _entry(self, parent: ET.Element | None, info: EntityInfo) -> ET.Element:
        title = info.path.rsplit("/Subscriptions/", 1)[-1]
        node, content = feed.entry(parent, title, info.updated_at, f"{self._base}/{info.path}")
        self._describe(content, info)
        return node

    def _describe(self, parent: ET.Element, info: EntityInfo) -> None:
        kind = type(info.description)
        described = child(parent, CONNECT, kind.__name__)
        wants_filters = self._filters is not None and kind is TopicDescription and self._knows("SqlFilterCount")
        runtime = _runtime_values(info, self._filters(info) if wants_filters and self._filters else None)
        for name in ORDER[kind]:
            if name == "CountDetails":
                _count_details(described, info.counts)
                continue
            value = runtime[name] if name in runtime else self._setting(info.description, name)
            if value is not None and self._knows(name):
                child(described, CONNECT, name, _text(value))

    def _setting(self, description: Description, name: str) -> object:
        attribute = attribute_of(name)
        value = getattr(description, attribute, CONSTANT.get(name))
        if attribute in _FORWARDING and value is not None:
            return f"sb://{urlsplit(self._base).netloc}/{value}"  # the service answers with the whole address
        return value

    def _knows(self, name: str) -> bool:
        return ADDED.get(name, "") <= self._version


def namespace_entry(name: str, created: datetime, link: str) -> bytes:
    """`GET /$namespaceinfo`: the emulator answers as a Standard namespace."""
    node, content = feed.entry(None, name, created, link)
    info = child(content, CONNECT, "NamespaceInfo")
    for element, text in (
        ("CreatedTime", feed.instant(created)),
        ("MessagingSKU", "Standard"),
        ("ModifiedTime", feed.instant(created)),
        ("Name", name),
        ("NamespaceType", "Messaging"),
    ):
        child(info, CONNECT, element, text)
    return write(node)


# -- in

_READERS: Final[dict[type, Callable[[str], Any]]] = {
    bool: feed.read_bool,
    int: feed.read_int,
    timedelta: read_duration,
    str: str,
}


def _settings(kind: type, described: ET.Element, api_version: str) -> dict[str, Any]:
    """The writable settings in a description element, by attribute name. Raises InvalidEntity naming what it refuses."""
    defaults = kind()
    known = {spec.name: getattr(defaults, spec.name) for spec in fields(kind)}
    values: dict[str, Any] = {}
    for element in described:
        name, text = feed.local_name(element), element.text or ""
        if name in READ_ONLY or name == "DefaultRuleDescription" or (not text and len(element) == 0):
            continue
        if ADDED.get(name, "") > api_version:
            raise InvalidEntity(f"{name} is known from api-version {ADDED[name]} on, not to {api_version}")
        if name in NOT_IMITATED:
            if feed.read_bool(text):
                raise InvalidEntity(f"{name}: {NOT_IMITATED[name]}")
        elif name == "AuthorizationRules":
            raise InvalidEntity("AuthorizationRules: rules of single entities are not supported by this emulator")
        elif attribute_of(name) in known:
            default = known[attribute_of(name)]
            values[attribute_of(name)] = _READERS[type(default) if default is not None else str](text)
        elif name not in CONSTANT:
            raise InvalidEntity(f"{name}: not known to this emulator as a setting of a {kind.__name__}")
    return values


def _default_rule(described: ET.Element) -> tuple[str, RuleDescription] | None:
    element = described.find(f"{{{CONNECT}}}DefaultRuleDescription")
    if element is None:
        return None
    name, rule = read_rule_description(element)
    return name or DEFAULT_RULE, rule


def entity_of(address: str, host: str) -> str:
    """The path in an address to forward to: a path, or a URI of this namespace (`host`, its port left aside).

    Raises InvalidEntity for another namespace's.
    """
    if "://" not in address:
        return address.strip("/")
    parts = urlsplit(address)
    there, here = parts.hostname or "", urlsplit(f"//{host}").hostname or ""
    if there != here and not {there, here} <= _LOOPBACK:
        raise InvalidEntity(f"{address!r} is of another namespace: forwarding stays inside one")
    return parts.path.strip("/")


def read_description(
    body: bytes, api_version: str, current: Description | None = None, *, host: str = "localhost"
) -> ReadDescription:
    """The settings in a PUT: over the defaults, or over `current` when it updates one.

    Raises InvalidEntity for what is malformed, not imitated, newer than the version of the API, or fixed at creation and
    different from `current`.
    """
    described = feed.read_content(body)
    kind = KINDS.get(feed.local_name(described))
    if kind is None:
        raise InvalidEntity(f"{feed.local_name(described)} is not a description this emulator knows")
    if current is not None and type(current) is not kind:
        raise InvalidEntity(f"the entity is a {type(current).__name__.removesuffix('Description').lower()}")
    values = _settings(kind, described, api_version)
    for name in _FORWARDING:
        if name in values:
            values[name] = entity_of(values[name], host)
    if current is None:
        return ReadDescription(kind(**values), _default_rule(described))
    for name in _IMMUTABLE:
        if name in values and values[name] != getattr(current, name):
            raise InvalidEntity(f"{name} is fixed when the entity is created and cannot be changed")
    absent = {spec.name: None for spec in fields(kind) if spec.default is None}
    return ReadDescription(replace(current, **absent | values))
