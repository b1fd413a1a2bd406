"""Where each delivery goes: pure decisions about received messages. Sends nothing, settles nothing.

The topic is named by the application property `destination`; if it is missing, the body's `metadata.Destination`.
A message without a known topic is poison: it is dead-lettered with a reason, and the others go on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, Literal, get_args

from common.bus.ports import Delivery
from common.message import Body, Message, Property
from common.names import TableName

Reason = Literal[
    "MalformedMessage",
    "MissingDestination",
    "UnknownDestination",
    "MessageTooLarge",
    "Refused",
    "Oversize",
    "FilterFailed",
    "RouteFailed",
]

REASONS: Final = frozenset(get_args(Reason))

ADD_TABLE = "add the table to `tables` in the router's configuration"

ADD_IT = f'{ADD_TABLE}, or set unknown_destination = "create"'
"""What to do about an unknown topic."""

COPY = "then send a copy with a new message id (duplicate detection drops one with the same id)"

SEND_AGAIN = f"{ADD_IT}, {COPY}"
"""What to do with a change in the dead-letter queue whose topic was unknown."""

_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]{1,20}")
"""A log sequence number is 10 octets."""

_WHY = 1000
"""The most characters of the reason why a change was set aside."""

_KEY_TEXT = 500
"""The most characters of a row's key in a description."""


@dataclass(frozen=True, slots=True)
class Poison:
    """A delivery that no retry can help, the reason, and the facts for the person who finds it in the dead-letter queue."""

    delivery: Delivery
    reason: Reason
    description: str
    topic: str | None = None
    """The topic that an `UnknownDestination` asked for, lower case."""

    @property
    def stops(self) -> bool:
        """Whether `on_poison = "stop"` applies: some messages were sent in order to be dead-lettered."""
        return self.reason not in ("Oversize", "FilterFailed")


@dataclass(frozen=True, slots=True)
class Group:
    """Deliveries for one topic, in the order they came."""

    topic: str
    deliveries: tuple[Delivery, ...]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What to do with a batch: groups in order of first appearance, and the poison among them."""

    groups: tuple[Group, ...]
    poison: tuple[Poison, ...]


def plan(deliveries: Sequence[Delivery], known: Collection[str]) -> BatchPlan:
    """Group by topic, keeping order; `known` are the topics that have a publisher, lower case."""
    groups: dict[str, list[Delivery]] = {}
    poison: list[Poison] = []
    for delivery in deliveries:
        routed = route(delivery, known)
        if isinstance(routed, Poison):
            poison.append(routed)
        else:
            groups.setdefault(routed, []).append(delivery)
    return BatchPlan(tuple(Group(name, tuple(held)) for name, held in groups.items()), tuple(poison))


def before(deliveries: Sequence[Delivery], poison: Poison) -> Sequence[Delivery]:
    """The deliveries before `poison`, which is one of them."""
    return deliveries[: next(at for at, delivery in enumerate(deliveries) if delivery is poison.delivery)]


def runs(deliveries: Sequence[Delivery], known: Collection[str]) -> Iterator[BatchPlan]:
    """Plans for neighbours that go to one topic: carried out in turn, nothing overtakes anything, whatever its topic."""
    for _, run in groupby(deliveries, key=lambda delivery: _lane(route(delivery, known))):
        yield plan(list(run), known)


def _lane(routed: str | Poison) -> str | None:
    return routed if isinstance(routed, str) else None


def route(delivery: Delivery, known: Collection[str]) -> str | Poison:
    """The topic of one delivery, or why it has none. Topic names are compared without regard to case."""
    topic = named(delivery)
    if isinstance(topic, Poison) or topic in known:
        return topic
    return unknown(delivery, topic)


def named(delivery: Delivery) -> str | Poison:
    """The topic that one delivery names, in lower case, or why it goes nowhere whatever topics there are."""
    if delivery.fault is not None:
        return Poison(delivery, "MalformedMessage", delivery.fault)
    if delivery.message.application_properties.get(Property.OVERSIZE) is True:
        return Poison(delivery, "Oversize", _oversize(delivery.message))
    if Property.SET_ASIDE in delivery.message.application_properties:
        return Poison(delivery, "FilterFailed", _set_aside(delivery.message))
    topic: object = delivery.message.application_properties.get(Property.DESTINATION)
    if topic is None:
        try:
            topic = _named_in(delivery.message.body)
        except (ValueError, RecursionError) as error:
            return Poison(delivery, "MalformedMessage", f"the body is not JSON: {type(error).__name__}: {error}")
    if not isinstance(topic, str) or not topic:
        return Poison(
            delivery,
            "MissingDestination",
            "neither the application property destination nor the body's metadata.Destination names a topic",
        )
    return topic.lower()


def unknown(delivery: Delivery, topic: str) -> Poison:
    """The poison that a message is whose topic is not known; `topic` in lower case."""
    written = delivery.message.application_properties.get(Property.DESTINATION)
    name = written if isinstance(written, str) and written.lower() == topic else topic
    return Poison(
        delivery,
        "UnknownDestination",
        f"{with_table(repr(name), delivery.message)} belongs to no configured table; {SEND_AGAIN}",
        topic,
    )


def explained(poison: Poison, refused: Mapping[str, str]) -> Poison:
    """With the reason why nobody waits for its topic, in place of advice that would not help."""
    why = refused.get(poison.topic or "")
    if why is None:
        return poison
    return replace(poison, description=f"{poison.description.removesuffix(f'; {SEND_AGAIN}')}: {why}")


def table_of(message: Message) -> str | None:
    """The table of the change, if its properties name it."""
    told = message.application_properties
    return ".".join(name for key in (Property.SCHEMA, Property.TABLE) if (name := _name(told.get(key)))) or None


def named_table(message: Message) -> TableName | None:
    """The same as a name, if it can be one."""
    told = message.application_properties
    try:
        return TableName(_name(told.get(Property.SCHEMA)), _name(told.get(Property.TABLE)))
    except ValueError:
        return None


def with_table(topic: str, message: Message) -> str:
    """A topic, and the table whose change goes there."""
    table = table_of(message)
    return f"topic {topic}" if table is None else f"topic {topic} (table {table})"


def _oversize(message: Message) -> str:
    """The change that an ingester's stand-in stands for, from its body, else from its properties. Missing facts are left out: any sender to the
    queue may send what looks like a stand-in."""
    told = message.application_properties
    where = f"a change of {table_of(message) or 'an unnamed table'}"
    try:
        content: Body = json.loads(message.body)
        metadata, key = content["metadata"], json.dumps(content["data"], ensure_ascii=False)
        size, limit = _number(metadata["Oversize"]["Bytes"]), _number(metadata["Oversize"]["Limit"])
        position = f"commit LSN 0x{_position(metadata['LSN'])}, seqval 0x{_position(metadata['SeqVal'])}"
    except (ValueError, RecursionError, LookupError, TypeError):
        lsn = told.get(Property.LSN)
        at = f" at commit LSN 0x{lsn}" if isinstance(lsn, str) and _HEXADECIMAL.fullmatch(lsn) else ""
        return f"{where}{at} fits no message"
    return (
        f"{where} with key {key[:_KEY_TEXT]} at {position} fits no message: {size} bytes, and the queue takes {limit}"
    )


def _set_aside(message: Message) -> str:
    """The change that an ingester set aside, and why; from its properties alone, because the body has the row."""
    told = message.application_properties
    lsn, why = told.get(Property.LSN), told[Property.SET_ASIDE]
    at = f" at commit LSN 0x{lsn}" if isinstance(lsn, str) and _HEXADECIMAL.fullmatch(lsn) else ""
    cause = why[:_WHY] if isinstance(why, str) and why else "the ingester set it aside"
    return f"a change of {table_of(message) or 'an unnamed table'}{at} is not delivered: {cause}"


def _name(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"a number is a {type(value).__name__}")
    return value


def _position(value: object) -> str:
    if not isinstance(value, str) or _HEXADECIMAL.fullmatch(value) is None:
        raise ValueError("a position is not a hexadecimal number")
    return value


def _named_in(body: bytes) -> object:
    content: Body = json.loads(body)
    metadata = content.get("metadata") if isinstance(content, dict) else None
    return metadata.get("Destination") if isinstance(metadata, dict) else None


def without(group: Group, settled: Collection[int]) -> Group | None:
    """The rest of `group` when the deliveries at these places are settled; None when all are."""
    left = tuple(delivery for at, delivery in enumerate(group.deliveries) if at not in settled)
    return Group(group.topic, left) if left else None
