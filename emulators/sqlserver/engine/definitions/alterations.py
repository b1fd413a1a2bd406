"""ALTER TABLE: columns and constraints added, dropped and changed, the rows brought into the new shape.

Source: https://learn.microsoft.com/sql/t-sql/statements/alter-table-transact-sql
"""

from __future__ import annotations

from dataclasses import replace

from emulators.sqlserver.engine.definitions.relationships import (
    dependants,
    indexes_over,
    mentions,
    refuse_referenced_key,
)
from emulators.sqlserver.engine.definitions.tables import TableDefinitions
from emulators.sqlserver.engine.extension import Table, TableColumn
from emulators.sqlserver.engine.rows.constraints import check_existing
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.catalog import TableEntry
from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading import definitions as df
from emulators.sqlserver.tsql.reading.statements import Name
from emulators.sqlserver.tsql.values.conversions.steps import Truncation

_NOT_NULL_ADDED = (
    "ALTER TABLE only allows columns to be added that can contain nulls, or have a DEFAULT definition specified, or the "
    "column being added is an identity or timestamp column, or alternatively if none of the previous conditions are satisfied "
    "the table must be empty to allow addition of this column. Column '{}' cannot be added to non-empty table '{}' because it "
    "does not satisfy these conditions."
)


class TableAlterations(TableDefinitions):
    """Adds the changes of tables that are there."""

    def _altered(self, name: Name) -> TableEntry:
        def missing(shown: str) -> SqlError:
            text = f'Cannot find the object "{shown}" because it does not exist or you do not have permissions.'
            return SqlError(4902, text, 16)

        return self.entry(name, missing)

    def add_columns(self, ddl: df.AddColumns) -> None:
        entry = self._altered(ddl.table)
        before = entry.table
        entry = self.with_columns(entry, ddl.columns)
        for column_name, spec_default in ddl.defaults:
            entry = self.with_default(entry, column_name, spec_default)
        if ddl.columns:
            self.publish(before, entry, ddl.text)
            self._fill_new(before, entry)
        for key in ddl.keys:
            entry = self.with_key(entry, key)
        known = set(entry.constraints)
        entry = self.with_rules(entry, ddl)
        self.database.change(self.catalog.with_table(entry))
        added = [name for name in entry.constraints if name not in known]
        if ddl.unchecked:
            self.database.change(self.catalog.with_untrusted(entry, added))
        elif added:
            check_existing(self.session, self.link, self.catalog, entry, self.database.shown, added)

    def with_default(self, entry: TableEntry, name: str, spec: df.DefaultSpec) -> TableEntry:
        column = entry.column(name)
        if column is None:
            raise SqlError(
                1752, f"Column '{name}' in table '{entry.table.name}' is invalid for creating a default constraint.", 16
            )
        if column.column_id in entry.defaults:
            raise SqlError(1781, "Column already has a DEFAULT bound to it.", 16)
        constraints = dict(entry.constraints)
        default = self.default(entry, name, spec, constraints)
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
            self.publish(before, entry, ddl.text)
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
            self.publish(table, after, ddl.text)
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
                raise self._dependent(entry, users[0], name)
            dropped.append(column.column_id)
        kept = tuple(column for column in table.columns if column.column_id not in dropped)
        identity = entry.identity if any(column.identity for column in kept) else None
        computed = {number: c for number, c in entry.computed.items() if number not in dropped}
        return replace(entry, table=replace(table, columns=kept), identity=identity, computed=computed)

    def _dependent(self, entry: TableEntry, user: str, column: str) -> SqlError:
        """5074 says what kind of thing stands in the way."""
        index = any(index.name == user for index in entry.table.all_indexes()) and user not in entry.constraints
        return SqlError(5074, f"The {'index' if index else 'object'} '{user}' is dependent on column '{column}'.", 16)

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
        known = dependants(entry, old)
        bound = [name for name in known if name not in entry.constraints]
        users = indexes_over(table, old)
        if bound and not any(index.name == bound[0] for index in users):
            raise SqlError(5074, f"The column '{bound[0]}' is dependent on column '{old.name}'.", 16)
        kind = self.stored_type(ddl.column)
        if users and (old.type.name != kind.name or old.type.collation != kind.collation or nullable != old.nullable):
            raise self._dependent(entry, users[0].name, old.name)
        rules = [name for name in known if name in entry.constraints]
        if rules and old.type.name != kind.name:
            raise self._dependent(entry, rules[0], old.name)
        filters = [index for index in users if index.filter is not None and old.column_id in index.filter.column_ids]
        if filters:
            raise self._dependent(entry, filters[0].name, old.name)
        if old.type.collation != kind.collation:
            self._check_collation_free(entry, old)
        new = replace(old, type=kind, nullable=nullable)
        columns = tuple(new if column is old else column for column in table.columns)
        after = replace(entry, table=replace(table, columns=columns))
        self.publish(table, after, ddl.text)
        if not nullable and self._has_null(table, old.name):
            raise errors.null_refused(old.name, f"{self.database.name}.{table.schema}.{table.name}", "UPDATE")
        try:
            storage.convert_column(self.link, table, after, old, kind)
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
