"""Whether anything can be sent to the queue at all, from how slices end: told once when it lasts, and once when it is over. Sends nothing itself.

A queue that refuses is the gate's matter (queue_gate.py). This is about one that cannot be reached, or does not answer: each slice fails
for a while and is tried again, as it is after any fault of a link, so only all of them together show it.
"""

from __future__ import annotations

import structlog

from common.clock import SteadyClock
from ingester.slices import SliceResult, Trouble
from ingester.watch.stats import IngesterStats

log = structlog.get_logger("ingester")

PATIENCE_SECONDS = 10.0
"""A link that breaks is open again sooner, and so is a namespace that moves to other machines."""

_HINT = (
    "see that the namespace can be reached from where tasks run (DNS, firewall, private endpoint; `dstream check` tries it from here) and "
    "how Azure Service Bus does in its region; sending is tried again all the time"
)


class QueueSilence:
    """`clock`: the steady clock."""

    def __init__(self, stats: IngesterStats, clock: SteadyClock) -> None:
        self._stats = stats
        self._clock = clock
        self._failing: float | None = None
        self._taken_at = float("-inf")
        self._told = False

    def look(self, result: SliceResult) -> None:
        """Take in how a slice, or a part of one, ended."""
        if result.trouble is None or result.changes:
            self._over()
        if result.trouble not in (None, Trouble.QUEUE) and result.unsent is not None:
            self._fails(result, result.unsent)

    def _fails(self, result: SliceResult, seconds: float) -> None:
        now = self._clock()
        if self._failing is None:
            self._failing = max(now - seconds, self._taken_at)
        if now - self._failing <= PATIENCE_SECONDS:
            return
        self._stats.unsent(f"{result.message} ({result.hint or _HINT})")
        if not self._told:
            self._told = True
            log.error("nothing can be sent to the queue, retrying", error=result.message, hint=result.hint or _HINT)

    def _over(self) -> None:
        self._taken_at, self._failing = self._clock(), None
        if self._told:
            self._told = False
            self._stats.unsent(None)
            log.info("changes can be sent to the queue again")
