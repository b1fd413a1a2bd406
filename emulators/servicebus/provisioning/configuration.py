"""The configuration file of Microsoft's Service Bus emulator: one file for both.

A setting that is left out has the default of the file's schema, not the service's: an hour to live, three deliveries, a window
of twenty seconds. Rules that are given stand instead of `$Default`. The limits of Microsoft's emulator (50 queues and topics,
an hour to live at most) are not imposed, the service's are. `Logging` is checked and has no effect: there is no log file.

Refuses, each with its path in the file: keys and values the schema does not have, more than one namespace, destinations of
forwarding that the file does not declare, and forwarding in a circle (no order of creation would do).

Source: `Config-schema.json` of https://github.com/Azure/azure-service-bus-emulator-installer, learn.microsoft.com "Test locally
with the Azure Service Bus emulator".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from emulators.servicebus.administration.atom_elements import attribute_of
from emulators.servicebus.description import Description, QueueDescription, SubscriptionDescription, TopicDescription
from emulators.servicebus.entities.validation import require_rule_name, require_valid
from emulators.servicebus.rules import InvalidRule, RuleSet
from emulators.servicebus.rules.description import (
    CorrelationFilter,
    Filter,
    PropertyValue,
    RuleDescription,
    RuleInfo,
    SqlAction,
    SqlFilter,
)

from .json_reader import InvalidDocument, Node, parse
from .provision import Asked

_DEFAULTS: Final[Mapping[str, Any]] = {
    "default_message_time_to_live": timedelta(hours=1),
    "duplicate_detection_history_time_window": timedelta(seconds=20),
    "lock_duration": timedelta(minutes=1),
    "max_delivery_count": 3,
}
_TOPIC: Final[Mapping[str, Callable[[Node], Any]]] = {
    "DefaultMessageTimeToLive": Node.duration,
    "DuplicateDetectionHistoryTimeWindow": Node.duration,
    "RequiresDuplicateDetection": Node.boolean,
}
_SUBSCRIPTION: Final[Mapping[str, Callable[[Node], Any]]] = {
    "DeadLetteringOnMessageExpiration": Node.boolean,
    "DefaultMessageTimeToLive": Node.duration,
    "LockDuration": Node.duration,
    "MaxDeliveryCount": Node.whole,
    "ForwardDeadLetteredMessagesTo": Node.text,
    "ForwardTo": Node.text,
    "RequiresSession": Node.boolean,
}
_QUEUE: Final[Mapping[str, Callable[[Node], Any]]] = {**_SUBSCRIPTION, **_TOPIC}
_FORWARDING: Final = ("ForwardTo", "ForwardDeadLetteredMessagesTo")
_CONDITIONS: Final = (
    "ContentType",
    "CorrelationId",
    "Label",
    "MessageId",
    "ReplyTo",
    "ReplyToSessionId",
    "SessionId",
    "To",
)
_LOGGING: Final = ("Console", "File", "File,Console", "Console,File")


class _Declared(NamedTuple):
    node: Node
    entity: Asked


def read_configuration(text: str) -> Sequence[Asked]:
    """The entities of a file, in an order in which they can be created. Raises InvalidDocument with every mistake."""
    root = parse(text)
    found = _Reader(root.problems).read(root)
    _check_destinations(found)
    ordered = [] if root.problems else [declared.entity for declared in _in_order(found)]
    if root.problems:
        raise InvalidDocument(root.problems)
    return ordered


class _Reader:
    """Collects what is declared, by lower-case path."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._found: dict[str, _Declared] = {}

    def read(self, root: Node) -> dict[str, _Declared]:
        user = root.members(("UserConfig", "$schema"), ("UserConfig",)).get("UserConfig")
        if user is None:
            return {}
        parts = user.members(("Namespaces", "Logging"), ("Namespaces",))
        if "Logging" in parts:
            _check_logging(parts["Logging"])
        namespaces = parts["Namespaces"].items() if "Namespaces" in parts else []
        if "Namespaces" in parts and len(namespaces) != 1 and not self._problems:
            parts["Namespaces"].report(f"there is one namespace in the emulator, not {len(namespaces)}")
        for namespace in namespaces:
            self._namespace(namespace)
        return self._found

    def _namespace(self, node: Node) -> None:
        parts = node.members(("Name", "Queues", "Topics"), ("Name",))
        if "Name" in parts:
            parts["Name"].filled()
        for queue in parts["Queues"].items() if "Queues" in parts else ():
            self._queue(queue)
        for topic in parts["Topics"].items() if "Topics" in parts else ():
            self._topic(topic)

    def _queue(self, node: Node) -> None:
        parts = node.members(("Name", "Properties"), ("Name",))
        name = _name(parts)
        settings = _settings(parts.get("Properties"), _QUEUE, QueueDescription)
        self._declare(node, name, QueueDescription(**settings))

    def _topic(self, node: Node) -> None:
        parts = node.members(("Name", "Properties", "Subscriptions"), ("Name",))
        name = _name(parts)
        settings = _settings(parts.get("Properties"), _TOPIC, TopicDescription)
        self._declare(node, name, TopicDescription(**settings))
        for subscription in parts["Subscriptions"].items() if "Subscriptions" in parts else ():
            self._subscription(subscription, name)

    def _subscription(self, node: Node, topic: str | None) -> None:
        parts = node.members(("Name", "Properties", "Rules"), ("Name",))
        name = _name(parts)
        settings = _settings(parts.get("Properties"), _SUBSCRIPTION, SubscriptionDescription)
        rules = _rules(parts["Rules"]) if "Rules" in parts else {}
        path = None if name is None or topic is None else f"{topic}/Subscriptions/{name}"
        self._declare(node, path, SubscriptionDescription(**settings), rules)

    def _declare(
        self, node: Node, path: str | None, description: Description, rules: Mapping[str, RuleDescription] | None = None
    ) -> None:
        if path is None:
            return
        node.checked(lambda: require_valid(path, description))
        first = self._found.get(path.lower())
        if first is not None:
            node.report(f"{path!r} is the name of {first.entity.where} already")
            return
        self._found[path.lower()] = _Declared(node, Asked(node.path, path, description, rules or {}))


# -- settings and rules


def _name(parts: Mapping[str, Node]) -> str | None:
    return parts["Name"].text() if "Name" in parts else None


def _settings(node: Node | None, readers: Mapping[str, Callable[[Node], Any]], kind: type) -> dict[str, Any]:
    known = {spec.name for spec in fields(kind)}
    values = {name: value for name, value in _DEFAULTS.items() if name in known}
    if node is None:
        return values
    for key, member in node.members(readers).items():
        value = readers[key](member)
        if value is not None:
            values[attribute_of(key)] = value.strip("/") or None if key in _FORWARDING else value
    return values


def _rules(node: Node) -> dict[str, RuleDescription]:
    rules: dict[str, RuleDescription] = {}
    for item in node.items():
        parts = item.members(("Name", "Properties"), ("Name", "Properties"))
        name = _name(parts)
        mistakes = len(item.problems)
        rule = _rule(parts["Properties"]) if "Properties" in parts else None
        if name is not None and any(name.lower() == other.lower() for other in rules):
            item.report(f"there is a rule {name!r} already")
        elif name is not None and rule is not None:
            item.checked(functools.partial(require_rule_name, name))
            if len(item.problems) == mistakes:
                _check_rule(item, name, rule)
            rules[name] = rule
    return rules


def _check_rule(node: Node, name: str, rule: RuleDescription) -> None:
    try:
        RuleSet([RuleInfo(name, rule, datetime.fromtimestamp(0, UTC))])
    except InvalidRule as error:
        node.report(str(error))


def _rule(node: Node) -> RuleDescription | None:
    parts = node.members(("FilterType", "CorrelationFilter", "SqlFilter", "Action"), ("FilterType",))
    action = _sql(parts["Action"]) if "Action" in parts else None
    if "FilterType" not in parts:
        return None
    kind = parts["FilterType"].value
    if kind not in ("Correlation", "Sql"):
        parts["FilterType"].report(f"must be 'Correlation' or 'Sql', not {kind!r}")
        return None
    wanted, other = ("SqlFilter", "CorrelationFilter") if kind == "Sql" else ("CorrelationFilter", "SqlFilter")
    if other in parts:
        parts[other].report(f"does not go with the FilterType {kind!r}, which has a {wanted}")
    if wanted not in parts:
        node.report(f"{wanted!r} is missing: the FilterType {kind!r} has one")
        return None
    condition = _condition(parts[wanted], kind)
    return None if condition is None else RuleDescription(condition, None if action is None else SqlAction(action))


def _condition(node: Node, kind: str) -> Filter | None:
    if kind == "Sql":
        expression = _sql(node)
        return None if expression is None else SqlFilter(expression)
    parts = node.members((*_CONDITIONS, "Properties"))
    conditions = {attribute_of(key): parts[key].filled() for key in _CONDITIONS if key in parts}
    properties = {} if "Properties" not in parts else parts["Properties"].values()
    return CorrelationFilter(**conditions, properties={key: _value(value) for key, value in properties.items()})


def _value(node: Node) -> PropertyValue:
    if not isinstance(node.value, str | bool | int | float):
        node.report("must be a string, a number, true or false")
        return None
    return node.value


def _sql(node: Node) -> str | None:
    parts = node.members(("SqlExpression",), ("SqlExpression",))
    return parts["SqlExpression"].filled() if "SqlExpression" in parts else None


def _check_logging(node: Node) -> None:
    kind = node.members(("Type",), ("Type",)).get("Type")
    if kind is not None and kind.value not in _LOGGING:
        kind.report(f"must be one of {', '.join(map(repr, _LOGGING))}, not {kind.value!r}")


# -- order


def _check_destinations(found: Mapping[str, _Declared]) -> None:
    for declared in found.values():
        for key, destination in _destinations(declared):
            there = found.get(destination.lower())
            if there is None or isinstance(there.entity.description, SubscriptionDescription):
                declared.node.report(f"{key} names {destination!r}, which is neither a queue nor a topic of this file")


def _in_order(found: Mapping[str, _Declared]) -> Iterator[_Declared]:
    """Each after what it needs: a subscription after its topic, a source of forwarding after its destination."""
    done: set[str] = set()
    for start in found:
        path = [] if start in done else [start]
        while path:
            need = next((need for need in _needs(found[path[-1]]) if need not in done), None)
            if need is None:
                done.add(path[-1])
                yield found[path.pop()]
            elif need in path:
                names = " -> ".join(found[key].entity.path for key in [*path[path.index(need) :], need])
                found[need].node.report(f"forwards in a circle: {names}; let one of them forward elsewhere")
                return
            else:
                path.append(need)


def _needs(declared: _Declared) -> Iterator[str]:
    topic, separator, _ = declared.entity.path.lower().partition("/subscriptions/")
    if separator:
        yield topic
    for _, destination in _destinations(declared):
        yield destination.lower()


def _destinations(declared: _Declared) -> Iterator[tuple[str, str]]:
    for key in _FORWARDING:
        destination = getattr(declared.entity.description, attribute_of(key), None)
        if destination is not None:
            yield key, destination
