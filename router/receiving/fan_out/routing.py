"""What fan-out asks of routes and outputs. Decides nothing: `router/routing/` has the routes, `router/publishing/` the senders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from common.bus.ports import Delivery
from common.cel.filters import FilterFailed
from common.message import Message, Property
from router.publishing.awaited import TopicSender
from router.receiving.fan_out.progress import Kind, Kinds
from router.routes import Poison, explained, named, named_table, unknown


class Target(Protocol):
    """One place of a message. `key`: of the stream in that output, as its `Streams` know it."""

    @property
    def output(self) -> str: ...

    @property
    def key(self) -> str: ...


class Routing(Protocol):
    """Where messages go; `router.routing.table.RouteTable` is one.

    `fingerprint` differs when any message might go elsewhere, `led` when one of these kinds might.
    """

    @property
    def fingerprint(self) -> str: ...

    def led(self, output: str, kinds: Collection[Kind]) -> str: ...

    def targets(self, message: Message, topic: str) -> Sequence[Target]:
        """Each once; nowhere is an answer. `topic`: as the message names it, in lower case. Raises FilterFailed."""
        ...


class Streams(Protocol):
    """The senders of one output; `router.publishing.publishers.Publishers` is one."""

    @property
    def topics(self) -> Collection[str]: ...

    def __getitem__(self, topic: str) -> TopicSender: ...

    def label(self, topic: str) -> str: ...

    def admit(self, topics: Iterable[str]) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class Place:
    """A target that exists; or `poison`: why that output cannot have the message."""

    output: str
    topic: str
    poison: Poison | None = None


def kind_of(delivery: Delivery) -> Kind | None:
    """None: it names no topic, and no route is asked."""
    topic = named(delivery)
    if isinstance(topic, Poison):
        return None
    table = named_table(delivery.message)
    return (topic, None, None) if table is None else (topic, table.schema, table.table)


def note_kind(kinds: Kinds, delivery: Delivery) -> None:
    """Of each delivery that is put into a lane: the kind is asked for only where its properties are none that were met before."""
    if kinds.known is None:
        return
    told = delivery.message.application_properties
    said = told.get(Property.DESTINATION), told.get(Property.SCHEMA), told.get(Property.TABLE)
    if kinds.met == said:
        return
    kind = kind_of(delivery)
    kinds.add(kind)
    if kind is not None and said[0] is not None:
        kinds.met = said


def places(delivery: Delivery, routing: Routing, outputs: Mapping[str, Streams]) -> Poison | Sequence[Place]:
    """Where a delivery goes, or why it goes nowhere. A topic that an output does not know yet is admitted where that is allowed."""
    topic = named(delivery)
    if isinstance(topic, Poison):
        return topic
    try:
        targets = routing.targets(delivery.message, topic)
    except FilterFailed as error:
        return Poison(delivery, "RouteFailed", str(error))
    return [_place(delivery, target, outputs[target.output]) for target in targets]


def _place(delivery: Delivery, target: Target, streams: Streams) -> Place:
    key = target.key
    if key in streams.topics:
        return Place(target.output, key)
    refused = streams.admit([key])
    if key in streams.topics:
        return Place(target.output, key)
    return Place(target.output, key, explained(unknown(delivery, key), refused))
