"""What running a batch yields, in order: the engine produces these, the wire layer writes them as tokens.

No I/O here, no SQLite, no TDS: the seam between the two halves of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from emulators.sqlserver.sqltypes import SqlType

Value = int | str | float | bytes | None
"""A value in its storage form: see sqltypes.py."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a result set. An expression without a name has the name "" (as on the real server)."""

    name: str
    type: SqlType
    nullable: bool = True
    identity: bool = False


@dataclass(frozen=True, slots=True)
class ResultSet:
    """Rows of one SELECT; `rows` is lazy and may raise SqlError half way."""

    columns: Sequence[Column]
    rows: Iterator[Sequence[Value]]


@dataclass(frozen=True, slots=True)
class RowCount:
    """An INSERT, UPDATE, DELETE or MERGE touched `count` rows (DONE with DONE_COUNT); not sent under SET NOCOUNT ON."""

    count: int


@dataclass(frozen=True, slots=True)
class StatementDone:
    """A statement without rows or count ended (DDL, SET, DECLARE ...)."""


@dataclass(frozen=True, slots=True)
class Info:
    """A message that is no error: PRINT, "Changed database context to ..." (5701), severity 0 to 10."""

    number: int
    message: str
    severity: int = 0
    state: int = 1
    procedure: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """An error after which the batch goes on (statement-terminating, XACT_ABORT OFF). One that ends the batch is raised as SqlError."""

    number: int
    message: str
    severity: int = 16
    state: int = 1
    procedure: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True)
class DatabaseChanged:
    """USE took effect (ENVCHANGE 1, and 7 where the collation is another); the collation "" is the server's."""

    new: str
    old: str
    collation: str = ""
    old_collation: str = ""


@dataclass(frozen=True, slots=True)
class TransactionChanged:
    """A transaction began, committed or rolled back (ENVCHANGE 8, 9, 10); `kind` is "begin", "commit" or "rollback"."""

    kind: str
    descriptor: int


@dataclass(frozen=True, slots=True)
class ReturnValue:
    """An OUTPUT parameter of an RPC."""

    name: str
    type: SqlType
    value: Value


@dataclass(frozen=True, slots=True)
class ReturnStatus:
    """A procedure's RETURN value."""

    value: int


Event = (
    ResultSet
    | RowCount
    | StatementDone
    | Info
    | ErrorMessage
    | DatabaseChanged
    | TransactionChanged
    | ReturnValue
    | ReturnStatus
)


class SqlError(Exception):
    """An error that ends the batch: number, text, severity and state as SQL Server documents them.

    Source: https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
    """

    def __init__(
        self, number: int, message: str, severity: int = 16, state: int = 1, procedure: str = "", line: int = 1
    ) -> None:
        super().__init__(message)
        self.number = number
        self.message = message
        self.severity = severity
        self.state = state
        self.procedure = procedure
        self.line = line
        self.earlier: SqlError | None = None
        """What the server reports first, where it reports two; TRY ... CATCH sees the last."""


class Cancelled(Exception):
    """What ran ended because the client sent an ATTENTION or went away, or because the session was killed."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A typed parameter of an RPC; `name` with its @ ("" when positional)."""

    name: str
    type: SqlType
    value: Value
    output: bool = False
    default: bool = False


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """What LOGIN7 asks for. `host` is the client's machine; `server` what it calls the server, by which Azure's gateway finds that.

    `token`: of an identity that logs in by it alone; user and password mean nothing then.
    """

    user: str
    password: str = field(repr=False)
    database: str = ""
    host: str = ""
    application: str = ""
    language: str = ""
    server: str = ""
    token: str | None = field(default=None, repr=False)


class Cancel(Protocol):
    """Asked by the engine between rows and inside waits; true once the client sent an ATTENTION or went away."""

    def __call__(self) -> bool: ...


class Session(Protocol):
    """One logged-in connection, used by one thread at a time."""

    @property
    def session_id(self) -> int: ...

    @property
    def database(self) -> str: ...

    @property
    def collation(self) -> str:
        """Of the database, by its name; "" is the server's."""
        ...

    @property
    def in_transaction(self) -> bool: ...

    def batch(self, sql: str, parameters: Mapping[str, Parameter], cancelled: Cancel) -> Iterator[Event]:
        """Run a batch; `parameters` are bound as its variables (sp_executesql). Raises SqlError, Cancelled; so do its rows."""
        ...

    def procedure(self, name: str, parameters: Sequence[Parameter], cancelled: Cancel) -> Iterator[Event]:
        """Run a procedure called by RPC, other than sp_executesql and the sp_prepare family, which the wire layer unfolds."""
        ...

    def bulk_load(
        self, columns: Sequence[Column], rows: Sequence[Sequence[Value]], cancelled: Cancel
    ) -> Iterator[Event]:
        """The rows for the INSERT BULK that the last batch ended with. Raises SqlError."""
        ...

    def begin(self, isolation: str | None = None, name: str = "") -> Iterator[Event]:
        """Transaction-manager request TM_BEGIN_XACT; likewise commit and rollback."""
        ...

    def commit(self, name: str = "") -> Iterator[Event]: ...

    def rollback(self, name: str = "") -> Iterator[Event]: ...

    def save(self, name: str) -> Iterator[Event]: ...

    def reset(self) -> None:
        """RESETCONNECTION: roll back, drop settings and temporary objects, keep login and database."""
        ...

    def close(self) -> None:
        """Roll back and release everything; may be called twice."""
        ...


class Engine(Protocol):
    """The database server behind the wire."""

    on_kill: Callable[[int], None] | None
    """Set by whoever holds the connections: called with the id of a session that KILL ended."""

    def login(self, request: LoginRequest) -> Session:
        """A session in the asked-for database (login's default when empty). Raises SqlError 18456, 4060."""
        ...

    def close(self) -> None: ...
