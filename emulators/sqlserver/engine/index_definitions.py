"""DDL on keys and indexes: PRIMARY KEY, UNIQUE, CREATE INDEX, DROP INDEX.

Source: https://learn.microsoft.com/sql/t-sql/statements/create-index-transact-sql
"""

from __future__ import annotations

import secrets
import sqlite3
from dataclasses import replace

from emulators.sqlserver.engine import storage
from emulators.sqlserver.engine.catalog import TableEntry
from emulators.sqlserver.engine.defining import Defining
from emulators.sqlserver.engine.extension import KeyIndex
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql import definitions as df
from emulators.sqlserver.tsql import errors


class IndexDefinitions(Defining):
    """Adds keys and indexes."""

    def with_key(self, entry: TableEntry, spec: df.KeySpec) -> TableEntry:
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
        constraints = {**entry.constraints, name: self.new_id()} if spec.constraint else entry.constraints
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

    def create_index(self, ddl: df.CreateIndex) -> None:
        """An index that is not unique changes no result: its name is checked and no more."""
        entry = self.entry(ddl.table)
        for name in (*ddl.columns, *ddl.included):
            if entry.column(name) is None:
                raise SqlError(1911, f"Column name '{name}' does not exist in the target table or view.", 16)
        if ddl.unique:
            after = self.with_key(entry, df.KeySpec(ddl.columns, False, ddl.name, constraint=False))
            self.publish(entry.table, after, ddl.text)
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
        self.publish(entry.table, after, ddl.text)
        self.link.execute(f"DROP INDEX {storage.index_name(entry.table, key)}")
        self.database.change(self.catalog.with_table(after))
