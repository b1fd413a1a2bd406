"""What the statements of a session ask of it, and of the server behind it.

session/ and server_engine.py implement these Protocols and stand above everything else in the engine; whatever runs a statement,
answers a function or fills a view knows them alone. A module asks for the smallest one that holds what it uses.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from emulators.sqlserver.engine.application_locks import ApplicationLocks
from emulators.sqlserver.engine.configuration import Configuration
from emulators.sqlserver.engine.extension import CallContext, Extension, LogState, Table
from emulators.sqlserver.engine.plan_cache import PlanCache
from emulators.sqlserver.engine.rights import DatabaseRights
from emulators.sqlserver.engine.row_stream import Row, RowStream
from emulators.sqlserver.engine.security import Security
from emulators.sqlserver.engine.session_settings import SessionSettings
from emulators.sqlserver.engine.store.availability import Availability
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.engine.store.kept_locks import Kept
from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.engine.store.table_locks import Change
from emulators.sqlserver.results import Cancel, Event, LoginRequest, SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.planning.lowering import OutputShape
from emulators.sqlserver.tsql.planning.plans import Plan, Source, StoredTable
from emulators.sqlserver.tsql.reading.definitions import Termination
from emulators.sqlserver.tsql.reading.fragments import Fragment


class DatabaseServer(Protocol):
    """The server, for all of its sessions."""

    @property
    def security(self) -> Security: ...

    @property
    def configuration(self) -> Configuration: ...

    @property
    def extension(self) -> Extension | None: ...

    @property
    def application_locks(self) -> ApplicationLocks: ...

    def session_ended(self, session_id: int) -> None: ...

    @property
    def plans(self) -> PlanCache: ...

    def clock(self) -> datetime: ...

    def find(self, name: str) -> StoredDatabase | None: ...

    def databases(self) -> Sequence[StoredDatabase]: ...

    def create_database(self, name: str, collation: str = "") -> StoredDatabase:
        """Raises 1801."""
        ...

    def admit(self, database: StoredDatabase, session: StatementSession) -> None:
        """Whether it may come in now. Raises 923, 924, 942."""
        ...

    def enter(self, database: StoredDatabase, session: StatementSession) -> None:
        """Make it the session's current database. Raises 923, 924, 942."""
        ...

    def make_available(
        self, database: StoredDatabase, wanted: Availability, termination: Termination, session: StatementSession
    ) -> None:
        """Raises 5064, 5070, Cancelled."""
        ...

    def await_others(self, database: StoredDatabase, termination: Termination, session: StatementSession) -> None:
        """Until the session is alone in a database. Raises 5070, Cancelled."""
        ...

    def drop_database(self, name: str, if_exists: bool, session: object) -> None:
        """Raises 3701, 3702, 3708."""
        ...

    def log(self, database: StoredDatabase) -> LogState:
        """How far the database's log has come."""
        ...

    def save_options(self, database: StoredDatabase) -> None:
        """Keep what ALTER DATABASE said."""
        ...

    def identity(self, name: str) -> bool:
        """Whether the directory knows this identity."""
        ...

    def sessions(self) -> Sequence[StatementSession]: ...

    def kill(self, session_id: int) -> None:
        """Raises 6106, 6107."""
        ...

    def wait(self, seconds: float, cancelled: Cancel) -> None:
        """Raises Cancelled."""
        ...


class DatabaseAccess(Protocol):
    """Which databases a session sees, and what it may do there."""

    @property
    def engine(self) -> DatabaseServer: ...

    @property
    def login_request(self) -> LoginRequest: ...

    @property
    def database(self) -> str:
        """The current one's name."""
        ...

    def current(self) -> StoredDatabase: ...

    def use(self, database: StoredDatabase) -> None: ...

    def admitted(self, database: StoredDatabase) -> None:
        """Whether it may read another database now. Raises 923, 924, 942."""
        ...

    def find(self, name: str) -> StoredDatabase | None:
        """A database by name, the session's private ones included."""
        ...

    def private(self, mark: str) -> StoredDatabase:
        """The session's own database of temporary tables ("#") or of table variables ("@")."""
        ...

    def private_versions(self) -> tuple[int, ...]: ...

    def rights(self, database: StoredDatabase) -> DatabaseRights: ...

    def rights_key(self) -> object:
        """What a plan depends on beside the catalog."""
        ...


class Locks(Protocol):
    """What is waited for and kept. Everything that waits raises 1205, 1222, Cancelled."""

    def await_tables(self, plan: Plan) -> None:
        """Wait while other sessions hold exclusive locks on whole tables."""
        ...

    def keep(self, plan: Plan) -> Sequence[Kept]:
        """The locks that a reader of the plan's tables keeps until its transaction ends; those that are new."""
        ...

    def let_go(self, kept: Sequence[Kept]) -> None: ...

    def changed_by_others(self, tables: Collection[StoredTable]) -> Mapping[str, Collection[int]]:
        """Row numbers that other open transactions hold, by table."""
        ...

    def await_rows(self, plan: Plan, held: str) -> None:
        """Wait until the transaction ends that has changed rows of `held`."""
        ...

    def await_end(self, database: StoredDatabase, schema: str, name: str) -> None:
        """Wait while the last row of a table is not committed."""
        ...


class Connections(Protocol):
    """Which connection of SQLite a statement uses, and what it waits for first."""

    @property
    def cancelled(self) -> Cancel: ...

    @property
    def locks(self) -> Locks: ...

    def read_link(self, database: StoredDatabase, touched: bool) -> Link:
        """Raises 3952."""
        ...

    def writing(
        self,
        database: StoredDatabase,
        tables: Collection[str] = (),
        change: Change = "CHANGE",
        plans: Sequence[Plan] = (),
    ) -> AbstractContextManager[Link]:
        """One writing statement: atomic; outside a transaction it commits itself. Raises 911, 1205, 1222, 3930, 3960."""
        ...

    reading: frozenset[StoredTable]
    """What the statement that runs reads, until the client has its rows."""
    waiting: StoredTable | None
    """The table whose lock it waits for."""

    def note_reads(self, tables: Collection[StoredTable]) -> None:
        """These tables are read from now on."""
        ...

    def rows_in(self, database: StoredDatabase, table: Table) -> int: ...


class Transaction(Protocol):
    """The session's transaction."""

    doomed: bool
    """It can only be rolled back."""

    @property
    def count(self) -> int:
        """How many are open inside one another (@@TRANCOUNT)."""
        ...

    @property
    def name(self) -> str: ...

    def begin(self, name: str = "") -> Iterator[Event]: ...

    def commit(self) -> Iterator[Event]:
        """Raises 3902, 3930."""
        ...

    def rollback(self, name: str = "") -> Iterator[Event]:
        """Raises 3903, 6401."""
        ...

    def save(self, name: str) -> Iterator[Event]:
        """Raises 628."""
        ...

    def undo(self) -> int:
        """End it, rolling back what is open; the descriptor of the one that ended, 0 without."""
        ...


class Outcome(Protocol):
    """What the statements leave for the next one to ask: @@ROWCOUNT, @@ERROR, SCOPE_IDENTITY, ERROR_NUMBER, and unread rows."""

    row_count: int
    last_error: int
    identity: Value
    caught: SqlError | None
    statement_time: datetime
    stream: RowStream | None

    def settle(self) -> None:
        """Take what a client has not read yet of the last result off its connection."""
        ...


class Queries(Protocol):
    """Runs lowered queries for a session (queries/runner.py)."""

    def plan(self, fragment: Fragment, *, sent: bool = False) -> Plan: ...

    def plan_rows(self, fragment: Fragment, target: tuple[str, ...], has_from: bool) -> tuple[Plan, Source]: ...

    def open(self, fragment: Fragment, *, sent: bool = False) -> tuple[Plan, Link, sqlite3.Cursor]: ...

    def execute(self, fragment: Fragment, plan: Plan, link: Link) -> sqlite3.Cursor: ...

    def link(self, plan: Plan) -> Link: ...

    def output(self, fragment: Fragment, shape: OutputShape, rows: Sequence[Row]) -> tuple[Plan, list[Row]]: ...

    def row(self, fragment: Fragment) -> tuple[Plan, Row]: ...

    def value(self, fragment: Fragment) -> tuple[SqlType, Value]: ...

    def literal(self, kind: SqlType, value: Value) -> tuple[SqlType, Value]: ...

    def context(self, database: StoredDatabase) -> CallContext: ...


class StatementSession(DatabaseAccess, Connections, Outcome, Protocol):
    """The session as a statement knows it."""

    settings: SessionSettings
    variables: dict[str, tuple[SqlType, Value]]

    @property
    def session_id(self) -> int: ...

    @property
    def transaction(self) -> Transaction: ...

    @property
    def runner(self) -> Queries: ...

    def scope(self) -> AbstractContextManager[None]:
        """EXEC ('...') and sp_executesql: what their text declares and sets ends with it."""
        ...
