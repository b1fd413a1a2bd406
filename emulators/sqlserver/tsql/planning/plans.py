"""What lowering yields, and what it asks of the engine. Data and ports only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from emulators.sqlserver.results import Column, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.planning.precedence import COERCIBLE, Conflict
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.statements import Name


@dataclass(frozen=True, slots=True)
class Expr:
    """A scalar expression in SQLite's SQL with the type that it has in T-SQL.

    `is_null`: the literal NULL, which takes any type; `constant`: the value of a literal. `strength` and `conflict`: of text, the
    label of its collation (precedence.py); the collation of a coercible expression is the database's, whatever its type says.
    """

    sql: str
    type: SqlType
    nullable: bool = True
    identity: bool = False
    is_null: bool = False
    constant: Value = None
    strength: int = COERCIBLE
    conflict: Conflict | None = None
    joins: str = ""
    """Of bytes that were joined, if `sql` is still that: the SQL of all of them."""

    def read_as(self, sql: str, nullable: bool | None = None) -> Expr:
        """The same value read by other SQL, as a column of the query that yields it."""
        return replace(self, sql=sql, nullable=self.nullable if nullable is None else nullable, constant=None)


ELSEWHERE = "table:"
"""How `Source.view` marks a table that is stored in another database than the query runs in."""


@dataclass(frozen=True, slots=True)
class Source:
    """A table, view or table function as FROM sees it.

    `storage`: the quoted SQLite table; "" for one whose rows are made when the statement runs: `view` names it, for a function
    together with its arguments. `shown`: schema.name, for qualified column references.
    """

    database: str
    schema: str
    name: str
    columns: tuple[Column, ...]
    storage: str = ""
    view: str = ""
    rowid: str = "rowid"
    computed: tuple[tuple[int, Fragment], ...] = ()
    """Positions of computed columns and what they are computed from: they are never stored."""
    denied: frozenset[str] = frozenset()
    """Names of the columns that the login may not read."""
    indexes: tuple[str, ...] = ()
    """Names of the indexes that a hint may name."""


@dataclass(frozen=True, slots=True)
class Virtual:
    """A source whose rows are put into the temporary table `table` before the statement runs. `arguments` of a function are
    evaluated by themselves, with `parameters` bound."""

    table: str
    source: Source
    arguments: tuple[Expr, ...] = ()
    parameters: tuple[str, ...] = ()


StoredTable = tuple[str, str]
"""A database's name, and a table's name in its storage."""
KeptLock = Literal["ROWS", "UPDATE", "RANGE", "TABLE", "EXCLUSIVE"]
"""What a reader keeps to the end of its transaction: shared or update locks on rows, ranges of keys, a table shared or for itself."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A query ready for SQLite: `parameters` are the variables bound as ?1, ?2 ...; `databases`: where its tables are stored."""

    sql: str
    columns: tuple[Column, ...]
    parameters: tuple[str, ...] = ()
    virtuals: tuple[Virtual, ...] = ()
    databases: frozenset[str] = field(default_factory=frozenset)
    reads: frozenset[StoredTable] = field(default_factory=frozenset)
    """Tables that are read under locks: those with the hint NOLOCK are not here."""
    keeps: frozenset[tuple[StoredTable, KeptLock]] = field(default_factory=frozenset)
    """The locks that hints ask for, to be kept until the transaction ends."""
    nowait: frozenset[StoredTable] = field(default_factory=frozenset)
    """Tables that are not waited for, whatever LOCK_TIMEOUT is."""
    later: tuple[str, ...] = ()
    """Of each column what is made of SQLite's row when that is sent (postponed.py); empty where nothing is left to do."""


class SessionView(Protocol):
    """What session functions (DB_NAME, SCOPE_IDENTITY, @@TRANCOUNT ...) ask of the running session."""

    def global_value(self, name: str) -> Value: ...

    def call(self, name: str, arguments: Sequence[Value]) -> Value: ...


class Names(Protocol):
    """How names are found: the session's database and its catalog."""

    @property
    def collation(self) -> str:
        """Of the session's database, "" where it is the server's: that of literals and variables."""
        ...

    @property
    def fold(self) -> Callable[[str], str]:
        """Equal for names that are equal in the session's database."""
        ...

    def source(self, name: Name) -> Source | None: ...

    def view(self, name: Name) -> tuple[Fragment, tuple[str, ...]] | None:
        """The query of a user's view, and the names of its columns."""
        ...

    def table_function(self, name: Name, arguments: int) -> Source | None: ...

    def scalar_function(self, name: Name, arguments: int) -> tuple[str, SqlType] | None:
        """A schema-qualified function: the key under which the session calls it, and its type. Raises 174."""
        ...
