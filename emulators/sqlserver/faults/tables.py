"""Faults of users' tables: another session's lock on the whole of one, which only its readers meet."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.injection import Fault, Server


class TableLocked(Fault):
    """A table is held exclusively, as by TABLOCKX or by lock escalation: who reads it waits, or meets 1222 after LOCK_TIMEOUT.

    `table`: its name, in dbo or with its schema, in every database; it need not be there yet. `seconds`: for how long, 0 until the fault
    is over. Readers under NOLOCK, READ_COMMITTED_SNAPSHOT or SNAPSHOT do not wait. What remains: everything; writers are not delayed.
    https://learn.microsoft.com/sql/t-sql/queries/hints-transact-sql-table (TABLOCKX)
    """

    def __init__(self, table: str, seconds: float = 0.0) -> None:
        schema, dot, name = table.partition(".")
        self._schema, self._name = (schema, name) if dot else ("dbo", table)
        self._seconds = seconds
        self._guard = threading.Lock()
        self._engine: SqlEngine | None = None
        self._known: list[StoredDatabase] = []
        self._holds = ExitStack()
        self._timer: threading.Timer | None = None

    def begin(self, server: Server) -> None:
        if not isinstance(server.engine, SqlEngine):
            raise ValueError("a server without databases has no table to lock")
        self._engine = server.engine
        self.finished()
        if self._seconds:
            self._timer = threading.Timer(self._seconds, self._release)
            self._timer.daemon = True
            self._timer.start()

    def finished(self) -> None:
        """Hold it in databases that are new, too."""
        with self._guard:
            for database in self._engine.databases() if self._engine is not None else ():
                if database not in self._known:
                    self._known.append(database)
                    self._holds.enter_context(database.held(self._schema, self._name))

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._release()

    def _release(self) -> None:
        with self._guard:
            self._engine = None
            self._known.clear()
            self._holds.close()
