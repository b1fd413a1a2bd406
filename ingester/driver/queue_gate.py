"""What becomes of the tables while the queue, or the right to use it, is refused: all wait, and one at a time tries. Sends nothing itself.

A refusal of the entity or the credential (a key that was changed, a role assignment on its way, a namespace that fails over) concerns every
table alike, and is over when a person or the service has ended it; so no table is stopped for it.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from common.clock import SteadyClock
from common.names import TableName
from common.retry import Backoff, jittered
from ingester.slices import SliceResult, Trouble
from ingester.watch.stats import IngesterStats

log = structlog.get_logger("ingester")

_BACKOFF = Backoff(first=5.0, longest=60.0)
_JITTER = 0.5
"""The share of a pause that chance may take off: ingesters that were refused together do not come back together."""
_TURN_SECONDS = 5.0
"""So long a table that was chosen to try has until another is, or, if none waits, until the gate opens."""


class QueueGate:
    """`clock`: the steady clock; `chance`: a random number in [0, 1)."""

    def __init__(self, stats: IngesterStats, clock: SteadyClock, chance: Callable[[], float]) -> None:
        self._stats = stats
        self._clock = clock
        self._chance = chance
        self._refusals = 0
        self._retry_at = self._chosen_at = float("-inf")
        self._trying: TableName | None = None
        self._waiting: dict[TableName, None] = {}

    @property
    def shut(self) -> bool:
        """Whether the queue was refused, and has not been tried with success since."""
        return self._refusals > 0

    def admits(self, table: TableName) -> bool:
        """Whether a slice of `table` may be started: while the gate is shut, one of one table when its time has come."""
        if not self.shut:
            return True
        if self._trying is None and self._clock() >= self._retry_at:
            self._trying = table
            return True
        self._waiting[table] = None
        return False

    def chosen(self) -> list[TableName]:
        """The table that is to be looked at now, so that it may try; none while it is not time.

        When nobody waits any more the gate opens: what waited was sent by others, or is theirs to send.
        """
        now = self._clock()
        if self._trying is not None or now < max(self._retry_at, self._chosen_at + _TURN_SECONDS):
            return []
        if not self._waiting:
            if self.shut:
                self._open("no table waits for the queue any more")
            return []
        self._chosen_at = now
        table = next(iter(self._waiting))
        del self._waiting[table]
        return [table]

    def forget(self, table: TableName) -> None:
        """`table` has nothing to send, or another ingester sends it."""
        self._waiting.pop(table, None)

    def settled(self, result: SliceResult) -> bool:
        """Take in how a slice ended; whether the gate was opened by it, so that all tables are due."""
        tried = result.table == self._trying
        if tried:
            self._trying = None
        if result.trouble is Trouble.QUEUE:
            self._waiting[result.table] = None
            if tried or not self.shut:
                self._refused(result)
            return False
        if not tried:  # begun before the refusal
            return False
        if result.trouble is None and result.changes:
            self._open("the queue accepts changes again")
            return True
        if result.trouble is not None:  # it has what it had to send
            self._waiting[result.table] = None
            self._retry_at = self._clock() + self._pause()
        return False

    def _refused(self, result: SliceResult) -> None:
        if not self.shut:
            log.error("the queue refuses messages, all tables wait", error=result.message, hint=result.hint)
        self._stats.queue(f"{result.message} ({result.hint})" if result.hint else result.message)
        self._refusals += 1
        self._retry_at = self._clock() + self._pause()

    def _pause(self) -> float:
        return jittered(_BACKOFF.ceiling(self._refusals), _JITTER, self._chance)

    def _open(self, why: str) -> None:
        self._refusals = 0
        self._waiting.clear()
        self._stats.queue(None)
        log.info(why)
