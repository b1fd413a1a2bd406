"""The tables of this ingester: active, leaving once their slice is back, or stopped. Reads nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

import structlog

from common.clock import SteadyClock
from common.errors import DStreamError, PermanentError
from common.names import TableName
from ingester.driver.ownership import Ownership
from ingester.driver.reload import TableChanges
from ingester.driver.schedule import Portion, Rhythm, Schedule, TableOutcome
from ingester.driver.tables import TrackedTable
from ingester.shape.columns import ShapeRefused
from ingester.watch.figures import Standing
from ingester.watch.stats import IngesterStats

log = structlog.get_logger("ingester")

RETRIED = (
    "it is tried again by itself; without a line `table recovered` soon, see `table failed, retrying` in docs/fail.md"
)
"""A hint for errors that have none."""

_ALL_SECONDS = 0.001
"""For each table: how long after a look at all of them the next one is, so that thousands leave the loop and the server time for others."""


class Roster:
    """`tables`: the active ones. Each is in the schedule, in a pass, or has a slice under way."""

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
        """Tables that were removed while a slice was under way."""
        self._stopped: dict[TableName, TrackedTable] = {}
        self._rhythms: dict[TableName, Rhythm] = {}
        """Of all tables, the stopped ones included."""
        self._schedule = schedule
        self._ownership = ownership
        self._stats = stats
        self._clock = clock
        self._all = threading.Event()
        self._all_again = 0.0
        self.portion = Portion(clock)

    def status(self) -> int:
        """The exit status after the loop: 1 if every table has stopped."""
        if not self.over:
            return 0
        log.error(
            "every table has stopped, ending",
            stopped=sorted(table.key for table in self._stopped),
            hint="each table has a line `table stopped` with its error; fix the causes and start the ingester again",
        )
        return 1

    @property
    def over(self) -> bool:
        """Whether every table has stopped. Where there is none yet, one may be found later."""
        return bool(self._stopped) and not self.tables

    @property
    def configured(self) -> tuple[TrackedTable, ...]:
        """The active tables and the stopped ones."""
        return (*self.tables.values(), *self._stopped.values())

    def begin(self, rhythms: Mapping[TableName, Rhythm]) -> None:
        """Make every table due."""
        for name, rhythm in rhythms.items():
            self._begin(name, rhythm)

    def _begin(self, name: TableName, rhythm: Rhythm) -> None:
        self.tables[name], self._rhythms[name] = TrackedTable(name), rhythm
        self._schedule.add(name, rhythm, self._clock())

    def take(self, *, ahead: float) -> list[TrackedTable]:
        """The tables that are due, and those that are soon, within `ahead` seconds. Put each back, or let its slice bring it back."""
        now = self._clock()
        if self._all.is_set() and now >= self._all_again:
            self._all.clear()
            self._all_again = now + _ALL_SECONDS * len(self.tables)
            self._schedule.hurry_all(now)
        return [
            self.tables[name]
            for name in self._schedule.take(now, ahead=ahead, most=self.portion.size)
            if name in self.tables
        ]

    def look_at_all(self) -> None:
        """Make every table due before the next are taken, but for those that back off. From any thread."""
        self._all.set()

    def put(self, table: TableName, outcome: TableOutcome) -> None:
        """Schedule `table` again after a look at it, unless it was removed or has stopped meanwhile."""
        if table in self.tables:
            self._schedule.put(table, outcome, self._clock())

    def hurry(self, tables: Iterable[TableName]) -> None:
        """Make `tables` due at once, except those that are out."""
        for name in tables:
            self._schedule.hurry(name, self._clock())

    def under_way(self, waiting: Iterable[TableName]) -> frozenset[TableName]:
        """The tables with a slice under way. `waiting`: tables that are out of the schedule without a slice."""
        return self._schedule.out().difference(waiting).union(self._leaving)

    def returned(self, name: TableName) -> TrackedTable | None:
        """The table whose slice is back, even if it was removed meanwhile; None if nobody waits for the slice."""
        return self.tables.get(name) or self._leaving.get(name)

    def left(self, table: TrackedTable) -> bool:
        """Whether `table`, whose slice is back, was removed meanwhile. If so, it leaves now."""
        if self._leaving.pop(table.name, None) is None:
            return False
        self._remove(table)
        return True

    def change(self, changes: TableChanges, lock_names: Mapping[TableName, str]) -> None:
        """Take over a reload between two turns, when each table is in the schedule or has a slice under way."""
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
                self.tables[name], self._rhythms[name] = self._leaving.pop(name), rhythm
                self._schedule.pace(name, rhythm, self._clock())
            else:
                self._begin(name, rhythm)
            self._stats.stands(name, Standing.ELSEWHERE)
            log.info("table added", table=name.key)
        self._rhythms.update(changes.paced)
        for name in changes.paced.keys() & self.tables.keys():
            self._schedule.pace(name, changes.paced[name], self._clock())

    def reshaped(self, names: Iterable[TableName]) -> None:
        """What is sent of `names` was changed: look at them soon, and begin again with those that have stopped."""
        names = set(names)
        self.hurry(names)
        for name in names & self.tables.keys():
            self.tables[name].rested = None
        for name in sorted(self._stopped.keys() & names):
            shaped = self._stopped.pop(name).shaped
            self._begin(name, self._rhythms[name])
            self.tables[name].shaped = shaped
            self._stats.stands(name, Standing.ELSEWHERE)
            log.info("table goes on, its shape was changed", table=name.key)

    def _remove(self, table: TrackedTable) -> None:
        self._ownership.remove(table)
        del self._rhythms[table.name]
        self._stats.removed(table.name)
        log.info("table removed", table=table.name.key)

    def stop(self, table: TrackedTable, error: DStreamError) -> None:
        """Stop `table` until it is configured again. Other ingesters may take it."""
        del self.tables[table.name]
        self._stopped[table.name] = table
        self._schedule.remove(table.name)
        self._ownership.leave(table)
        self._stats.stands(table.name, Standing.STOPPED)
        if isinstance(error, ShapeRefused):
            log.error("table stopped; correct its shape in the configuration", table=table.name.key, error=str(error))
        else:
            log.error("table stopped; fix the cause and restart the ingester", table=table.name.key, error=str(error))

    def failed(self, table: TrackedTable, error: DStreamError) -> None:
        """A statement for this table alone failed: let the table wait, or stop it."""
        if isinstance(error, PermanentError):
            self.stop(table, error)
        else:
            self.fails(table, error.message, error.hint)

    def fails(self, table: TrackedTable, why: str, hint: str | None, *, logged: bool = False) -> None:
        """`table` is tried again. Logged once until it recovers. `logged`: an error of all tables was logged already."""
        if not table.failing and not logged:
            table.failing = True
            log.warning("table failed, retrying", table=table.name.key, error=why, hint=hint or RETRIED)

    def kills(self, table: TrackedTable, why: str) -> None:
        """`table` has killed several workers in a row, so it is tried rarely. Logged once until it recovers."""
        if not table.deadly:
            table.deadly = table.failing = True
            log.error(
                "table kills the worker that reads it, retrying rarely",
                table=table.name.key,
                error=why,
                hint="a value is probably too large for the worker's memory: raise the container's memory (or "
                "spark.executor.memoryOverhead), lower ingester.page_rows, or leave the column out of the capture "
                "instance",
            )

    def ours(self, table: TrackedTable) -> bool:
        """Whether `table` may be read. Stops a table whose lock was refused."""
        try:
            return self._ownership.ours(table)
        except PermanentError as error:
            self.stop(table, error)
            return False
