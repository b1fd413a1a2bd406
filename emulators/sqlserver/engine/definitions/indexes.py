"""DDL on keys and indexes: PRIMARY KEY, UNIQUE, CREATE INDEX, DROP INDEX.

An index that is not unique changes no result: it is in the catalog, and SQLite has none for it. Of a filtered index the condition is
held to the documented grammar. Source: https://learn.microsoft.com/sql/t-sql/statements/create-index-transact-sql
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from emulators.sqlserver.engine.definitions.defining import Defining
from emulators.sqlserver.engine.extension import IndexFilter, KeyIndex, TableColumn
from emulators.sqlserver.engine.rows.constraints import row_value
from emulators.sqlserver.engine.session_ports import DatabaseAccess
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.catalog import TableEntry
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading import definitions as df
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.trees import parse_query

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


class IndexDefinitions(Defining):
    """Adds keys and indexes."""

    def with_key(self, entry: TableEntry, spec: df.KeySpec) -> TableEntry:
        table = entry.table
        columns = self._key_columns(entry, spec.columns)
        nullable = next((column for column in columns if column.nullable), None)
        if spec.primary and nullable is not None:
            text = f"Cannot define PRIMARY KEY constraint on nullable column in table '{table.name}'."
            raise SqlError(8111, text, 16)
        if spec.primary and any(key.primary for key in table.keys):
            raise SqlError(1779, f"Table '{table.name}' already has a primary key defined on it.", 16)
        prefix = "PK" if spec.primary else "UQ"
        name = spec.name or f"{prefix}__{table.name[:8]}__{secrets.token_hex(8).upper()}"
        self.check_free(entry, spec.name)
        self._check_index_name(entry, name)
        index_id = self._index_id(
            entry, spec.primary if spec.clustered is None else spec.clustered, bool(spec.clustered)
        )
        descending = self._ids(entry, spec.descending)
        key = KeyIndex(name, tuple(c.column_id for c in columns), spec.primary, index_id, descending=descending)
        made = replace(
            entry,
            table=replace(table, keys=(*table.keys, key)),
            constraints={**entry.constraints, name: self.new_id()},
        )
        self._store(made, key)
        return made

    def create_index(self, ddl: df.CreateIndex) -> None:
        entry = self.entry(ddl.table)
        table = entry.table
        self._check_index_name(entry, ddl.name)
        key_columns = self._key_columns(entry, ddl.columns) if ddl.unique else self._columns(entry, ddl.columns)
        index = KeyIndex(
            ddl.name,
            tuple(column.column_id for column in key_columns),
            False,
            self._index_id(entry, ddl.clustered, ddl.clustered),
            ddl.unique,
            self._ids(entry, ddl.descending),
            tuple(column.column_id for column in self._columns(entry, ddl.included)),
            self._filter(entry, ddl) if ddl.filter is not None else None,
        )
        if ddl.unique and index.filter is None:
            after = replace(entry, table=replace(table, keys=(*table.keys, index)))
        else:
            after = replace(entry, table=replace(table, indexes=(*table.indexes, index)))
        if ddl.unique:
            self._store(after, index)
            self.publish(table, after, ddl.text)
        self.database.change(self.catalog.with_table(after))

    def drop_index(self, ddl: df.DropIndex) -> None:
        entry = self.entry(ddl.table)
        table = entry.table
        index = self._named(entry, ddl.name)
        if index is None:
            if ddl.if_exists:
                return
            raise errors.cannot_drop("index", f"{'.'.join(ddl.table)}.{ddl.name}")
        if index.name in entry.constraints:
            text = f"An explicit DROP INDEX is not allowed on index '{table.name}.{index.name}'. It is being used for constraint enforcement."
            raise SqlError(3723, text, 16, 4)
        keys = tuple(key for key in table.keys if key is not index)
        indexes = tuple(other for other in table.indexes if other is not index)
        after = replace(entry, table=replace(table, keys=keys, indexes=indexes))
        if index.unique:
            self.publish(table, after, ddl.text)
            self.link.execute(f"DROP INDEX {storage.index_name(table, index)}")
        self.database.change(self.catalog.with_table(after))

    def _store(self, entry: TableEntry, index: KeyIndex) -> None:
        """Raises 1505."""
        try:
            storage.create_index(self.link, entry, index)
        except sqlite3.IntegrityError:
            text = (
                f"The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the object name "
                f"'{entry.table.schema}.{entry.table.name}' and the index name '{index.name}'."
            )
            raise SqlError(1505, text, 16) from None

    def _check_index_name(self, entry: TableEntry, name: str) -> None:
        """Raises 1913."""
        if self._named(entry, name) is not None:
            text = (
                f"The operation failed because an index or statistics with name '{name}' already exists on table "
                f"'{entry.table.schema}.{entry.table.name}'."
            )
            raise SqlError(1913, text, 16)

    def _named(self, entry: TableEntry, name: str) -> KeyIndex | None:
        wanted = entry.fold(name)
        return next((index for index in entry.table.all_indexes() if entry.fold(index.name) == wanted), None)

    def _index_id(self, entry: TableEntry, clustered: bool, said: bool) -> int:
        """1 for the clustered index, of which there is one. Raises 1902 where CLUSTERED was `said` of another."""
        known = entry.table.all_indexes()
        other = next((index for index in known if index.index_id == 1), None)
        if said and other is not None:
            shown = f"{entry.table.schema}.{entry.table.name}"
            text = (
                f"Cannot create more than one clustered index on table '{shown}'. Drop the existing clustered index "
                f"'{other.name}' before creating another."
            )
            raise SqlError(1902, text, 16, 3)
        return 1 if clustered and other is None else max([1, *(index.index_id for index in known)]) + 1

    def _columns(self, entry: TableEntry, names: Iterable[str]) -> list[TableColumn]:
        """Raises 1911."""
        found = []
        for name in names:
            column = entry.column(name)
            if column is None:
                raise SqlError(1911, f"Column name '{name}' does not exist in the target table or view.", 16)
            found.append(column)
        return found

    def _key_columns(self, entry: TableEntry, names: Iterable[str]) -> list[TableColumn]:
        """Of a key that rows are told apart by. Raises 1911."""
        found = self._columns(entry, names)
        if any(column.computed for column in found):
            raise errors.unsupported("a key over a computed column")
        return found

    def _ids(self, entry: TableEntry, names: Iterable[str]) -> frozenset[int]:
        return frozenset(column.column_id for column in self._columns(entry, names))

    # -- filters

    def _filter(self, entry: TableEntry, ddl: df.CreateIndex) -> IndexFilter:
        """Comparisons of columns with constants, IN, IS NULL, joined by AND. Raises 207, 10609, 10735."""
        assert ddl.filter is not None
        shown = f"{entry.table.schema}.{entry.table.name}"
        if ddl.clustered:
            raise errors.unsupported("a clustered filtered index")
        written = parse_query(ddl.filter.condition.text).expressions[0].args["ifs"][0].this
        if not _is_filter(written):
            raise SqlError(10735, f"Incorrect WHERE clause for filtered index '{ddl.name}' on table '{shown}'.", 15)
        columns = [self._filtering(entry, column.name) for column in written.find_all(exp.Column)]
        computed = next((column for column in columns if column.computed), None)
        if computed is not None:
            text = (
                f"Filtered index '{ddl.name}' cannot be created on table '{shown}' because the column '{computed.name}' in the "
                "filter expression is a computed column. Rewrite the filter expression so that it does not include this column."
            )
            raise SqlError(10609, text, 16)
        condition = ddl.filter.condition
        ids = frozenset(column.column_id for column in columns)
        return IndexFilter(ddl.filter.text, filter_sql(self.session, entry, condition), ids, condition)

    def _filtering(self, entry: TableEntry, name: str) -> TableColumn:
        column = entry.column(name)
        if column is None:
            raise errors.invalid_column(name)
        return column


def filter_sql(session: DatabaseAccess, entry: TableEntry, condition: Fragment) -> str:
    """A filter for SQLite, good for this process."""
    return f"{row_value(session, entry, condition, row='').sql} = 1"


def _is_filter(node: exp.Expr) -> bool:
    """Whether a condition is of the grammar of filters."""
    if isinstance(node, exp.Paren):
        return _is_filter(node.this)
    if isinstance(node, exp.And):
        return _is_filter(node.left) and _is_filter(node.right)
    if isinstance(node, exp.Not):
        return isinstance(node.this, exp.Is) and _is_filter(node.this)
    if not isinstance(node.this, exp.Column):
        return False
    if isinstance(node, exp.In):
        return bool(node.expressions) and all(_is_constant(item) for item in node.expressions)
    if isinstance(node, exp.Is):
        return isinstance(node.expression, exp.Null)
    return isinstance(node, _COMPARISONS) and _is_constant(node.expression)


def _is_constant(node: exp.Expr) -> bool:
    if isinstance(node, exp.Paren | exp.Neg):
        return _is_constant(node.this)
    if isinstance(node, exp.Anonymous) and str(node.name).upper() in ("CAST", "CONVERT"):
        return all(_is_constant(item) for item in node.expressions)
    return isinstance(node, exp.Literal | exp.National | exp.HexString)
