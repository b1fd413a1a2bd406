"""Couriers: threads that send what the lanes hold, one lane at a time, so that an output without an answer keeps no slot busy.

A courier sends chunk by chunk, and stops at the first trouble: the slot starts one again when the output may be tried. It settles nothing, and
touches no receiver: how long the lock lasts is a number that the slot keeps.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from common.bus.ports import MessageRefused, OutOfTime, SendInterrupted
from router.hands import Hands
from router.publishing.awaited import TopicSender
from router.receiving.fan_out.lanes import Entry, Item, Lane
from router.receiving.refusals import reason_of
from router.routes import Poison
from router.tally import Tally

PATIENCE: Final = 2.0
"""Seconds that a courier waits for its turn at a topic: behind one that gets no answer, couriers of other topics would have no thread."""

AGAIN: Final = 1.0
"""Seconds until a courier looks again at a topic that another one is trying."""

REST: Final = 5.0
"""Seconds until it queues again."""


class Bell(Protocol):
    """Wakes the slot of a session."""

    def ring(self) -> None: ...

    def wait(self, seconds: float) -> None:
        """Until it rings, or rang since the last wait; at most so long."""
        ...


class Couriers(Protocol):
    """Where lanes get their threads, shared by the slots."""

    def start(self, output: str, job: Callable[[], None]) -> None: ...

    def bell(self) -> Bell: ...


class EventBell:
    def __init__(self) -> None:
        self._event = threading.Event()

    def ring(self) -> None:
        self._event.set()

    def wait(self, seconds: float) -> None:
        self._event.wait(seconds)
        self._event.clear()


class ThreadedCouriers:
    """Up to `most` daemon threads an output: what hangs at one output leaves the others theirs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._hands: dict[str, Hands] = {}

    def start(self, output: str, job: Callable[[], None]) -> None:
        hands = self._hands.get(output)
        if hands is None:
            with self._guard:
                hands = self._hands.setdefault(output, Hands(self._most, f"courier-{output}"))
        hands.do(job)

    def close(self) -> None:
        """Nothing is started after this; each thread ends with the call that it is in."""
        with self._guard:
            hands = list(self._hands.values())
        for each in hands:
            each.finish(0.0)

    def bell(self) -> Bell:
        return EventBell()


class Attempts:
    """Which topics failed the last time: one courier tries such a topic again, and the others have no thread of its output meanwhile."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._failed: dict[tuple[str, str], bool] = {}
        """Whether somebody tries it now."""

    def begin(self, output: str, topic: str) -> bool:
        """False: another courier is trying it."""
        if not self._failed:  # without the lock, because hardly any fails
            return True
        with self._guard:
            trying = self._failed.get((output, topic))
            if trying is not None:
                self._failed[output, topic] = True
            return not trying

    def end(self, output: str, topic: str, *, failed: bool) -> None:
        if not failed and not self._failed:
            return
        with self._guard:
            if failed:
                self._failed[output, topic] = False
            else:
                self._failed.pop((output, topic), None)


class _NoTurn(Exception):
    """Others have the topic for too long, or the session is given up."""


@dataclass(frozen=True, slots=True)
class Courier:
    """Sends for one session. `until`: returns the moment of `clock` after which no batch may begin; `finished` gets what every target has."""

    clock: Callable[[], float]
    until: Callable[[], float]
    finished: Callable[[Sequence[Entry]], None]
    bell: Bell
    tally: Tally
    attempts: Attempts

    def job(self, lane: Lane) -> Callable[[], None]:
        return partial(self._carry, lane)

    def _carry(self, lane: Lane) -> None:
        try:
            while self._carry_chunk(lane):
                pass
        except _NoTurn:
            lane.not_before = self.clock() + REST
        except BaseException as error:
            lane.error = error
        finally:
            with lane.guard:
                lane.busy = False
            self.bell.ring()

    def _carry_chunk(self, lane: Lane) -> bool:
        """Whether there may be more to do."""
        with lane.guard:
            found = lane.chunk()
        if found is None:
            return False
        sender, items = found
        if not self.attempts.begin(lane.output, items[0].topic):
            lane.not_before = self.clock() + AGAIN
            return False
        failed = True
        try:
            more, failed = self._tried(lane, sender, items)
        finally:
            self.attempts.end(lane.output, items[0].topic, failed=failed)
        return more

    def _tried(self, lane: Lane, sender: TopicSender, items: Sequence[Item]) -> tuple[bool, bool]:
        """Whether there may be more to do, and whether the topic failed."""
        try:
            if not self._sent(lane, sender, items):
                return False, True
        except MessageRefused as error:
            self._accepted(lane, sender, [items[at] for at in sorted(error.accepted)])
            item = items[error.at]
            poison = Poison(item.entry.delivery, reason_of(error), f"output {lane.output}: {error.message}")
            with lane.guard:
                finished = lane.refuse(item, poison)
            self._tell(finished)
            return True, False
        except SendInterrupted as error:
            failed = not isinstance(error, OutOfTime)
            if failed:
                self.tally.count_retry(lane.streams.label(items[0].topic))
            self._accepted(lane, sender, [items[at] for at in sorted(error.accepted)])
            return False, failed
        self._accepted(lane, sender, items)
        return True, False

    def _sent(self, lane: Lane, sender: TopicSender, items: Sequence[Item]) -> bool:
        began = self.clock()

        def left() -> float:
            return math.inf if self.clock() < self.until() and not lane.cancelled else 0.0

        def meanwhile() -> None:
            if lane.cancelled or self.clock() - began > PATIENCE:
                raise _NoTurn

        return sender.send([item.entry.delivery.message for item in items], left=left, meanwhile=meanwhile)

    def _accepted(self, lane: Lane, sender: TopicSender, items: Sequence[Item]) -> None:
        if not items:
            return
        self.tally.count_routed(lane.streams.label(sender.topic), len(items), lost=0)
        with lane.guard:
            finished = lane.done(items)
        self._tell(finished)

    def _tell(self, finished: Sequence[Entry]) -> None:
        if finished:
            self.finished(finished)
        self.bell.ring()
