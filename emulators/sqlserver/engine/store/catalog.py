"""A database's catalog: schemas, tables, keys, defaults. Immutable: DDL makes a new one, which a rollback forgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from emulators.sqlserver.engine.extension import KeyIndex, Table, TableColumn
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.values.text_order import Fold

FIRST_OBJECT_ID = 901_578_250
_STEP = 16_000_057
"""Object ids grow by this much on the real server as well, modulo 2**31."""
_versions = count(1)
_SCHEMAS = {"dbo": 1, "guest": 2, "INFORMATION_SCHEMA": 3, "sys": 4}


@dataclass(frozen=True, slots=True)
class Default:
    """A DEFAULT constraint: its text as sys.default_constraints shows it, and its expression."""

    name: str
    text: str
    value: Fragment


@dataclass(frozen=True, slots=True)
class Computed:
    """A computed column: its expression as sys.computed_columns shows it, and as a SELECT. It is computed when it is read."""

    text: str
    value: Fragment
    persisted: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint; `condition`: a SELECT that gives 1 where it is broken. `column_id`: of a column's own constraint, or 0."""

    name: str
    text: str
    condition: Fragment
    column_id: int = 0


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A FOREIGN KEY: the ids of its columns, and table and columns that it references."""

    name: str
    column_ids: tuple[int, ...]
    referenced_id: int
    referenced_column_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A user's view: its SELECT, and its columns' names."""

    object_id: int
    schema: str
    name: str
    text: str
    query: Fragment
    columns: tuple[str, ...]
    created: str = ""


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table with what only the engine needs. `constraints`: all that have a name, with their object ids; `computed`: by column id."""

    table: Table
    defaults: Mapping[int, Default] = field(default_factory=dict)
    identity: tuple[int, int] | None = None
    constraints: Mapping[str, int] = field(default_factory=dict)
    created: str = ""
    tracked: bool = False
    next_column: int = 1
    computed: Mapping[int, Computed] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    fold: Fold = str.lower
    """Equal for names that are equal in the table's database."""

    def column(self, name: str) -> TableColumn | None:
        wanted = self.fold(name)
        return next((column for column in self.table.columns if self.fold(column.name) == wanted), None)

    def key_columns(self, key: KeyIndex) -> tuple[int, ...]:
        """Positions in the row of the key's columns."""
        positions = {column.column_id: index for index, column in enumerate(self.table.columns)}
        return tuple(positions[column_id] for column_id in key.column_ids)

    def deciding_columns(self) -> set[int]:
        """Positions in the row of the columns by which a unique index may refuse it."""
        ids: set[int] = set()
        for index in self.table.unique_indexes():
            ids |= {*index.column_ids, *(index.filter.column_ids if index.filter is not None else ())}
        return {position for position, column in enumerate(self.table.columns) if column.column_id in ids}


@dataclass(frozen=True, slots=True)
class Catalog:
    """`version` changes with every DDL statement of the server's life: plans are cached under it."""

    tables: Mapping[int, TableEntry] = field(default_factory=dict)
    names: Mapping[tuple[str, str], int] = field(default_factory=dict)
    schemas: Mapping[str, int] = field(default_factory=lambda: dict(_SCHEMAS))
    next_object: int = FIRST_OBJECT_ID
    version: int = 0
    views: Mapping[tuple[str, str], View] = field(default_factory=dict)
    """By folded schema and name."""
    fold: Fold = str.lower
    """Equal for names that are equal by the database's collation."""
    untrusted: frozenset[int] = frozenset()
    """The object ids of constraints that not all rows were held to."""

    def key(self, schema: str, name: str) -> tuple[str, str]:
        return self.fold(schema), self.fold(name)

    def find(self, schema: str, name: str) -> TableEntry | None:
        number = self.names.get(self.key(schema, name))
        return None if number is None else self.tables[number]

    def view(self, schema: str, name: str) -> View | None:
        return self.views.get(self.key(schema, name))

    def has_object(self, schema: str, name: str) -> bool:
        """Whether a table, a view or a constraint of the schema has the name; `schema`: as it was created."""
        if self.find(schema, name) is not None or self.view(schema, name) is not None:
            return True
        wanted = self.fold(name)
        mine = (entry for entry in self.tables.values() if entry.table.schema == schema)
        return any(self.fold(known) == wanted for entry in mine for known in entry.constraints)

    def with_view(self, view: View) -> Catalog:
        views = {**self.views, self.key(view.schema, view.name): view}
        return replace(self, views=views, version=next(_versions))

    def with_untrusted(self, entry: TableEntry, names: Iterable[str]) -> Catalog:
        """`names`: of constraints of the table."""
        untrusted = self.untrusted | {entry.constraints[name] for name in names}
        return self if untrusted == self.untrusted else replace(self, untrusted=untrusted, version=next(_versions))

    def without_view(self, view: View) -> Catalog:
        return replace(self, views={k: v for k, v in self.views.items() if v is not view}, version=next(_versions))

    def referencing(self, object_id: int) -> list[tuple[TableEntry, ForeignKey]]:
        """The foreign keys that reference a table, its own included."""
        return [(e, key) for e in self.tables.values() for key in e.foreign_keys if key.referenced_id == object_id]

    def schema(self, name: str) -> str | None:
        """The schema's name as it was created."""
        wanted = self.fold(name)
        return next((schema for schema in self.schemas if self.fold(schema) == wanted), None)

    def new_id(self) -> tuple[int, Catalog]:
        following = self.next_object + _STEP
        return self.next_object, replace(self, next_object=following if following < 2**31 else following - 2**31 + 1)

    def with_table(self, entry: TableEntry) -> Catalog:
        table = entry.table
        names = dict(self.names)
        if table.object_id in self.tables:  # perhaps under another name
            names = {key: number for key, number in names.items() if number != table.object_id}
        names[self.key(table.schema, table.name)] = table.object_id
        return replace(self, tables={**self.tables, table.object_id: entry}, names=names, version=next(_versions))

    def without_table(self, object_id: int) -> Catalog:
        tables = {number: entry for number, entry in self.tables.items() if number != object_id}
        names = {key: number for key, number in self.names.items() if number != object_id}
        return replace(self, tables=tables, names=names, version=next(_versions))

    def with_schema(self, name: str) -> Catalog:
        number = max(5, *(n + 1 for n in self.schemas.values()))
        return replace(self, schemas={**self.schemas, name: number}, version=next(_versions))

    def without_schema(self, name: str) -> Catalog:
        schemas = {schema: number for schema, number in self.schemas.items() if self.fold(schema) != self.fold(name)}
        return replace(self, schemas=schemas, version=next(_versions))


def restored(
    fold: Fold,
    entries: Iterable[TableEntry],
    schemas: Mapping[str, int],
    views: Iterable[View],
    next_object: int,
    untrusted: frozenset[int],
) -> Catalog:
    """A catalog that was kept, as a new version."""
    tables = {entry.table.object_id: entry for entry in entries}
    catalog = Catalog(
        tables=tables,
        schemas=schemas,
        next_object=next_object,
        fold=fold,
        untrusted=untrusted,
        version=next(_versions),
    )
    names = {catalog.key(e.table.schema, e.table.name): number for number, e in tables.items()}
    return replace(catalog, names=names, views={catalog.key(view.schema, view.name): view for view in views})
