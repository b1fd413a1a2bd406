"""Who holds the tables of one database against whom: open transactions, readers that keep their locks, faults (held.py). Knows no T-SQL.

A write transaction holds the rows that it changed exclusively, and a whole table of which one statement changed 5,000 rows (lock
escalation). Rows that it inserted are held too, though no reader of what is committed comes upon them. Readers that keep their locks keep
them on tables here, where SQL Server keeps most of them on rows and ranges of keys: coarser, but for the same statements.
Source: https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-locking-and-row-versioning-guide
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal

from emulators.sqlserver.engine.locks import WriterLock
from emulators.sqlserver.engine.store.held import HeldTables
from emulators.sqlserver.results import Cancel
from emulators.sqlserver.tsql.planning.plans import KeptLock

Change = Literal["INSERT", "CHANGE", "TABLE"]
"""What a statement does to a table: it adds rows, or does something to those that are there, or to the table as a whole."""
ESCALATION = 5000
"""Row locks of one statement on one table that become one lock on all of it."""
_LETS_INSERT = frozenset(("ROWS", "UPDATE"))
_MEETS_INSERTS = frozenset(("RANGE", "TABLE", "EXCLUSIVE"))


Saved = tuple[dict[str, set[int]], frozenset[str]]
"""What a write transaction held at a savepoint: rows by table, and whole tables."""


class RowLocked(Exception):
    """A reader has come upon a row that another transaction holds."""


@dataclass(slots=True)
class HeldByTransaction:
    """What a write transaction holds; tables by their names in the storage. `owner`: whose it is."""

    owner: object
    excluded: set[str] = field(default_factory=set)
    """Tables that nobody else may read."""
    whole: set[str] = field(default_factory=set)
    """Those of them that a statement locked as a whole before it changed any row."""
    changed: dict[str, set[int]] = field(default_factory=dict)
    """Row numbers of what it changed, by table."""
    changing: dict[str, Change] = field(default_factory=dict)
    """The tables that its statement is at work on, before it is known which rows."""

    def begin(self, table: str, change: Change) -> None:
        """A statement is about to change the table."""
        self.changing[table] = change
        if change == "TABLE" and table not in self.excluded:
            self.excluded.add(table)
            self.whole.add(table)

    def change(self, table: str, numbers: Collection[int]) -> None:
        """A statement has changed these rows."""
        rows = self.changed.setdefault(table, set())
        if len(numbers) >= ESCALATION:
            self.excluded.add(table)
        if table in self.excluded:
            rows.clear()
        else:
            rows.update(numbers)

    def rows(self) -> dict[str, set[int]]:
        """A copy of what it changed."""
        return {table: set(numbers) for table, numbers in self.changed.items()}

    def saved(self) -> Saved:
        """For a savepoint."""
        return self.rows(), frozenset(self.whole)

    def back_to(self, saved: Saved) -> None:
        """Let go of what came after a savepoint, escalated locks excepted."""
        rows, whole = saved
        self.changed = {table: set(numbers) for table, numbers in rows.items()}
        self.excluded -= self.whole - whole
        self.whole &= whole


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
        self._kept: dict[str, dict[object, frozenset[KeptLock]]] = {}

    def table(self, schema: str, name: str) -> AbstractContextManager[None]:
        """Readers wait for this table as for a transaction's; it need not exist yet."""
        return self._held.table(schema, name)

    def end(self, schema: str, name: str) -> AbstractContextManager[None]:
        """Readers that come from the end of a table wait, as behind a last row that is not committed; the rows before are free."""
        return self._held.end(schema, name)

    def await_end(self, reader: object, schema: str, name: str, timeout: float | None, cancelled: Cancel) -> None:
        """Wait until `end` is over. Raises SqlError 1222, Cancelled."""
        self._held.await_end(reader, schema, name, timeout, cancelled)

    # -- locks that a reader keeps to the end of its transaction

    def keep(self, owner: object, table: str, lock: KeptLock, timeout: float | None, cancelled: Cancel) -> bool:
        """Once nobody else holds the table against it. False when the owner has it already. Raises 1205, 1222, Cancelled."""
        if lock in self.kept_by(owner, table):
            return False
        self._lock.wait_while(
            owner,
            lambda: self._against_keeping(owner, table, lock),
            timeout,
            cancelled,
            lambda: self._add(owner, table, lock),
        )
        return True

    def _add(self, owner: object, table: str, lock: KeptLock) -> None:
        self._kept.setdefault(table, {})[owner] = self.kept_by(owner, table) | {lock}

    def release(self, owner: object, table: str, lock: KeptLock) -> None:
        def drop() -> None:
            left = self.kept_by(owner, table) - {lock}
            if left:
                self._kept[table][owner] = left
            elif table in self._kept:
                self._kept[table].pop(owner, None)
                if not self._kept[table]:
                    del self._kept[table]

        self._lock.released(drop)

    def kept_by(self, owner: object, table: str) -> frozenset[KeptLock]:
        return self._kept.get(table, {}).get(owner, frozenset())

    def all_kept(self, owner: object) -> dict[str, frozenset[KeptLock]]:
        """Every table that a reader keeps locks on."""
        return {table: kept for table, owners in list(self._kept.items()) if (kept := owners.get(owner))}

    def _others(self, owner: object, table: str) -> list[tuple[object, frozenset[KeptLock]]]:
        return [(other, kept) for other, kept in list(self._kept.get(table, {}).items()) if other is not owner]

    def _against_keeping(self, owner: object, table: str, lock: KeptLock) -> list[object]:
        """Who holds the table so that `owner` cannot have this lock on it. Rows that others have changed are met when they are read."""
        found = self._excluders(owner, table)
        for other, kept in self._others(owner, table):
            if lock == "EXCLUSIVE" or (lock == "UPDATE" and "UPDATE" in kept):
                found.append(other)
        held = self._open()
        if held is not None and held.owner is not owner:
            changing = held.changing.get(table)
            if changing in ("CHANGE", "TABLE") or (lock in _MEETS_INSERTS and (changing or table in held.changed)):
                found.append(held.owner)
        return found

    # -- writers

    def begin_change(self, owner: object, table: str, change: Change) -> bool:
        """The owner's open write transaction is about to change the table; False, and it is not, while somebody keeps locks against that."""
        held = self._open()
        assert held is not None
        return self._lock.unless(lambda: self.against_change(owner, table, change), lambda: held.begin(table, change))

    def await_change(self, owner: object, table: str, change: Change, timeout: float | None, cancelled: Cancel) -> None:
        """Wait until nobody keeps locks against a change. Raises SqlError 1205, 1222, Cancelled."""
        self._lock.wait_while(owner, lambda: self.against_change(owner, table, change), timeout, cancelled)

    def against_change(self, owner: object, table: str, change: Change) -> list[object]:
        if not self._kept:
            return []
        others = self._others(owner, table)
        return [other for other, kept in others if change != "INSERT" or not kept <= _LETS_INSERT]

    # -- readers

    def excludes(self, reader: object, table: str) -> bool:
        """Whether a reader has to wait for the whole table."""
        if self._kept or self._held.any_table:
            return bool(self._excluders(reader, table))
        held = self._open()
        return held is not None and held.owner is not reader and table in held.excluded

    def _excluders(self, reader: object, table: str) -> list[object]:
        found: list[object] = [other for other, kept in self._others(reader, table) if "EXCLUSIVE" in kept]
        if self._held.any_table and table in self._held_tables():
            found.append(self._held)
        held = self._open()
        if held is not None and held.owner is not reader and table in held.excluded:
            found.append(held.owner)
        return found

    def await_table(self, reader: object, table: str, timeout: float | None, cancelled: Cancel) -> None:
        """Wait until `excludes` is over. Raises SqlError 1205, 1222, Cancelled."""
        self._lock.wait_while(reader, lambda: self._excluders(reader, table), timeout, cancelled)

    def changed_by_other(self, reader: object, table: str) -> Collection[int]:
        """The row numbers of a table that another open transaction holds."""
        held = self._open()
        return () if held is None or held.owner is reader else held.changed.get(table, ())

    def await_rows(self, reader: object, table: str, timeout: float | None, cancelled: Cancel) -> None:
        """Wait until the transaction that has changed rows of a table ends, or lets go of them. Raises 1205, 1222, Cancelled."""
        held = self._open()
        if held is not None and held.owner is not reader and table in held.changed:
            before = held.changed
            self._lock.wait_while(
                reader,
                lambda: (held.owner,) if self._open() is held and held.changed is before else (),
                timeout,
                cancelled,
            )

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
