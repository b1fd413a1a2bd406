"""Ends the rounds of snapshots whose tables have another shape now: their chunks would go on with the old one for as long as they last, which
without a unique key is the whole table.

The fence is what ends them: once the round was counted, no chunk of it holds the fence again, and what is held runs out within seconds. What
they sent counts, and the snapshot goes on behind it. Cancels nothing, so that no worker dies between sending and its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import structlog

from common.clock import SteadyClock, SteadyTime
from common.errors import DStreamError, TransientError
from common.names import TableName
from ingester.driver.history.state import NEVER, Known
from ingester.history.store import SnapshotStore

log = structlog.get_logger("ingester")

_AGAIN_SECONDS = 2.0
"""After the store could not count a round: somebody holds its row, or the connection is lost."""


class Reshaping:
    """`known`: what the loop knows of its tables. Only the loop calls it."""

    def __init__(self, known: Mapping[TableName, Known], store: SnapshotStore, clock: SteadyClock) -> None:
        self._known = known
        self._store = store
        self._clock = clock

    def reshaped(self, tables: Set[TableName]) -> None:
        """The shape of `tables` is another one now."""
        for table in tables & self._known.keys():
            if (out := self._known[table].round) is not None:
                out.ends_at = NEVER

    def look(self) -> None:
        """End the rounds that are to end. Raises nothing: what the store does not take now it takes later."""
        for table, known in self._known.items():
            if (out := known.round) is not None and out.ends_at is not None and self._clock() >= out.ends_at:
                out.ends_at = self._ended(table, known)

    def _ended(self, table: TableName, known: Known) -> SteadyTime | None:
        """When to try again; None: no chunk of the round holds the fence again."""
        assert known.round is not None
        snapshot = known.round.snapshot.id
        try:
            self._store.begin(snapshot, table, known.round.epoch)
        except TransientError:
            return SteadyTime(self._clock() + _AGAIN_SECONDS)
        except DStreamError:  # there is a newer owner, or the store is closed to this login: the chunks meet that too
            return None
        log.info(
            "snapshot chunks begin again, the shape of their table was changed", table=table.key, snapshot=snapshot
        )
        return None
