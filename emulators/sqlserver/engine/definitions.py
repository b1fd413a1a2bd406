"""Runs DDL on tables, indexes and schemas inside the open write transaction: checks, new catalog, SQLite's side, the observer."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from emulators.sqlserver.engine import storage
from emulators.sqlserver.engine.catalog import Catalog, Computed, Default, TableEntry, View
from emulators.sqlserver.engine.constraints import check_existing, row_value
from emulators.sqlserver.engine.database import StoredDatabase
from emulators.sqlserver.engine.extension import KeyIndex, Table, TableColumn
from emulators.sqlserver.engine.relationships import (
    dependants,
    mentions,
    refuse_referenced_key,
    refuse_referenced_table,
    with_check,
    with_foreign_key,
)
from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import definitions as df
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.calls import register
from emulators.sqlserver.tsql.convert import Truncation, converter
from emulators.sqlserver.tsql.statements import Name
from emulators.sqlserver.tsql.types import family

if TYPE_CHECKING:
    from emulators.sqlserver.engine.session import SqlSession

DefaultValue = Callable[[Default, TableColumn], Value]


class Definer:
    """DDL of one statement in one database. `value_of` computes a default's value."""

    def __init__(self, session: SqlSession, database: StoredDatabase, value_of: DefaultValue) -> None:
        self.session = session
        self.database = database
        self.link = database.write_link
        self.value_of = value_of

    @property
    def catalog(self) -> Catalog:
        active = self.database.active
        assert active is not None
        return active.catalog

    def entry(self, name: Name, missing: Callable[[str], SqlError] = errors.invalid_object) -> TableEntry:
        entry = self.catalog.find(_schema(name), name[-1])
        if entry is None or entry.table.system:
            raise missing(".".join(name))
        return entry

    def _publish(self, before: Table, after: TableEntry | None, text: str) -> None:
        """Tell the observer first: it may refuse."""
        active = self.database.active
        observer = self.database.observer
        if observer is not None and observer.tracks(before.object_id) and active is not None:
            observer.table_changed(before, after.table if after else None, text, active.transaction)

    # -- tables

    def create_table(self, ddl: df.CreateTable) -> None:
        catalog = self.catalog
        schema = catalog.schema(_schema(ddl.table))
        name = ddl.table[-1]
        if schema is None:
            raise SqlError(2760, _NO_SCHEMA.format(_schema(ddl.table)), 16)
        if catalog.find(schema, name) is not None or catalog.view(schema, name) is not None:
            raise errors.object_exists(name)
        object_id, catalog = catalog.new_id()
        self.database.change(catalog)
        fold = self.database.fold
        entry = TableEntry(Table(object_id, schema, name, ()), created=self.database.now(), fold=fold)
        primary = {fold(column) for key in ddl.keys if key.primary for column in key.columns}
        for spec in ddl.columns:
            entry = self._with_column(entry, spec, fold(spec.name) in primary)
        storage.create(self.link, entry)
        for key in ddl.keys:
            entry = self._with_key(entry, key)
        entry = self._with_rules(entry, ddl)
        self.database.change(self.catalog.with_table(entry))

    def _with_rules(self, entry: TableEntry, ddl: df.CreateTable | df.AddColumns) -> TableEntry:
        """With the CHECK and FOREIGN KEY constraints of a statement."""
        for check in ddl.checks:
            self._check_constraint_name(check.name)
            entry = with_check(entry, check, self._new_id())
            row_value(self.session, entry, check.condition)
        for key in ddl.foreign_keys:
            if entry.table.name[:1] in ("#", "@"):
                raise errors.unsupported("a foreign key of a temporary table")
            self._check_constraint_name(key.name)
            entry = with_foreign_key(entry, key, self.catalog, self._new_id())
        return entry

    def _check_constraint_name(self, name: str) -> None:
        fold = self.database.fold
        if any(fold(name) == fold(known) for e in self.catalog.tables.values() for known in e.constraints):
            raise errors.object_exists(name)

    def _with_column(self, entry: TableEntry, spec: df.ColumnSpec, primary: bool = False) -> TableEntry:
        table = entry.table
        if entry.column(spec.name) is not None:
            text = f"Column names in each table must be unique. Column name '{spec.name}' in table '{table.name}' is specified more than once."
            raise SqlError(2705, text, 16, 3)
        if any(spec.name.lower() == column.name.lower() for column in table.columns):
            raise errors.unsupported(f"a table whose columns differ in case only ({spec.name})")
        if primary and spec.nullable:
            text = f"Cannot define PRIMARY KEY constraint on nullable column in table '{table.name}'."
            raise SqlError(8111, text, 16)
        if spec.identity is not None and entry.identity is not None:
            text = f"Multiple identity columns specified for table '{table.name}'. Only one identity column per table is allowed."
            raise SqlError(2744, text, 16, 2)
        fixed = primary or spec.identity is not None or spec.type.name == "rowversion"
        nullable = spec.nullable if spec.nullable is not None else not fixed
        if spec.type.name == "rowversion":
            nullable = bool(spec.nullable)
        kind = self._stored_type(spec)
        computed = dict(entry.computed)
        if spec.computed is not None:
            kind = self.database.stored_type(row_value(self.session, entry, spec.computed.value).type)
            computed[entry.next_column] = Computed(spec.computed.text, spec.computed.value, spec.computed.persisted)
        identity = spec.identity is not None
        column = TableColumn(entry.next_column, spec.name, kind, nullable, identity, spec.computed is not None)
        defaults = dict(entry.defaults)
        constraints = dict(entry.constraints)
        if spec.default is not None:
            defaults[column.column_id] = self._default(table, spec.name, spec.default, constraints)
        return replace(
            entry,
            table=replace(table, columns=(*table.columns, column)),
            next_column=entry.next_column + 1,
            defaults=defaults,
            constraints=constraints,
            identity=entry.identity or spec.identity,
            computed=computed,
        )

    def _stored_type(self, spec: df.ColumnSpec) -> SqlType:
        """The column's type with its collation. Raises 447, 448.

        A table variable's is the current database's, a temporary table's that of tempdb.
        """
        here = self.session.current()
        if spec.collation and (family(spec.type) != "string" or spec.type.name == "xml"):
            raise SqlError(447, f"Expression type {spec.type.name} is invalid for COLLATE clause.", 16)
        private = self.database.name[:1] in ("#", "@")
        if not private:
            return self.database.stored_type(spec.type, spec.collation)
        if not spec.collation and self.database.name[:1] == "#":
            return spec.type
        return here.stored_type(spec.type, spec.collation)

    def _default(self, table: Table, column: str, spec: df.DefaultSpec, constraints: dict[str, int]) -> Default:
        name = spec.name or f"DF__{table.name[:9]}__{column[:5]}__{secrets.token_hex(4).upper()}"
        constraints[name] = self._new_id()
        return Default(name, spec.text, spec.value)

    def _new_id(self) -> int:
        number, catalog = self.catalog.new_id()
        self.database.change(catalog)
        return number

    def _with_key(self, entry: TableEntry, spec: df.KeySpec) -> TableEntry:
        table = entry.table
        ids = []
        for name in spec.columns:
            column = entry.column(name)
            if column is None:
                text = f"Column name '{name}' does not exist in the target table or view."
                raise SqlError(1911, text, 16)
            if column.computed:
                raise errors.unsupported("a key over a computed column")
            if spec.primary and column.nullable:
                text = f"Cannot define PRIMARY KEY constraint on nullable column in table '{table.name}'."
                raise SqlError(8111, text, 16)
            ids.append(column.column_id)
        if spec.primary and any(key.primary for key in table.keys):
            raise SqlError(1779, f"Table '{table.name}' already has a primary key defined on it.", 16)
        prefix = "PK" if spec.primary else "UQ"
        name = spec.name or f"{prefix}__{table.name[:8]}__{secrets.token_hex(8).upper()}"
        self._check_key_name(entry, name, spec.constraint)
        used = [key.index_id for key in table.keys]
        index_id = 1 if spec.primary and 1 not in used else max([1, *used]) + 1
        key = KeyIndex(name, tuple(ids), spec.primary, index_id)
        constraints = {**entry.constraints, name: self._new_id()} if spec.constraint else entry.constraints
        made = replace(entry, table=replace(table, keys=(*table.keys, key)), constraints=constraints)
        try:
            storage.create_index(self.link, made, key)
        except sqlite3.IntegrityError:
            text = (
                f"The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the object name "
                f"'{table.schema}.{table.name}' and the index name '{name}'."
            )
            raise SqlError(1505, text, 16) from None
        return made

    def _check_key_name(self, entry: TableEntry, name: str, constraint: bool) -> None:
        if any(entry.fold(key.name) == entry.fold(name) for key in entry.table.keys):
            if constraint:
                raise errors.object_exists(name)
            text = (
                f"The operation failed because an index or statistics with name '{name}' already exists on table "
                f"'{entry.table.schema}.{entry.table.name}'."
            )
            raise SqlError(1913, text, 16)

    def drop_table(self, ddl: df.DropTable) -> None:
        for name in ddl.tables:
            entry = self.catalog.find(_schema(name), name[-1])
            if entry is None or entry.table.system:
                if ddl.if_exists and entry is None:
                    continue
                raise errors.cannot_drop("table", ".".join(name))
            refuse_referenced_table(entry, self.catalog, truncates=False)
            self._publish(entry.table, None, ddl.text)
            storage.drop(self.link, entry.table)
            self.database.identities.pop(entry.table.object_id, None)
            self.database.change(self.catalog.without_table(entry.table.object_id))

    def truncate(self, ddl: df.TruncateTable) -> None:
        def missing(name: str) -> SqlError:
            text = f'Cannot find the object "{name}" because it does not exist or you do not have permissions.'
            return SqlError(4701, text, 16)

        entry = self.entry(ddl.table, missing)
        refuse_referenced_table(entry, self.catalog, truncates=True)
        text = ddl.text if ddl.text.upper().startswith("TRUNCATE") else f"TRUNCATE TABLE {entry.table.name}"
        self._publish(entry.table, entry, "TRUNCATE" + text[8:])
        self.link.execute(f"DELETE FROM {storage.storage_name(entry.table)}")
        self.database.identities.pop(entry.table.object_id, None)

    # -- ALTER TABLE

    def _altered(self, name: Name) -> TableEntry:
        def missing(shown: str) -> SqlError:
            text = f'Cannot find the object "{shown}" because it does not exist or you do not have permissions.'
            return SqlError(4902, text, 16)

        return self.entry(name, missing)

    def add_columns(self, ddl: df.AddColumns) -> None:
        entry = self._altered(ddl.table)
        before = entry.table
        for spec in ddl.columns:
            entry = self._with_column(entry, spec)
        for column_name, spec_default in ddl.defaults:
            entry = self._with_default(entry, column_name, spec_default)
        if ddl.columns:
            self._publish(before, entry, ddl.text)
            self._fill_new(before, entry)
        for key in ddl.keys:
            entry = self._with_key(entry, key)
        known = set(entry.constraints)
        entry = self._with_rules(entry, ddl)
        self.database.change(self.catalog.with_table(entry))
        added = [name for name in entry.constraints if name not in known]
        if added and not ddl.unchecked:
            check_existing(self.session, self.link, self.catalog, entry, self.database.shown, added)

    def _with_default(self, entry: TableEntry, name: str, spec: df.DefaultSpec) -> TableEntry:
        column = entry.column(name)
        if column is None:
            raise SqlError(
                1752, f"Column '{name}' in table '{entry.table.name}' is invalid for creating a default constraint.", 16
            )
        if column.column_id in entry.defaults:
            raise SqlError(1781, "Column already has a DEFAULT bound to it.", 16)
        constraints = dict(entry.constraints)
        default = self._default(entry.table, name, spec, constraints)
        return replace(entry, defaults={**entry.defaults, column.column_id: default}, constraints=constraints)

    def _fill_new(self, before: Table, entry: TableEntry) -> None:
        """Existing rows get the default where the column is NOT NULL, NULL otherwise."""
        known = {column.column_id for column in before.columns}
        filled = self.link.execute(f"SELECT 1 FROM {storage.storage_name(before)} LIMIT 1").fetchone() is not None
        values: dict[int, str] = {}
        parameters: list[Value] = []
        for column in entry.table.columns:
            if column.column_id in known:
                continue
            default = entry.defaults.get(column.column_id)
            if column.identity or column.type.name == "rowversion":
                if filled:
                    raise errors.unsupported(
                        "ALTER TABLE ... ADD of an identity or rowversion column to a table with rows"
                    )
            elif default is not None and not column.nullable:
                values[column.column_id] = "?"
                parameters.append(self.value_of(default, column))
            elif not column.nullable and filled:
                raise SqlError(4901, _NOT_NULL_ADDED.format(column.name, entry.table.name), 16)
        storage.rebuild(self.link, before, entry, values, parameters)

    def drop_parts(self, ddl: df.DropParts) -> None:
        entry = self._altered(ddl.table)
        for name in ddl.constraints:
            entry = self._without_constraint(entry, name, ddl)
        if ddl.columns:
            before = entry.table
            entry = self._without_columns(entry, ddl)
            self._publish(before, entry, ddl.text)
            storage.rebuild(self.link, before, entry, {}, ())
        self.database.change(self.catalog.with_table(entry))

    def _without_constraint(self, entry: TableEntry, name: str, ddl: df.DropParts) -> TableEntry:
        found = next((known for known in entry.constraints if entry.fold(known) == entry.fold(name)), None)
        if found is None:
            if ddl.if_exists:
                return entry
            raise SqlError(3728, f"'{name}' is not a constraint.", 16)
        table = entry.table
        key = next((key for key in table.keys if key.name == found), None)
        if key is not None:
            refuse_referenced_key(entry, key, self.catalog)
        after = replace(
            entry,
            checks=tuple(check for check in entry.checks if check.name != found),
            foreign_keys=tuple(k for k in entry.foreign_keys if k.name != found),
            table=replace(table, keys=tuple(k for k in table.keys if k.name != found)),
            constraints={known: number for known, number in entry.constraints.items() if known != found},
            defaults={column: d for column, d in entry.defaults.items() if d.name != found},
        )
        if key is not None:
            self._publish(table, after, ddl.text)
            self.link.execute(f"DROP INDEX {storage.index_name(table, key)}")
        return after

    def _without_columns(self, entry: TableEntry, ddl: df.DropParts) -> TableEntry:
        table = entry.table
        dropped = []
        for name in ddl.columns:
            column = entry.column(name)
            if column is None:
                if ddl.if_exists:
                    continue
                text = f"ALTER TABLE DROP COLUMN failed because column '{name}' does not exist in table '{table.name}'."
                raise SqlError(4924, text, 16)
            users = dependants(entry, column)
            if users:
                raise SqlError(5074, f"The object '{users[0]}' is dependent on column '{name}'.", 16)
            dropped.append(column.column_id)
        kept = tuple(column for column in table.columns if column.column_id not in dropped)
        identity = entry.identity if any(column.identity for column in kept) else None
        computed = {number: c for number, c in entry.computed.items() if number not in dropped}
        return replace(entry, table=replace(table, columns=kept), identity=identity, computed=computed)

    def alter_column(self, ddl: df.AlterColumn) -> None:
        entry = self._altered(ddl.table)
        table = entry.table
        old = entry.column(ddl.column.name)
        if old is None:
            text = f"ALTER TABLE ALTER COLUMN failed because column '{ddl.column.name}' does not exist in table '{table.name}'."
            raise SqlError(4924, text, 16)
        nullable = ddl.column.nullable if ddl.column.nullable is not None else True
        if old.computed or ddl.column.type.name == "rowversion" or old.type.name == "rowversion":
            text = f"Cannot alter column '{old.name}' because it is '{'COMPUTED' if old.computed else 'timestamp'}'."
            raise SqlError(4928, text, 16)
        bound = [name for name in dependants(entry, old) if name not in entry.constraints]
        if bound and not any(key.name == bound[0] for key in table.keys):
            raise SqlError(5074, f"The column '{bound[0]}' is dependent on column '{old.name}'.", 16)
        users = [key for key in table.keys if old.column_id in key.column_ids]
        kind = self._stored_type(ddl.column)
        if users and (old.type.name != kind.name or old.type.collation != kind.collation or nullable != old.nullable):
            raise SqlError(5074, f"The object '{users[0].name}' is dependent on column '{old.name}'.", 16)
        if old.type.collation != kind.collation:
            self._check_collation_free(entry, old)
        new = replace(old, type=kind, nullable=nullable)
        columns = tuple(new if column is old else column for column in table.columns)
        after = replace(entry, table=replace(table, columns=columns))
        self._publish(table, after, ddl.text)
        run = converter(old.type, new.type, 0, True)
        number = register(("assign", old.type, new.type), lambda: run)
        if not nullable and self._has_null(table, old.name):
            raise errors.null_refused(old.name, f"{self.database.name}.{table.schema}.{table.name}", "UPDATE")
        try:
            storage.rebuild(self.link, table, after, {old.column_id: f"fn({number}, {storage.quote(old.name)})"}, ())
        except Truncation as cut:
            shown = f"{self.database.name}.{table.schema}.{table.name}"
            raise errors.truncated(shown, old.name, cut.value) from None
        self.database.change(self.catalog.with_table(after))

    def _check_collation_free(self, entry: TableEntry, column: TableColumn) -> None:
        """A CHECK or FOREIGN KEY keeps the collation of its column. Raises 5074."""
        keys = [key.name for key in entry.foreign_keys if column.column_id in key.column_ids]
        users = [*keys, *(check.name for check in entry.checks if mentions(check.condition, column.name))]
        if users:
            raise SqlError(5074, f"The object '{users[0]}' is dependent on column '{column.name}'.", 16)

    def _has_null(self, table: Table, column: str) -> bool:
        sql = f"SELECT 1 FROM {storage.storage_name(table)} WHERE {storage.quote(column)} IS NULL LIMIT 1"
        return self.link.execute(sql).fetchone() is not None

    # -- views

    def create_view(self, ddl: df.CreateView) -> None:
        schema, name = self.catalog.schema(_schema(ddl.name)), ddl.name[-1]
        if schema is None:
            raise SqlError(2760, _NO_SCHEMA.format(_schema(ddl.name)), 16)
        known = self.catalog.view(schema, name)
        if self.catalog.find(schema, name) is not None or (known is not None and not ddl.replaces):
            raise errors.object_exists(name)
        columns = tuple(column.name for column in self.session.runner.plan(ddl.query).columns)
        if ddl.columns and len(ddl.columns) != len(columns):
            more = "more" if len(ddl.columns) > len(columns) else "fewer"
            text = f"View or function '{name}' has {more} column names specified than columns defined."
            raise SqlError(4502, text, 16)
        columns = ddl.columns or columns
        for position, column in enumerate(columns, 1):
            if not column:
                text = f"Create View or Function failed because no column name was specified for column {position}."
                raise SqlError(4511, text, 16)
        object_id = known.object_id if known is not None else self._new_id()
        view = View(object_id, schema, name, ddl.text, ddl.query, columns, self.database.now())
        self.database.change(self.catalog.with_view(view))

    def drop_view(self, ddl: df.DropView) -> None:
        for name in ddl.names:
            view = self.catalog.view(_schema(name), name[-1])
            if view is not None:
                self.database.change(self.catalog.without_view(view))
            elif not ddl.if_exists:
                raise errors.cannot_drop("view", ".".join(name))

    # -- indexes and schemas

    def create_index(self, ddl: df.CreateIndex) -> None:
        """An index that is not unique changes no result: its name is checked and no more."""
        entry = self.entry(ddl.table)
        for name in (*ddl.columns, *ddl.included):
            if entry.column(name) is None:
                raise SqlError(1911, f"Column name '{name}' does not exist in the target table or view.", 16)
        if ddl.unique:
            after = self._with_key(entry, df.KeySpec(ddl.columns, False, ddl.name, constraint=False))
            self._publish(entry.table, after, ddl.text)
            self.database.change(self.catalog.with_table(after))

    def drop_index(self, ddl: df.DropIndex) -> None:
        entry = self.entry(ddl.table)
        key = next((k for k in entry.table.keys if entry.fold(k.name) == entry.fold(ddl.name)), None)
        if key is None:
            if ddl.if_exists:
                return
            raise errors.cannot_drop("index", f"{'.'.join(ddl.table)}.{ddl.name}")
        if key.name in entry.constraints:
            text = f"An explicit DROP INDEX is not allowed on index '{entry.table.name}.{key.name}'. It is being used for constraint enforcement."
            raise SqlError(3723, text, 16, 4)
        after = replace(entry, table=replace(entry.table, keys=tuple(k for k in entry.table.keys if k is not key)))
        self._publish(entry.table, after, ddl.text)
        self.link.execute(f"DROP INDEX {storage.index_name(entry.table, key)}")
        self.database.change(self.catalog.with_table(after))

    def create_schema(self, ddl: df.CreateSchema) -> None:
        if self.catalog.schema(ddl.name) is not None:
            raise errors.object_exists(ddl.name)
        self.database.change(self.catalog.with_schema(ddl.name))

    def drop_schema(self, ddl: df.DropSchema) -> None:
        schema = self.catalog.schema(ddl.name)
        if schema is None:
            if ddl.if_exists:
                return
            text = f"Cannot drop the schema '{ddl.name}', because it does not exist or you do not have permission."
            raise SqlError(15151, text, 16)
        user = next((e.table.name for e in self.catalog.tables.values() if e.table.schema == schema), None)
        if user is not None:
            text = f"Cannot drop schema '{schema}' because it is being referenced by object '{user}'."
            raise SqlError(3729, text, 16)
        self.database.change(self.catalog.without_schema(schema))


_NO_SCHEMA = 'The specified schema name "{}" either does not exist or you do not have permission to use it.'
_NOT_NULL_ADDED = (
    "ALTER TABLE only allows columns to be added that can contain nulls, or have a DEFAULT definition specified, or the "
    "column being added is an identity or timestamp column, or alternatively if none of the previous conditions are satisfied "
    "the table must be empty to allow addition of this column. Column '{}' cannot be added to non-empty table '{}' because it "
    "does not satisfy these conditions."
)


def _schema(name: Name) -> str:
    return name[-2] if len(name) > 1 and name[-2] else "dbo"
