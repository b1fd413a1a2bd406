"""The tables of this ingester: which are looked at, which leave once their slice is back, and which have stopped. Reads and sends nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from common.clock import SteadyClock
from common.errors import DStreamError, PermanentError
from common.names import TableName
from ingester.driver.ownership import Ownership
from ingester.driver.reload import TableChanges
from ingester.driver.schedule import Rhythm, Schedule, TableOutcome
from ingester.driver.tables import TrackedTable
from ingester.watch.stats import IngesterStats, Standing

log = structlog.get_logger("ingester")


class Roster:
    """`tables`: those that are looked at; each is in the schedule, in a pass, or has a slice under way. `clock`: the steady clock."""

    def __init__(
        self,
        *,
        schedule: Schedule,
        ownership: Ownership,
        stats: IngesterStats,
        clock: SteadyClock,
    ) -> None:
        self.tables: dict[TableName, TrackedTable] = {}
        self._leaving: dict[TableName, TrackedTable] = {}
        """Removed, with a slice still under way."""
        self._stopped: dict[TableName, TrackedTable] = {}
        self._schedule = schedule
        self._ownership = ownership
        self._stats = stats
        self._clock = clock

    def status(self) -> int:
        """Of the process, whose loop has ended: 1 if no table is left to be read."""
        if self.tables:
            return 0
        log.error(
            "every table has stopped, ending",
            stopped=sorted(table.key for table in self._stopped),
            hint="the log has why, with the remedy, in the line `table stopped` of each; start the ingester again after that",
        )
        return 1

    def begin(self, rhythms: Mapping[TableName, Rhythm]) -> None:
        """Every table is due. How often it is looked at is the schedule's to know from here on: a reload may change it."""
        for name, rhythm in rhythms.items():
            self._begin(name, rhythm)

    def _begin(self, name: TableName, rhythm: Rhythm) -> None:
        self.tables[name] = TrackedTable(name)
        self._schedule.add(name, rhythm, self._clock())

    def take(self) -> list[TrackedTable]:
        """The tables that are due: each is to be put back, or comes back with its slice."""
        return [self.tables[name] for name in self._schedule.take(self._clock()) if name in self.tables]

    def put(self, table: TableName, outcome: TableOutcome) -> None:
        """When `table` is looked at again, after a look at it; never, if it has left or stopped meanwhile."""
        if table in self.tables:
            self._schedule.put(table, outcome, self._clock())

    def hurry(self, tables: Iterable[TableName]) -> None:
        """They are due at once, unless they are out."""
        for name in tables:
            self._schedule.hurry(name, self._clock())

    def under_way(self, waiting: Iterable[TableName]) -> frozenset[TableName]:
        """The tables with a slice under way; `waiting`: those that were taken out of the schedule without one."""
        return self._schedule.out().difference(waiting).union(self._leaving)

    def returned(self, name: TableName) -> TrackedTable | None:
        """The table whose slice came back, one that leaves among them; None if nobody waits for it."""
        return self.tables.get(name) or self._leaving.get(name)

    def left(self, table: TrackedTable) -> bool:
        """Whether `table`, whose slice came back, was removed meanwhile: now it is gone."""
        if self._leaving.pop(table.name, None) is None:
            return False
        self._remove(table)
        return True

    def change(self, changes: TableChanges, lock_names: Mapping[TableName, str]) -> None:
        """Between two turns: a table is either in the schedule or has a slice under way. `lock_names`: of those that are added."""
        for name in sorted(changes.removed):
            if (table := self._stopped.pop(name, None)) is not None:
                self._remove(table)
            elif (table := self.tables.pop(name, None)) is not None:
                if self._schedule.remove(name):
                    self._remove(table)
                else:
                    self._leaving[name] = table
        for name, rhythm in changes.added.items():
            self._ownership.add(name, lock_names[name])
            if name in self._leaving:  # its slice, once back, puts it into the schedule
                self.tables[name] = self._leaving.pop(name)
                self._schedule.pace(name, rhythm, self._clock())
            else:
                self._begin(name, rhythm)
            self._stats.stands(name, Standing.ELSEWHERE)
            log.info("table added", table=name.key)
        for name in changes.paced.keys() & self.tables.keys():
            self._schedule.pace(name, changes.paced[name], self._clock())

    def _remove(self, table: TrackedTable) -> None:
        self._ownership.remove(table)
        self._stats.removed(table.name)
        log.info("table removed", table=table.name.key)

    def stop(self, table: TrackedTable, error: DStreamError) -> None:
        """`table` is not read again until it is configured anew; whoever wants it may have it."""
        del self.tables[table.name]
        self._stopped[table.name] = table
        self._schedule.remove(table.name)
        self._ownership.leave(table)
        self._stats.stands(table.name, Standing.STOPPED)
        log.error("table stopped; fix the cause and restart the ingester", table=table.name.key, error=str(error))

    def failed(self, table: TrackedTable, error: DStreamError) -> None:
        """What one statement met, of one table: it waits, or is stopped. No other has to do with it."""
        if isinstance(error, PermanentError):
            self.stop(table, error)
        else:
            self.fails(table, error.message, error.hint)

    def fails(self, table: TrackedTable, why: str, hint: str | None, *, told: bool = False) -> None:
        """`table` is tried again; said once, until it has recovered. `told`: it was said of all tables together."""
        if not table.failing and not told:
            table.failing = True
            log.warning("table failed, retrying", table=table.name.key, error=why, hint=hint)

    def kills(self, table: TrackedTable, why: str) -> None:
        """`table` has killed one worker after the other: it is tried again, seldom; said once, until it has recovered."""
        if not table.deadly:
            table.deadly = table.failing = True
            log.error(
                "table kills the worker that reads it, retrying rarely",
                table=table.name.key,
                error=why,
                hint="usually a value too large for the worker's memory: raise the container's memory (or spark.executor.memoryOverhead), "
                "lower ingester.page_rows, or leave the column out of the capture instance",
            )

    def ours(self, table: TrackedTable) -> bool:
        """Whether `table` may be read; one whose lock was refused is stopped."""
        try:
            return self._ownership.ours(table)
        except PermanentError as error:
            self.stop(table, error)
            return False
