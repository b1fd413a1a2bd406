"""Notices from the ends of slices that nothing reaches the queue; logs it once for each hint, and its end once. Sends nothing itself.

queue_gate.py handles a queue that refuses. This module is about one that cannot be reached or does not answer. Each
slice then fails and is tried again, as after any broken link, so only all slices together show it.
"""

from __future__ import annotations

import structlog

from common.clock import SteadyClock
from common.hints import Hints
from ingester.slices import SliceResult, Trouble
from ingester.watch.stats import IngesterStats

log = structlog.get_logger("ingester")

PATIENCE_SECONDS = 10.0
"""A broken link is open again sooner, even if the namespace moves to other machines."""

_HINT = (
    "check that the machines that run tasks can reach the namespace (DNS, firewall, private endpoint; `dstream check` tries "
    "it from here), and the status of Azure Service Bus in its region; sending is retried all the time"
)


class QueueSilence:
    def __init__(self, stats: IngesterStats, clock: SteadyClock) -> None:
        self._stats = stats
        self._clock = clock
        self._failing: float | None = None
        self._taken_at = float("-inf")
        self._hints = Hints()

    def look(self, result: SliceResult) -> None:
        """Take in how a slice, or a part of a stride, ended."""
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
        hint = result.hint or _HINT
        self._stats.unsent(f"{result.message} ({hint})")
        if self._hints.news(hint):
            log.error("nothing can be sent to the queue, retrying", error=result.message, hint=hint)

    def _over(self) -> None:
        self._taken_at, self._failing = self._clock(), None
        if self._hints:
            self._hints.clear()
            self._stats.unsent(None)
            log.info("changes can be sent to the queue again")
