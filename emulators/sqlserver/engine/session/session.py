"""One logged-in session: what it runs, its settings and variables, and which connection and which waits each statement gets.

Its transaction, its connections and its private databases are objects of their own, which it holds. Isolation: READ COMMITTED reads
what is committed, keeps nothing, and waits for exclusive locks on whole tables (TABLOCKX) and for rows that another transaction has
updated or deleted, not for those that it has inserted; SNAPSHOT holds a SQLite read
transaction, and a write after another commit in that database is update conflict 3960 (coarser than the real server's, which looks at
rows); REPEATABLE READ and SERIALIZABLE keep locks on the tables that they have read (locking.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Protocol

from emulators.sqlserver.engine.extension import Table
from emulators.sqlserver.engine.functions.environment import Environment
from emulators.sqlserver.engine.functions.object_lookup import ObjectLookup
from emulators.sqlserver.engine.interpreter import Interpreter
from emulators.sqlserver.engine.queries.runner import Runner
from emulators.sqlserver.engine.rights import DatabaseRights
from emulators.sqlserver.engine.row_stream import RowStream
from emulators.sqlserver.engine.session.links import SessionLinks
from emulators.sqlserver.engine.session.locking import SessionLocks
from emulators.sqlserver.engine.session.private_databases import PrivateDatabases
from emulators.sqlserver.engine.session.transaction import SessionTransaction
from emulators.sqlserver.engine.session_ports import DatabaseServer
from emulators.sqlserver.engine.session_settings import SessionSettings
from emulators.sqlserver.engine.store.database import RUNNING, StoredDatabase
from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.engine.store.table_locks import Change
from emulators.sqlserver.results import (
    Cancel,
    Cancelled,
    Column,
    Event,
    LoginRequest,
    Parameter,
    SqlError,
    TransactionChanged,
    Value,
)
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.planning.apply import APPLIED, packed
from emulators.sqlserver.tsql.planning.plans import Plan, StoredTable


class Host(DatabaseServer, Protocol):
    """The server as it serves a session itself."""

    def next_descriptor(self) -> int:
        """Of a transaction that begins."""
        ...

    def private_database(self, name: str, number: int) -> StoredDatabase: ...

    def forget(self, session: SqlSession) -> None:
        """It is closed."""
        ...


class SqlSession:
    """Implements results.Session, plans.SessionView and session_ports.StatementSession."""

    def __init__(self, engine: Host, session_id: int, request: LoginRequest, database: StoredDatabase) -> None:
        self.engine = engine
        self.session_id = session_id
        self.login_request = request
        self.settings = SessionSettings()
        self.links = SessionLinks(self)
        self.locks = SessionLocks(self)
        self.transaction = SessionTransaction(
            self, engine.next_descriptor, lambda: engine.application_locks.release_transaction(session_id)
        )
        self.variables: dict[str, tuple[SqlType, Value]] = {}
        self.killed = False
        """Set by KILL from another session: what runs here ends as if the client had gone."""
        self.row_count = 0
        self.last_error = 0
        self.identity: Value = None
        self.caught: SqlError | None = None
        self.statement_time: datetime = engine.clock()
        self.runner = Runner(self)
        self.cancelled: Cancel = _never
        self._cut = 0
        """The descriptor of the transaction that a cancelled batch has ended, until its client hears of it."""
        self.reading: frozenset[StoredTable] = frozenset()
        self.waiting: StoredTable | None = None
        self.stream: RowStream | None = None
        self._database = database
        self._environment = Environment(self)
        self._private = PrivateDatabases(self, engine)
        self._interpreter = Interpreter(self)
        self._closed = False

    # -- results.Session

    @property
    def database(self) -> str:
        return self._database.name

    @property
    def collation(self) -> str:
        return self._database.collation

    @property
    def in_transaction(self) -> bool:
        return self.transaction.count > 0

    def batch(self, sql: str, parameters: Mapping[str, Parameter], cancelled: Cancel) -> Iterator[Event]:
        self._private.forget("@")
        self.variables = {name.lower(): (item.type, item.value) for name, item in parameters.items()}
        return self._driven(self._interpreter.batch(sql, scoped=bool(parameters)), cancelled)

    def procedure(self, name: str, parameters: Sequence[Parameter], cancelled: Cancel) -> Iterator[Event]:
        self.variables = {}
        return self._driven(self._interpreter.call(name, parameters), cancelled)

    def _driven(self, events: Iterator[Event], cancelled: Cancel) -> Iterator[Event]:
        """Marks the thread as running this session while the events are made."""
        self.cancelled = cancelled = partial(_or_killed, self, cancelled)
        try:
            if self.killed:
                raise Cancelled
            while True:
                before = getattr(RUNNING, "session", None)
                RUNNING.session = self
                try:
                    event = next(events)
                except StopIteration:
                    return
                finally:
                    RUNNING.session = before
                yield event
                if cancelled():
                    raise Cancelled
        except Cancelled:
            self._cut_short()
            if self._cut:
                ended, self._cut = self._cut, 0
                yield TransactionChanged("rollback", ended)
            raise
        except GeneratorExit:
            if cancelled():
                self._cut_short()
                self._cut = 0
            raise
        finally:
            if self.stream is not None and cancelled():
                self._abandon()
            self.reading = frozenset()
            self.links.leave()

    def _cut_short(self) -> None:
        """Its batch is cancelled: no doomed transaction outlives it, and under XACT_ABORT none.

        https://learn.microsoft.com/sql/t-sql/statements/set-xact-abort-transact-sql
        """
        self._abandon()
        if self.transaction.doomed or (self.settings.xact_abort and self.transaction.count):
            self._cut = self._end_all()

    def bulk_load(
        self, columns: Sequence[Column], rows: Sequence[Sequence[Value]], cancelled: Cancel
    ) -> Iterator[Event]:
        return self._driven(self._interpreter.bulk_load(columns, rows), cancelled)

    def begin(self, isolation: str | None = None, name: str = "") -> Iterator[Event]:
        if isolation is not None:
            self.settings = replace(self.settings, isolation=isolation.upper())
        return self._driven(self.transaction.begin(name), _never)

    def commit(self, name: str = "") -> Iterator[Event]:
        return self._driven(self.transaction.commit(), _never)

    def rollback(self, name: str = "") -> Iterator[Event]:
        return self._driven(self.transaction.rollback(name), _never)

    def save(self, name: str) -> Iterator[Event]:
        return self._driven(self.transaction.save(name), _never)

    def reset(self) -> None:
        self.settle()
        self._end_all()
        self.engine.session_ended(self.session_id)
        self._private.forget("#")
        self._private.forget("@")
        self.settings = SessionSettings()
        self.variables = {}
        self.identity = None
        self.row_count = self.last_error = 0

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._abandon()
        self._end_all()
        self.engine.session_ended(self.session_id)
        self._private.forget("#")
        self._private.forget("@")
        self.links.close(self.engine.find)
        self.engine.forget(self)

    def _end_all(self) -> int:
        """The descriptor of the transaction that ended, 0 without."""
        before = getattr(RUNNING, "session", None)
        RUNNING.session = self
        try:
            return self.transaction.undo()
        finally:
            RUNNING.session = before

    # -- plans.SessionView

    def global_value(self, name: str) -> Value:
        return self._environment.global_value(name)

    def call(self, name: str, arguments: Sequence[Value]) -> Value:
        where, bar, key = name.partition("|")
        if not bar:
            return self._environment.call(name, arguments)
        if where.startswith(APPLIED):
            return packed(self.runner.function_rows(where.removeprefix(APPLIED), key, arguments))
        database = self.engine.find(where) if where else self._database
        assert database is not None
        assert self.engine.extension is not None
        function = self.engine.extension.scalar_functions()[key]
        return function.call(self.runner.context(database), arguments)

    # -- databases and connections

    def private(self, mark: str) -> StoredDatabase:
        """The session's own database of temporary tables ("#") or of table variables ("@"), which a rollback does not touch."""
        return self._private.of(mark)

    def private_versions(self) -> tuple[int, ...]:
        private = self._private.all()
        return tuple([database.catalog_for(self).version for database in private]) if private else ()

    def find(self, name: str) -> StoredDatabase | None:
        """A database by name, the session's private ones included."""
        if name[:1] in ("#", "@") and name[1:].isdigit():
            return self._private.get(name[0])
        return self.engine.find(name)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """EXEC ('...') and sp_executesql: their table variables are their own; their temporary tables and SET options go at the end.

        https://learn.microsoft.com/sql/t-sql/statements/set-statements-transact-sql (Considerations)
        """
        settings = self.settings
        with self._private.scope():
            try:
                yield
            except Cancelled:
                self._cut_short()  # XACT_ABORT counts as it is in here
                raise
            finally:
                self.settings = settings

    def rights(self, database: StoredDatabase) -> DatabaseRights:
        return DatabaseRights(self.engine.security, self.login_request.user, database, self)

    def rows_in(self, database: StoredDatabase, table: Table) -> int:
        return ObjectLookup(self).row_count(database, table)

    def rights_key(self) -> object:
        """What a plan depends on beside the catalog: nothing for a sysadmin, whose plans all may share."""
        security, login = self.engine.security, self.login_request.user
        return None if security.is_sysadmin(login) else (login.lower(), security.version)

    def current(self) -> StoredDatabase:
        return self._database

    def admitted(self, database: StoredDatabase) -> None:
        """Raises 923, 924, 942."""
        self.engine.admit(database, self)

    def use(self, database: StoredDatabase) -> None:
        self._database = database

    def settle(self) -> None:
        """Take what a client has not read yet of the last result off its connection."""
        if self.stream is not None:
            self.row_count = self.stream.settle()
            self.stream = None
        self.reading = frozenset()

    def _abandon(self) -> None:
        """Nobody reads what is left of the last result."""
        if self.stream is not None:
            self.stream.close()
        self.settle()

    def read_link(self, database: StoredDatabase, touched: bool) -> Link:
        """The connection that a read in `database` uses. Raises 3952."""
        if database is self._private.get("@"):
            return self.links.of(database)
        if database.owned_by(self):
            database.write_link.session = self
            return database.write_link
        link = self.links.of(database)
        if touched and self.settings.isolation == "SNAPSHOT" and database is not self._private.get("#"):
            self.transaction.enter_snapshot(database, link)
        return link

    def enter(self, database: StoredDatabase) -> None:
        self.links.enter(database)

    def patience(self) -> tuple[float | None, Cancel]:
        timeout = self.settings.lock_timeout
        return None if timeout < 0 else timeout / 1000, self.cancelled

    def note_reads(self, tables: Collection[StoredTable]) -> None:
        """These tables are read from now on, until the result is read."""
        self.reading = frozenset(tables)

    def forget_database(self, database: StoredDatabase) -> None:
        """It is dropped."""
        self.links.forget(database)

    def owned(self) -> list[StoredDatabase]:
        return [d for d in (*self.engine.databases(), *self._private.all()) if d.owned_by(self)]

    def acquire(self, database: StoredDatabase) -> None:
        """Open this session's write transaction in `database`. Raises 911, 1222, 3960, Cancelled."""
        self.enter(database)
        database.begin_write(self, *self.patience(), user=True)
        self.transaction.join(database)

    def work(self) -> int:
        """How much a rollback would undo: locks.Victim."""
        held = [database.locks.of(self) for database in self.owned()]
        return sum(1 + sum(map(len, each.changed.values())) for each in held if each is not None)

    @contextmanager
    def writing(
        self,
        database: StoredDatabase,
        tables: Collection[str] = (),
        change: Change = "CHANGE",
        plans: Sequence[Plan] = (),
    ) -> Iterator[Link]:
        """One writing statement: atomic; outside a transaction it commits itself. Raises SqlError 3930.

        `tables`: which it changes, by their names in the storage, and `plans`: what it reads."""
        variables = database is self._private.get("@")
        if not variables:
            self.transaction.require_healthy()
        began = not database.owned_by(self)
        if began and variables:
            database.begin_write(self, None, self.cancelled, user=False)
        else:
            self._begin_change(database, tables, change, plans)
        try:
            with database.statement() as link:
                link.session = self
                yield link
        except BaseException:
            if began and (variables or not self.transaction.count):
                database.rollback_write(self)
            raise
        finally:
            held = database.locks.of(self)
            if held is not None:
                held.changing.clear()
        if began and (variables or not self.transaction.count):
            database.commit_write(self)

    def _begin_change(
        self, database: StoredDatabase, tables: Collection[str], change: Change, plans: Sequence[Plan]
    ) -> None:
        """Have the writer lock while nobody keeps locks against the statement, and wait for those without it where that is possible."""
        while True:
            self.locks.await_change(database, tables, change, plans)
            began = not database.owned_by(self)
            if began:
                self.acquire(database)
            if self.locks.begin_change(database, tables, change):
                return
            if began:
                database.rollback_write(self)


def _never() -> bool:
    return False


def _or_killed(session: SqlSession, cancelled: Cancel) -> bool:
    return session.killed or cancelled()
