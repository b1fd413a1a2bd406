"""Who keeps readers off the tables of one database: its open write transaction, and faults (held.py). Decides nothing about T-SQL.

A transaction holds the rows that it changed exclusively, and a whole table that it asked for so, or of which one statement changed
5,000 rows (lock escalation). Rows that it inserted are held too, though no reader of what is committed comes upon them.
Source: https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-locking-and-row-versioning-guide
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from emulators.sqlserver.engine.locks import WriterLock
from emulators.sqlserver.engine.store.held import HeldTables
from emulators.sqlserver.results import Cancel

ESCALATION = 5000
"""Row locks of one statement on one table that become one lock on all of it."""


class RowLocked(Exception):
    """A reader has come upon a row that another transaction holds."""


@dataclass(slots=True)
class HeldByTransaction:
    """What a write transaction holds; tables by their names in the storage. `owner`: whose it is."""

    owner: object
    excluded: set[str] = field(default_factory=set)
    """Tables that nobody else may read."""
    changed: dict[str, set[int]] = field(default_factory=dict)
    """Row numbers of what it changed, by table."""
    shared: set[str] = field(default_factory=set)
    """Tables that it has read under locks that it keeps."""

    def change(self, table: str, numbers: Collection[int]) -> None:
        """A statement has changed these rows."""
        rows = self.changed.setdefault(table, set())
        if len(numbers) >= ESCALATION:
            self.excluded.add(table)
        if table in self.excluded:
            rows.clear()
        else:
            rows.update(numbers)


class TableLocks:
    """`open`: what the open write transaction holds, None without one. `stored`: the storage's name of schema, table."""

    def __init__(
        self,
        lock: WriterLock,
        open_transaction: Callable[[], HeldByTransaction | None],
        stored: Callable[[str, str], str | None],
    ) -> None:
        self._lock = lock
        self._open = open_transaction
        self._stored = stored
        self._held = HeldTables(lock)

    def table(self, schema: str, name: str) -> AbstractContextManager[None]:
        """Readers wait for this table as for a transaction's; it need not exist yet."""
        return self._held.table(schema, name)

    def end(self, schema: str, name: str) -> AbstractContextManager[None]:
        """Readers that come from the end of a table wait, as behind a last row that is not committed; the rows before are free."""
        return self._held.end(schema, name)

    def await_end(self, schema: str, name: str, timeout: float | None, cancelled: Cancel) -> None:
        """Wait until `end` is over. Raises SqlError 1222, Cancelled."""
        self._held.await_end(schema, name, timeout, cancelled)

    def exclude(self, owner: object, table: str) -> None:
        """Keep readers off a table until the owner's write transaction ends; without one nothing happens."""
        held = self._open()
        if held is not None and held.owner is owner:
            held.excluded.add(table)

    def share(self, owner: object, table: str) -> None:
        """The owner's write transaction has read a table, and keeps its locks."""
        held = self._open()
        if held is not None and held.owner is owner:
            held.shared.add(table)

    def excludes(self, reader: object, table: str) -> bool:
        """Whether a reader has to wait for the whole table."""
        if self._held.any_table and table in self._held_tables():
            return True
        held = self._open()
        return held is not None and held.owner is not reader and table in held.excluded

    def await_table(self, reader: object, table: str, timeout: float | None, cancelled: Cancel) -> None:
        """Wait until `excludes` is over. Raises SqlError 1222, Cancelled."""
        self._lock.wait_while(lambda: self.excludes(reader, table), timeout, cancelled)

    def changed_by_other(self, reader: object, table: str) -> Collection[int]:
        """The row numbers of a table that another open transaction holds."""
        held = self._open()
        return () if held is None or held.owner is reader else held.changed.get(table, ())

    def await_rows(self, reader: object, table: str, timeout: float | None, cancelled: Cancel) -> None:
        """Wait until the transaction that has changed rows of a table ends. Raises SqlError 1222, Cancelled."""
        held = self._open()
        if held is not None and held.owner is not reader and table in held.changed:
            self._lock.wait_while(lambda: self._open() is held, timeout, cancelled)

    def of(self, owner: object) -> HeldByTransaction | None:
        """What the owner's write transaction holds at the moment."""
        held = self._open()
        return held if held is not None and held.owner is owner else None

    def _held_tables(self) -> set[str]:
        return set(self._found())

    def _found(self) -> Iterator[str]:
        for schema, name in self._held.tables():
            stored = self._stored(schema, name)
            if stored is not None:
                yield stored
