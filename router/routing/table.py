"""The routes of a configuration, ready to be asked: to which outputs, and to which place in each, a message goes. Pure.

Without a route everything goes to the default output. A table that no route names goes there as well: a route for one table says nothing of
another. So does a message to a topic that is not its table's own, as rows of a snapshot for one consumer are, unless a route names that topic.
Of a table that a route names, a message goes to every output of every route that takes it, once to each place; if none takes it, it goes
nowhere, which is what its filters say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from common.bus.settings import OutputSettings
from common.cel.filters import Filter, FilterFailed, compile_filter
from common.errors import PermanentError
from common.message import Message
from common.names import Origin, TableName
from router.routes import named_table
from router.routing.conditions import Asked
from router.routing.settings import DEFAULT, RouteBlock
from router.routing.streams import StreamPattern, matches, named

_RENAMED = "@"
"""Between a topic and the place that a route gives it. No topic's name has it."""

_MOST_KEPT = 20_000
"""Streams whose routes are remembered: their names come with messages."""


class Target(NamedTuple):
    """`key`: of the stream in the output's publishers (`key_of`)."""

    output: str
    key: str


def key_of(topic: str, place: str | None) -> str:
    """The key of a stream: its topic in lower case, and the place of a route that gives it another."""
    return topic if place is None else f"{topic}{_RENAMED}{place}"


def parts_of_key(key: str) -> tuple[str, str | None]:
    """The topic, and the place of a route as it is written there."""
    topic, renamed, place = key.partition(_RENAMED)
    return topic, place if renamed else None


def folded(key: str) -> str:
    """The key with its topic in lower case. A place keeps its case: it is as the file has it."""
    topic, place = parts_of_key(key)
    return key_of(topic.lower(), place)


@dataclass(frozen=True, slots=True)
class _Route:
    """`number`: its place among the blocks, from 1."""

    number: int
    patterns: tuple[StreamPattern, ...]
    when: Filter | None
    outputs: tuple[str, ...]
    place: str | None

    def targets(self, topic: str) -> tuple[Target, ...]:
        key = key_of(topic, self.place)
        return tuple(Target(output, key) for output in self.outputs)

    def takes(self, asked: Asked) -> bool:
        """Raises FilterFailed, which names the route."""
        try:
            return self.when is None or asked.fits(self.when)
        except FilterFailed as error:
            raise FilterFailed(f"the filter of route {self.number} has no answer: {error}") from None


class RouteTable:
    """Callable from any thread."""

    def __init__(
        self,
        routes: Sequence[RouteBlock],
        table_of: Callable[[str], TableName | None],
        origin: Origin | None = None,
        outputs: Iterable[OutputSettings] = (),
    ) -> None:
        """`table_of`: the table of a topic, as far as its name shows it, for messages that do not say their table. `origin`: gives the topic that
        is a table's own; None: any is. `outputs`: those that routes name, for the fingerprint.

        Raises PermanentError where a filter needs a library that is not installed.
        """
        self._routes = tuple(
            _Route(
                number,
                tuple(map(StreamPattern.parse, route.tables)),
                _filter(number, route),
                route.to,
                route.topic,
            )
            for number, route in enumerate(routes, 1)
        )
        self._table_of = table_of
        self._origin = origin
        self._places = {each.name: (each.type, each.where, each.destination_template) for each in outputs}
        self._written = [route.model_dump(mode="json") for route in routes]
        places = sorted((name, *place) for name, place in self._places.items())
        self.fingerprint = _digest([self._written, places])
        """Of what the routes say and where the outputs are: with another one the same message may go elsewhere."""
        self._known: dict[tuple[str, TableName | None], tuple[_Route, ...]] = {}

    @property
    def outputs(self) -> frozenset[str]:
        """Those that get something; the default among them, because of tables that no route names."""
        return frozenset({DEFAULT}.union(*(route.outputs for route in self._routes)))

    def streams(self, topic: str, table: TableName | None) -> tuple[Target, ...]:
        """Where messages of `topic` may go, whatever their filters say."""
        routes = self._of(topic, table)
        return _each_once(target for route in routes for target in route.targets(topic)) if routes else _usual(topic)

    def led(self, output: str, kinds: Collection[tuple[str, str | None, str | None]]) -> str:
        """A fingerprint of how messages of these kinds (topic, schema, table) reach the output, if they do: of where it is, and of the filters and
        places of the routes that take them there."""
        ways = {json.dumps([kind, self._ways(output, *kind)]) for kind in kinds}
        return _digest([self._places.get(output), sorted(ways)])

    def _ways(self, output: str, topic: str, schema: str | None, table: str | None) -> Sequence[object]:
        routes = self._of(topic, None if schema is None or table is None else TableName(schema, table))
        if not routes:
            return [[None, None]] if output == DEFAULT else []  # as by a route without filter and place
        return [
            [written["when"], written["topic"]]
            for written in (self._written[route.number - 1] for route in routes if output in route.outputs)
        ]

    def targets(self, message: Message, topic: str) -> tuple[Target, ...]:
        """Where `message` goes, whose topic is `topic` in lower case; nowhere is an answer. Raises FilterFailed."""
        routes = self._of(topic, named_table(message))
        if not routes:
            return _usual(topic)
        if len(routes) == 1 and routes[0].when is None:
            return routes[0].targets(topic)
        asked = Asked(message)
        return _each_once(target for route in routes if route.takes(asked) for target in route.targets(topic))

    def _of(self, topic: str, table: TableName | None) -> tuple[_Route, ...]:
        found = self._known.get((topic, table))
        if found is None:
            name = table or self._table_of(topic)
            own = self._origin is None or (name is not None and self._origin.topic(name) == topic)
            found = tuple(
                route
                for route in self._routes
                if (matches(route.patterns, topic, name) if own else named(route.patterns, topic))
            )
            if len(self._known) >= _MOST_KEPT:
                self._known = {}
            self._known[topic, table] = found
        return found


def _digest(written: object) -> str:
    return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()[:16]


def _filter(number: int, route: RouteBlock) -> Filter | None:
    try:
        return None if route.when is None else compile_filter(route.when)
    except PermanentError as error:
        hint = "pip install 'dstream-cdc[routes]'"
        raise PermanentError(f"route {number}: its {error.message.removeprefix('the ')}", hint=hint) from error


def _usual(topic: str) -> tuple[Target, ...]:
    return (Target(DEFAULT, topic),)


def _each_once(targets: Iterable[Target]) -> tuple[Target, ...]:
    return tuple(dict.fromkeys(targets))
