"""Hands a batch of one session over to its topics: plan, send, settle; park or give back what a topic does not accept.

A message is completed only after its topic accepted it, and a message in doubt comes again. Order holds within a session because `forward`
and `deliver` return only when everything is settled. A session whose topic is unavailable is parked with the rest of its
batch (router/receiving/parking.py).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import structlog

from common.bus.ports import Delivery, MessageRefused, OutOfTime, Receiver, SendInterrupted
from router.chunks import leading, reserve, together
from router.publishing.awaited import TopicSender
from router.publishing.publishers import Publishers
from router.receiving.pace import Pace
from router.receiving.parking import Parked, Parking
from router.receiving.refusals import reason_of
from router.routes import COPY, BatchPlan, Group, Poison, before, explained, plan, runs, without
from router.settings import OnPoison
from router.tally import Tally

log = structlog.get_logger(__name__)


class SessionGone(Exception):
    """This receiver is of no further use: close it and take the next. The text gives the reason."""


class SessionParked(Exception):
    """This receiver belongs to the parking now: leave it alone."""


@dataclass(slots=True)
class Handover:
    """That of one slot. `parking`: None where a slot waits with a session whose topic is unavailable."""

    publishers: Publishers
    stop: threading.Event
    pace: Pace
    tally: Tally
    clock: Callable[[], float]
    parking: Parking | None
    on_poison: OnPoison

    def begin(self, receiver: Receiver, parked: Parked | None) -> None:
        """See `router.receiving.slot.Work`."""
        self.deliver(receiver, () if parked is None else parked.groups)

    def receive(self, receiver: Receiver, patience: float) -> Sequence[Delivery]:
        return receiver.receive(max_count=self.pace.batch, max_wait=patience)

    def end(self, receiver: Receiver) -> None:
        """Everything that was received is handed over."""

    def let_go(self, *, keeps: bool) -> None:
        """Nothing is kept between two batches."""

    def forward(self, receiver: Receiver, deliveries: Sequence[Delivery]) -> None:
        """Send and settle all of a batch, or raise: SessionGone and TransientError leave the rest to come again."""
        behind = len(deliveries)
        for decided in self._plans(receiver, deliveries):
            held = [*(poison.delivery for poison in decided.poison), *_all_of(decided.groups)]
            for at, poison in enumerate(decided.poison):
                self._put_aside(receiver, poison, held[at:])
            behind -= len(decided.poison) + sum(len(group.deliveries) for group in decided.groups)
            self.deliver(receiver, decided.groups, parks=behind == 0)

    def _plans(self, receiver: Receiver, deliveries: Sequence[Delivery]) -> Iterator[BatchPlan]:
        """One plan for all. When the first poison ends the session, one for each run of neighbours, so that nothing is sent before its turn."""
        decided = plan(deliveries, self.publishers.topics)
        if asked := [poison.topic for poison in decided.poison if poison.topic is not None]:
            refused = self.publishers.admit(asked)
            decided = plan(deliveries, self.publishers.topics)
            decided = replace(decided, poison=tuple(explained(poison, refused) for poison in decided.poison))
        if not self._stops_at_poison(receiver):
            yield decided
            return
        stopper = next((poison for poison in decided.poison if poison.stops), None)
        whole = deliveries if stopper is None else before(deliveries, stopper)
        yield from runs(whole, self.publishers.topics)
        if stopper is not None:
            yield BatchPlan((), (stopper,))

    def _stops_at_poison(self, receiver: Receiver) -> bool:
        return self.on_poison == "stop" and receiver.session_id is not None

    def deliver(self, receiver: Receiver, planned: Sequence[Group], *, parks: bool = True) -> None:
        """`parks`: False when more was received than `planned`, because later messages would pass the rest."""
        groups, held = list(planned), math.inf
        while groups:
            # Available topics go first, so that an unavailable one holds up only its own messages.
            groups.sort(key=lambda group: self.publishers[group.topic].pause())
            groups = self._round(receiver, groups)
            if groups:
                left_over = sum(len(group.deliveries) for group in groups)
                if left_over < held:  # a topic that accepts something now and then is not unavailable
                    held, deadline = left_over, self.clock() + self.pace.turn
                self._wait(receiver, groups, deadline, parks=parks)

    def _round(self, receiver: Receiver, groups: Sequence[Group]) -> list[Group]:
        """Send each group as far as its topic accepts it now; returns the rest."""
        left: list[Group] = []
        for at, group in enumerate(groups):
            others = [delivery for other in (*left, *groups[at + 1 :]) for delivery in other.deliveries]
            if (rest := self._send(receiver, group, others)) is not None:
                left.append(rest)
        return left

    def _send(self, receiver: Receiver, group: Group, others: Sequence[Delivery]) -> Group | None:
        """Send and settle chunk by chunk, and renew all locks in between. Returns what must be tried again, or None."""
        publisher, rest, first = self.publishers[group.topic], group, True
        while publisher.pause() <= 0:
            held = [*rest.deliveries, *others]
            if not first:
                self._give_back_at_a_stop(receiver, held)
            receiver.renew(held)
            chunk, behind = leading(rest, publisher.chunk_bytes)
            unsent = self._send_chunk(receiver, publisher, chunk, held)
            if unsent is not None:
                return together(unsent, behind)
            if behind is None:
                return None
            rest, first = behind, False
        return rest

    def _send_chunk(
        self, receiver: Receiver, publisher: TopicSender, chunk: Group, held: Sequence[Delivery]
    ) -> Group | None:
        """What is left of the chunk."""
        end = reserve(receiver.lock_left(held))

        def left() -> float:
            return math.inf if receiver.lock_left(chunk.deliveries) > end else 0.0

        def meanwhile() -> None:
            self._give_back_at_a_stop(receiver, held)
            receiver.renew(held)

        messages = [delivery.message for delivery in chunk.deliveries]
        try:
            if not publisher.send(messages, left=left, meanwhile=meanwhile):
                return chunk
        except MessageRefused as error:
            return self._around(receiver, chunk, error, held)
        except SendInterrupted as error:
            if not isinstance(error, OutOfTime):
                self.tally.count_retry(self.publishers.label(chunk.topic))
            self._settle_accepted(receiver, chunk, error.accepted)
            return without(chunk, error.accepted)
        self._settle(receiver, publisher, chunk.deliveries)
        return None

    def _give_back_at_a_stop(self, receiver: Receiver, held: Sequence[Delivery]) -> None:
        if self.stop.is_set():
            self._give_back(receiver, held, "the router stops")

    @staticmethod
    def _give_back(receiver: Receiver, held: Sequence[Delivery], why: str) -> NoReturn:
        """Raises SessionGone. Without sessions each message is given back; closing a session gives back all of its messages, in order."""
        if receiver.session_id is None:
            receiver.release(held)
        raise SessionGone(why)

    def _settle_accepted(self, receiver: Receiver, group: Group, accepted: Collection[int]) -> None:
        """Settle the deliveries of a group that the topic has accepted, by their places in it."""
        done = [group.deliveries[at] for at in sorted(accepted)]
        self._settle(receiver, self.publishers[group.topic], done)

    def _around(
        self, receiver: Receiver, group: Group, error: MessageRefused, held: Sequence[Delivery]
    ) -> Group | None:
        """A message that the topic cannot accept is poison. Those accepted before it are settled, the others are still to be sent.

        `held` begins with the group's deliveries.
        """
        self._settle_accepted(receiver, group, error.accepted)
        left = [delivery for at, delivery in enumerate(held) if at not in error.accepted]
        self._put_aside(receiver, Poison(group.deliveries[error.at], reason_of(error), error.message), left)
        return without(group, {*error.accepted, error.at})

    def _settle(self, receiver: Receiver, publisher: TopicSender, deliveries: Sequence[Delivery]) -> None:
        if not deliveries:
            return
        lost = receiver.settle_many(deliveries)
        self.tally.count_routed(publisher.topic, len(deliveries), lost=len(lost))
        if lost and receiver.session_id is not None:
            raise SessionGone(f"the lock was lost before {len(lost)} messages were completed")

    def _put_aside(self, receiver: Receiver, poison: Poison, held: Sequence[Delivery]) -> None:
        """Dead-letter it, or stop its session there: raises SessionParked, or SessionGone while the router stops.

        `held`: what else is not settled, and the poison. Each costs an answer of the broker, and there may be hundreds.
        """
        self._give_back_at_a_stop(receiver, held)
        receiver.renew(held)
        message = poison.delivery.message
        if poison.stops and self._stops_at_poison(receiver):
            log.error(
                "session stopped at a poisoned message",
                session=receiver.session_id,
                message_id=message.message_id,
                reason=poison.reason,
                description=poison.description.removesuffix(f", {COPY}"),
                hint="this session goes on after a restart, or when the configuration names other topics; fix what refuses the message, "
                'or set router.on_poison = "dead_letter"',
            )
            if self.parking is not None and self.parking.hold(receiver):
                raise SessionParked
            raise SessionGone("it stopped at a poisoned message")
        receiver.dead_letter(poison.delivery, reason=poison.reason, description=poison.description)
        self.tally.count_dead_letter(poison.reason)
        log.warning(
            "message dead-lettered",
            reason=poison.reason,
            description=poison.description,
            message_id=message.message_id,
            session=message.session_id,
        )

    def _wait(self, receiver: Receiver, groups: Sequence[Group], deadline: float, *, parks: bool) -> None:
        """Wait until a topic may be tried again, and keep the locks; give everything back at a stop or when the turn is over."""
        pause = self._pause(groups)
        if parks and pause > self.pace.linger and self._parked(receiver, groups):
            raise SessionParked
        until = self.clock() + pause
        held = _all_of(groups)
        while True:  # checked first: a send that a stop ended is not the topic's fault, and leaves nothing to wait for
            self._give_back_at_a_stop(receiver, held)
            if until > deadline:
                self._give_back(receiver, held, "its topic is unavailable")
            if (left := until - self.clock()) <= 0:
                return
            self.stop.wait(min(left, 1.0))
            receiver.renew(held)

    def _parked(self, receiver: Receiver, groups: Sequence[Group]) -> bool:
        """Raises SessionGone when the session must be parked without its received messages: it is closed, and parked when it comes again."""
        session = receiver.session_id
        if self.parking is None or session is None:
            return False
        ready = self._ready_when([group.topic for group in groups])
        if self.parking.park(Parked(receiver, tuple(groups), ready)):
            return True
        if self.parking.remember(session, ready):
            raise SessionGone("its topic is unavailable, and its messages take too much memory to keep")
        return False

    def _ready_when(self, topics: Sequence[str]) -> Callable[[], bool]:
        return lambda: min(self.publishers[topic].pause() for topic in topics) <= 0

    def _pause(self, groups: Sequence[Group]) -> float:
        return min(self.publishers[group.topic].pause() for group in groups)


def _all_of(groups: Sequence[Group]) -> list[Delivery]:
    return [delivery for group in groups for delivery in group.deliveries]
