"""Hands the messages of one session over to several outputs, and settles each when all of its targets have accepted it.

The slot's thread alone touches the receiver; couriers send (courier.py). An output that is away or slow falls behind: the session goes on without
it, and what it has missed stays in the queue, unsettled. When it has accepted what was kept for it, the session is closed and read again from its
first unsettled message, and each output skips what it has (progress.py).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NoReturn

import structlog

from common.bus.ports import Delivery, Receiver
from common.errors import PermanentError
from router.chunks import reserve
from router.receiving.fan_out import progress
from router.receiving.fan_out.lanes import ROOM_MESSAGES, Entry, Lane
from router.receiving.fan_out.progress import Remembered
from router.receiving.fan_out.routing import Routing, kind_of, places
from router.receiving.fan_out.session import AT_A_STOP, CALLS_END, LAG, MOST_SKIPPED, Means, Session
from router.receiving.handover import SessionGone, SessionParked
from router.receiving.pace import Pace
from router.receiving.parking import Parked, Parking
from router.routes import COPY, Poison

EAGER: Final = 0.05
"""Seconds that a slot waits for lanes after the first of them has accepted its part of a batch."""

GLANCE: Final = 0.05
"""Seconds that it waits for messages while couriers are on their way, because what they have delivered is to be settled."""

STAY: Final = 1.0
"""Seconds that a slot goes on with a session for which the parking has no room. Each time it is read from its first unsettled message again."""

LEFT_ALONE: Final = 10.0
"""Seconds for which a session that could not be kept for want of memory is not read again, at least."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class FanOut:
    """That of one slot; a `router.receiving.slot.Work`."""

    means: Means
    routing: Routing
    remembered: Remembered
    stop: threading.Event
    pace: Pace
    parking: Parking | None
    _session: Session | None = field(default=None, init=False)

    @property
    def clock(self) -> Callable[[], float]:
        return self.means.clock

    def begin(self, receiver: Receiver, parked: Parked | None) -> None:
        """See `router.receiving.slot.Work`. Raises TransientError when it is not known how far the outputs have come."""
        if parked is not None and isinstance(parked.kept, Session):
            self._session = parked.kept
        else:
            state = self._state(receiver)
            marks, kinds = progress.read(state, self.means.fingerprint, self.means.outputs, self.means.led)
            self._session = Session(receiver, self.means, marks, kept=state is not None, kinds=kinds)
        self._tend(self._session)

    @staticmethod
    def _state(receiver: Receiver) -> bytes | None:
        try:
            return receiver.state()
        except PermanentError as error:
            log.debug("progress not read", session=receiver.session_id, error=error.message)
            return None

    def _mine(self) -> Session:
        assert self._session is not None
        return self._session

    def receive(self, receiver: Receiver, patience: float) -> Sequence[Delivery]:
        """See `router.receiving.slot.Work`. None while no lane would have anything from them soon."""
        session = self._mine()
        self._tend(session)
        if receiver.session_id is not None and not self._reads(session, patience):
            return ()
        wait = min(patience, GLANCE) if session.busy else patience
        found = receiver.receive(max_count=self.pace.batch, max_wait=wait)
        session.drained = not found
        return found

    def _reads(self, session: Session, patience: float) -> bool:
        """Whether to receive more. Puts lanes without room behind, once the others have waited for them long enough."""
        until = self.clock() + patience
        waited = self.clock()
        while not self.stop.is_set():
            full = session.full_lanes()
            going = [lane for lane in session.open_lanes() if lane not in full]
            if session.stopper is not None or self._too_many(session) or (session.lanes and not going):
                if (left := until - self.clock()) <= 0:
                    return False
                session.bell.wait(min(left, LAG))
            elif not full:
                return True
            else:
                for lane in full:
                    if session.blocked(lane) or self.clock() - waited >= self._patience(session, lane):
                        self._fall_behind(session, lane)
                if session.full_lanes():
                    session.bell.wait(LAG / 10)
            self._tend(session)
        return False

    @staticmethod
    def _patience(session: Session, lane: Lane) -> float:
        return math.inf if session.catching(lane) else LAG

    def _fall_behind(self, session: Session, lane: Lane) -> None:
        lane.behind = True
        self._tell_behind(session, lane)

    def _tell_behind(self, session: Session, lane: Lane) -> None:
        why = f"it has accepted nothing of this session for {self.clock() - lane.moved:.1f} s, and holds {len(lane.undone)} messages"
        self.means.behind.fell(lane.output, session.session_id, why)

    def _too_many(self, session: Session) -> bool:
        lane = max(session.lanes, key=lambda lane: lane.skipped, default=None)
        if lane is None or lane.skipped < MOST_SKIPPED:
            return False
        if not lane.told:
            lane.told = True
            log.warning(
                "session waits for an output",
                session=session.session_id,
                output=lane.output,
                messages=lane.skipped,
                hint=f"an output may miss {MOST_SKIPPED} messages of a session before its others wait; make this one accept messages again",
            )
        return True

    def forward(self, receiver: Receiver, deliveries: Sequence[Delivery]) -> None:
        """Put them into the lanes, and wait for those that are prompt."""
        session = self._mine()
        late = {lane.output for lane in session.lanes if lane.undone}
        for delivery in deliveries:
            if not self._put(session, delivery):
                break
        if receiver.session_id is None:
            self._forward_without_session(session)
            return
        prompt = [lane for lane in session.lanes if lane.undone and lane.output not in late]
        self._tend(session)
        until = self.clock() + LAG
        while (left := until - self.clock()) > 0:
            waiting = [lane for lane in prompt if lane.undone and not session.blocked(lane)]
            if not waiting:
                return
            if len(waiting) < len(prompt):
                until, prompt = min(until, self.clock() + EAGER), waiting
            session.bell.wait(left)
            self._tend(session)

    def _put(self, session: Session, delivery: Delivery) -> bool:
        """False: the session stops before this one."""
        found = places(delivery, self.routing, self.means.outputs)
        if isinstance(found, Poison):
            return self._poisoned(session, found)
        stopper = next((place.poison for place in found if place.poison is not None and place.poison.stops), None)
        if stopper is not None and self.means.strict:
            return self._poisoned(session, stopper)
        had: frozenset[str] = frozenset()
        if session.receiver.session_id is None:
            had = self.remembered.take(delivery.position, delivery.message.message_id, partial(self._way, delivery))
        session.put(delivery, found, had)
        if not found:
            self.means.tally.count_filtered(1)
        return True

    def _poisoned(self, session: Session, poison: Poison) -> bool:
        if poison.stops and self.means.strict and session.receiver.session_id is not None:
            session.stopper = session.stopper or poison
            return False
        session.put_poison(poison)
        return True

    def _forward_without_session(self, session: Session) -> None:
        """All of them, or give the rest back: without a session, what is held has a lock each, and nothing is received beyond it."""
        left, deadline = math.inf, self.clock() + self.pace.turn
        self._tend(session)
        while held := len(session.held()):
            if held < left:
                left, deadline = held, self.clock() + self.pace.turn
            if self.stop.is_set() or self.clock() >= deadline:
                self._give_back(session)
            session.bell.wait(min(1.0, max(0.0, deadline - self.clock())))
            self._tend(session)

    def _give_back(self, session: Session) -> NoReturn:
        session.give_up(keeps=False)
        owing = session.owing()
        for delivery, outputs in owing.items():
            ways = {output: self._way(delivery, output) for output in outputs}
            self.remembered.note(delivery.position, delivery.message.message_id, ways)
        session.receiver.release(list(owing))
        raise SessionGone("the router stops, or its outputs are unavailable")

    def _way(self, delivery: Delivery, output: str) -> str:
        """Differs when the message might reach the output differently."""
        kind = kind_of(delivery)
        return self.routing.led(output, () if kind is None else (kind,))

    # What the slot does now and then

    def _tend(self, session: Session) -> None:
        """Settle what is finished, see how the lanes stand, keep the lock, and start couriers."""
        session.visited()
        self._settle(session)
        self._look_at_lanes(session)
        held = session.held()
        session.receiver.renew(held)
        self.means.tally.turn()
        if self.stop.is_set():
            return
        left = session.receiver.lock_left(held)
        session.send(left, reserve(left))
        if session.stopper is None:
            session.stopper = session.refusal()
        if session.stopper is not None and session.stops_now():
            self._stop_there(session, session.stopper)
        session.keep_if_due()

    def _settle(self, session: Session) -> None:
        done, poisoned = list[Entry](), list[Entry]()
        for entry in session.finished():
            (done if entry.poison is None else poisoned).append(entry)
        if done:
            lost = session.receiver.settle_many([entry.delivery for entry in done])
            if lost:
                self.means.tally.count_lost_locks(len(lost))
            if lost and session.receiver.session_id is not None:
                raise SessionGone(f"the lock was lost before {len(lost)} messages were completed")
        for entry in poisoned:
            assert entry.poison is not None
            self._dead_letter(session, *entry.poison)
        session.unpin()

    def _dead_letter(self, session: Session, poison: Poison, output: str) -> None:
        session.receiver.renew(session.held() or [poison.delivery])
        message = poison.delivery.message
        session.receiver.dead_letter(poison.delivery, reason=poison.reason, description=poison.description)
        session.dead_lettered(poison.delivery)
        self.means.tally.count_dead_letter(poison.reason)
        log.warning(
            "message dead-lettered",
            reason=poison.reason,
            description=poison.description,
            message_id=message.message_id,
            session=message.session_id,
            output=output or None,
        )

    def _look_at_lanes(self, session: Session) -> None:
        for lane in session.caught_up():
            if not lane.skipped:
                lane.behind = False
        missing = session.reread_for()
        if missing is not None:
            progressed = missing.taken >= ROOM_MESSAGES / 2
            means, now = self.means, self.clock()
            means.rereads.begin(session.session_id, now, missing.output, means.made, progressed=progressed)
            raise SessionGone(f"it is read again from its first unsettled message, for output {missing.output}")
        if session.level:
            self.means.behind.level(session.session_id, *self.means.outputs)
            if session.kept:
                session.keep()
        else:
            level = [lane.output for lane in session.lanes if lane.level and not session.short(lane)]
            self.means.behind.level(session.session_id, *level)

    def _wait_for_prompt(self, session: Session) -> None:
        """For what is about to be accepted, so that few messages are sent twice."""
        until = self.clock() + LAG
        while (left := until - self.clock()) > 0 and any(
            lane.undone and not session.blocked(lane) for lane in session.lanes
        ):
            session.bell.wait(left)
            self._settle(session)

    def _stop_there(self, session: Session, poison: Poison) -> None:
        session.give_up(keeps=True)
        log.error(
            "session stopped at a poisoned message",
            session=session.session_id,
            message_id=poison.delivery.message.message_id,
            reason=poison.reason,
            description=poison.description.removesuffix(f", {COPY}"),
            hint="this session goes on after a restart, or when the configuration names other topics; fix what refuses the message, "
            'or set router.on_poison = "dead_letter"',
        )
        if self.parking is not None and self.parking.hold(session.receiver):
            self._session = None
            raise SessionParked
        raise SessionGone("it stopped at a poisoned message")

    # The end of a turn

    def end(self, receiver: Receiver) -> None:
        """See `router.receiving.slot.Work`. A session that is ahead of an output is parked: closing it would make all of it come again."""
        session = self._mine()
        if receiver.session_id is None:
            return
        self._wait_for_prompt(session)
        self._settle(session)
        if self.stop.is_set() or (session.level and not session.undone):
            return
        self._park(session)
        if not session.open_lanes() and self._remembered(session):
            raise SessionGone("its outputs are unavailable, and its messages take too much memory to keep")
        self._stay(session)

    def _remembered(self, session: Session) -> bool:
        """Whether it is recognised when it comes again. Closed, it must not come over and over."""
        senders, until = session.waited_for(), self.clock() + LEFT_ALONE
        return self.parking is not None and self.parking.remember(
            session.session_id,
            lambda: self.clock() >= until and min((sender.pause() for sender in senders), default=0.0) <= 0,
        )

    def _park(self, session: Session) -> None:
        """Raises SessionParked if there is room."""
        for lane in session.lanes:
            if not lane.level:
                self._tell_behind(session, lane)
        session.keep_if_due()
        if self._parked(session):
            self._session = None
            raise SessionParked

    def _parked(self, session: Session) -> bool:
        if self.parking is None:
            return False
        parked = Parked(session.receiver, (), session.ready, session)
        if self.parking.park(parked):
            return True
        if not self.parking.has_room:
            return False
        session.shed()  # there is room, so there is no memory
        return self.parking.park(parked)

    def _stay(self, session: Session) -> None:
        """No room: it is closed with its state soon, because others wait for a slot, too. Where nothing can be done with any of them it stays:
        closed, it would come again at once, and be read for nothing."""
        began = self.clock()
        while (stayed := self.clock() - began) < self.pace.turn and not self.stop.is_set() and not session.level:
            if stayed >= STAY and (session.open_lanes() or self._others_press()):
                return
            if found := self.receive(session.receiver, self.pace.poll):
                self.forward(session.receiver, found)

    def _others_press(self) -> bool:
        return self.parking is not None and self.parking.anyone_pressing()

    def let_go(self, *, keeps: bool) -> None:
        """See `router.receiving.slot.Work`."""
        session, self._session = self._session, None
        if session is not None:
            patience = AT_A_STOP if self.stop.is_set() else CALLS_END
            session.give_up(keeps=keeps and session.receiver.session_id is not None, patience=patience)
