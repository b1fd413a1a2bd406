"""The way of a change: asks SQL Server, then the shelves in the order of the way, and puts together what they say. Decides nothing itself.

SQL Server is asked first, then the queue, its dead letters, then the topics: what moves on meanwhile is met again further on. Each part has its
time, and one that cannot be asked, or is late, leaves the others as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from common.cel.filters import FilterFailed
from common.errors import ConfigurationError, DStreamError, TransientError
from common.names import TableName
from desk.desk import NotFound
from desk.documents.messages import Stories, Story, StoryOrder
from desk.documents.shape import Unknown
from desk.documents.tables import Pause
from desk.messages.browsers import Browsers
from desk.messages.places import Place, Places
from desk.messages.routing import Routing
from desk.messages.searching import Searched, Sighting, name_of, search
from desk.messages.timely import OPENS_SECONDS, Server, Time
from desk.messages.trail import Destination, OnTheBus, Trail
from desk.messages.verdicts import story
from ingester.operating.finding import Captured, ChangeFinder, TableLook
from ingester.position import Position
from router.settings import RouterSettings

QUEUE_SECONDS = 2.0
TOPIC_SECONDS = 1.0
MOST_TOPICS = 8
"""Subscriptions that are looked through for one order."""

PauseOf = Callable[[str], Pause | None]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Configured:
    """Of one configuration. `finder`: makes one for this request. `places`: of `router`."""

    router: RouterSettings
    places: Places
    finder: Callable[[], ChangeFinder]


@dataclass(slots=True)
class _Asked:
    """One request: whom it asks, its time, and what could not be asked."""

    configured: Configured
    server: Server
    time: Time
    unknown: list[Unknown]

    @property
    def finder(self) -> ChangeFinder:
        """For what asks nobody."""
        return self.server.finder

    def or_none(self, what: str, ask: Callable[[ChangeFinder], _T]) -> _T | None:
        try:
            return self.server.ask(ask)
        except ConfigurationError:
            raise
        except DStreamError as error:
            told = Unknown(what=what, text=error.message, remedy=error.hint)
            if told not in self.unknown:
                self.unknown.append(told)
            return None


class StoryTeller:
    """Callable from any thread. `configured`: the present one. `pause_of`: of a table by its key; None where it is not paused or not known."""

    def __init__(
        self,
        configured: Callable[[], Configured],
        browsers: Browsers,
        pause_of: PauseOf,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configured = configured
        self._browsers = browsers
        self._pause_of = pause_of
        self._clock = clock

    def stories(self, order: StoryOrder) -> Stories:
        """Raises ConfigurationError for an order that asks for both or neither, and for a key that is none; NotFound for a table that is none."""
        if (order.event_id is None) == (order.table is None):
            raise ConfigurationError(["the order needs either event_id, or table and key"])
        if order.event_id is not None and order.key is not None:
            raise ConfigurationError(["key belongs to table: with event_id it has no meaning"])
        if order.table is not None and not order.key:
            raise ConfigurationError(["key: the columns of the table's key are needed, with their values as text"])
        time = Time(self._clock)
        configured = self._configured()
        with closing(Server(configured.finder(), time)) as server:
            asked = _Asked(configured, server, time, [])
            if order.event_id is not None:
                return Stories(items=[self._told(asked, [self._of_event(asked, order.event_id)])[0]])
            return self._of_row(asked, order)

    def _of_event(self, asked: _Asked, event_id: str) -> Trail:
        named = asked.finder.named(event_id)
        if named is None:
            return Trail(event_id, "", None)
        if named.position is None:
            return Trail(event_id, named.table.key, named.kind)
        position = named.position
        look = asked.or_none("SQL Server", lambda finder: finder.look(named.table))
        if look is None:
            return Trail(event_id, named.table.key, "change", lsn=position.place()[1])
        captured = None
        if look.absence is None:
            captured = asked.or_none("the change table", lambda finder: finder.at(named.table, position))
        return self._trail(asked, look, event_id, position, captured)

    def _trail(
        self, asked: _Asked, look: TableLook, event_id: str, position: Position, captured: Captured | None
    ) -> Trail:
        lsn = position.place()[1]
        commit = (
            captured.commit_time
            if captured
            else asked.or_none("the commit", lambda finder: finder.commit_time(position))
        )
        sent = None if look.offset is None or look.dropped else position <= look.offset
        moved = (
            asked.or_none("moves of the offset", lambda finder: finder.moved_over(look.table, position))
            if sent
            else None
        )
        return Trail(
            event_id,
            look.table.key,
            "change",
            lsn=lsn,
            commit_time=commit,
            look=None if captured is None and "the change table" in [each.what for each in asked.unknown] else look,
            captured=captured,
            sent=sent,
            removed=captured is None and look.low is not None and position < look.low,
            ahead=captured is None and (look.captured is None or position > look.captured),
            moved=moved,
            pause=self._pause_of(look.table.key),
        )

    def _of_row(self, asked: _Asked, order: StoryOrder) -> Stories:
        table = _table(asked.finder, order.table or "")
        look = asked.server.ask(lambda finder: finder.look(table))
        if look.absence is not None:
            raise ConfigurationError([f"table {table.key}: {look.absence}"])
        found = asked.server.ask(lambda finder: finder.of_key(table, order.key or {}, order.most))
        trails = [self._trail(asked, look, each.event_id, each.position, each) for each in found.changes[: order.most]]
        items = self._told(asked, trails)
        more = len(found.changes) > order.most
        if found.back_to is not None and not more:
            text = f"{found.rows:,} changes of the table were looked at, down to LSN 0x{found.back_to}; older ones were not"
            told = Unknown(what="older changes of the row", text=text, remedy="look for an older one by its EventID")
            items = [each.model_copy(update={"unknown": [*each.unknown, told]}) for each in items]
            more = True
        return Stories(items=items, more=more)

    def _told(self, asked: _Asked, trails: Sequence[Trail]) -> list[Story]:
        routed = [self._routed(asked, trail) for trail in trails]
        buses = self._on_the_bus(asked, routed)
        return [story(replace(trail, bus=buses[trail.event_id], unknown=tuple(asked.unknown))) for trail in routed]

    def _routed(self, asked: _Asked, trail: Trail) -> Trail:
        message = None if trail.captured is None else trail.captured.message
        if message is None:
            return trail
        try:
            routing = Routing(asked.configured.router, asked.configured.places)
            return replace(trail, destinations=tuple(routing.destinations(message)))
        except FilterFailed as failed:
            return replace(trail, route_fails=str(failed))
        except DStreamError as error:
            asked.unknown.append(Unknown(what="the routes", text=error.message, remedy=error.hint))
            return trail

    def _on_the_bus(self, asked: _Asked, trails: Sequence[Trail]) -> Mapping[str, OnTheBus]:
        """What the queue, its dead letters and the topics say, by event id."""
        places = asked.configured.places
        wanted = {trail.event_id for trail in trails if trail.sent is not False}
        since = _earliest([trail for trail in trails if trail.event_id in wanted])
        queue = self._search(asked, places.queue, wanted, since, dead=False, seconds=QUEUE_SECONDS)
        dead = self._search(asked, places.queue, wanted - queue.found.keys(), since, dead=True, seconds=QUEUE_SECONDS)
        left = wanted - queue.found.keys() - dead.found.keys()
        there, dead_there, searched = dict[str, list[Sighting]](), dict[str, list[Sighting]](), [queue, dead]
        for place in self._subscriptions(asked, [trail for trail in trails if trail.event_id in left]):
            for held, into in ((False, there), (True, dead_there)):
                found = self._search(asked, place, left, since, dead=held, seconds=TOPIC_SECONDS)
                for event_id, sighting in found.found.items():
                    into.setdefault(event_id, []).append(sighting)
                if found.unknown is not None:
                    searched.append(replace(found, complete=True))  # a topic that was not looked at changes no verdict
        told = [each.unknown for each in searched if each.unknown is not None]
        return {
            trail.event_id: OnTheBus(
                queue=queue.found.get(trail.event_id),
                dead=dead.found.get(trail.event_id),
                subscriptions=tuple(there.get(trail.event_id, ())),
                dead_there=tuple(dead_there.get(trail.event_id, ())),
                complete=all(each.complete for each in searched),
                unknown=tuple(told) if trail.event_id in wanted else (),
            )
            for trail in trails
        }

    def _search(
        self,
        asked: _Asked,
        place: Place,
        wanted: Iterable[str],
        since: datetime | None,
        *,
        dead: bool,
        seconds: float,
    ) -> Searched:
        """Never raises DStreamError."""
        if not (those := frozenset(wanted)):
            return Searched()

        def looked() -> Searched:
            return search(self._browsers, place, those, dead=dead, since=since, seconds=seconds, clock=self._clock)

        try:
            return asked.time.ask(id(place.bus), asked.time.passed() + OPENS_SECONDS + seconds, looked)
        except TransientError as error:
            told = Unknown(what=name_of(place, dead=dead), text=error.message, remedy=error.hint)
            return Searched(complete=False, unknown=told)

    def _subscriptions(self, asked: _Asked, trails: Sequence[Trail]) -> Sequence[Place]:
        """Those to which the routes send them. Of a change that is not in its change table, those of its table's topic."""
        router, places = asked.configured.router, asked.configured.places
        found = dict[str, Place]()
        for trail in trails:
            destinations: Sequence[Destination] | None = trail.destinations
            if destinations is None:
                topics = [
                    topic for topic, table in router.topics.items() if table.key.casefold() == trail.table.casefold()
                ]
                destinations = [
                    Destination("default", topic, place.entity)
                    for topic in topics
                    for place in places.within("default", topic)
                ]
            for each in destinations:
                if each.entity is not None:
                    found.setdefault(each.entity, places.of(each.entity))
        return list(found.values())[:MOST_TOPICS]


def _table(finder: ChangeFinder, name: str) -> TableName:
    try:
        return finder.table(name)
    except ConfigurationError as error:
        raise NotFound(error.message, hint=error.hint) from error


def _earliest(trails: Sequence[Trail]) -> datetime | None:
    """The first commit; None where one of them is not known."""
    times = [trail.commit_time for trail in trails]
    known = [datetime.fromisoformat(each) for each in times if each is not None]
    return min(known) if known and len(known) == len(times) else None
