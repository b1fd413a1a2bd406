"""The DDL statements as the engine runs them. Data only."""

from __future__ import annotations

from dataclasses import dataclass

from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.statements import Name, Statement


@dataclass(frozen=True, slots=True)
class DefaultSpec:
    """DEFAULT: its expression, as written and as a SELECT; `name` "" lets the server choose."""

    text: str
    value: Fragment
    name: str = ""


@dataclass(frozen=True, slots=True)
class KeySpec:
    """PRIMARY KEY or UNIQUE; `descending`: columns with DESC. `clustered` None: not said."""

    columns: tuple[str, ...]
    primary: bool
    name: str = ""
    descending: tuple[str, ...] = ()
    clustered: bool | None = None


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """CHECK: its text, and a SELECT that gives 1 where it is broken; `column`: the column that it stands at, or ""."""

    text: str
    condition: Fragment
    name: str = ""
    column: str = ""


@dataclass(frozen=True, slots=True)
class ForeignKeySpec:
    """FOREIGN KEY ... REFERENCES; no `referenced` columns: those of the primary key."""

    columns: tuple[str, ...]
    table: Name
    referenced: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class ComputedSpec:
    text: str
    value: Fragment
    persisted: bool


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """`computed`: what the column is computed from; its type is then found when the table is made. `collation`: as COLLATE names
    it, "" for the database's."""

    name: str
    type: SqlType
    nullable: bool | None = None
    identity: tuple[int, int] | None = None
    default: DefaultSpec | None = None
    computed: ComputedSpec | None = None
    collation: str = ""


@dataclass(frozen=True, slots=True)
class Definition(Statement):
    """`text`: the statement as written."""

    text: str


@dataclass(frozen=True, slots=True)
class CreateTable(Definition):
    table: Name
    columns: tuple[ColumnSpec, ...]
    keys: tuple[KeySpec, ...]
    checks: tuple[CheckSpec, ...] = ()
    foreign_keys: tuple[ForeignKeySpec, ...] = ()


@dataclass(frozen=True, slots=True)
class AddColumns(Definition):
    """ALTER TABLE ... ADD columns and constraints; `defaults`: DEFAULT ... FOR column; `unchecked`: WITH NOCHECK."""

    table: Name
    columns: tuple[ColumnSpec, ...]
    keys: tuple[KeySpec, ...]
    defaults: tuple[tuple[str, DefaultSpec], ...] = ()
    checks: tuple[CheckSpec, ...] = ()
    foreign_keys: tuple[ForeignKeySpec, ...] = ()
    unchecked: bool = False


@dataclass(frozen=True, slots=True)
class DropParts(Definition):
    """ALTER TABLE ... DROP COLUMN and DROP CONSTRAINT."""

    table: Name
    columns: tuple[str, ...]
    constraints: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterColumn(Definition):
    table: Name
    column: ColumnSpec


@dataclass(frozen=True, slots=True)
class DropTable(Definition):
    tables: tuple[Name, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class TruncateTable(Definition):
    table: Name


@dataclass(frozen=True, slots=True)
class FilterSpec:
    """WHERE of a filtered index: its text, and a SELECT with the condition as its CASE."""

    text: str
    condition: Fragment


@dataclass(frozen=True, slots=True)
class CreateIndex(Definition):
    """`descending`: columns with DESC."""

    table: Name
    name: str
    columns: tuple[str, ...]
    unique: bool
    included: tuple[str, ...] = ()
    descending: tuple[str, ...] = ()
    clustered: bool = False
    filter: FilterSpec | None = None


@dataclass(frozen=True, slots=True)
class DropIndex(Definition):
    table: Name
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class CreateView(Definition):
    """`columns`: the names in parentheses, if any; `replaces`: CREATE OR ALTER and ALTER may find it there; `alters`: ALTER has to."""

    name: Name
    columns: tuple[str, ...]
    query: Fragment
    replaces: bool = False
    alters: bool = False


@dataclass(frozen=True, slots=True)
class DropView(Definition):
    names: tuple[Name, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class CreateSchema(Definition):
    name: str


@dataclass(frozen=True, slots=True)
class DropSchema(Definition):
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class CreateDatabase(Definition):
    """`collation`: as written, "" for the server's."""

    name: str
    collation: str = ""


@dataclass(frozen=True, slots=True)
class Termination:
    """WITH ...: the others are ended `after` so many seconds, None: they are waited for; `no_wait`: they must not be there."""

    after: float | None = None
    no_wait: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabase(Definition):
    """`option` and `value` in upper case; "" name: CURRENT."""

    name: str
    option: str
    value: str
    termination: Termination = Termination()


@dataclass(frozen=True, slots=True)
class DropDatabase(Definition):
    names: tuple[str, ...]
    if_exists: bool
