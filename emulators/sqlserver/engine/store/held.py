"""Tables of a database that nobody may read for a while, or not to their end, though no transaction has changed them: faults hold them.

Those who read one wait, as for another session's exclusive lock; how long, they say themselves. Which SQLite table it is, is not known
here: a table may be held before it is there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from emulators.sqlserver.engine.locks import WriterLock
from emulators.sqlserver.results import Cancel


class HeldTables:
    """By schema and name. `lock`: where those who wait are woken."""

    def __init__(self, lock: WriterLock) -> None:
        self._lock = lock
        self._guard = threading.Lock()
        self._tables: list[tuple[str, str]] = []
        self._ends: list[tuple[str, str]] = []

    @property
    def any_table(self) -> bool:
        """Whether a whole table is held."""
        return bool(self._tables)

    def tables(self) -> list[tuple[str, str]]:
        with self._guard:
            return list(self._tables)

    @contextmanager
    def table(self, schema: str, name: str) -> Iterator[None]:
        """Nobody reads this table, which need not be there yet."""
        with self._listed(self._tables, (schema, name)):
            yield

    @contextmanager
    def end(self, schema: str, name: str) -> Iterator[None]:
        """Nobody reads this table from its end; the rows before are free."""
        with self._listed(self._ends, (schema, name)):
            yield

    def await_end(self, reader: object, schema: str, name: str, timeout: float | None, cancelled: Cancel) -> None:
        """Wait until `end` is over. Raises SqlError 1222, Cancelled."""
        if self._ends:
            self._lock.wait_while(
                reader, lambda: [end for end in self._ends if end == (schema, name)], timeout, cancelled
            )

    @contextmanager
    def _listed(self, held: list[tuple[str, str]], wanted: tuple[str, str]) -> Iterator[None]:
        with self._guard:
            held.append(wanted)
        try:
            yield
        finally:
            with self._guard:
                held.remove(wanted)
