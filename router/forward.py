"""The loop of one slot: take a session, receive, plan, send, settle; give it up when it is idle or had its turn.

A message is completed only after the topic accepted it. What is in doubt is left to come again: nothing is hidden, nothing is
sent twice on purpose. Order holds within a session because a slot goes on only when all of a batch is sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from common.bus import Delivery, MessageTooLarge, Receiver, Receivers
from common.errors import TransientError
from common.retry import Backoff
from router.publishers import Publisher, Publishers
from router.routes import Group, Poison, plan, without
from router.tally import Tally

SOURCE_BACKOFF = Backoff(first=0.5, longest=15.0)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a slot stays with what it has; seconds."""

    batch: int = 200
    """Most messages planned, sent and settled together."""
    accept_wait: float = 3.0
    """Waiting for a session with messages. It delays a stop by as much, and costs a connection each time it ends empty."""
    poll: float = 0.25
    """Waiting for messages of an open session before looking at the stop again. A session that stays empty for it is given
    up while others may be waiting, so that many tables share the slots."""
    idle: float = 10.0
    """A session that is empty for so long is given up even when nobody waits; until then its next message comes at once."""
    turn: float = 30.0
    """A session is given up after so long while others may be waiting, and a destination's outage holds a slot no longer."""


class Gate:
    """Keeps idle slots from all asking for sessions at once: while there is nothing to do, one of them asks for all.

    Each question is a connection; eight of them every five seconds for nothing would be noise on the wire and in the bill.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asking = threading.Lock()
        self._guard = threading.Lock()
        self._idle = False
        self._last_empty = float("-inf")

    def enter(self, stop: threading.Event, patience: float) -> bool | None:
        """Whether the caller asks on behalf of all (True) or for itself (False); None: not its turn, ask again later."""
        if not self._idle:
            return False
        if self._asking.acquire(timeout=patience):
            if not stop.is_set():
                return True
            self._asking.release()
        return None

    def leave(self, for_all: bool, *, found: bool) -> None:
        with self._guard:
            self._idle = not found
            if not found:
                self._last_empty = self._clock()
        if for_all:
            self._asking.release()

    def nobody_waits(self, within: float) -> bool:
        """Whether in the last `within` seconds someone asked for a session and there was none: then all have a slot."""
        return self._clock() - self._last_empty <= within


class SessionGone(Exception):
    """This receiver is of no more use: close it and take the next. The text says why."""


@dataclass(slots=True)
class Forwarder:
    """One slot. `run` in a thread of its own; slots share publishers, gate, tally and stop."""

    receivers: Receivers
    publishers: Publishers
    stop: threading.Event
    sessions: bool
    pace: Pace = field(default_factory=Pace)
    gate: Gate = field(default_factory=Gate)
    tally: Tally = field(default_factory=Tally)
    backoff: Backoff = SOURCE_BACKOFF
    clock: Callable[[], float] = time.monotonic

    def run(self) -> None:
        """Until `stop`. Raises PermanentError for a queue that is missing, not permitted, or of the wrong kind."""
        failures = 0
        while not self.stop.is_set():
            try:
                receiver = self._next()
                if receiver is not None:
                    self._work(receiver)
                failures = 0
            except TransientError as error:
                failures += 1
                if failures == 1:
                    log.warning("receiving interrupted", error=error.message, hint=error.hint)
                self.stop.wait(self.backoff.delay(failures))

    def _next(self) -> Receiver | None:
        if not self.sessions:
            return self.receivers.open(max_wait=self.pace.accept_wait)
        for_all = self.gate.enter(self.stop, self.pace.poll)
        if for_all is None:
            return None
        receiver = None
        try:
            receiver = self.receivers.open(max_wait=self.pace.accept_wait)
        finally:
            self.gate.leave(for_all, found=receiver is not None)
        return receiver

    def _work(self, receiver: Receiver) -> None:
        try:
            self._drain(receiver)
        except SessionGone as reason:
            log.debug("session given up", session=receiver.session_id, reason=str(reason))
        finally:
            receiver.close()

    def _drain(self, receiver: Receiver) -> None:
        began = heard = self.clock()
        while not self.stop.is_set():
            deliveries = receiver.receive(max_count=self.pace.batch, max_wait=self.pace.poll)
            if deliveries:
                self._forward(receiver, deliveries)
                heard = self.clock()
            if self.sessions and self._had_enough(began, heard):
                return
            receiver.renew(())

    def _had_enough(self, began: float, heard: float) -> bool:
        now = self.clock()
        # An answer is as old as the question that is under way, and a slot's way there.
        if self.gate.nobody_waits(self.pace.accept_wait + 2.0):
            return now - heard >= self.pace.idle
        return now - heard >= self.pace.poll or now - began >= self.pace.turn

    def _forward(self, receiver: Receiver, deliveries: Sequence[Delivery]) -> None:
        """Send and settle all of a batch, or raise: SessionGone and TransientError leave the rest to come again."""
        decided = plan(deliveries, self.publishers.topics)
        for poison in decided.poison:
            self._dead_letter(receiver, poison)
        groups = list(decided.groups)
        deadline = self.clock() + self.pace.turn
        while groups:
            # Those that are well go first, so that a destination that is away holds up only its own.
            groups.sort(key=lambda group: self.publishers[group.destination].pause())
            groups = [left for group in groups if (left := self._send(receiver, group)) is not None]
            if groups:
                self._wait(receiver, groups, deadline)

    def _send(self, receiver: Receiver, group: Group) -> Group | None:
        """Send and settle; what is left of the group to be tried again, or None."""
        publisher = self.publishers[group.destination]
        if publisher.pause() > 0:
            return group
        try:
            publisher.send([delivery.message for delivery in group.deliveries])
        except MessageTooLarge as error:
            return self._around(receiver, group, error)
        except TransientError:
            self.tally.count_retry(group.destination)
            return group
        self._settle(receiver, publisher, group.deliveries)
        return None

    def _around(self, receiver: Receiver, group: Group, error: MessageTooLarge) -> Group | None:
        """A message that the topic cannot take is poison; what was accepted before it is settled, the others are still to be sent."""
        accepted = {id(message) for message in error.accepted}
        done = [delivery for delivery in group.deliveries if id(delivery.message) in accepted]
        self._settle(receiver, self.publishers[group.destination], done)
        refused = [delivery for delivery in group.deliveries if delivery.message is error.refused]
        for delivery in refused:
            self._dead_letter(receiver, Poison(delivery, "MessageTooLarge", error.message))
        return without(group, {id(delivery) for delivery in (*done, *refused)})

    def _settle(self, receiver: Receiver, publisher: Publisher, deliveries: Sequence[Delivery]) -> None:
        if not deliveries:
            return
        lost = receiver.settle_many(deliveries)
        self.tally.count_routed(publisher.topic, len(deliveries), lost=len(lost))
        if lost and receiver.session_id is not None:
            raise SessionGone(f"the lock was lost before {len(lost)} messages were completed")

    def _dead_letter(self, receiver: Receiver, poison: Poison) -> None:
        message = poison.delivery.message
        receiver.dead_letter(poison.delivery, reason=poison.reason, description=poison.description)
        self.tally.count_dead_letter(poison.reason)
        log.warning(
            "message dead-lettered",
            reason=poison.reason,
            description=poison.description,
            message_id=message.message_id,
            session=message.session_id,
        )

    def _wait(self, receiver: Receiver, groups: Sequence[Group], deadline: float) -> None:
        """Until a destination may be tried again, holding the locks; gives everything back at a stop or when the turn is over."""
        pause = min(self.publishers[group.destination].pause() for group in groups)
        until = self.clock() + pause
        held = [delivery for group in groups for delivery in group.deliveries]
        while (left := until - self.clock()) > 0:
            if until > deadline or self.stop.wait(min(left, 1.0)):
                if receiver.session_id is None:  # a session's messages are all given back by closing it, in their order
                    receiver.release(held)
                raise SessionGone("its destination is away")
            receiver.renew(held)
