"""What the loop did, and the state of its tables, in numbers. The loop writes them; metrics and health read them.

A few additions for each slice and each pass, under one lock; never anything for each change. Decides nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from common.clock import SteadyClock, SteadyTime, steady
from common.errors import ConfigurationError
from common.names import TableName
from common.observability.metrics import SECONDS, Distribution
from common.sqladdress import LOGIN_SECONDS
from ingester.slices import SliceResult, Trouble
from ingester.watch.figures import Figures, Standing, TableFigures

LOOP_SECONDS = 280.0
"""After so long without a turn, plus two logins, the loop counts as hung. It may wait for a query (120 s), and log in
before and after it; it reports a turn after each such step."""

OUT_SECONDS = 300.0
"""How long a table's slices, one after the other, may bring no result before this process needs a restart."""

FAILING_SECONDS = 60.0
"""A table whose slices have failed for so long, the first to the last, and none has come to its end, is why this process is not ready. Of one
alone nothing follows: the next may be minutes away."""

SILENT_SECONDS = 15.0
"""After so long without an answer SQL Server counts as silent: the queries of a pass take milliseconds."""

_CORRECT = "correct the file; the previous configuration stays in force"
_NAMED = 5
"""How many tables readiness names."""


class IngesterStats:
    """The loop's thread writes. `figures`, `alive` and `ready` are for any thread. `login_seconds`: a login's limit."""

    def __init__(
        self, tables: Iterable[TableName], *, clock: SteadyClock = steady, login_seconds: float = LOGIN_SECONDS
    ) -> None:
        self._clock = clock
        self._loop_seconds = LOOP_SECONDS + 2 * login_seconds
        self._guard = threading.Lock()
        self._tables = {table: TableFigures() for table in tables}
        self._begun = self._turned = clock()
        self._connected: bool | None = None
        self._disconnected = ""
        self._passing, self._waited = False, 0.0
        self._executor: str | None = None
        self._unanswered: str | None = None
        self._unfound: str | None = None
        self._finding = self._looping = False
        self._queue: str | None = None
        self._unsent: str | None = None
        self._unusable: str | None = None
        self._stopped: set[TableName] = set()
        self._deadly: set[TableName] = set()
        self._failing: dict[TableName, tuple[float, float]] = {}
        """When the slices of a table failed of which none came to its end: the first and the last."""
        self._started: dict[TableName, float] = {}
        self._unheard: dict[TableName, float] = {}
        """How long slices of a table were out before they were given up, added up over consecutive ones."""
        self._passes, self._slices = Distribution(SECONDS), Distribution(SECONDS)
        self._slots = self._busy = self._refusals = self._clocks_off = 0
        self._scans: Counter[str] = Counter()
        self._scans_good_until: SteadyTime | None = None

    # written by the loop

    def turned(self) -> None:
        self._looping = True
        self._waited, self._turned = self.waited, self._clock()

    def connected(self, works: bool, why: str = "the server does not answer") -> None:
        """Whether SQL Server can be reached, and `why` not, with a hint."""
        self._connected, self._disconnected = works, why

    @property
    def cut_off(self) -> bool:
        """Whether the loop has lost its connection to SQL Server."""
        return self._connected is False

    def found(self, why: str | None) -> None:
        """Why the tables that patterns match cannot be looked up; None: they were."""
        self._unfound, self._finding = why, True

    def unanswered(self, why: str | None) -> None:
        """Why SQL Server, although it can be reached, does not answer for the tables; None: it does."""
        self._unanswered = why

    def queue(self, why: str | None) -> None:
        """Why the queue refuses messages; None: it does not."""
        self._queue = why

    def unsent(self, why: str | None) -> None:
        """Why no message reaches the queue; None: they do."""
        self._unsent = why

    def edited(self, refused: ConfigurationError | None) -> None:
        """The configuration file has changed. `refused`: it cannot be used, which is logged already; None: it is in force."""
        if refused is None:
            self._unusable = None
        else:
            self._unusable = f"the configuration file cannot be used: {refused.problems[0]} ({_CORRECT})"

    def executor(self, trouble: str | None) -> None:
        """What keeps slices from running, or from coming back; None: nothing does."""
        self._executor = trouble

    def occupied(self, busy: int, slots: int) -> None:
        """So many of the executor's slots run tasks."""
        self._busy, self._slots = busy, slots

    def refused(self, sends: int) -> None:
        """A throttling namespace refused that many."""
        self._refusals += sends

    def scanned(self, outcome: str) -> None:
        """A scan of the source's log has ended like this."""
        with self._guard:
            self._scans[outcome] += 1

    def scans(self, good_for: float | None) -> None:
        """For how many seconds from now this ingester's scans of the log count as not hindered. None: another ingester is to scan, or none."""
        self._scans_good_until = None if good_for is None else SteadyTime(self._clock() + good_for)

    def clock_differs(self) -> None:
        """A slice came from a machine whose clock differs from this one's."""
        self._clocks_off += 1

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Measure a pass over the due tables."""
        began = self._turned = self._clock()
        self._passing, self._waited = True, 0.0
        try:
            yield
        finally:
            self._passing = False
        with self._guard:
            self._passes.add(self._clock() - began)

    def begins(self, tables: Iterable[TableName]) -> None:
        """These are read, once their locks are had."""
        for table in tables:
            self.stands(table, Standing.ELSEWHERE)

    def stands(self, table: TableName, standing: Standing, *, behind: bool | None = None) -> None:
        """`behind`: whether the table has changes past its offset; None: as known before."""
        with self._guard:
            self._stands(table, standing, behind)

    def _stands(self, table: TableName, standing: Standing, behind: bool | None) -> None:
        if standing is not Standing.READ or behind is False:
            for known_of in (self._unheard, self._started, self._failing):
                known_of.pop(table, None)
            self._deadly.discard(table)
        if standing is Standing.STOPPED:
            self._stopped.add(table)
        else:
            self._stopped.discard(table)
        known = self._tables.get(table, TableFigures())
        since = known.behind
        if behind is not None:
            since = (known.behind or self._clock()) if behind else None
        if standing is not known.standing or since != known.behind or table not in self._tables:
            self._tables[table] = replace(known, standing=standing, behind=since)

    def skipped(self, table: TableName) -> None:
        """A gap was skipped."""
        with self._guard:
            known = self._tables.get(table, TableFigures())
            self._tables[table] = replace(known, gaps=known.gaps + 1)

    def read_rows(self, table: TableName, rows: int) -> None:
        """A round of a snapshot has sent that many."""
        with self._guard:
            known = self._tables.get(table, TableFigures())
            self._tables[table] = replace(known, rows=known.rows + rows)

    def snapshot(self, table: TableName, *, running: bool, failed: bool = False) -> None:
        """Whether a snapshot of `table` is taken now; `failed`: one has failed."""
        with self._guard:
            known = self._tables.get(table, TableFigures())
            self._tables[table] = replace(
                known, snapshots=int(running), failed_snapshots=known.failed_snapshots + failed
            )

    def started(self, table: TableName) -> None:
        """A slice of `table` was sent to a worker."""
        with self._guard:
            self._started[table] = self._clock()

    def settled(self, result: SliceResult) -> None:
        """A slice came back."""
        now = self._clock()
        with self._guard:
            began = self._started.pop(result.table, None)
            unheard = self._unheard.pop(result.table, 0.0)
            if result.trouble is Trouble.OVERDUE and began is not None:
                self._unheard[result.table] = unheard + now - began
            if began is not None:
                self._slices.add(now - began)
            if result.trouble is Trouble.KILLS_WORKER:
                self._deadly.add(result.table)
            else:
                self._deadly.discard(result.table)
            known = self._tables.get(result.table, TableFigures()).with_kept_back(result)
            failures = known.failures
            if result.trouble is None or result.changes:
                self._failing.pop(result.table, None)
            else:
                first, _ = self._failing.get(result.table, (now, now))
                self._failing[result.table] = first, now
            if result.trouble is not None:
                failures = Counter(failures)
                failures[result.trouble.value.replace(" ", "_")] += 1
            self._tables[result.table] = replace(
                known,
                behind=(known.behind or now) if result.more or result.trouble is not None else None,
                changed=now if result.changes else known.changed,
                changes=known.changes + result.changes,
                pages=known.pages + result.pages,
                failures=failures,
            )

    def chunk(self, result: SliceResult) -> None:
        """A snapshot's chunk came back: count what of it was not sent as it is. `read_rows` counts its rows."""
        with self._guard:
            self._tables[result.table] = self._tables.get(result.table, TableFigures()).with_kept_back(result)

    def removed(self, table: TableName) -> None:
        """`table` is no longer configured."""
        with self._guard:
            self._tables.pop(table, None)
            self._stopped.discard(table)
            self._deadly.discard(table)
            for known_of in (self._unheard, self._started, self._failing):
                known_of.pop(table, None)

    # read by others

    @property
    def waited(self) -> float:
        """The longest wait for SQL Server in this pass, in seconds."""
        return max(self._waited, self._clock() - self._turned) if self._passing else 0.0

    def figures(self) -> Figures:
        with self._guard:
            return Figures(
                now=self._clock(),
                begun=self._begun,
                connected=bool(self._connected) or self._waits_for_tables(),
                queue=self._queue is None and not self._unsendable(),
                tables=dict(self._tables),
                passes=self._passes.copy(),
                slices=self._slices.copy(),
                slots=self._slots,
                busy=self._busy,
                refusals=self._refusals,
                clocks_off=self._clocks_off,
                scans=dict(self._scans),
                scanning=None if (until := self._scans_good_until) is None else self._clock() < until,
                answers=self._unanswered is None,
            )

    def alive(self) -> str | None:
        """Why the process needs a restart. Only a slice that is out now counts: a waiting table proves nothing."""
        now = self._clock()
        if now - self._turned > self._loop_seconds:
            return f"the loop has not turned for {now - self._turned:.0f} s"
        with self._guard:
            out = {table: self._unheard.get(table, 0.0) + now - began for table, began in self._started.items()}
        table, seconds = max(out.items(), key=lambda item: item[1], default=(None, 0.0))
        if table is not None and seconds > OUT_SECONDS:
            return f"no slice of {table.key} has come back for {seconds:.0f} s"
        return None

    def ready(self) -> str | None:
        """Why this ingester is not working. A table whose lock another ingester has is not a reason."""
        if self._unfound is not None:
            return f"the tables that patterns match cannot be looked up: {self._unfound}"
        if self._waits_for_tables():
            return self._executor or self._unusable
        if self._connected is None:
            return (
                "starting: SQL Server, the locks and the queue have not all answered yet; wait for `ingester started` in the log, "
                "which also shows failures"
            )
        if not self._connected:
            return f"the connection to SQL Server is lost: {self._disconnected}"
        if self._passing and (silent := self._clock() - self._turned) > SILENT_SECONDS:
            return f"SQL Server has not answered for {silent:.0f} s; check whether it is overloaded or the network drops packets"
        if self._unanswered is not None:
            return f"SQL Server does not answer for the tables: {self._unanswered}"
        if self._queue is not None:
            return f"the queue refuses messages, all tables wait: {self._queue}"
        with self._guard:
            if self._unsendable():
                return f"nothing can be sent to the queue: {self._unsent}"
        return self._executor or self._tables_in_need() or self._unusable

    def _waits_for_tables(self) -> bool:
        """Whether there is no table to read, because patterns match none now."""
        return self._looping and self._finding and self._unfound is None and not self._tables

    def _unsendable(self) -> bool:
        """Whether changes of a table that this ingester reads cannot be sent."""
        return self._unsent is not None and any(
            table.standing is Standing.READ and table.behind is not None for table in self._tables.values()
        )

    def _tables_in_need(self) -> str | None:
        with self._guard:
            stopped, deadly = set(self._stopped), set(self._deadly)
            failing = {table for table, (first, last) in self._failing.items() if last - first > FAILING_SECONDS}
        if stopped:
            return f"stopped with an error; the log has the cause and what to do: {_named(stopped)}"
        if deadly:
            return f"kills the worker that reads it; the log has what to do: {_named(deadly)}"
        return f"fails again and again; the log has the cause: {_named(failing)}" if failing else None


def _named(tables: Iterable[TableName]) -> str:
    keys = sorted(table.key for table in tables)
    return ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")
