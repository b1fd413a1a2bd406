"""The lane of one output in one session: what it has not accepted yet, how far it has come, and whether it holds the others up.

Two threads use a lane: the slot's, which puts messages in and settles, and a courier's, which sends. Everything here is a short step under one lock
of the session. Sends nothing, and touches no receiver.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from common.bus.ports import Delivery
from common.message import weight
from router.publishing.awaited import TopicSender
from router.receiving.fan_out.progress import Position
from router.receiving.fan_out.routing import Streams
from router.routes import Poison

ROOM_MESSAGES: Final = 1_000
ROOM_BYTES: Final = 1_048_576
"""What a lane may hold when another batch is received; beyond it the lane is behind, and the others go on without it."""


@dataclass(eq=False, slots=True)
class Entry:
    """A received message that not every target has accepted."""

    delivery: Delivery
    bytes: int
    owed: int = 0
    """Lanes that have it and have not accepted it."""
    lacking: bool = False
    """An output that is behind needs it, and gets it when the session is read again: it is not settled now."""
    poison: tuple[Poison, str] | None = None
    """Why an output refused it, and the output."""

    @property
    def finished(self) -> bool:
        return not self.owed and not self.lacking


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A message in one lane. `before`: how far the lane had come in the queue before it."""

    entry: Entry
    topic: str
    before: Position | None


@dataclass(eq=False, slots=True)
class Lane:
    """`mark`: how far this output had come when the session was opened."""

    output: str
    streams: Streams
    guard: threading.Lock
    clock: Callable[[], float]
    mark: Position | None = None
    strict: bool = False
    """With `on_poison = "stop"`: neighbours only are sent together, and nothing passes what was refused."""
    undone: list[Item] = field(default_factory=list)
    busy: bool = False
    """A courier has it."""
    cancelled: bool = False
    error: BaseException | None = None
    """A defect that ended a courier."""
    behind: bool = False
    skipped: int = 0
    """Messages since it fell behind that it gets later."""
    taken: int = 0
    """Messages that it accepted since the session was opened."""
    refused: bool = False
    """It has refused a message, and stops there."""
    moved: float = field(init=False)
    """When it last accepted something, or began to have something to send."""
    last_topic: str | None = None
    """Of what it accepted last, or let go of."""
    not_before: float = -math.inf
    """Others have its topic, and it is no use to queue for it until then."""
    told: bool = False
    """It was logged that the session waits for it."""
    _reach: Position | None = field(init=False)
    _refused: dict[Position, Position | None] = field(default_factory=dict)
    """Messages that it refused and that are not dead letters yet, with how far it had come before each."""
    _carried: tuple[Item, ...] = field(default=(), init=False)
    """What a courier has, if one is on its way."""
    _bytes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._reach, self.moved = self.mark, self.clock()

    def has(self, position: Position) -> bool:
        """Whether the output accepted it before the session was opened."""
        return self.mark is not None and position <= self.mark

    def put(self, entry: Entry, topic: str) -> None:
        """One more to send; or one that it gets later, if it is behind."""
        if self.behind:
            entry.lacking = True
            self.skipped += 1
            return
        if not self.undone:
            self.moved = self.clock()
        entry.owed += 1
        self.undone.append(Item(entry, topic, self._reach))
        self._bytes += entry.bytes

    def pin(self, position: Position) -> None:
        """It cannot have the message at hand: until that is a dead letter, the watermark stays before it."""
        self._refused[position] = self._reach

    def lacks(self, position: Position) -> bool:
        """Whether it cannot have this message, which is not a dead letter yet."""
        return position in self._refused

    def passed(self, position: Position) -> None:
        """Everything up to here was put in, or goes elsewhere."""
        if not self.skipped and (self._reach is None or position > self._reach):
            self._reach = position

    @property
    def accepted(self) -> Position | None:
        """Its watermark."""
        come = self.undone[0].before if self.undone else self._reach
        before = [come, self._reach, *self._refused.values()]
        return min((each for each in before if each is not None), default=None) if None not in before else None

    @property
    def room(self) -> bool:
        return len(self.undone) < ROOM_MESSAGES and self._bytes < ROOM_BYTES

    @property
    def level(self) -> bool:
        return not self.undone and not self.behind

    def pause(self) -> float:
        """Seconds until something of it may be sent."""
        return min((self.streams[topic].pause() for topic in {item.topic for item in self.undone}), default=0.0)

    def blocked(self, linger: float, lag: float) -> bool:
        """Whether waiting for it is no use now."""
        if self.behind or self.refused:
            return True
        if not self.undone:
            return False
        return self.clock() - self.moved > lag if self.busy else self.pause() > linger

    def sendable(self) -> bool:
        """Whether a courier would have something to do."""
        if not self.undone or self.busy or self.refused or self.cancelled or self.clock() < self.not_before:
            return False
        return self.pause() <= 0

    def chunk(self) -> tuple[TopicSender, Sequence[Item]] | None:
        """What is sent next: of one topic, in order, at most what the topic accepts at once. None: nothing now."""
        self._carried = ()
        if self.cancelled or self.refused:
            return None
        for topic in dict.fromkeys(item.topic for item in self.undone):
            if (sender := self.streams[topic]).pause() <= 0:
                self._carried = tuple(self._leading(topic, sender.chunk_bytes))
                return sender, self._carried
            if self.strict:
                return None
        return None

    def _leading(self, topic: str, most: int) -> Iterator[Item]:
        taken = 0
        for item in self.undone:
            if item.topic != topic:
                if self.strict:
                    return
                continue
            taken += item.entry.bytes
            if taken > most and taken > item.entry.bytes:
                return
            yield item

    def done(self, items: Collection[Item]) -> list[Entry]:
        """The output accepted these. Returns what is finished with them."""
        if not items:
            return []
        gone = set(items)
        self.taken += len(items)
        self.undone = [item for item in self.undone if item not in gone]
        self.moved = self.clock()
        finished = []
        for item in items:
            self.last_topic = item.topic
            self._bytes -= item.entry.bytes
            item.entry.owed -= 1
            if item.entry.finished:
                finished.append(item.entry)
        return finished

    def refuse(self, item: Item, poison: Poison) -> list[Entry]:
        """The output will never accept this one. Returns it if every other target has it."""
        if item.entry.poison is None:
            item.entry.poison = poison, self.output
        if self.strict and poison.stops:
            self.refused = True
            return []
        self._refused[item.entry.delivery.position] = item.before
        return self.done([item])

    def unpin(self, position: Position) -> None:
        """What it refused is dead-lettered."""
        self._refused.pop(position, None)

    def shed(self) -> None:
        """Let go of what it has not sent, which comes again; not of what a courier carries, nor of the first, which shows when the output accepts
        messages again."""
        kept = set(self._carried if self.busy and self._carried else self.undone[:1])
        dropped = [item for item in self.undone if item not in kept]
        if not dropped:
            return
        for item in dropped:
            item.entry.owed -= 1
            item.entry.lacking = True
            self._bytes -= item.entry.bytes
        self.behind, self.skipped = True, self.skipped + len(dropped)
        self._reach = dropped[0].before
        self.undone = [item for item in self.undone if item in kept]

    def caught_up(self) -> bool:
        """It is behind, and has accepted all that was kept for it."""
        return self.behind and not self.undone and not self.busy


def entry_of(delivery: Delivery) -> Entry:
    return Entry(delivery, weight(delivery.message))
