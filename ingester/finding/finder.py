"""Looks every few seconds which tables the patterns match, and passes on what has changed, as an edit of the configuration would.

In a thread of its own, which may wait for a locked catalog while everything else goes on. A table comes with the first look that finds it, and
leaves with the second in a row that does not: a migration may take it out of Change Data Capture for a moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from common.errors import ConnectionLost, DStreamError, TransientError
from common.names import TableName
from common.periodic import repeat
from common.table_selection import TablePattern
from ingester.finding.matches import Matches, UnderCdc, matches
from ingester.settings import IngesterSettings

LOOK_SECONDS: Final = 5.0
"""Between two looks: as long as SQL Server's own pause between two captures."""

PATIENCE: Final = 3
"""Looks that may fail in a row before the log says so: whoever enables capture locks the catalog for a moment."""

NO_MATCH: Final = (
    "put such a table under Change Data Capture, give the login a right on it (docs/install.md), or correct the pattern; "
    "it is looked for again every few seconds"
)
HIDDEN: Final = "give the login a right on them, or on their schema, if a pattern is to find them (docs/install.md)"
COLLIDES: Final = "Service Bus ignores case, so that both would share a topic: rename one of them, or name the one to send exactly in tables"
IDLE: Final = "correct table_name if this is a slip: its masks and filters hold for no table; if the table comes later, there is nothing to do"
_LEFT: Final = (
    "it was dropped, renamed or taken out of Change Data Capture, and what was not sent by then is lost with its change table; "
    "it comes back with its offset when a pattern finds it again"
)
_AWAY: Final = "the tables that were found before go on; check the rights of the login (docs/install.md) and what locks the catalog"

log = structlog.get_logger("ingester")

Take = Callable[[IngesterSettings, bool], None]
"""Gets settings with exact names, and whether the file was edited."""


class Finder:
    """`look_up` asks the database, and `close` ends its connection. `report` learns why that fails, or None. `configured` is for any thread."""

    def __init__(
        self,
        settings: IngesterSettings,
        look_up: Callable[[], UnderCdc],
        report: Callable[[str | None], None],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._file = settings
        self._look_up = look_up
        self._close = close
        self._report = report
        self._guard = threading.Lock()
        self._take: Take = lambda settings, edited: None
        self._there: tuple[TableName, ...] | None = None
        """Under Change Data Capture, as far as known; None before the first look."""
        self._missed: frozenset[TableName] = frozenset()
        """Those that the last look did not find for the first time."""
        self._hidden = 0
        self._tables: tuple[TableName, ...] | None = None
        self._found: frozenset[TableName] = frozenset()
        self._waiting_edit = False
        self._failures = 0
        self._told: set[object] = set()

    def begin(self) -> IngesterSettings:
        """The settings to start with. Raises PermanentError, and ConnectionLost; a locked catalog is waited for while the ingester runs."""
        if not self._file.selection.patterns:
            return self._file
        try:
            self._saw(self._look_up())
            self._works()
        except ConnectionLost:
            raise
        except TransientError as error:
            self._failed(error, at_once=True)
        resolved = self._resolved()
        self._tables = resolved.tables
        return resolved

    @contextmanager
    def running(self, take: Take) -> Iterator[None]:
        """While the context is open, `take` gets what changes. It is called by one thread at a time."""
        self._take = take
        over = threading.Event()

        def run() -> None:
            repeat(self.look, "tables that patterns match", over, every=LOOK_SECONDS)
            self._close()

        threading.Thread(target=run, name="finder", daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def configured(self, new: IngesterSettings) -> None:
        """The file was edited. Its first patterns wait for the first look, so that no table leaves in between."""
        with self._guard:
            self._file, self._waiting_edit = new, True
            if self._there is not None or not new.selection.patterns:
                self._apply()

    def look(self) -> None:
        """Look once, if there are patterns."""
        if not self._file.selection.patterns:
            with self._guard:
                self._there, self._missed, self._found = None, frozenset(), frozenset()
            return
        try:
            under_cdc = self._look_up()
        except DStreamError as error:
            self._failed(error)
            return
        self._works()
        with self._guard:
            self._saw(under_cdc)
            self._apply()

    def _saw(self, under_cdc: UnderCdc) -> None:
        found = under_cdc.tables
        spelled = {table.key.lower() for table in found}
        gone = [each for each in self._there or () if each.key.lower() not in spelled]
        staying = [each for each in gone if each not in self._missed]
        self._missed = frozenset(staying)
        self._there = (*found, *staying)
        self._hidden = under_cdc.hidden

    def _apply(self) -> None:
        resolved = self._resolved()
        edited, self._waiting_edit = self._waiting_edit, False
        if edited or resolved.tables != self._tables:
            self._tables = resolved.tables
            self._take(resolved, edited)

    def _resolved(self) -> IngesterSettings:
        if not self._file.selection.patterns:
            return self._file
        found = matches(self._file, self._there or ())
        if self._there is not None:
            self._tell(found)
        return found.settings

    def _tell(self, found: Matches) -> None:
        """Each line once, as long as what it says stays true."""
        for table, pattern in found.found.items():
            if table not in self._found:
                log.info("table matched", table=table.key, pattern=str(pattern))
        there = {table.key.lower() for table in self._there or ()}
        for table in sorted(self._found - found.found.keys()):
            if table.key.lower() not in there:
                log.warning("table no longer under Change Data Capture", table=table.key, hint=_LEFT)
        self._found = frozenset(found.found)
        true = set[object]()
        for pattern in self._file.selection.patterns:
            if not self._matched(pattern) and self._news(true, pattern):
                log.warning("pattern matches no table", pattern=str(pattern), hint=NO_MATCH)
        for first, later in found.colliding:
            if self._news(true, (first, later)):
                log.error("table left out: another has its topic", table=later.key, other=first.key, hint=COLLIDES)
        for name in found.idle:
            if self._news(true, name):
                log.warning("override holds for no table", table=name.key, hint=IDLE)
        if self._hidden and self._news(true, self._hidden):
            log.warning("tables under Change Data Capture are hidden from the login", tables=self._hidden, hint=HIDDEN)
        self._told = true

    def _matched(self, pattern: TablePattern) -> bool:
        """Whether it matches any table, even one that another entry includes or takes away: then it is no mistake."""
        return any(pattern.matches(table) for table in self._there or ())

    def _news(self, true: set[object], fact: object) -> bool:
        true.add(fact)
        return fact not in self._told

    def _failed(self, error: DStreamError, *, at_once: bool = False) -> None:
        self._failures += 1
        if self._failures != (1 if at_once else PATIENCE):
            return
        self._failures = max(self._failures, PATIENCE)
        hint = error.hint or _AWAY
        self._report(f"{error.message}; {hint}")
        log.warning("tables that patterns match cannot be looked up, retrying", error=error.message, hint=hint)

    def _works(self) -> None:
        if self._failures >= PATIENCE:
            log.info("tables that patterns match can be looked up again")
        self._failures = 0
        self._report(None)
