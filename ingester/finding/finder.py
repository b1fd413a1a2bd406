"""Looks every few seconds which tables the patterns match, and passes on what has changed, as an edit of the configuration would.

In a thread of its own, which may wait for a locked catalog while everything else goes on. A table comes with the first look that finds it, and
leaves with the second in a row that does not: a migration may take it out of Change Data Capture for a moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import structlog

from common.errors import ConnectionLost, DStreamError, TransientError
from common.names import TableName
from common.periodic import repeat
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
RENAMED: Final = (
    "what holds for the former name does not hold for this one, masks among it: name the table exactly in tables, with an override if the "
    "former name has one; then it begins with what its capture instance still holds. Or take it out with !"
)
WAITS: Final = (
    "the override limits what is sent, and holds for no table: if this one is meant, correct table_name; if not, name this one exactly in tables, "
    "or give it an override of its own"
)
IDLE: Final = "correct table_name if this is a slip: its masks and filters hold for no table; if the table comes later, there is nothing to do"
_LEFT: Final = (
    "it was dropped, renamed or taken out of Change Data Capture, and what was not sent by then is lost with its change table; "
    "it comes back with its offset when a pattern finds it again"
)
_AWAY: Final = (
    "the tables that were found before go on, with every edit of their settings, and new ones wait; check the rights of the login "
    "(docs/install.md) and what locks the catalog"
)

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
        self._there: UnderCdc | None = None
        """As far as known; None before the first look."""
        self._missed: frozenset[TableName] = frozenset()
        """Those that the last look did not find for the first time."""
        self._tables: Sequence[TableName] = ()
        """Those that run."""
        self._found: frozenset[TableName] = frozenset()
        self._failures = 0
        self._told: set[object] = set()

    def begin(self) -> IngesterSettings:
        """The settings to start with. Raises PermanentError, and ConnectionLost; a locked catalog is waited for while the ingester runs."""
        self._tables = self._file.tables
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
        """The file was edited. It holds at once for the tables that run; before the first look no other is known."""
        with self._guard:
            self._file = new
            if self._there is None and new.selection.patterns:
                log.info("new patterns wait for a look at the catalog", patterns=new.selection.wanted)
            self._apply(edited=True)

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

    def _saw(self, seen: UnderCdc) -> None:
        spelled = {table.key.lower() for table in seen.tables}
        gone = [each for each in self._there.tables if each.key.lower() not in spelled] if self._there else []
        staying = [each for each in gone if each not in self._missed]
        self._missed = frozenset(staying)
        self._there = replace(seen, tables=(*seen.tables, *staying))

    def _apply(self, *, edited: bool = False) -> None:
        resolved = self._resolved()
        if edited or resolved.tables != self._tables:
            self._tables = resolved.tables
            self._take(resolved, edited)

    def _resolved(self) -> IngesterSettings:
        """A table that runs is none that an override might have meant: it is sent already."""
        if not self._file.selection.patterns:
            return self._file
        there = UnderCdc(tuple(self._tables)) if self._there is None else self._there
        found = matches(self._file, replace(there, with_offset=there.with_offset.union(self._tables)))
        if self._there is not None:
            self._tell(found, self._there)
        return found.settings

    def _tell(self, found: Matches, seen: UnderCdc) -> None:
        """Each line once, as long as what it says stays true."""
        for table, pattern in found.found.items():
            if table not in self._found:
                log.info("table matched", table=table.key, pattern=str(pattern))
        there = {table.key.lower() for table in seen.tables}
        for table in sorted(self._found - found.found.keys()):
            if table.key.lower() not in there:
                log.warning("table no longer under Change Data Capture", table=table.key, hint=_LEFT)
        self._found = frozenset(found.found)
        true = set[object]()
        for pattern in self._file.selection.patterns:
            if not seen.has(pattern) and self._news(true, pattern):
                log.warning("pattern matches no table", pattern=str(pattern), hint=NO_MATCH)
        for first, later in found.colliding:
            if self._news(true, (first, later)):
                log.error("table left out: another has its topic", table=later.key, other=first.key, hint=COLLIDES)
        for table, former in found.renamed:
            if self._news(true, (table, former)):
                log.error("table left out: it was renamed", table=table.key, former=former, hint=RENAMED)
        for table, meant in found.waiting:
            if self._news(true, (table, meant)):
                log.error("table left out: an override may mean it", table=table.key, override=meant.key, hint=WAITS)
        for name in found.idle:
            if self._news(true, name):
                log.warning("override holds for no table", table=name.key, hint=IDLE)
        if seen.hidden and self._news(true, seen.hidden):
            log.warning("tables under Change Data Capture are hidden from the login", tables=seen.hidden, hint=HIDDEN)
        self._told = true

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
