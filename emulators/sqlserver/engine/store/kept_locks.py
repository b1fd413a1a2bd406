"""The locks that a session's transaction keeps for what it has read: noted in their order, so that a savepoint knows what came after it.

Whom they stop is decided by each database's table locks. A rollback to a savepoint releases what was locked after it; a lock that became
a stronger one stays so.
Source: https://learn.microsoft.com/sql/t-sql/language-elements/rollback-transaction-transact-sql (savepoint_name)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.results import Cancel
from emulators.sqlserver.tsql.planning.plans import KeptLock


@dataclass(frozen=True, slots=True)
class Kept:
    """One lock on one table, by its name in the storage."""

    database: StoredDatabase
    table: str
    lock: KeptLock


class KeptLocks:
    """Of the session `owner`."""

    def __init__(self, owner: object) -> None:
        self._owner = owner
        self._kept: list[Kept] = []

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, wanted: Sequence[Kept], patience: Callable[[Kept], tuple[float | None, Cancel]]) -> list[Kept]:
        """All of them, or no more than before; those that are new. Raises SqlError 1205, 1222, Cancelled."""
        new: list[Kept] = []
        try:
            for one in wanted:
                if one.database.locks.keep(self._owner, one.table, one.lock, *patience(one)):
                    self._kept.append(one)
                    new.append(one)
        except BaseException:
            self.let_go(new)
            raise
        return new

    def let_go(self, kept: Sequence[Kept]) -> None:
        for one in kept:
            self._kept.remove(one)
            one.database.locks.release(self._owner, one.table, one.lock)

    def release_after(self, mark: int) -> None:
        """Back to the length that it had."""
        before = {(one.database.name, one.table) for one in self._kept[:mark]}
        self.let_go([one for one in self._kept[mark:] if (one.database.name, one.table) not in before])

    def release_all(self) -> None:
        self.let_go(list(self._kept))
