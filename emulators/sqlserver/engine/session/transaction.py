"""A session's transaction: how many BEGINs are open, its savepoints, its snapshots, and what COMMIT and ROLLBACK do to each database.

Each database has a write transaction of its own, which the session owns once a statement of it has written there; this one is all of
them. It takes no lock: the session waits for a database's writer lock, and then lets the transaction join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from emulators.sqlserver.engine.session.links import SessionLinks
from emulators.sqlserver.engine.session.locking import SessionLocks
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.results import Event, SqlError, StatementDone, TransactionChanged
from emulators.sqlserver.tsql.errors import snapshot_refused


class Owner(Protocol):
    """The session."""

    @property
    def links(self) -> SessionLinks: ...

    @property
    def locks(self) -> SessionLocks: ...

    def owned(self) -> Sequence[StoredDatabase]:
        """The databases whose write transaction is its own."""
        ...


@dataclass(frozen=True, slots=True)
class _Savepoint:
    """`kept`: how many readers' locks there were."""

    name: str
    kept: int


class SessionTransaction:
    """Implements session_ports.Transaction. `descriptors`: the number of the next that begins; `ended`: called with each end."""

    def __init__(self, owner: Owner, descriptors: Callable[[], int], ended: Callable[[], None]) -> None:
        self._owner = owner
        self._descriptors = descriptors
        self._ended = ended
        self.count = 0
        self.name = ""
        self.doomed = False
        self._descriptor = 0
        self._savepoints: list[_Savepoint] = []
        self._joined: dict[str, int] = {}
        """How many savepoints there were when it began to write in a database."""
        self._snapshots: dict[str, int] = {}

    def enter_snapshot(self, database: StoredDatabase, link: Link) -> None:
        """Read what was committed when the first read began. Raises 3952."""
        if not database.snapshot_allowed:
            raise snapshot_refused(database.name)
        if self.count and database.name not in self._snapshots:
            link.execute("BEGIN")
            self._snapshots[database.name] = database.commits

    def join(self, database: StoredDatabase) -> None:
        """The session has begun to write in `database`. Raises 3960, and has stopped again then."""
        seen = self._snapshots.get(database.name)
        if seen is not None and seen != database.commits:
            database.rollback_write(self._owner)
            text = (
                "Snapshot isolation transaction aborted due to update conflict. You cannot use snapshot isolation to access "
                f"a table directly or indirectly in database '{database.name}' to update, delete, or insert the row that has "
                "been modified or deleted by another transaction. Retry the transaction or change the isolation level for "
                "the update/delete statement."
            )
            raise SqlError(3960, text, 16, 2)
        self._joined[database.name] = len(self._savepoints)
        for savepoint in self._savepoints:
            database.save(savepoint.name)

    def require_healthy(self) -> None:
        """Raises 3930 when it can only be rolled back."""
        if self.doomed:
            text = (
                "The current transaction cannot be committed and cannot support operations that write to the log file. "
                "Roll back the transaction."
            )
            raise SqlError(3930, text, 16)

    def begin(self, name: str = "") -> Iterator[Event]:
        self.count += 1
        if self.count > 1:
            yield StatementDone()
            return
        self.name = name
        self._descriptor = self._descriptors()
        yield TransactionChanged("begin", self._descriptor)
        yield StatementDone()

    def commit(self) -> Iterator[Event]:
        if self.count == 0:
            raise SqlError(3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.", 16)
        self.require_healthy()
        if self.count == 1:
            try:
                for database in self._owner.owned():
                    database.commit_write(self._owner)
            finally:
                descriptor = self._descriptor
                self.undo()
            yield TransactionChanged("commit", descriptor)
        else:
            self.count -= 1
        yield StatementDone()

    def rollback(self, name: str = "") -> Iterator[Event]:
        if self.count == 0:
            raise SqlError(3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.", 16)
        saved = [index for index, savepoint in enumerate(self._savepoints) if savepoint.name == name.lower()]
        if saved:
            self._rollback_to(saved[-1])
            yield StatementDone()
            return
        if name and name.lower() != self.name.lower():
            text = f"Cannot roll back {name}. No transaction or savepoint of that name was found."
            raise SqlError(6401, text, 16)
        descriptor = self._descriptor
        self.undo()
        yield TransactionChanged("rollback", descriptor)
        yield StatementDone()

    def _rollback_to(self, index: int) -> None:
        """A write transaction that has begun after the savepoint ends, and with it what it holds."""
        savepoint = self._savepoints[index]
        del self._savepoints[index + 1 :]
        for database in self._owner.owned():
            if self._joined.get(database.name, 0) > index:
                database.rollback_write(self._owner)
            else:
                database.rollback_to(savepoint.name)
        self._owner.locks.kept.release_after(savepoint.kept)

    def save(self, name: str) -> Iterator[Event]:
        if self.count == 0:
            raise SqlError(628, "Cannot issue SAVE TRANSACTION when there is no active transaction.", 16)
        self._savepoints.append(_Savepoint(name.lower(), len(self._owner.locks.kept)))
        for database in self._owner.owned():
            database.save(name)
        yield StatementDone()

    def undo(self) -> int:
        """End it, rolling back what is open; the descriptor of the one that ended, 0 without."""
        for database in self._owner.owned():
            database.rollback_write(self._owner)
        for name in self._snapshots:
            link = self._owner.links.opened(name)
            if link is not None and link.raw.in_transaction:
                link.execute("ROLLBACK")
        self._owner.locks.kept.release_all()
        self._ended()
        ended = self._descriptor if self.count else 0
        self._snapshots = {}
        self._savepoints = []
        self._joined = {}
        self.count = 0
        self.name = ""
        self.doomed = False
        return ended
