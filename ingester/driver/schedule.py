"""Adaptive polling: which tables are due, and when each is due again. Pure: time and chance are parameters."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from common.clock import SteadyClock
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


_LIVELY = frozenset({TableOutcome.CHANGED, TableOutcome.MORE})
_WELL = _LIVELY | {TableOutcome.IDLE}
"""Of a table with one of these, nothing but the time of its changes decides when the next look is worth it."""
_JITTER = 0.1
"""The fraction of an interval that chance may take off, so that tables do not fall into step. Nothing is ever added.

While no table changes, as much is taken off that all idle ones do fall into step: a question about any number of them is one then."""
_FAILED_JITTER = 0.5
"""The same after a failure, so that tables and ingesters that failed together return one by one."""
_LOCKED_SECONDS = 5.0
"""How often to look a table up in the catalog while another ingester reads it. Its lock is reported at once."""
_DEADLY_SECONDS = 60.0
"""The start of a worker costs seconds of processor time, and its death may end other slices."""
_LEFTOVERS = 64
"""How many entries a line may have beyond twice the waiting tables before it is rebuilt."""
_PHASES = 3600.0
"""Seconds, many intervals: where the common times of an ingester's idle tables lie among those of other ingesters is left to chance."""
_WAITED = 0.5
"""Seconds, or a poll interval if that is less, after which tables that rest are looked at although others are soon due or are being read. One
that is read for longer than that holds up nobody."""
_HURRIED = 0.45
"""Seconds that a table counts as having waited when it is made due: something is known of it."""
_LONG = 1.0
"""Seconds after which as many of them are looked at then as at other times."""
_PART = 3
"""Until then about this part of as many: a server that is busy answers one question after the other."""
_TOGETHER = 1000
"""Of tables that rest at most so many are looked at together: the first change in a long while is behind no more of them."""
_PASS_SECONDS = 0.05
"""How long a look at tables that rest may keep the others waiting."""
_FEWEST = 32
"""Of a look at fewer tables most is the round trip, which says nothing about more of them."""
_FIRST = 128
_GROWTH = 2
"""A pass that was quick says little about one over many times as many tables."""
_LEAST_SECONDS = 0.001
_TRIPS = 4


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


class _Line:
    """Tables in the order in which they are due. `waiting`: the number of each waiting table's valid entry, in whichever line it is."""

    def __init__(self, waiting: dict[TableName, int]) -> None:
        self._waiting = waiting
        self._due: list[tuple[float, int, TableName]] = []

    def push(self, when: float, number: int, table: TableName) -> None:
        heapq.heappush(self._due, (when, number, table))
        if len(self._due) > 2 * len(self._waiting) + _LEFTOVERS:
            self._due = [entry for entry in self._due if self._waiting.get(entry[2]) == entry[1]]
            heapq.heapify(self._due)

    def first(self) -> float:
        """When the next table is due."""
        while self._due and self._waiting.get(self._due[0][2]) != self._due[0][1]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else math.inf

    def head(self) -> TableName | None:
        """The table that is due next."""
        return None if self.first() == math.inf else self._due[0][2]

    def take(self, until: float, most: int | None = None) -> list[TableName]:
        """At most so many of those that are due until then."""
        taken: list[TableName] = []
        while (most is None or len(taken) < most) and self.first() <= until:
            table = heapq.heappop(self._due)[2]
            del self._waiting[table]
            taken.append(table)
        return taken


class Schedule:
    """The tables in the order in which they are due. A table handed out by `take` comes back by `put`.

    Tables whose last look found changes come first, and apart from those that rest: however many of these there are, the others wait for none
    of them. An operation on one table costs the logarithm of their number. It leaves older entries of the table in its line. They are skipped
    when they come up, and the line is rebuilt once most of it is such leftovers.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._waiting: dict[TableName, int] = {}
        self._lively, self._resting = _Line(self._waiting), _Line(self._waiting)
        self._changing: set[TableName] = set()
        """The tables whose last look found changes."""
        self._rhythms: dict[TableName, Rhythm] = {}
        self._intervals: dict[TableName, float] = {}
        self._looked: dict[TableName, float] = {}
        """When each table that is out was taken."""
        self._backing_off: set[TableName] = set()
        self._failing: set[TableName] = set()
        """Those among them whose last look failed."""
        self._due_at: dict[TableName, float] = {}
        self._order = 0
        self._phase: float | None = None

    def add(self, table: TableName, rhythm: Rhythm, now: float) -> None:
        """`table` is due at once."""
        self._rhythms[table] = rhythm
        self._intervals[table] = 0.0
        self._push(table, now)

    def put(self, table: TableName, outcome: TableOutcome, now: float) -> None:
        """Schedule `table` again after a look at it."""
        begins_to_fail = outcome is TableOutcome.FAILED and table not in self._failing
        last = 0.0 if begins_to_fail else self._intervals[table]  # how long it has rested says nothing about a failure
        self._intervals[table] = interval = next_interval(self._rhythms[table], last, outcome)
        (self._changing.add if outcome in _LIVELY else self._changing.discard)(table)
        (self._backing_off.discard if outcome in _WELL else self._backing_off.add)(table)
        (self._failing.add if outcome is TableOutcome.FAILED else self._failing.discard)(table)
        if outcome is TableOutcome.IDLE and not self._changing:
            self._looked.pop(table, None)
            self._push(table, self._in_step(now + interval, interval))
            return
        jitter = _FAILED_JITTER if outcome is TableOutcome.FAILED else _JITTER
        looked = self._looked.pop(table, now)
        # The time that changes take to be sent delays no later look.
        since = looked if outcome is TableOutcome.CHANGED else now
        self._push(table, max(now, since + jittered(interval, jitter, self._chance)))

    def _in_step(self, due: float, interval: float) -> float:
        """When an idle table is due that need not be looked at before `due`: at a multiple of its interval, or a tenth closer to one.

        So after a few looks one question is about all idle tables, however they were due at first. Multiples of an interval are multiples of
        its divisors, so most tables with other intervals are due with them.
        """
        if self._phase is None:
            self._phase = _PHASES * self._chance()
        return due - min((due - self._phase) % interval, interval * _JITTER)

    def take(self, now: float, *, ahead: float = 0.0, most: int | None = None) -> list[TableName]:
        """The tables that are due, longest due first, and with them those that are due within the next `ahead` seconds.

        None while no table is due: looking at some of them early saves requests, and nothing is looked at late for it. Of the tables that rest
        at most so many. Unless one of them has waited, none together with others, none while others are read, and none just before others
        are due.
        """
        taken = self._lively.take(now + ahead) if self._lively.first() <= now else []
        waited, busy = now - self._resting.first(), bool(taken) or self._busy(now)
        if waited >= (self._patience() if busy else 0.0):
            taken += self._resting.take(now + ahead, self._portion(most, waited, busy=busy))
        self._looked.update(dict.fromkeys(taken, now))
        return taken

    def hurry(self, table: TableName, now: float) -> None:
        """`table` is due at once, unless it is out; if it rests, ahead of others that rest. One that is due already keeps its turn."""
        if table in self._waiting and self._due_at[table] > now:
            self._push(table, now if table in self._changing else now - _HURRIED)

    def hurry_all(self, now: float) -> None:
        """Every table is due at once, except those that are out, and those that wait because a look failed or another ingester has them."""
        for table in [*self._waiting]:
            if table not in self._backing_off:
                self.hurry(table, now)

    def pace(self, table: TableName, rhythm: Rhythm, now: float) -> None:
        """Poll `table` at these intervals from now on. It is due at once, unless it is out."""
        self._rhythms[table] = rhythm
        self._intervals[table] = 0.0
        self.hurry(table, now)

    def remove(self, table: TableName) -> bool:
        """Forget `table`. False if it is out: then do not put it back."""
        del self._rhythms[table], self._intervals[table], self._due_at[table]
        self._looked.pop(table, None)
        self._changing.discard(table)
        self._backing_off.discard(table)
        self._failing.discard(table)
        return self._waiting.pop(table, None) is not None

    def out(self) -> frozenset[TableName]:
        """The tables that were taken and are not back."""
        return frozenset(self._rhythms.keys() - self._waiting.keys())

    def next_due(self) -> float | None:
        """When the next table is due; None while all are out."""
        due_at = min(self._lively.first(), self._resting.first())
        return None if due_at == math.inf else due_at

    def wait(self, now: float, *, most: float) -> float:
        """Seconds until `take` may have a table, at most `most`."""
        resting = self._resting.first() + (self._patience() if self._busy(now) else 0.0)
        return min(most, max(0.0, min(self._lively.first(), resting) - now))

    def quiet(self, tables: Iterable[TableName], now: float) -> float:
        """For how many seconds no table that changes is kept waiting by a pass over `tables`. One whose changes are on their way is due soon
        after they are there."""
        if any(table in self._changing for table in tables):
            return 0.0
        if any(table not in self._waiting for table in self._changing):
            return 0.0
        return self._lively.first() - now

    def _portion(self, most: int | None, waited: float, *, busy: bool) -> int | None:
        """At most so many of the tables that rest, of which one has `waited` so many seconds."""
        if not self._changing:
            return _TOGETHER
        return most if most is None or waited >= _LONG or not busy else max(1, most // _PART)

    def _patience(self) -> float:
        """How long the table that rests and is due next waits for others."""
        table = self._resting.head()
        return 0.0 if table is None else min(_WAITED, self._rhythms[table].poll_interval)

    def _busy(self, now: float) -> bool:
        """Whether a table that changes is read, and not for long, or is due before a pass over tables that rest would be over."""
        return self._lively.first() - now < _PASS_SECONDS or any(
            now - since < _WAITED and table in self._changing for table, since in self._looked.items()
        )

    def _push(self, table: TableName, when: float) -> None:
        self._order += 1
        self._waiting[table], self._due_at[table] = self._order, when
        line = self._lively if table in self._changing else self._resting
        line.push(when, self._order, table)


class Portion:
    """How many resting tables a pass looks at beside tables that change: as many as add a twentieth of a second, as the last pass went."""

    def __init__(self, clock: SteadyClock) -> None:
        self._clock = clock
        self._trips = deque([0.0], _TRIPS)
        """What the last passes over a few tables took. The quickest says what more tables take only once: others waited for something else."""
        self.size = _FIRST

    @contextmanager
    def of(self, tables: int) -> Iterator[None]:
        """While its context is open, there is a pass over so many tables."""
        began = self._clock()
        yield
        took = self._clock() - began
        if tables < _FEWEST:
            self._trips.append(took)
            return
        each = max(took - min(self._trips), _LEAST_SECONDS) / tables
        most = max(self.size, _GROWTH * tables)  # a pass over a part takes nothing from what larger ones have shown
        self.size = max(_FEWEST, min(int(_PASS_SECONDS / each), most))
