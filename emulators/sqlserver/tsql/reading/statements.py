"""The statements of a batch as the interpreter runs them. Data only."""

from __future__ import annotations

from dataclasses import dataclass

from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.reading.fragments import Fragment

Name = tuple[str, ...]
"""A name of one to four parts, as written: ("dbo", "Persons"); an omitted part is ""."""


@dataclass(frozen=True, slots=True)
class Statement:
    """`line` counts from 1 in the batch."""

    line: int


@dataclass(frozen=True, slots=True)
class Refused(Statement):
    """What is not supported: an error when it is reached, as EXEC of a procedure that is not there. `message`: the error's."""

    message: str


@dataclass(frozen=True, slots=True)
class Select(Statement):
    """A query; `assigns`: SELECT @x = ... sets variables instead of returning rows; `into`: SELECT ... INTO makes that table."""

    query: Fragment
    assigns: tuple[str, ...] = ()
    into: Name = ()


@dataclass(frozen=True, slots=True)
class Default:
    """DEFAULT as a value."""


Cell = tuple[SqlType, Value] | Fragment | Default
"""One value of VALUES: a literal, an expression (index into a row of the fragment's results), or DEFAULT."""


@dataclass(frozen=True, slots=True)
class Output:
    """OUTPUT: a SELECT list over the pseudo-tables inserted and deleted, as text behind SELECT; `into`: a table, "" names none."""

    query: Fragment
    into: Name = ()
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class InsertBulk(Statement):
    """INSERT BULK: rows of these columns come next. `checked`: CHECK and FOREIGN KEY hold for them; `nulls`: NULL is not the default."""

    table: Name
    columns: tuple[str, ...]
    checked: bool = False
    nulls: bool = False


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """One of `rows` (VALUES), `query` (INSERT ... SELECT), `execute` (INSERT ... EXEC) or none (DEFAULT VALUES). `whole`: the table is locked as a
    whole; so of the other statements."""

    table: Name
    columns: tuple[str, ...] | None
    rows: tuple[tuple[Cell, ...], ...] | None
    query: Fragment | None
    output: Output | None = None
    execute: Statement | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """`tail`: FROM and WHERE as text; `query`: SELECT of the SET expressions with that tail, {} standing for the row's own columns."""

    target: Name
    columns: tuple[tuple[str, str], ...]
    query: Fragment
    has_from: bool
    output: Output | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    target: Name
    query: Fragment
    has_from: bool
    output: Output | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class MergeClause:
    """One WHEN of a MERGE. `kind`: "matched", "unmatched" (no target row) or "orphaned" (no source row); `columns`: (name, "" or
    "DEFAULT"), the name "" where INSERT lists none; `first`: which item of the kind's query is its first value."""

    kind: str
    action: str
    columns: tuple[tuple[str, str], ...]
    first: int


@dataclass(frozen=True, slots=True)
class Merge(Statement):
    """`table`: the target as written; `target`: how the queries call it. Each query yields the number of the clause that applies
    among those of its kind, the values of all of them, and the further columns that OUTPUT names."""

    table: Name
    target: Name
    matched: Fragment | None
    unmatched: Fragment | None
    orphaned: Fragment | None
    clauses: tuple[MergeClause, ...]
    output: Output | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Block(Statement):
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If(Statement):
    condition: Fragment
    then: Statement
    otherwise: Statement | None


@dataclass(frozen=True, slots=True)
class While(Statement):
    condition: Fragment
    body: Statement


@dataclass(frozen=True, slots=True)
class TryCatch(Statement):
    body: Block
    handler: Block


@dataclass(frozen=True, slots=True)
class Declare(Statement):
    variables: tuple[tuple[str, SqlType, Fragment | None], ...]


@dataclass(frozen=True, slots=True)
class Declared(Statement):
    """Variables that the next statement declares somewhere within: the batch behind it knows them, reached or not."""

    variables: tuple[tuple[str, SqlType | DeclareTable], ...]


@dataclass(frozen=True, slots=True)
class DeclareTable(Statement):
    """DECLARE @t TABLE (...); `definition`: the CREATE TABLE that it amounts to."""

    definition: Statement


@dataclass(frozen=True, slots=True)
class SetVariable(Statement):
    name: str
    value: Fragment


@dataclass(frozen=True, slots=True)
class SetOption(Statement):
    """SET option value: names in upper case, "IDENTITY_INSERT" with its table, "ISOLATION" with its level."""

    option: str
    value: str
    table: Name = ()


@dataclass(frozen=True, slots=True)
class Print(Statement):
    value: Fragment


@dataclass(frozen=True, slots=True)
class Use(Statement):
    database: str


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    value: Fragment | None
    output: str = ""
    """`value` None: DEFAULT. `output`: the variable that receives an OUTPUT parameter."""
    constant: tuple[SqlType, Value] | None = None
    variable: str = ""
    """What most arguments are, in lower case, so that their values need no query."""


@dataclass(frozen=True, slots=True)
class Execute(Statement):
    procedure: Name
    arguments: tuple[Argument, ...]
    result: str = ""


@dataclass(frozen=True, slots=True)
class ExecuteText(Statement):
    """EXEC ('...')."""

    text: Fragment


@dataclass(frozen=True, slots=True)
class BeginTransaction(Statement):
    name: str = ""


@dataclass(frozen=True, slots=True)
class CommitTransaction(Statement):
    pass


@dataclass(frozen=True, slots=True)
class RollbackTransaction(Statement):
    name: str = ""


@dataclass(frozen=True, slots=True)
class SaveTransaction(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class Throw(Statement):
    """No arguments: raise the caught error again."""

    arguments: Fragment | None


@dataclass(frozen=True, slots=True)
class RaiseError(Statement):
    """`logged`: WITH LOG."""

    arguments: Fragment
    logged: bool = False


@dataclass(frozen=True, slots=True)
class WaitFor(Statement):
    """WAITFOR DELAY, or with `until` WAITFOR TIME."""

    delay: Fragment
    until: bool = False


@dataclass(frozen=True, slots=True)
class Reconfigure(Statement):
    """RECONFIGURE, WITH OVERRIDE or without."""


@dataclass(frozen=True, slots=True)
class Kill(Statement):
    session_id: int


@dataclass(frozen=True, slots=True)
class Return(Statement):
    value: Fragment | None = None


@dataclass(frozen=True, slots=True)
class Break(Statement):
    pass


@dataclass(frozen=True, slots=True)
class Continue(Statement):
    pass
