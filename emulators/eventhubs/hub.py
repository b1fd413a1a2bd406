"""Event hubs: partitions that events are appended to, and who reads them. Not thread-safe: everything happens on the event loop.

Nothing is ever taken out by reading. Events stay for good: retention is not imitated (tests/emulators/eventhubs/contract/known_gaps.py).
Sources: learn.microsoft.com "Features and terminology in Azure Event Hubs", "Azure Event Hubs quotas and limits", archive of the blog of the
team, "Event Hubs Receiver Epoch".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from emulators.servicebus.amqp.values import AmqpError

from .event import Event
from .journal import Journal
from .partitioning import partition_of
from .position import Position, beyond

DEFAULT_GROUP: Final = "$Default"
MOST_READERS: Final = 5
"""Consumers of a partition and consumer group at a time, without an owner level."""
MOST_PARTITIONS: Final = 1024
_ALIGNED: Final = 8
_NAME: Final = re.compile(r"[A-Za-z0-9]([\w.-]{0,254}[A-Za-z0-9])?", re.ASCII)
STATUSES: Final = ("Active", "Disabled", "SendDisabled")


class Reader(Protocol):
    """A consumer's link."""

    epoch: int | None

    def feed(self) -> None:
        """There may be more."""
        ...

    def detach(self, failure: AmqpError) -> None:
        """The consumer may not go on."""
        ...


class Partition:
    """A log of events, numbered from 0."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.events: list[Event] = []
        self.readers: dict[str, list[Reader]] = {}
        self._next_offset = 0

    @property
    def last(self) -> Event | None:
        return self.events[-1] if self.events else None

    def append(self, events: list[Event], now: int) -> None:
        """At `now`, in milliseconds since the Unix epoch; time does not go back within a partition."""
        for event in events:
            event.sequence, event.offset = len(self.events), self._next_offset
            event.enqueued_at = max(now, self.events[-1].enqueued_at if self.events else 0)
            self.restore(event)

    def restore(self, event: Event) -> None:
        """One that was kept."""
        self._next_offset = event.offset + -(-event.size // _ALIGNED) * _ALIGNED
        self.events.append(event)

    def wake(self) -> None:
        """Tell the readers that there is more."""
        for readers in list(self.readers.values()):
            for reader in list(readers):
                reader.feed()

    def begin(self, position: Position) -> int:
        """The number of the first event at or behind a position. Raises AmqpError for one behind the last event."""
        if position.value is None:
            return len(self.events)
        last = self.last
        if position.by == "sequence-number":
            self._require("sequence number", position.value, -1 if last is None else last.sequence)
            values: Iterator[int] = (event.sequence for event in self.events)
        elif position.by == "offset":
            self._require("offset", position.value, -1 if last is None else last.offset)
            values = (event.offset for event in self.events)
        else:
            values = (event.enqueued_at for event in self.events)
        return next((number for number, value in enumerate(values) if position.admits(value)), len(self.events))

    @staticmethod
    def _require(what: str, value: int, last: int) -> None:
        if value > max(last, 0):
            raise beyond(what, value, last)

    def admit(self, group: str, reader: Reader) -> None:
        """One more reader. One with an owner level (epoch) drives out those with a lower or the same one, and those without. Raises AmqpError."""
        readers = self.readers.setdefault(group, [])
        owner = max((each.epoch for each in readers if each.epoch is not None), default=None)
        if reader.epoch is None:
            if owner is not None:
                text = f"At least one receiver for the endpoint is created with epoch of '{owner}', and so non-epoch receiver is not allowed."
                raise AmqpError("amqp:link:stolen", text)
            if len(readers) >= MOST_READERS:
                text = f"Exceeded the maximum number of allowed receivers per partition in a consumer group which is {MOST_READERS}."
                raise AmqpError("amqp:resource-limit-exceeded", text)
        elif owner is not None and owner > reader.epoch:
            raise AmqpError("amqp:link:stolen", f"A receiver with a higher epoch '{owner}' already exists.")
        else:
            text = f"New receiver with higher epoch of '{reader.epoch}' is created hence current receiver is getting disconnected."
            for other in list(readers):
                other.detach(AmqpError("amqp:link:stolen", text))
        readers.append(reader)

    def leave(self, group: str, reader: Reader) -> None:
        """A reader is gone."""
        readers = self.readers.get(group, [])
        if reader in readers:
            readers.remove(reader)


@dataclass
class Hub:
    """One event hub. `links`: how to detach each of its clients, by what it may do."""

    name: str
    partitions: list[Partition]
    groups: frozenset[str]
    created_at: int
    status: str = "Active"
    links: list[tuple[str, Callable[[AmqpError], None]]] = field(default_factory=list)
    _turn: int = -1

    def require(self, right: str) -> None:
        """Raises AmqpError when its status forbids what needs this right."""
        if self.status == "Disabled" or (self.status == "SendDisabled" and right == "Send"):
            raise AmqpError(
                "com.microsoft:entity-disabled", f"The messaging entity '{self.name}' is currently {self.status}."
            )

    def partition(self, number: str) -> Partition:
        """By its id. Raises AmqpError."""
        if not number.isdecimal() or int(number) >= len(self.partitions):
            ids = f"0 to {len(self.partitions) - 1}"
            text = f"The specified partition is invalid for an EventHub partition sender or receiver: '{number}' is none of {ids}."
            raise AmqpError("com.microsoft:argument-out-of-range", text)
        return self.partitions[int(number)]

    def chosen(self, key: str | None) -> Partition:
        """For a key, or the next in turn."""
        if key:
            return self.partitions[partition_of(key, len(self.partitions))]
        self._turn = (self._turn + 1) % len(self.partitions)
        return self.partitions[self._turn]

    def watch(self, right: str, detach: Callable[[AmqpError], None]) -> Callable[[], None]:
        """Have a link detached when the hub is deleted or disabled; returns how to stop that."""
        entry = (right, detach)
        self.links.append(entry)
        return lambda: self.links.remove(entry) if entry in self.links else None


class HubExists(Exception):
    """There is one of that name."""


class Namespace:
    """The hubs by name, in any case. `clock` in seconds since the Unix epoch."""

    def __init__(self, clock: Callable[[], float], journal: Journal) -> None:
        self._clock = clock
        self._journal = journal
        self.hubs: dict[str, Hub] = {}

    def now(self) -> int:
        """Milliseconds since the Unix epoch."""
        return int(self._clock() * 1000)

    def recover(self) -> None:
        """Put back what is kept."""
        for name, partitions, groups, status, created_at in self._journal.hubs():
            hub = self._add(name, partitions, groups, created_at)
            hub.status = status
            for number, event in self._journal.events(name.lower()):
                hub.partitions[number].restore(event)

    def create(self, name: str, partitions: int, groups: tuple[str, ...] = ()) -> Hub:
        """Raises ValueError for what may not be, HubExists."""
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name of an event hub: letters, digits, '.', '-' and '_', up to 256 characters"
            )
        if not 1 <= partitions <= MOST_PARTITIONS:
            raise ValueError(f"an event hub has 1 to {MOST_PARTITIONS} partitions, not {partitions}")
        if name.lower() in self.hubs:
            raise HubExists(name)
        hub = self._add(name, partitions, groups, self.now())
        self._save(hub)
        return hub

    def _add(self, name: str, partitions: int, groups: tuple[str, ...], created_at: int) -> Hub:
        known = frozenset(group.lower() for group in (DEFAULT_GROUP, *groups))
        hub = self.hubs[name.lower()] = Hub(name, [Partition(n) for n in range(partitions)], known, created_at)
        return hub

    def _save(self, hub: Hub) -> None:
        self._journal.save_hub(hub.name, len(hub.partitions), tuple(sorted(hub.groups)), hub.status, hub.created_at)

    def find(self, name: str) -> Hub:
        """Raises AmqpError amqp:not-found."""
        hub = self.hubs.get(name.lower())
        if hub is None:
            raise AmqpError("amqp:not-found", f"The messaging entity '{name}' could not be found.")
        return hub

    def set_status(self, name: str, status: str) -> None:
        """One of `STATUSES`; links that it forbids are detached. Raises AmqpError, ValueError."""
        if status not in STATUSES:
            raise ValueError(f"a status is one of {', '.join(STATUSES)}")
        hub = self.find(name)
        hub.status = status
        self._save(hub)
        for right, detach in list(hub.links):
            try:
                hub.require(right)
            except AmqpError as failure:
                detach(failure)

    def delete(self, name: str) -> None:
        """With everything in it. Raises AmqpError."""
        hub = self.hubs.pop(self.find(name).name.lower())
        self._journal.drop_hub(hub.name.lower())
        for _, detach in list(hub.links):
            detach(
                AmqpError("amqp:not-found", f"The messaging entity '{hub.name}' could not be found: it was deleted.")
            )

    def publish(self, hub: Hub, partition: Partition, events: list[Event]) -> None:
        """Whole, or not at all."""
        partition.append(events, self.now())
        self._journal.save_events(hub.name.lower(), partition.number, events)
        partition.wake()
