"""DDL that makes and empties tables: CREATE TABLE, DROP TABLE, TRUNCATE TABLE, and what a column is when it is made."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from emulators.sqlserver.engine.definitions.defining import NO_SCHEMA, schema_of
from emulators.sqlserver.engine.definitions.indexes import IndexDefinitions
from emulators.sqlserver.engine.definitions.relationships import (
    mentions,
    refuse_referenced_table,
    with_check,
    with_foreign_key,
)
from emulators.sqlserver.engine.extension import Table, TableColumn
from emulators.sqlserver.engine.rows.constraints import row_value
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.catalog import Computed, Default, TableEntry
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading import definitions as df
from emulators.sqlserver.tsql.values.types import family


class TableDefinitions(IndexDefinitions):
    """Adds tables and their columns and constraints."""

    def create_table(self, ddl: df.CreateTable) -> None:
        catalog = self.catalog
        schema = catalog.schema(schema_of(ddl.table))
        name = ddl.table[-1]
        if schema is None:
            raise SqlError(2760, NO_SCHEMA.format(schema_of(ddl.table)), 16)
        if catalog.has_object(schema, name):
            raise errors.object_exists(name)
        object_id, catalog = catalog.new_id()
        self.database.change(catalog)
        fold = self.database.fold
        entry = TableEntry(Table(object_id, schema, name, ()), created=self.database.now(), fold=fold)
        primary = {fold(column) for key in ddl.keys if key.primary for column in key.columns}
        entry = self.with_columns(entry, ddl.columns, primary)
        storage.create(self.link, entry)
        if sum(bool(key.clustered) for key in ddl.keys) > 1:
            raise SqlError(8112, f"Cannot add more than one clustered index for constraints on table '{name}'.", 16)
        for key in sorted(ddl.keys, key=lambda key: not key.clustered):
            entry = self.with_key(entry, key)
        entry = self.with_rules(entry, ddl)
        self.database.change(self.catalog.with_table(entry))

    def with_rules(self, entry: TableEntry, ddl: df.CreateTable | df.AddColumns) -> TableEntry:
        """With the CHECK and FOREIGN KEY constraints of a statement."""
        for check in ddl.checks:
            self.check_free(entry, check.name)
            entry = with_check(entry, check, self.new_id())
            row_value(self.session, entry, check.condition)
        for key in ddl.foreign_keys:
            if entry.table.name[:1] in ("#", "@"):
                raise errors.unsupported("a foreign key of a temporary table")
            self.check_free(entry, key.name)
            entry = with_foreign_key(entry, key, self.catalog, self.new_id())
        return entry

    def with_columns(
        self, entry: TableEntry, specs: Sequence[df.ColumnSpec], primary: AbstractSet[str] = frozenset()
    ) -> TableEntry:
        """`primary`: the folded names of columns of the primary key. A computed column may use those behind it."""
        first = entry.next_column
        for number, spec in sorted(enumerate(specs, first), key=lambda pair: pair[1].computed is not None):
            entry = self._with_column(entry, spec, number, entry.fold(spec.name) in primary)
        columns = tuple(sorted(entry.table.columns, key=lambda column: column.column_id))
        return replace(entry, table=replace(entry.table, columns=columns), next_column=first + len(specs))

    def _with_column(self, entry: TableEntry, spec: df.ColumnSpec, number: int, primary: bool) -> TableEntry:
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
        kind = self.stored_type(spec)
        computed = dict(entry.computed)
        if spec.computed is not None:
            self._check_computed(table, spec.computed)
            kind = self.database.stored_type(row_value(self.session, entry, spec.computed.value).type)
            computed[number] = Computed(spec.computed.text, spec.computed.value, spec.computed.persisted)
        identity = spec.identity is not None
        column = TableColumn(number, spec.name, kind, nullable, identity, spec.computed is not None)
        defaults = dict(entry.defaults)
        constraints = dict(entry.constraints)
        if spec.default is not None:
            defaults[column.column_id] = self.default(entry, spec.name, spec.default, constraints)
        return replace(
            entry,
            table=replace(table, columns=(*table.columns, column)),
            defaults=defaults,
            constraints=constraints,
            identity=entry.identity or spec.identity,
            computed=computed,
        )

    def _check_computed(self, table: Table, spec: df.ComputedSpec) -> None:
        """Raises 1759."""
        used = next((c.name for c in table.columns if c.computed and mentions(spec.value, c.name)), None)
        if used is not None:
            text = f"Computed column '{used}' in table '{table.name}' is not allowed to be used in another computed-column definition."
            raise SqlError(1759, text, 16)

    def stored_type(self, spec: df.ColumnSpec) -> SqlType:
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

    def default(self, entry: TableEntry, column: str, spec: df.DefaultSpec, constraints: dict[str, int]) -> Default:
        self.check_free(entry, spec.name)
        table = entry.table
        name = spec.name or f"DF__{table.name[:9]}__{column[:5]}__{secrets.token_hex(4).upper()}"
        constraints[name] = self.new_id()
        return Default(name, spec.text, spec.value)

    def drop_table(self, ddl: df.DropTable) -> None:
        for name in ddl.tables:
            entry = self.catalog.find(schema_of(name), name[-1])
            if entry is None or entry.table.system:
                if ddl.if_exists and entry is None:
                    continue
                raise errors.cannot_drop("table", ".".join(name))
            refuse_referenced_table(entry, self.catalog, truncates=False)
            self.publish(entry.table, None, ddl.text)
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
        self.publish(entry.table, entry, "TRUNCATE" + text[8:])
        self.link.execute(f"DELETE FROM {storage.storage_name(entry.table)}")
        self.database.identities.pop(entry.table.object_id, None)
