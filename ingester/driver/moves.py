"""Moves the offsets of tables that have nothing to read, all together. A slice commits by itself what it sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.clock import SteadyClock
from common.errors import DStreamError, LeaseLost
from ingester.driver.ownership import Ownership
from ingester.driver.roster import Roster
from ingester.driver.schedule import TableOutcome
from ingester.driver.tables import TrackedTable
from ingester.locks import Lease
from ingester.offsets import Move, Offsets
from ingester.position import Position


@dataclass(frozen=True, slots=True)
class Moving:
    """A table whose offset is to move to `position`, and its outcome after that."""

    table: TrackedTable
    lease: Lease
    position: Position
    outcome: TableOutcome


class Moves:
    """Puts each table back into the schedule, whether its offset could be moved or not."""

    def __init__(self, offsets: Offsets, ownership: Ownership, roster: Roster, clock: SteadyClock) -> None:
        self._offsets = offsets
        self._ownership = ownership
        self._roster = roster
        self._clock = clock

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
        table.offset, table.stored_at = outcome, self._clock()
        # An earlier commit whose answer was lost may have moved the offset already.
        return asked.outcome if outcome == asked.position else TableOutcome.MORE
