"""What a session's statements wait for before they read or change a table, and the locks that its transaction keeps for what it has read.

READ COMMITTED heeds locks and keeps none; REPEATABLE READ keeps its readers' locks on rows, SERIALIZABLE on ranges, and hints keep what they
say, all of them on whole tables here (store/table_locks.py). READ UNCOMMITTED and SNAPSHOT read without locks. Outside a transaction a lock is
waited for and not kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from emulators.sqlserver.engine.session_settings import SessionSettings
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.engine.store.kept_locks import Kept, KeptLocks
from emulators.sqlserver.engine.store.table_locks import Change
from emulators.sqlserver.results import Cancel
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.planning.plans import KeptLock, Plan, StoredTable

_UNLOCKED = ("READ UNCOMMITTED", "SNAPSHOT")
_STRICT: dict[str, KeptLock] = {"REPEATABLE READ": "ROWS", "SERIALIZABLE": "RANGE"}


class Locking(Protocol):
    """The session."""

    settings: SessionSettings
    waiting: StoredTable | None

    @property
    def in_transaction(self) -> bool: ...

    def find(self, name: str) -> StoredDatabase | None: ...

    def patience(self) -> tuple[float | None, Cancel]: ...


class SessionLocks:
    """Implements session_ports.Locks."""

    def __init__(self, session: Locking) -> None:
        self._session = session
        self.kept = KeptLocks(session)

    # -- readers

    def await_tables(self, plan: Plan) -> None:
        """Wait while other sessions hold exclusive locks on whole tables that are about to be read. Raises 1205, 1222, Cancelled."""
        for database, table in self._read_under_locks(plan.reads):
            if database.locks.excludes(self._session, table):
                with self._waiting_for(database, table):
                    database.locks.await_table(self._session, table, *self._patience(plan, database, table))

    def keep(self, plan: Plan) -> Sequence[Kept]:
        """The locks that a reader of the plan's tables keeps; those that are new. Raises 1205, 1222, Cancelled."""
        strict = _STRICT.get(self._session.settings.isolation)
        if strict is None and not plan.keeps:
            return ()
        wanted = dict.fromkeys(sorted(plan.keeps))
        if strict is not None:
            wanted.update(((table, strict), None) for table in sorted(plan.reads))
        named = ((self._session.find(name), table, lock) for (name, table), lock in wanted if name[0] not in "#@")
        locks = [Kept(database, table, lock) for database, table, lock in named if database is not None]
        new = self.kept.keep(locks, lambda one: self._patience(plan, one.database, one.table))
        if not self._session.in_transaction:
            self.kept.let_go(new)
            return ()
        return new

    def let_go(self, kept: Sequence[Kept]) -> None:
        """Keep these no more: who waits for rows has not read them yet."""
        self.kept.let_go(kept)

    def changed_by_others(self, tables: Collection[StoredTable]) -> dict[str, Collection[int]]:
        """Row numbers that open transactions of other sessions hold, by table: who is about to read them has to wait."""
        found: dict[str, Collection[int]] = {}
        for database, table in self._read_under_locks(tables):
            if numbers := database.locks.changed_by_other(self._session, table):
                found[table] = numbers
        return found

    def await_rows(self, plan: Plan, held: str) -> None:
        """Wait until the transaction ends that has changed rows of the table `held`. Raises 1205, 1222, Cancelled."""
        for database, table in self._read_under_locks(plan.reads):
            if table == held:
                with self._waiting_for(database, table):
                    database.locks.await_rows(self._session, table, *self._patience(plan, database, table))

    def await_end(self, database: StoredDatabase, schema: str, name: str) -> None:
        """Wait while the last row of a table is another session's, not yet committed. Raises 1222, Cancelled."""
        isolation = self._session.settings.isolation
        if isolation not in _UNLOCKED and not (database.read_committed_snapshot and isolation == "READ COMMITTED"):
            database.locks.await_end(self._session, schema, name, *self._session.patience())

    def _patience(self, plan: Plan, database: StoredDatabase, table: str) -> tuple[float | None, Cancel]:
        timeout, cancelled = self._session.patience()
        return 0.0 if (database.name, table) in plan.nowait else timeout, cancelled

    def _read_under_locks(self, tables: Collection[StoredTable]) -> Iterator[tuple[StoredDatabase, str]]:
        """The tables whose locks a reader of this isolation level heeds."""
        isolation = self._session.settings.isolation
        if isolation in _UNLOCKED:
            return
        for name, table in tables:
            database = self._session.find(name)
            if database is not None and not (database.read_committed_snapshot and isolation == "READ COMMITTED"):
                yield database, table

    @contextmanager
    def _waiting_for(self, database: StoredDatabase, table: str) -> Iterator[None]:
        self._session.waiting = (database.name, table)
        try:
            yield
        finally:
            self._session.waiting = None

    # -- writers

    def await_change(
        self, database: StoredDatabase, tables: Collection[str], change: Change, plans: Sequence[Plan]
    ) -> None:
        """Wait, before the statement has the writer lock, for those who keep locks against it. Raises 1205, 1222, Cancelled."""
        for plan in plans:
            if plan.nowait:  # it may wait for the database's one writer, whatever that writes to
                raise unsupported("table hint NOWAIT in a statement that changes rows")
            self.await_tables(plan)
            self.keep(plan)
        for table in tables:
            if database.locks.against_change(self._session, table, change):
                database.locks.await_change(self._session, table, change, *self._session.patience())

    def begin_change(self, database: StoredDatabase, tables: Collection[str], change: Change) -> bool:
        """The statement has the writer lock; False when it has to wait again."""
        return all(database.locks.begin_change(self._session, table, change) for table in tables)
