"""While the queue refuses messages, or this credential, all tables wait and one at a time tries. Sends nothing itself.

A refusal of the entity or the credential (a changed key, a role assignment that is not active yet, a failover) concerns
all tables alike, and lasts until a person or the service ends it. So it stops no table.
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
"""The fraction of a pause that chance may take off, so that refused ingesters do not return together."""
_TURN_SECONDS = 5.0
"""How long a chosen table has to try before another is chosen, or, if none waits, before the gate opens."""


class QueueGate:
    """`chance`: a random number in [0, 1)."""

    def __init__(self, stats: IngesterStats, clock: SteadyClock, chance: Callable[[], float]) -> None:
        self._stats = stats
        self._clock = clock
        self._chance = chance
        self._refusals = 0
        self._retry_at = self._chosen_at = float("-inf")
        self._trying: TableName | None = None
        self._chosen: TableName | None = None
        self._waiting: dict[TableName, None] = {}

    @property
    def shut(self) -> bool:
        """Whether the queue refused messages and has accepted none since."""
        return self._refusals > 0

    def admits(self, table: TableName) -> bool:
        """Whether a slice of `table` may start. While the gate is shut, one slice of one table may, after the pause."""
        if not self.shut:
            return True
        if self._trying is None and self._clock() >= self._retry_at:
            self._trying, self._chosen = table, None
            return True
        self._waiting[table] = None
        return False

    def chosen(self, *, away: bool) -> list[TableName]:
        """The table that is due now, so that it may try; none before the pause is over, and none while the server is `away`.

        If no table waits any more, the gate opens: other ingesters have sent the changes that waited, or will.
        """
        now = self._clock()
        if away or self._trying is not None or now < max(self._retry_at, self._chosen_at + _TURN_SECONDS):
            return []
        if not self._waiting:
            if self.shut:
                self._open("no table waits for the queue any more")
            return []
        self._chosen_at = now
        self._chosen = table = next(iter(self._waiting))
        del self._waiting[table]
        return [table]

    def unread(self, table: TableName, *, away: bool) -> None:
        """`table` was due and is not read. While the server is away one that was chosen waits on, and else another ingester sends its changes."""
        if not away:
            self.forget(table)
        elif table == self._chosen:
            self._waiting[table], self._chosen = None, None

    def forget(self, table: TableName) -> None:
        """`table` has nothing to send, or another ingester sends its changes."""
        self._waiting.pop(table, None)
        if table == self._chosen:
            self._chosen = None

    def settled(self, result: SliceResult) -> bool:
        """Take in how a slice ended. Returns whether that opened the gate, so that all tables are due."""
        tried = result.table == self._trying
        if tried:
            self._trying = None
        if result.trouble is Trouble.QUEUE:
            self._waiting[result.table] = None
            if tried or not self.shut:
                self._refused(result)
            return False
        if not tried:  # it began before the refusal
            return False
        if result.trouble is None and result.changes:
            self._open("the queue accepts changes again")
            return True
        if result.trouble is not None:  # it still has changes to send
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
