"""The ingest queue, a sender to it that fails as the service does, and a consumer that applies what was accepted by key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.bus.ports import OutOfTime, SendInterrupted, TimeLeft, for_ever
from common.message import Message, Property
from tests.worlds.virtual.database import Key
from tests.worlds.virtual.simulation import Simulation

LATE_SECONDS = 4.0
"""For how long a batch may be under way after its sender has given it up: less than the fence outlives the time for sending."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message, and what it says. `life`: of the ingester that sent it."""

    at: float
    message: Message
    life: int

    @property
    def table(self) -> str:
        return str(self.message.application_properties[Property.TABLE])

    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.message.body))


@dataclass
class Queue:
    """`detects`: whether it drops a message whose id it knows. `accepted`: in order. `refused`: dropped ones. `seen`: called with each message."""

    world: Simulation
    detects: bool
    accepted: list[Accepted] = field(default_factory=list)
    dropped: list[Accepted] = field(default_factory=list)
    seen: Callable[[Accepted], None] | None = None
    _ids: set[str] = field(default_factory=set)

    def accept(self, batch: Sequence[Message], life: int) -> None:
        for message in batch:
            assert message.message_id is not None
            came = Accepted(self.world.now, message, life)
            if self.seen is not None:
                self.seen(came)
            known = message.message_id in self._ids
            self._ids.add(message.message_id)
            (self.dropped if known and self.detects else self.accepted).append(came)


@dataclass
class ModelSender:
    """`size`: messages of a batch. `fate`: of the next batch: None for a good one, or `throttled`, `broken`, `in doubt`, `late`, `slow`."""

    world: Simulation
    queue: Queue
    size: int
    point: Callable[[str], None]
    fate: Callable[[], str | None]

    def batch_bytes(self) -> int:
        return 262_144

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        left, accepted = left or for_ever, list[int]()
        what = "chunk" if messages[0].subject == "Read" else "page"
        batches = list(_batches(messages, self.size))
        for number, places in enumerate(batches):
            if number:
                self.point(f"{what} half sent")
            if left() <= 0:
                raise OutOfTime("sending: out of time", accepted=accepted)
            batch = [messages[place] for place in places]
            if any(message.subject == "Gap" for message in batch):
                self.point("gap event")
            self._deliver(batch, left, accepted)
            accepted += places
        self.point(f"{what} sent")

    def _deliver(self, batch: list[Message], left: TimeLeft, accepted: list[int]) -> None:
        fate, life, chance = self.fate(), self.world.current.life, self.world.random.random
        if fate == "throttled":
            self.world.sleep(0.05)
            raise SendInterrupted("sending: throttled", accepted=accepted, throttled=True)
        if fate == "broken":
            self.world.sleep(0.5)
            raise SendInterrupted("sending: broken", accepted=accepted)
        if fate == "late":
            self.world.after(LATE_SECONDS * chance(), lambda: self.queue.accept(batch, life))
            self.world.sleep(0.01)
            raise SendInterrupted("sending: no answer", accepted=accepted)
        if fate == "slow":  # until its time is over, and a little longer on the way
            self.world.sleep(min(left(), 60.0))
            self.world.after(LATE_SECONDS * chance(), lambda: self.queue.accept(batch, life))
            raise OutOfTime("sending: no answer in time", accepted=accepted)
        self.world.sleep(0.002)
        self.queue.accept(batch, life)
        self.world.sleep(0.002)
        if fate == "in doubt":
            raise SendInterrupted("sending: the answer was lost", accepted=accepted)

    def close(self) -> None:
        pass


def _batches(messages: Sequence[Message], size: int) -> Iterator[list[int]]:
    """Places of the messages, one session after the other."""
    sessions: dict[str | None, list[int]] = {}
    for at, message in enumerate(messages):
        sessions.setdefault(message.session_id, []).append(at)
    for places in sessions.values():
        for first in range(0, len(places), size):
            yield places[first : first + size]


@dataclass
class Consumer:
    """Keeps a table: upserts what was read, inserted or updated, removes what was deleted. After a gap, rows that no snapshot since has read
    are gone when that snapshot's last row has come. `sweeps`: at that row; else only in `end`, where sessions overtake each other."""

    sweeps: bool
    rows: dict[Key, int] = field(default_factory=dict)
    doubtful: set[Key] = field(default_factory=set)
    _gaps: set[str] = field(default_factory=set)
    _older: set[str] = field(default_factory=set)
    _snapshots: set[str] = field(default_factory=set)

    def apply(self, came: Accepted) -> None:
        body = came.body()
        operation, data, snapshot = came.message.subject, body["data"], body["metadata"].get("Snapshot")
        if operation == "Gap":
            if came.message.message_id not in self._gaps:
                self._gaps.add(str(came.message.message_id))
                self.doubtful, self._older = set(self.rows), set(self._snapshots)
            return
        key = (data["ID"], data["Sub"])
        self.doubtful.discard(key)
        if operation == "Delete":
            self.rows.pop(key, None)
        else:
            self.rows[key] = data["V"]
        if snapshot is not None:
            self._snapshots.add(snapshot["Id"])
            if snapshot["Last"] and self.sweeps and snapshot["Id"] not in self._older:
                self.end()

    def end(self) -> None:
        for key in self.doubtful:
            del self.rows[key]
        self.doubtful.clear()
