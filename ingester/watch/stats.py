"""What the loop did and how its tables stand, in numbers: written by the loop, read by whoever watches it. Decides nothing, asks nobody.

A few additions for each slice and each pass, under one lock; never anything for each change.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum

from common.clock import SteadyClock, steady
from common.names import TableName
from common.observability.metrics import SECONDS, Distribution
from common.sqladdress import LOGIN_SECONDS
from ingester.slices import SliceResult, Trouble

LOOP_SECONDS = 280.0
"""After so long without a turn the loop counts as hung, beside two logins: it may wait for a query (120 s), and log in before and after it.
It reports a turn after each such step."""

OUT_SECONDS = 300.0
"""So long a table's slices may be out, one after the other, without a word of any: this process will not bring one back."""


SILENT_SECONDS = 15.0
"""After so long without an answer of SQL Server the tables are not being read: the questions of a pass take milliseconds."""

_NAMED = 5
"""Tables that readiness names."""


class Standing(Enum):
    """How a table stands. ELSEWHERE: another ingester has its lock, or none has yet. ABSENT: not there, or not under CDC."""

    READ = "read"
    ELSEWHERE = "elsewhere"
    ABSENT = "absent"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class TableFigures:
    """Of one table, since the start. `behind`: since when it is known to hold changes past its offset (steady clock), None: it holds none.

    `changed`: when something of it was sent last. `failures`: by kind of trouble.
    """

    standing: Standing = Standing.ELSEWHERE
    behind: float | None = None
    changed: float | None = None
    changes: int = 0
    pages: int = 0
    oversize: int = 0
    gaps: int = 0
    failures: Mapping[str, int] = field(default_factory=Counter)

    @property
    def ours(self) -> bool:
        """Whether this ingester answers for it: nobody else reads what it gave up for good."""
        return self.standing in (Standing.READ, Standing.STOPPED)


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything at one moment, which is `now` on the steady clock. `queue`: whether it is not known to refuse what is sent, or to take nothing."""

    now: float
    begun: float
    connected: bool
    queue: bool
    tables: Mapping[TableName, TableFigures]
    passes: Distribution
    slices: Distribution

    @property
    def quiet(self) -> float:
        """Seconds since anything was sent, or since the start."""
        return self.now - max([self.begun, *(t.changed for t in self.tables.values() if t.changed is not None)])


class IngesterStats:
    """Written by the loop's thread; `figures`, `alive` and `ready` from any. `login_seconds`: what a login takes at most."""

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
        self._queue: str | None = None
        self._unsent: str | None = None
        self._stopped: set[TableName] = set()
        self._deadly: set[TableName] = set()
        self._started: dict[TableName, float] = {}
        self._unheard: dict[TableName, float] = {}
        """How long slices of a table were out until they were given up, one after the other."""
        self._passes, self._slices = Distribution(SECONDS), Distribution(SECONDS)

    # written by the loop

    def turned(self) -> None:
        self._waited, self._turned = self.waited, self._clock()

    def connected(self, works: bool, why: str = "the server does not answer") -> None:
        """Whether SQL Server is reached; `why` it is not, with the remedy."""
        self._connected, self._disconnected = works, why

    def unanswered(self, why: str | None) -> None:
        """Why SQL Server, which is reached, does not answer for the tables."""
        self._unanswered = why

    def queue(self, why: str | None) -> None:
        """Why the queue takes nothing from anybody here."""
        self._queue = why

    def unsent(self, why: str | None) -> None:
        """Why nothing that slices try to send reaches the queue."""
        self._unsent = why

    def executor(self, trouble: str | None) -> None:
        """What keeps all slices from running."""
        self._executor = trouble

    @contextmanager
    def passing(self) -> Iterator[None]:
        """A pass over the tables that are due: how long it takes."""
        began = self._turned = self._clock()
        self._passing, self._waited = True, 0.0
        try:
            yield
        finally:
            self._passing = False
        with self._guard:
            self._passes.add(self._clock() - began)

    def stands(self, table: TableName, standing: Standing, *, behind: bool | None = None) -> None:
        """`behind`: whether it holds changes past its offset; None: not known anew."""
        with self._guard:
            self._stands(table, standing, behind)

    def _stands(self, table: TableName, standing: Standing, behind: bool | None) -> None:
        if standing is not Standing.READ or behind is False:
            self._unheard.pop(table, None)
            self._started.pop(table, None)
            self._deadly.discard(table)
        (self._stopped.add if standing is Standing.STOPPED else self._stopped.discard)(table)
        known = self._tables.get(table, TableFigures())
        since = known.behind if behind is None else (known.behind or self._clock()) if behind else None
        if standing is not known.standing or since != known.behind or table not in self._tables:
            self._tables[table] = replace(known, standing=standing, behind=since)

    def skipped(self, table: TableName) -> None:
        """A gap was passed over."""
        with self._guard:
            known = self._tables.get(table, TableFigures())
            self._tables[table] = replace(known, gaps=known.gaps + 1)

    def started(self, table: TableName) -> None:
        """A slice of it is on its way."""
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
            (self._deadly.add if result.trouble is Trouble.KILLS_WORKER else self._deadly.discard)(result.table)
            known = self._tables.get(result.table, TableFigures())
            failures = known.failures
            if result.trouble is not None:
                failures = Counter(failures)
                failures[result.trouble.value.replace(" ", "_")] += 1
            self._tables[result.table] = replace(
                known,
                behind=(known.behind or now) if result.more or result.trouble is not None else None,
                changed=now if result.changes else known.changed,
                changes=known.changes + result.changes,
                pages=known.pages + result.pages,
                oversize=known.oversize + len(result.set_aside),
                failures=failures,
            )

    def removed(self, table: TableName) -> None:
        """It is configured no more."""
        with self._guard:
            self._tables.pop(table, None)
            self._stopped.discard(table)
            self._deadly.discard(table)
            self._unheard.pop(table, None)
            self._started.pop(table, None)

    # read by others

    @property
    def waited(self) -> float:
        """Seconds that one step of this pass has waited for SQL Server at most."""
        return max(self._waited, self._clock() - self._turned) if self._passing else 0.0

    def figures(self) -> Figures:
        with self._guard:
            return Figures(
                now=self._clock(),
                begun=self._begun,
                connected=bool(self._connected),
                queue=self._queue is None and not self._unsendable(),
                tables=dict(self._tables),
                passes=self._passes.copy(),
                slices=self._slices.copy(),
            )

    def alive(self) -> str | None:
        """Why the process should be started anew. Only a slice that is out now speaks against it: a table that waits proves nothing."""
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
        """Why it is not at work: a table whose lock another ingester has is work that waits, and no reason."""
        if self._connected is None:
            return "starting: SQL Server was not asked for any table yet; wait for `ingester started` in the log, which also has what fails"
        if not self._connected:
            return f"the connection to SQL Server is lost: {self._disconnected}"
        if self._passing and (silent := self._clock() - self._turned) > SILENT_SECONDS:
            return f"SQL Server has not answered for {silent:.0f} s; see whether it is overloaded, or something on the way holds packets back"
        if self._unanswered is not None:
            return f"SQL Server does not answer for the tables: {self._unanswered}"
        if self._queue is not None:
            return f"the queue refuses messages, all tables wait: {self._queue}"
        with self._guard:
            if self._unsendable():
                return f"nothing can be sent to the queue: {self._unsent}"
        return self._executor or self._tables_in_need()

    def _unsendable(self) -> bool:
        """Whether there is something to send that cannot be sent: what another ingester reads by now is not."""
        return self._unsent is not None and any(
            table.standing is Standing.READ and table.behind is not None for table in self._tables.values()
        )

    def _tables_in_need(self) -> str | None:
        with self._guard:
            stopped, deadly = set(self._stopped), set(self._deadly)
        if stopped:
            return f"stopped with an error, which the log has with its remedy: {_named(stopped)}"
        return f"kills the worker that reads it; the log has the remedy: {_named(deadly)}" if deadly else None


def _named(tables: Iterable[TableName]) -> str:
    keys = sorted(table.key for table in tables)
    return ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")
