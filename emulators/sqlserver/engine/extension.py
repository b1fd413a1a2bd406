"""The seam between the database engine and Change Data Capture: what each side offers the other.

The engine knows tables, transactions and T-SQL; it knows nothing of LSNs. `cdc/` knows the log, the capture job and the
change tables; it parses no T-SQL and opens no SQLite connection of its own accord.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from emulators.sqlserver.results import Cancel, Column, Event, SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.reading.fragments import Fragment

Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column as the catalog holds it. `column_id` counts from 1 and is never used again after a drop."""

    column_id: int
    name: str
    type: SqlType
    nullable: bool = True
    identity: bool = False
    computed: bool = False


@dataclass(frozen=True, slots=True)
class IndexFilter:
    """WHERE of a filtered index: as it was written, as SQLite's condition on the table's own columns, and the ids of these.

    `condition`: what `sql` was made from; it holds numbers of functions, which are this process's.
    """

    text: str
    sql: str
    column_ids: frozenset[int]
    condition: Fragment


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """A primary key or another index: its name and the ids of its columns in key order; id 1 is the clustered one's.

    `descending`: ids of the columns that it holds in descending order; `included`: ids of those that are not of the key.
    """

    name: str
    column_ids: tuple[int, ...]
    primary: bool
    index_id: int = 1
    unique: bool = True
    descending: frozenset[int] = frozenset()
    included: tuple[int, ...] = ()
    filter: IndexFilter | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A user table or a system table as the catalog holds it; immutable, a DDL statement makes a new one.

    `keys`: what tells all rows apart, unique over the whole table; `indexes`: the indexes that are not unique, or filtered.
    """

    object_id: int
    schema: str
    name: str
    columns: tuple[TableColumn, ...]
    keys: tuple[KeyIndex, ...] = ()
    system: bool = False
    indexes: tuple[KeyIndex, ...] = ()

    def all_indexes(self) -> list[KeyIndex]:
        """Keys and other indexes by their ids."""
        return sorted((*self.keys, *self.indexes), key=lambda index: index.index_id)

    def unique_indexes(self) -> list[KeyIndex]:
        """The keys, and the filtered indexes that are unique."""
        return [*self.keys, *(index for index in self.indexes if index.unique)]


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row touched by a statement; values in the table's column order. An insert has no `before`, a delete no `after`."""

    before: Row | None
    after: Row | None


class Transaction:
    """A user's transaction, from its first write to its end. `cdc` may hang its own state on `notes`."""

    def __init__(self, number: int, begin_time: str) -> None:
        self.number = number
        self.begin_time = begin_time
        """Server-local time in datetime form (sqltypes.py)."""
        self.notes: dict[str, object] = {}


class ChangeObserver(Protocol):
    """Told of every change in one database; called on the writer's thread while it holds the database's writer lock."""

    def tracks(self, object_id: int) -> bool:
        """Whether the table's row changes are wanted; the engine skips the work of collecting them otherwise."""
        ...

    def statement(
        self, transaction: Transaction, table: Table, changes: Sequence[RowChange], updated: frozenset[int]
    ) -> None:
        """One statement's row changes on one table, in execution order; `updated`: the column ids an UPDATE's SET names."""
        ...

    def saved(self, transaction: Transaction, savepoint: str) -> None: ...

    def rolled_back_to(self, transaction: Transaction, savepoint: str) -> None: ...

    def committing(self, transaction: Transaction, connection: sqlite3.Connection) -> None:
        """Last call inside the SQLite transaction: write the log records with it, so that both commit or neither does."""
        ...

    def rolled_back(self, transaction: Transaction) -> None: ...

    def table_changed(self, before: Table, after: Table | None, ddl: str, transaction: Transaction | None) -> None:
        """ALTER TABLE (after = the new shape) or DROP TABLE (after = None). Raises SqlError to refuse it (4928, 4711, ...)."""
        ...


class Database(Protocol):
    """What the engine offers to extensions: one database's catalog and storage."""

    @property
    def name(self) -> str: ...

    @property
    def database_id(self) -> int: ...

    @property
    def fold(self) -> Callable[[str], str]:
        """Equal for names that are equal by the database's collation."""
        ...

    @property
    def for_jobs(self) -> bool:
        """Whether the server's jobs work in it at the moment: not while it is offline or has a single user."""
        ...

    def writer(self, gives_way: Cancel | None = None) -> AbstractContextManager[sqlite3.Connection]:
        """The database's single write connection inside BEGIN IMMEDIATE: commits on leaving, rolls back on an exception.

        Waits for a user's open write transaction to end, in a session's thread as long as the session waits for locks (1222)
        and until it is cancelled; in a thread without a session until `gives_way` says so (Cancelled). Never to be entered by a
        thread that already holds it.
        """
        ...

    def reader(self) -> sqlite3.Connection:
        """A connection of this thread for reading committed data."""
        ...

    def held(self, schema: str, name: str) -> AbstractContextManager[None]:
        """A block in which whoever reads this table waits for it, as behind an exclusive lock (1222)."""
        ...

    def held_end(self, schema: str, name: str) -> AbstractContextManager[None]:
        """A block in which whoever reads this table from its end waits, as behind a last row that is not committed (1222)."""
        ...

    def table(self, schema: str, name: str) -> Table | None:
        """Names compare by the database's collation (without case by default)."""
        ...

    def table_by_id(self, object_id: int) -> Table | None: ...

    def tables(self) -> Sequence[Table]: ...

    def storage(self, table: Table) -> str:
        """The quoted name of the SQLite table behind `table`; its columns have the quoted names of the table's columns."""
        ...

    def create_system_table(
        self,
        connection: sqlite3.Connection,
        schema: str,
        name: str,
        columns: Sequence[Column],
        order: Sequence[str] = (),
    ) -> Table:
        """Make a table that queries can read as schema.name; `order`: the columns of its clustered unique index."""
        ...

    def alter_system_table(self, connection: sqlite3.Connection, table: Table, column: str, kind: SqlType) -> None:
        """Give a column another type and convert its rows. Raises SqlError for a value that does not fit."""
        ...

    def drop_system_table(self, connection: sqlite3.Connection, table: Table) -> None: ...

    def create_schema(self, name: str) -> None: ...

    def drop_schema(self, name: str) -> None: ...

    def set_observer(self, observer: ChangeObserver | None) -> None: ...

    def set_cdc_enabled(self, enabled: bool) -> None:
        """sys.databases.is_cdc_enabled."""
        ...

    def set_tracked(self, object_id: int, tracked: bool) -> None:
        """sys.tables.is_tracked_by_cdc."""
        ...

    def now(self) -> str:
        """Server-local time in datetime form, rounded to 1/300 s."""
        ...


class Rights(Protocol):
    """What a session's login may do in one database."""

    def is_member(self, role: str) -> bool: ...

    def may_select(self, schema: str, table: str) -> bool: ...

    def ensure_role(self, role: str) -> None: ...

    def has_principal(self, name: str) -> bool: ...

    def create_user(self, name: str) -> None: ...

    def drop_user(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who calls: the session's database, login, whether a user transaction is open, and what the login may do (None: everything)."""

    database: Database
    login: str
    session_id: int
    in_transaction: bool
    rights: Rights | None = None
    await_end: Callable[[str, str], None] | None = None
    """Waits while the last row of schema, table is not committed. Raises SqlError 1222, Cancelled."""

    def is_member(self, role: str) -> bool:
        """Whether the login is in the database role, as IS_MEMBER says; db_owner's members are in every role."""
        return self.rights is None or self.rights.is_member(role)

    def may_select(self, schema: str, table: str) -> bool:
        """Whether the login may SELECT every column of the table."""
        return self.rights is None or self.rights.may_select(schema, table)

    def ensure_role(self, role: str) -> None:
        """Create the database role unless it is there, as sys.sp_cdc_enable_table does with a gating role."""
        if self.rights is not None:
            self.rights.ensure_role(role)

    def has_principal(self, name: str) -> bool:
        """Whether the database has a user or role of that name."""
        return self.rights is not None and self.rights.has_principal(name)

    def create_user(self, name: str) -> None:
        """Create a database user without a login, whose default schema has its name."""
        if self.rights is not None:
            self.rights.create_user(name)

    def drop_user(self, name: str) -> None:
        """Drop the database user, if it is there."""
        if self.rights is not None:
            self.rights.drop_user(name)


Procedure = Callable[[CallContext, Mapping[str, Value]], Iterator[Event]]
"""Arguments by lower-case name with @; positional ones are named by the engine from `parameters` of ProcedureSpec."""


@dataclass(frozen=True, slots=True)
class ProcedureSpec:
    """A system procedure: its parameters in order, which of them must be given, what runs, and which are OUTPUT.

    `run` yields a ReturnValue for each OUTPUT parameter, and a ReturnStatus unless it returns 0.
    """

    parameters: tuple[str, ...]
    required: tuple[str, ...]
    run: Procedure
    outputs: tuple[str, ...] = ()


class ProcedureFailed(SqlError):
    """An error of a procedure that returns something else than 1 with it."""

    def __init__(self, error: SqlError, status: int) -> None:
        super().__init__(error.number, error.message, error.severity, error.state, error.procedure, error.line)
        self.status = status


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A scalar function such as sys.fn_cdc_get_max_lsn: argument count, result type, and what computes it."""

    arguments: int
    type: SqlType
    call: Callable[[CallContext, Sequence[Value]], Value]


@dataclass(frozen=True, slots=True)
class TableFunction:
    """A table-valued function: its columns and what yields its rows for the (already evaluated) arguments."""

    arguments: int
    columns: tuple[Column, ...]
    call: Callable[[CallContext, Sequence[Value]], Iterator[Row]]


@dataclass(frozen=True, slots=True)
class LogState:
    """The log of a database: the ten bytes of its first and its last LSN, and whether it waits for who reads it (replication)."""

    first: bytes
    end: bytes
    waits: bool


UNCOUNTED = LogState(bytes.fromhex("0000002c000001000001"), bytes.fromhex("0000002c000001000001"), False)
"""Of a log that nobody reads: it stands still, below every LSN that an extension will hand out."""


class Extension(Protocol):
    """What `cdc/` offers to the engine. Names are lower case and schema-qualified: "sys.sp_cdc_enable_db"."""

    def procedures(self) -> Mapping[str, ProcedureSpec]: ...

    def scalar_functions(self) -> Mapping[str, ScalarFunction]: ...

    def table_function(self, database: Database, schema: str, name: str) -> TableFunction | None:
        """Asked when a FROM names a function; None when it is not ours (the engine then raises 208)."""
        ...

    def views(self) -> Mapping[str, TableFunction]:
        """System views by name: "sys.dm_cdc_errors" is in every database, "msdb.dbo.cdc_jobs" in that one. No arguments."""
        ...

    def log(self, database: Database) -> LogState | None:
        """How far the log of a database has come; None where it is not read, so that nobody counts."""
        ...

    def attach(self, database: Database) -> None:
        """A database of an earlier run is there again: take up what it holds of ours."""
        ...

    def detach(self, database: Database) -> None:
        """It is dropped: nothing works for it any more."""
        ...

    def session_ended(self, session_id: int) -> None:
        """It is gone, or begins anew: what it held of ours is free."""
        ...

    def close(self) -> None:
        """Stop every thread (capture jobs)."""
        ...
