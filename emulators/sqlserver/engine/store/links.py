"""A SQLite connection as lowered SQL expects it: collations, functions, aggregates, and errors that keep their T-SQL number."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from emulators.sqlserver.engine.store.table_locks import RowLocked
from emulators.sqlserver.results import Cancel, Cancelled, SqlError, Value
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.functions.collations import COLLATIONS
from emulators.sqlserver.tsql.functions.string_aggregate import JoinedStrings
from emulators.sqlserver.tsql.planning.plans import SessionView
from emulators.sqlserver.tsql.values.calls import CALLS, ExactSum, OnlyOne, WholeSum, last_error
from emulators.sqlserver.tsql.values.conversions.steps import Truncation

_LIMITS = {
    "too many terms in compound SELECT": "more than 500 SELECTs under UNION, EXCEPT and INTERSECT",
    "too many arguments on function": "a function with more than a hundred arguments",
}
"""SQLite's limits, by the text of its error. https://www.sqlite.org/limits.html"""


_LOOK = 100_000
"""Instructions of SQLite's machine between two looks at whether a query is cancelled: some milliseconds."""

_PASSED = 64
"""Rows that are taken at once where none is kept."""


class StaleName(Exception):
    """A table went away between name lookup and execution: look its name up again."""


class Link:
    """One connection. `session`: whose functions it calls, set by whoever uses the link."""

    def __init__(self, path: Path) -> None:
        self.raw = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=60, cached_statements=256
        )
        self.session: SessionView | None = None
        self.rows_held: Mapping[str, Collection[int]] = {}
        """Of which table of the storage which rows stop the query that runs (`held_row`)."""
        self.filled: dict[str, tuple[str, str, int]] = {}
        """Which of a view's temporary tables hold which rows, where no rollback can take them away."""
        self.cancelled: Cancel | None = None
        """Stops a query while it is set. Never for what writes: SQLite would roll back the whole transaction."""
        self._error: BaseException | None = None
        self.raw.execute("PRAGMA journal_mode = WAL")
        self.raw.execute("PRAGMA synchronous = OFF")
        self.raw.execute("PRAGMA temp_store = MEMORY")
        self._register()

    def _register(self) -> None:
        for name, compare in COLLATIONS.items():
            self.raw.create_collation(name, compare)
        self.raw.create_function("fn", -1, self._call, deterministic=True)
        self.raw.create_function("sfn", -1, self._guarded(self._session_call))
        self.raw.create_function("held_row", 2, self._guarded(self._held_row))
        self.raw.create_function("sg", 1, self._guarded(self._global))
        sums: Any = {"exact_sum": ExactSum, "whole_sum": WholeSum}
        for name, aggregate in sums.items():
            self.raw.create_window_function(name, 1, aggregate)
        only: Any = OnlyOne
        self.raw.create_aggregate("only_one", 1, only)
        self.raw.set_progress_handler(self._stops, _LOOK)
        joined: Any = JoinedStrings
        self.raw.create_aggregate("string_joined", -1, joined)

    def _stops(self) -> bool:
        return self.cancelled is not None and self.cancelled()

    def _call(self, number: int, *arguments: Value) -> Value:
        """As `_guarded` has it, without another call: it runs for every row of most queries."""
        try:
            return CALLS[number](*arguments)
        except Exception as error:
            self._error = error
            raise

    def _guarded(self, run: Callable[..., Value]) -> Callable[..., Value]:
        """sqlite3 forgets the exception of a function; this keeps it."""

        def call(*arguments: Value) -> Value:
            try:
                return run(*arguments)
            except Exception as error:
                self._error = error
                raise

        return call

    def _session_call(self, name: str, *arguments: Value) -> Value:
        assert self.session is not None
        return self.session.call(name, arguments)

    def _global(self, name: str) -> Value:
        assert self.session is not None
        return self.session.global_value(name)

    def _held_row(self, table: str, number: int) -> int:
        """Raises RowLocked."""
        if number in self.rows_held.get(table, ()):
            raise RowLocked(table)
        return 1

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> sqlite3.Cursor:
        """Raises SqlError as the real server would, or StaleName."""
        try:
            return self.raw.execute(sql, parameters)
        except sqlite3.IntegrityError:
            raise
        except (sqlite3.Error, OverflowError) as error:
            raise self.translated(error) from error

    def query(self, sql: str, parameters: Sequence[Value], cancelled: Cancel) -> sqlite3.Cursor:
        """A SELECT, which ends as soon as it is cancelled. Raises SqlError, StaleName, Cancelled."""
        self.cancelled = cancelled
        try:
            return self.execute(sql, parameters)
        finally:
            self.cancelled = None

    def rest(self, cursor: sqlite3.Cursor, cancelled: Cancel) -> list[Any]:
        """All rows that a query has left, which ends as soon as it is cancelled. Raises SqlError, StaleName, Cancelled."""
        self.cancelled = cancelled
        try:
            return cursor.fetchall()
        except sqlite3.Error as error:
            raise self.translated(error) from error
        finally:
            self.cancelled = None
            cursor.close()

    def run_through(self, cursor: sqlite3.Cursor, cancelled: Cancel) -> None:
        """As `rest`, for a query that is run for what it comes upon: no row is kept."""
        self.cancelled = cancelled
        try:
            while cursor.fetchmany(_PASSED):
                pass
        except sqlite3.Error as error:
            raise self.translated(error) from error
        finally:
            self.cancelled = None
            cursor.close()

    def translated(self, error: Exception) -> Exception:
        """What a SQLite error means: the error that a function raised, or the emulator's own failure by name."""
        kept, self._error = self._error or last_error(), None
        if isinstance(kept, SqlError | Truncation | RowLocked):
            return kept
        if str(error) == "interrupted":
            return Cancelled()
        if "no such table" in str(error) or "no such column" in str(error):
            return StaleName(str(error))
        if kept is not None:
            return SqlError(50001, f"emulator: a function failed: {kept!r}", 16)
        for text, construct in _LIMITS.items():
            if text in str(error):
                return unsupported(construct)
        return SqlError(50001, f"emulator: the storage engine refused the statement ({error})", 16)

    def close(self) -> None:
        self.raw.close()


class ThreadsLink:
    """A connection of one thread, closed when that has ended: each client has a thread, and clients come and go."""

    def __init__(self, link: Link, close: Callable[[Link], None]) -> None:
        self.link = link
        self._close = close

    def __del__(self) -> None:
        self._close(self.link)
