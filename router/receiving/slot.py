"""The loop of one slot: take a session, receive, hand over, and give it up when it is idle or had its turn.

Nothing is hidden, and nothing is sent twice on purpose. Order holds within a session because a slot receives again only when all of
a batch is handed over (router/receiving/handover.py). When a session is parked, the slot takes another.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from common.bus.ports import Delivery, Receiver, Receivers
from common.bus.throttling import ThrottleLog
from common.errors import Throttled, TransientError
from common.retry import Backoff
from router.publishing.publishers import Publishers
from router.receiving.gate import SLOW, Gate
from router.receiving.handover import Handover, SessionGone, SessionParked
from router.receiving.interruption import Interruption
from router.receiving.pace import Pace
from router.receiving.parking import Parked, Parking
from router.receiving.troubled import Troubled, ready_after
from router.settings import OnPoison
from router.tally import Tally

SOURCE_BACKOFF = Backoff(first=0.5, longest=15.0)

GLANCE = 0.02
"""Seconds to wait for the first message of a parked session that is visited: there may be many of them."""

ANSWERED_AFTER = 0.5
"""Seconds that a request for a session stays open at least, although parked sessions have something to do: a broker that is far away could never
answer otherwise, and no new session would be opened."""

ASKED_EVERY = 2.0
"""Seconds after a request without an answer in which parked sessions are visited without another request in between."""

FULL_EVERY = 1.0
"""Seconds in which a slot visits parked sessions when there is no room for another, as long as they need it."""

log = structlog.get_logger(__name__)


class Work(Protocol):
    """What a slot does with the messages of a session, one session at a time. Each may raise SessionGone, SessionParked or TransientError."""

    def begin(self, receiver: Receiver, parked: Parked | None) -> None:
        """A session was opened, or is taken up again as it was parked."""
        ...

    def receive(self, receiver: Receiver, patience: float) -> Sequence[Delivery]:
        """The next messages, or none within so many seconds."""
        ...

    def forward(self, receiver: Receiver, deliveries: Sequence[Delivery]) -> None:
        """Hand all of them over, or see to it that they come again."""
        ...

    def end(self, receiver: Receiver) -> None:
        """The session's turn is over, and it is closed next."""
        ...

    def let_go(self, *, keeps: bool) -> None:
        """The session is closed next, whatever has become of it; `keeps`: its receiver seems to work. Never raises."""
        ...


@dataclass(slots=True)
class Forwarder:
    """One slot. `run` in a thread of its own; slots share publishers, gate, tally, parking and stop."""

    receivers: Receivers
    publishers: Publishers
    stop: threading.Event
    sessions: bool
    pace: Pace = field(default_factory=Pace)
    gate: Gate = field(default_factory=Gate)
    tally: Tally = field(default_factory=Tally)
    backoff: Backoff = SOURCE_BACKOFF
    clock: Callable[[], float] = time.monotonic
    parking: Parking | None = None
    """None: a slot waits with a session whose topic is unavailable."""
    on_poison: OnPoison = "dead_letter"
    throttling: ThrottleLog = field(default_factory=ThrottleLog)
    """Of the namespace that is received from."""
    troubled: Troubled = field(default_factory=Troubled)
    interruption: Interruption = field(default_factory=Interruption)
    fan_out: Callable[[], Work] | None = None
    """Makes what hands over to several outputs; None: there is one."""
    _handover: Work = field(init=False)
    _asks: bool = field(default=False, init=False)
    """It asks for a session next, whatever is parked."""
    _asked_at: float = field(default=-math.inf, init=False)

    def __post_init__(self) -> None:
        self._handover = self.fan_out() if self.fan_out is not None else self._of_one_output()

    def _of_one_output(self) -> Handover:
        return Handover(self.publishers, self.stop, self.pace, self.tally, self.clock, self.parking, self.on_poison)

    def run(self) -> None:
        """Runs until `stop`. Raises PermanentError for a queue that is missing, not permitted, or of the wrong kind."""
        failures = 0
        while not self.stop.is_set():
            self.tally.turn()
            try:
                parked = self._taken()
                if parked is not None:
                    self._asks = parked.kept is not None and self._should_ask()
                    with self.tally.working():
                        self._work(parked.receiver, parked)
                elif (receiver := self._next()) is not None and not self._parked_unread(receiver):
                    with self.tally.working():
                        self._work(receiver, None)
                failures = 0
                self.throttling.look()
            except TransientError as error:
                failures += 1
                if isinstance(error, Throttled):
                    self.throttling.refused(error.message)
                    self.tally.count_throttled()
                else:
                    self.interruption.failed(error)
                self.stop.wait(self.backoff.delay(failures))

    def _taken(self) -> Parked | None:
        """A parked session that may go on. Those with several outputs are visited again and again: in between, a slot asks for another session, or
        none would ever be opened."""
        asks, self._asks = self._asks, False
        return self.parking.take_ready() if self.parking is not None and not asks else None

    def _should_ask(self) -> bool:
        if self.parking is None or self.gate.nobody_waits(within=ASKED_EVERY):
            return False
        late = self.clock() - self._asked_at >= FULL_EVERY
        return late or self.parking.has_room or not self.parking.anyone_pressing()

    def _parked_unread(self, receiver: Receiver) -> bool:
        return self.parking is not None and self.parking.park_unread(receiver)

    def _next(self) -> Receiver | None:
        if not self.sessions:
            return self.receivers.open(max_wait=self.pace.accept_wait)
        patience = 0.0 if self.parking is not None and self.parking.anyone_ready() else self.pace.poll
        question = self.gate.enter(self.stop, patience, first=self.pace.accept_wait, longest=self.pace.longest_wait)
        if question is None:
            return None
        try:
            receiver = self.receivers.open(max_wait=question.wait, give_up=self._impatient())
        except BaseException:
            self.gate.leave(question, found=False, failed=True)
            raise
        self.gate.leave(question, found=receiver is not None)
        if receiver is None and not self._has_other_work():  # nothing came, and not for want of patience
            self.interruption.answered()
        return receiver

    def _impatient(self) -> Callable[[], bool]:
        """Whether a request that begins now is to be given up: not before an answer would have come if a session were waiting."""
        self._asked_at = self.clock()
        until = self._asked_at + min(self.pace.accept_wait, max(ANSWERED_AFTER, SLOW * self.gate.opening))
        return lambda: self.stop.is_set() or (self.clock() >= until and self._has_other_work())

    def _has_other_work(self) -> bool:
        return self.stop.is_set() or (self.parking is not None and self.parking.anyone_pressing())

    def _work(self, receiver: Receiver, parked: Parked | None) -> None:
        """From the rest of an earlier batch to the end of the session's turn."""
        try:
            self._handover.begin(receiver, parked)
            self._drain(receiver, visited=parked is not None and parked.kept is not None)
            self._handover.end(receiver)
            self._well(receiver)
        except SessionParked:
            return
        except SessionGone as reason:
            log.debug("session given up", session=receiver.session_id, reason=str(reason))
        except TransientError as error:
            left_alone = self._left_alone(receiver, error)  # before it is closed, or another slot has it at once
            self._handover.let_go(keeps=False)
            receiver.close()
            if not left_alone:
                raise
            self.stop.wait(self.backoff.delay(1))
            return
        except BaseException:
            self._handover.let_go(keeps=False)
            receiver.close()
            raise
        self._handover.let_go(keeps=True)
        receiver.close()

    def _left_alone(self, receiver: Receiver, error: TransientError) -> bool:
        """Whether a session that failed again is parked for its own back-off, so that the slot need not wait for it."""
        session = receiver.session_id
        if self.parking is None or session is None or isinstance(error, Throttled):
            return False
        failures = self.troubled.failed(session, self.clock())
        if failures == 1 or not self.parking.remember(session, ready_after(self.backoff, failures, self.clock)):
            return False
        if failures == 2:
            log.warning(
                "session fails again and again",
                session=session,
                error=error.message,
                hint=error.hint or "it is tried again with longer and longer pauses, and the others go on",
            )
        return True

    def _well(self, receiver: Receiver) -> None:
        failures = self.troubled.well(receiver.session_id or "")
        if failures > 1:
            log.info("session works again", session=receiver.session_id, failures=failures)

    def _drain(self, receiver: Receiver, *, visited: bool) -> None:
        began = heard = self.clock()
        fresh = not visited  # Service Bus hands out sessions that hold messages: the first are worth waiting for
        while not self.stop.is_set():
            patience = self.pace.poll if fresh else self._patience()
            deliveries = self._handover.receive(receiver, min(patience, GLANCE) if visited else patience)
            if deliveries:
                self._handover.forward(receiver, deliveries)
                heard, fresh, visited = self.clock(), False, False
            self.interruption.answered()
            if self.sessions and (self._had_enough(began, heard) or (visited and self._others_may_wait())):
                return
            receiver.renew(())

    def _others_may_wait(self) -> bool:
        parked = self.parking is not None and self.parking.anyone_ready()
        return parked or not self.gate.nobody_waits(within=self.pace.poll)

    def _patience(self) -> float:
        """Seconds to wait for the next message of an open session."""
        return (
            min(self.pace.poll, SLOW * self.gate.opening)
            if self.sessions and self._others_may_wait()
            else self.pace.poll
        )

    def _had_enough(self, began: float, heard: float) -> bool:
        now = self.clock()
        if not self._others_may_wait():
            return now - heard >= self.pace.idle
        return now - heard >= self._patience() or now - began >= self.pace.turn
