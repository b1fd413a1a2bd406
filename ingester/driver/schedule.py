"""Adaptive polling: which tables are due, and when each is due again. Pure: time and chance are parameters."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from common.names import TableName
from common.retry import jittered


class TableOutcome(Enum):
    """What a look at a table found."""

    CHANGED = "changed"
    MORE = "more"
    IDLE = "idle"
    FAILED = "failed"
    LOCKED = "locked"
    DEADLY = "deadly"
    """The table kills the worker that reads it."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A table's polling settings, in seconds."""

    poll_interval: float
    max_poll_interval: float


_JITTER = 0.1
"""The fraction of an interval that chance may take off, so that tables do not fall into step. Nothing is ever added."""
_FAILED_JITTER = 0.5
"""The same after a failure, so that tables and ingesters that failed together return one by one."""
_LOCKED_SECONDS = 5.0
"""How often to look a table up in the catalog while another ingester reads it. Its lock is reported at once."""
_DEADLY_SECONDS = 60.0
"""The start of a worker costs seconds of processor time, and its death may end other slices."""
_LEFTOVERS = 64
"""How many entries the heap may have beyond twice the waiting tables before it is rebuilt."""


def next_interval(rhythm: Rhythm, last: float, outcome: TableOutcome) -> float:
    """Seconds until the next look: 0 while there is more, the least after a change, doubling while idle or failing."""
    if outcome is TableOutcome.MORE:
        return 0.0
    if outcome is TableOutcome.CHANGED:
        return rhythm.poll_interval
    if outcome is TableOutcome.LOCKED:
        return _LOCKED_SECONDS
    if outcome is TableOutcome.DEADLY:
        return max(_DEADLY_SECONDS, rhythm.max_poll_interval)
    return min(rhythm.max_poll_interval, max(last, rhythm.poll_interval / 2) * 2)


class Schedule:
    """The tables in the order in which they are due. A table handed out by `take` comes back by `put`.

    An operation on one table costs the logarithm of their number. It leaves older entries of the table in the heap.
    They are skipped when they come up, and the heap is rebuilt once most of it is such leftovers.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._due: list[tuple[float, int, TableName]] = []
        self._waiting: dict[TableName, int] = {}
        """The number of each waiting table's valid entry in the heap."""
        self._rhythms: dict[TableName, Rhythm] = {}
        self._intervals: dict[TableName, float] = {}
        self._looked: dict[TableName, float] = {}
        """When each table that is out was taken."""
        self._order = 0

    def add(self, table: TableName, rhythm: Rhythm, now: float) -> None:
        """`table` is due at once."""
        self._rhythms[table] = rhythm
        self._intervals[table] = 0.0
        self._push(table, now)

    def put(self, table: TableName, outcome: TableOutcome, now: float) -> None:
        """Schedule `table` again after a look at it."""
        interval = next_interval(self._rhythms[table], self._intervals[table], outcome)
        self._intervals[table] = interval
        jitter = _FAILED_JITTER if outcome is TableOutcome.FAILED else _JITTER
        looked = self._looked.pop(table, now)
        # The time that changes take to be sent delays no later look.
        since = looked if outcome is TableOutcome.CHANGED else now
        self._push(table, max(now, since + jittered(interval, jitter, self._chance)))

    def take(self, now: float, *, ahead: float = 0.0) -> list[TableName]:
        """Every table that is due, longest due first, and with them those that are due within the next `ahead` seconds.

        None while no table is due: looking at some of them early saves requests, and nothing is looked at late for it.
        """
        taken: list[TableName] = []
        due_at = self.next_due()
        if due_at is None or due_at > now:
            return taken
        while (due_at := self.next_due()) is not None and due_at <= now + ahead:
            table = heapq.heappop(self._due)[2]
            del self._waiting[table]
            self._looked[table] = now
            taken.append(table)
        return taken

    def hurry(self, table: TableName, now: float) -> None:
        """`table` is due at once, unless it is out."""
        if table in self._waiting:
            self._push(table, now)

    def pace(self, table: TableName, rhythm: Rhythm, now: float) -> None:
        """Poll `table` at these intervals from now on. It is due at once, unless it is out."""
        self._rhythms[table] = rhythm
        self._intervals[table] = 0.0
        self.hurry(table, now)

    def remove(self, table: TableName) -> bool:
        """Forget `table`. False if it is out: then do not put it back."""
        del self._rhythms[table], self._intervals[table]
        self._looked.pop(table, None)
        return self._waiting.pop(table, None) is not None

    def out(self) -> frozenset[TableName]:
        """The tables that were taken and are not back."""
        return frozenset(self._rhythms.keys() - self._waiting.keys())

    def next_due(self) -> float | None:
        """When the next table is due; None while all are out."""
        while self._due and self._waiting.get(self._due[0][2]) != self._due[0][1]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def wait(self, now: float, *, most: float) -> float:
        """Seconds until the next table is due, at most `most`."""
        due_at = self.next_due()
        return most if due_at is None else min(most, max(0.0, due_at - now))

    def _push(self, table: TableName, when: float) -> None:
        self._order += 1
        self._waiting[table] = self._order
        heapq.heappush(self._due, (when, self._order, table))
        if len(self._due) > 2 * len(self._waiting) + _LEFTOVERS:
            self._due = [entry for entry in self._due if self._waiting.get(entry[2]) == entry[1]]
            heapq.heapify(self._due)
