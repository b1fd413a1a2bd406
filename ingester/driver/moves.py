"""Moves the offsets of tables that have nothing to read, all together. A slice commits by itself what it sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from common.clock import SteadyClock, SteadyTime
from common.errors import DStreamError, LeaseLost
from ingester.driver.ownership import Ownership
from ingester.driver.roster import Roster
from ingester.driver.schedule import TableOutcome
from ingester.driver.tables import IDLE_COMMIT_SECONDS, TrackedTable
from ingester.locks import Lease
from ingester.offsets import Move, Offsets
from ingester.position import Position

_TOGETHER: Final = 2 * IDLE_COMMIT_SECONDS
"""A table whose offset was stored longer ago than this is probably one of many: this ingester has just started, or the server was away."""


@dataclass(frozen=True, slots=True)
class Moving:
    """A table whose offset is to move to `position`, and its outcome after that."""

    table: TrackedTable
    lease: Lease
    position: Position
    outcome: TableOutcome


class Moves:
    """Puts each table back into the schedule, whether its offset could be moved or not."""

    def __init__(
        self,
        offsets: Offsets,
        ownership: Ownership,
        roster: Roster,
        clock: SteadyClock,
        chance: Callable[[], float],
    ) -> None:
        self._offsets = offsets
        self._ownership = ownership
        self._roster = roster
        self._clock = clock
        self._chance = chance

    def make(self, moving: Sequence[Moving]) -> None:
        """Raises ConnectionLost."""
        found = self._offsets.move_many(
            [Move(one.table.name, one.lease.epoch, one.table.offset, one.position) for one in moving]
        )
        for one, outcome in zip(moving, found, strict=True):
            self._roster.put(one.table.name, self._made(one, outcome))

    def _made(self, asked: Moving, outcome: Position | DStreamError) -> TableOutcome:
        table = asked.table
        if isinstance(outcome, LeaseLost):
            self._ownership.superseded(table, outcome.message)
            return asked.outcome
        if isinstance(outcome, DStreamError):
            self._roster.failed(table, outcome)
            return TableOutcome.FAILED
        table.offset, table.stored_at = outcome, self._stored(table)
        # An earlier commit whose answer was lost may have moved the offset already.
        return asked.outcome if outcome == asked.position else TableOutcome.MORE

    def _stored(self, table: TrackedTable) -> SteadyTime:
        """Now, from where the time to the next move counts. Of many tables that were moved together, each counts from another
        time: thousands that are moved again in one pass would keep changes of others waiting, every minute."""
        now = self._clock()
        early = self._chance() * IDLE_COMMIT_SECONDS if now - table.stored_at > _TOGETHER else 0.0
        return SteadyTime(now - early)
