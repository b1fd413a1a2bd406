"""One open session with a lane for each output: what was received is put into the lanes, and what every target has is told to the slot.

Only the slot that has the session calls it, except where it says otherwise. It settles nothing and reads no queue.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from common.bus.ports import Delivery, Receiver
from common.errors import DStreamError
from router.publishing.awaited import TopicSender
from router.receiving.fan_out import progress
from router.receiving.fan_out.behind import Behind
from router.receiving.fan_out.courier import Attempts, Courier, Couriers
from router.receiving.fan_out.lanes import Entry, Lane, entry_of
from router.receiving.fan_out.progress import Kinds, Led, Position, Rereads
from router.receiving.fan_out.routing import Place, Streams, note_kind
from router.receiving.unpack import in_its_pack
from router.routes import Poison
from router.tally import Tally

MOST_SKIPPED: Final = 100_000
"""Messages that an output gets later, and that stay in the queue under the session's lock; the session waits with more of them."""

LAG: Final = 0.5
"""Seconds that the others wait for a lane without room, and the most that it may take over a message while it counts as prompt."""

CATCHING_LAG: Final = 2.0
"""The same while the session is read again for this lane, as long as it accepts something now and then: only it has something to do."""

CATCHING_UP: Final = 60.0
"""Seconds after which the others go on although a lane has not caught up; it does so the next time."""

KEPT_EVERY: Final = 5.0
"""Seconds between two writings of the state at first: after a crash, outputs get copies of so much."""

KEPT_AT_LAST: Final = 60.0
"""The same for a session that has been open for an hour. Each writing is a request, as each renewal of the lock is, and a link bears 5,000 of both:
then the session is read again. So it lasts for a day."""

CALLS_END: Final = 35.0
"""Seconds that a session is kept for calls in flight before it is closed: what arrived later might come after newer changes, which the next holder
of the session sends. A call to an output without an answer takes 30."""

AT_A_STOP: Final = 8.0
"""The same while the router stops. Calls are cut shortly before."""

VISIT: Final = 0.25
"""Seconds after which a parked session is visited: it may have new messages for the outputs that accept them."""

ASKED: Final = 1.0
"""Seconds after which a slot that waits for a new session visits it, because no other slot does."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Means:
    """What the sessions of a process share."""

    outputs: Mapping[str, Streams]
    couriers: Couriers
    rereads: Rereads
    behind: Behind
    fingerprint: str
    clock: Callable[[], float]
    tally: Tally
    linger: float
    strict: bool
    attempts: Attempts = field(default_factory=Attempts)
    led: Led | None = None
    made: progress.Made = field(default_factory=dict)


class Session:
    """`marks`: how far the outputs had come by the session's state; `kinds`: of the messages up to there."""

    def __init__(
        self,
        receiver: Receiver,
        means: Means,
        marks: Mapping[str, Position],
        *,
        kept: bool = False,
        kinds: Kinds | None = None,
    ) -> None:
        self.receiver = receiver
        self.bell = means.couriers.bell()
        self.kept = kept
        """Whether there is a state with the session."""
        self.stopper: Poison | None = None
        """With `on_poison = "stop"`: where it stops."""
        self.drained = False
        self._means = means
        self._marks = dict(marks)
        self._kinds = kinds or Kinds()
        self._front = max(marks.values(), default=None)
        self._opened = self._visited = means.clock()
        self._guard = threading.Lock()
        self._lanes: dict[str, Lane] = {}
        self._done: deque[Entry] = deque()
        self._open: dict[Entry, frozenset[str]] = {}
        """Without a session: what was received and not settled, with its targets."""
        self._set_aside: list[Delivery] = []
        """Dead-lettered, and the watermarks of outputs that refused them still stay before them."""
        self._last: Position | None = None
        self._until = -math.inf
        self._written: bytes | None = None
        self._kept_at = -math.inf
        self._courier = Courier(
            means.clock, lambda: self._until, self._done.extend, self.bell, means.tally, means.attempts
        )

    @property
    def lanes(self) -> Sequence[Lane]:
        return list(self._lanes.values())

    @property
    def session_id(self) -> str:
        return self.receiver.session_id or ""

    def lane(self, output: str) -> Lane:
        lane = self._lanes.get(output)
        if lane is None:
            means = self._means
            lane = Lane(output, means.outputs[output], self._guard, means.clock, self._marks.get(output), means.strict)
            self._lanes[output] = lane
        return lane

    def put(self, delivery: Delivery, places: Sequence[Place], had: frozenset[str] = frozenset()) -> None:
        """`had`: outputs that have it already."""
        entry, position = entry_of(delivery), delivery.position
        note_kind(self._kinds, delivery)
        with self._guard:
            for place in places:
                lane = self.lane(place.output)
                if place.output in had or lane.has(position):
                    continue
                if place.poison is None:
                    lane.put(entry, place.topic)
                elif lane.behind:
                    lane.put(entry, place.topic)  # it refuses the message in its turn
                else:
                    entry.poison = entry.poison or (place.poison, place.output)
                    lane.pin(position)
            for lane in self._lanes.values():
                lane.passed(position)
            self._last = position
            finished = entry.finished
        if self.receiver.session_id is None:
            self._open[entry] = frozenset(place.output for place in places)
        if finished:
            self._done.append(entry)

    def put_poison(self, poison: Poison) -> None:
        """It goes nowhere, whatever the outputs say."""
        note_kind(self._kinds, poison.delivery)
        with self._guard:
            for lane in map(self.lane, self._means.outputs):
                lane.pin(poison.delivery.position)  # until it is a dead letter: other routes might take it somewhere
                lane.passed(poison.delivery.position)
            self._last = poison.delivery.position
        self._done.append(Entry(poison.delivery, 0, poison=(poison, "")))

    def finished(self) -> Iterator[Entry]:
        """What every target has accepted or refused, each once."""
        while self._done:
            entry = self._done.popleft()
            self._open.pop(entry, None)
            yield entry

    def dead_lettered(self, delivery: Delivery) -> None:
        self._set_aside.append(delivery)

    def unpin(self) -> None:
        """Let watermarks pass what the broker has as dead letters. Poison that is only noted with its pack would be lost with this process."""
        if not self._set_aside:
            return
        still = [delivery for delivery in self._set_aside if in_its_pack(delivery)]
        with self._guard:
            for delivery in self._set_aside:
                for lane in self._lanes.values() if delivery not in still else ():
                    lane.unpin(delivery.position)
        self._set_aside = still

    def held(self) -> Sequence[Delivery]:
        """What has a lock of its own."""
        return [entry.delivery for entry in self._open]

    def owing(self) -> Mapping[Delivery, Collection[str]]:
        """Of a queue without sessions: what is not settled, with the outputs that have accepted it. An output that refused a message has not: it is
        asked again when the message comes again, which would be completed otherwise."""
        with self._guard:
            owed = {(item.entry, lane.output) for lane in self._lanes.values() for item in lane.undone}
            return {
                entry.delivery: [
                    output
                    for output in targets
                    if (entry, output) not in owed and not self._lanes[output].lacks(entry.delivery.position)
                ]
                for entry, targets in self._open.items()
            }

    def send(self, lock_left: float, reserved: float) -> None:
        """Start a courier for each lane that can go on. The lock lasts for `lock_left` seconds, of which the last `reserved` are for answers."""
        self._until = self._means.clock() + lock_left - reserved
        for lane in self.lanes:
            if lane.error is not None:
                raise lane.error
            with self._guard:
                ready = lane.sendable()
                lane.busy = lane.busy or ready
            if ready:
                self._start(lane)

    def _start(self, lane: Lane) -> None:
        try:
            self._means.couriers.start(lane.output, self._courier.job(lane))
        except RuntimeError:  # the system allows no more threads now
            with self._guard:
                lane.busy = False

    # How the lanes stand

    def blocked(self, lane: Lane) -> bool:
        with self._guard:
            return lane.blocked(self._means.linger, self.patience(lane))

    def open_lanes(self) -> Sequence[Lane]:
        """Those that another message would reach soon."""
        return [lane for lane in self.lanes if lane.room and not self.blocked(lane)]

    def waited_for(self) -> Sequence[TopicSender]:
        """Where messages that it holds go."""
        with self._guard:
            return [lane.streams[item.topic] for lane in self._lanes.values() for item in lane.undone[:1]]

    def full_lanes(self) -> Sequence[Lane]:
        """Those that another message would put behind."""
        return [lane for lane in self.lanes if not lane.behind and not lane.room]

    def short(self, lane: Lane) -> bool:
        """Whether what comes next is only for lanes such as this one, and the others have it."""
        if self._front is None or self.drained or (self._last is not None and self._last >= self._front):
            return False
        return lane.mark is None or lane.mark < self._front

    def catching(self, lane: Lane) -> bool:
        """Whether the others wait for it while the session is read again."""
        return self.short(lane) and self._means.clock() - self._opened < CATCHING_UP

    def patience(self, lane: Lane) -> float:
        return CATCHING_LAG if self.catching(lane) else LAG

    @property
    def skipped(self) -> int:
        return max((lane.skipped for lane in self.lanes), default=0)

    @property
    def ahead(self) -> bool:
        """Whether some outputs have what others have not for longer than a moment."""
        now = self._means.clock()
        return any(lane.behind or (lane.undone and now - lane.moved > LAG) for lane in self.lanes)

    @property
    def busy(self) -> bool:
        return any(lane.busy for lane in self.lanes)

    @property
    def undone(self) -> bool:
        return any(lane.undone or lane.busy for lane in self.lanes) or bool(self._done)

    @property
    def level(self) -> bool:
        """Whether every output has everything that was received, now and by an earlier holder of the session."""
        return (self.drained or self._come) and not self._done and all(lane.level for lane in self.lanes)

    @property
    def _come(self) -> bool:
        return self._last is not None and (self._front is None or self._last >= self._front)

    def refusal(self) -> Poison | None:
        """With `on_poison = "stop"`: what an output refused."""
        with self._guard:
            items = [item for lane in self._lanes.values() if lane.refused for item in lane.undone]
        return next((item.entry.poison[0] for item in items if item.entry.poison is not None), None)

    def stops_now(self) -> bool:
        """Whether every lane has what came before the message where the session stops."""
        return not self._done and all(lane.level or lane.refused for lane in self.lanes)

    def caught_up(self) -> Sequence[Lane]:
        """Lanes that were behind and have accepted all that was kept for them."""
        return [lane for lane in self.lanes if lane.caught_up()]

    def reread_for(self) -> Lane | None:
        """The lane for which the session should be read again now: not while an output may still accept what it was sent."""
        rereads, now, made = self._means.rereads, self._means.clock(), self._means.made
        lanes = [] if self.busy else [lane for lane in self.caught_up() if lane.skipped and self._reachable(lane)]
        return next((lane for lane in lanes if rereads.due(self.session_id, now, lane.output, made)), None)

    def _reachable(self, lane: Lane) -> bool:
        return lane.last_topic is None or lane.streams[lane.last_topic].pause() <= 0

    def marks(self) -> Mapping[str, Position]:
        """How far each output has come."""
        with self._guard:
            come = {lane.output: lane.accepted for lane in self._lanes.values()}
        return {output: mark for output, mark in {**self._marks, **come}.items() if mark is not None}

    def keep_if_due(self) -> None:
        """See `keep`; while the session stays open, now and then is enough."""
        now = self._means.clock()
        every = min(KEPT_AT_LAST, max(KEPT_EVERY, (now - self._opened) / 60))
        if self.ahead and now - self._kept_at >= every:
            self._kept_at = now
            self.keep()

    def keep(self) -> None:
        """Keep with the session how far its outputs have come; remove that when they are level. Without it they get copies, and nothing else."""
        level, marks = self.level, self.marks()
        try:
            if not level and len({*self._lanes, *marks}) > 1:
                state = progress.written(marks, self._means.fingerprint, self._kinds.known, self._means.led)
                if state != self._written:
                    self.receiver.set_state(state)
                self.kept, self._written = True, state
            elif self.kept and level and self._come:  # a question without an answer in time is no reason to forget
                self.receiver.set_state(None)
                self.kept, self._written, self._front, self._marks = False, None, None, {}
        except DStreamError as error:
            log.debug("progress not kept", session=self.session_id, error=error.message)

    # While it is parked: called by one thread at a time, or only looking

    @property
    def bytes(self) -> int:
        """Of the messages that it holds."""
        with self._guard:
            held = {id(item.entry): item.entry.bytes for lane in self._lanes.values() for item in lane.undone}
        return sum(held.values())

    def shed(self) -> None:
        """Let go of most messages that nothing can be done with now."""
        with self._guard:
            for lane in self._lanes.values():
                lane.shed()

    def visited(self) -> None:
        self._visited = self._means.clock()

    def ready(self) -> bool:
        """Whether a slot has something to do with it."""
        return self.pressing(VISIT)

    def pressing(self, after: float = ASKED) -> bool:
        """Whether it is worth a slot that waits for a new session."""
        if self._done or self.reread_for() is not None:
            return True
        lanes = self.lanes
        with self._guard:
            if any(lane.error or lane.sendable() for lane in lanes):
                return True
        if self.stopper is not None or self.refusal() is not None:
            return self.stops_now()
        reads = self.skipped < MOST_SKIPPED and bool(self.open_lanes())
        return reads and self._means.clock() - self._visited >= after

    def renewed(self) -> None:
        """Its lock was renewed while it is parked."""
        left = self.receiver.lock_left(())
        self._until = self._means.clock() + left * 3 / 4

    def give_up(self, *, keeps: bool, patience: float | None = None) -> None:
        """Couriers begin nothing more. `keeps`: first wait for what is in flight, for so many seconds; None: as long as a stop allows. What is in
        flight after that may arrive, and comes again."""
        for lane in self.lanes:
            lane.cancelled = True
        if keeps:
            self._wait_for_calls(AT_A_STOP if patience is None else patience)
            self.keep()
        self._means.behind.closed(self.session_id)

    def _wait_for_calls(self, patience: float) -> None:
        until = self._means.clock() + patience
        try:
            while self.busy and (left := until - self._means.clock()) > 0:
                self.receiver.renew(())
                self._means.tally.turn()
                self.bell.wait(min(left, 1.0))
        except DStreamError as error:
            log.debug("session lost before its calls ended", session=self.session_id, error=error.message)
