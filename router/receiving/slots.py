"""The slots of a process and what they share: starts them, watches them until a stop, ends them in time. Names no adapter, routes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from common.bus.ports import Receivers
from common.bus.throttling import ThrottleLog
from common.errors import DStreamError, TransientError
from common.observability.stacks import tell_stacks
from router.publishing.publishers import Publishers
from router.receiving.carried import Carried
from router.receiving.fan_out.behind import Behind
from router.receiving.fan_out.courier import ThreadedCouriers
from router.receiving.fan_out.handover import FanOut
from router.receiving.fan_out.routing import Routing
from router.receiving.fan_out.session import Means
from router.receiving.gate import Gate
from router.receiving.interruption import Interruption
from router.receiving.pace import Pace
from router.receiving.parking import Parking, parked_per_slot
from router.receiving.slot import Forwarder
from router.settings import RouterSettings
from router.tally import Held, Tally

STOP_WITHIN = 18.0
"""Seconds that slots have to finish; Kubernetes kills after 30 s, and the promise is 20."""

CUT_AFTER = 7.0
"""Seconds after a stop until calls to several outputs that have not ended are cut, and at a takeover to the only one as well: a
session is not given back before (fan_out/session.py)."""

CUT_AGAIN = 4.0
"""Seconds after which calls are cut again that began since: a session is given back in several, and a server without an answer holds up each."""

LOOK = 10.0
"""Seconds between two checks of the slots of this process. A parent process finds a stuck slot sooner, and kills this process."""

COURIERS_PER_SLOT = 2
"""Threads of an output for each slot: one for its session, and one for a parked session that is tried again."""

LATE: Final = (
    "the stacks of all threads, above, show the call that does not end: look at the file system or the server that it asks. The process ends, "
    "because no other slot may have their sessions before that"
)

log = structlog.get_logger(__name__)


class Slots:
    """`settings.slots` slots, each in a thread of its own, and the threads that look after parked sessions and idle links."""

    def __init__(
        self,
        settings: RouterSettings,
        receivers: Receivers,
        outputs: Mapping[str, Publishers],
        stop: threading.Event,
        pace: Pace,
        tally: Tally,
        *,
        routing: Routing | None = None,
        ahead: Callable[[], float],
        news: Callable[[], object],
        cut: Callable[[], None] = lambda: None,
        succeeded: Callable[[], bool] = lambda: False,
        carried: Carried | None = None,
    ) -> None:
        """`outputs`: by their names. `routing`: None where everything goes to the only output. `ahead` and `news`: for `Parking`.
        `cut`: ends the calls that are in flight. `succeeded`: whether others wait for the end of these slots, at a takeover.
        `carried`: what the slots before these knew."""
        self._settings = settings
        self._receivers = receivers
        self._outputs = outputs
        self._stop = stop
        self._pace = pace
        self._tally = tally
        self._cut, self._succeeded = cut, succeeded
        self._parking = Parking(
            stop,
            room=parked_per_slot(routes=routing is not None) * settings.slots,
            memory=settings.memory / 4,
            ahead=ahead,
            news=news,
            turn=tally.turn,
        )
        self._gate, self._throttling = Gate(), ThrottleLog()
        self._carried, self._interruption = carried or Carried(), Interruption()
        self._troubled = self._carried.troubled
        self._fatal: list[BaseException] = []
        self._behind = Behind()
        self._couriers = ThreadedCouriers(COURIERS_PER_SLOT * settings.slots)
        self._fan_out = None if routing is None else self._fanning_out(routing)

    def _fanning_out(self, routing: Routing) -> Callable[[], FanOut]:
        means = Means(
            self._outputs,
            self._couriers,
            self._carried.rereads,
            self._behind,
            routing.fingerprint,
            time.monotonic,
            self._tally,
            self._pace.linger,
            self._settings.on_poison == "stop",
            led=routing.led,
            made=dict(self._settings.all_outputs),
        )
        return partial(FanOut, means, routing, self._carried.remembered, self._stop, self._pace, self._parking)

    def run(self) -> int:
        """Run until `stop`: 0 when all slots ended in time, else 1. When an error ended a slot, or one hangs, sets `stop` and raises."""
        known = (publishers.label(topic) for publishers in self._outputs.values() for topic in publishers.topics)
        self._tally.begin(frozenset(known), self._settings.slots)
        self._tally.held, self._tally.interrupted = self._held, self._interruption.lasting
        self._tally.behind = self._behind.sessions
        threads = self._started()
        self._look_after()
        try:
            return self._ended(threads)
        finally:
            self._couriers.close()

    def _held(self) -> Held:
        return replace(self._parking.held(), failing=self._troubled.failing(time.monotonic()))

    def _started(self) -> Sequence[threading.Thread]:
        """The slots that a stop waits for."""
        threads = [
            threading.Thread(target=self._work, name=f"slot-{number}", daemon=True)
            for number in range(self._settings.slots)
        ]
        threads.append(threading.Thread(target=self._parking.keep, name="parking", daemon=True))
        for publishers in self._outputs.values():
            threading.Thread(target=publishers.keep, args=[self._stop], name="publishers", daemon=True).start()
        for thread in threads:
            thread.start()
        return threads

    def _work(self) -> None:
        """Runs in the thread of a slot."""
        slot = Forwarder(
            self._receivers,
            next(iter(self._outputs.values())),
            self._stop,
            self._settings.ordering != "none",
            self._pace,
            self._gate,
            self._tally,
            parking=self._parking,
            on_poison=self._settings.on_poison,
            throttling=self._throttling,
            troubled=self._troubled,
            interruption=self._interruption,
            fan_out=self._fan_out,
        )
        try:
            slot.run()
        except BaseException as error:
            # Not only DStreamError: a slot that died of a defect must not leave a router that looks alive.
            self._fatal.append(error)
            self._stop.set()

    def _look_after(self) -> None:
        """Runs until `stop`; a slot that hangs sets it."""
        while not self._stop.wait(LOOK):
            if (still := self._tally.figures().still).stuck:
                tell_stacks()
                hint = "the stacks of all threads, above, show where it hangs"
                self._fatal.append(TransientError(f"routing: {still}", hint=hint))
                self._stop.set()

    def _ended(self, threads: Sequence[threading.Thread]) -> int:
        stopped = time.monotonic()
        if self._fan_out is not None or self._succeeded():
            self._cut_until_ended(threads, stopped)
        self._join(threads, stopped + STOP_WITHIN)
        if self._fatal:
            raise next((error for error in self._fatal if isinstance(error, DStreamError)), self._fatal[0])
        late = sum(thread.is_alive() for thread in threads)
        if late:
            tell_stacks()
            log.error(
                "slots did not stop in time",
                slots=late,
                effect="their messages come again when their locks run out",
                hint=LATE,
            )
        return 1 if late else 0

    def _cut_until_ended(self, threads: Sequence[threading.Thread], stopped: float) -> None:
        at = CUT_AFTER
        while at < STOP_WITHIN:
            self._join(threads, stopped + at)
            if not any(thread.is_alive() for thread in threads):
                return
            self._cut()
            at += CUT_AGAIN

    @staticmethod
    def _join(threads: Sequence[threading.Thread], deadline: float) -> None:
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
