"""A Database of the engine's extension seam over a SQLite file: catalog, storage and observed transactions, and no T-SQL.

Tables are made by `define`; `transaction()` gives a writer whose insert, update and delete tell the observer what an engine would.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from emulators.sqlserver.engine.extension import (
    ChangeObserver,
    KeyIndex,
    Row,
    RowChange,
    Table,
    TableColumn,
    Transaction,
)
from emulators.sqlserver.results import Cancel, Cancelled, Column, SqlError
from emulators.sqlserver.sqltypes import SqlType

Named = dict[str, Any]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class FakeSqlDatabase:
    """`clock` gives server-local time in datetime form; the default stands still. `commit_fails` breaks user transactions."""

    def __init__(self, path: Path, name: str = "demo", clock: Callable[[], str] | None = None) -> None:
        self._path = path
        self._name = name
        self._clock = clock or (lambda: "2026-01-02 03:04:05.677")
        self._lock = threading.Lock()
        self._tables: dict[tuple[str, str], Table] = {}
        self._next_id = 1000
        self._number = 0
        self._local = threading.local()
        self._all: list[sqlite3.Connection] = []
        self.schemas = {"dbo"}
        self.observer: ChangeObserver | None = None
        self.cdc_enabled = False
        self.tracked: set[int] = set()
        self.commit_fails = False
        self.for_jobs = True
        self._writer = self._connect()
        self._writer.execute("PRAGMA journal_mode = WAL")

    @property
    def name(self) -> str:
        return self._name

    @property
    def database_id(self) -> int:
        return 5

    @property
    def fold(self) -> Callable[[str], str]:
        return str.lower

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = OFF")
        self._all.append(connection)
        return connection

    @contextmanager
    def writer(self, gives_way: Cancel | None = None) -> Iterator[sqlite3.Connection]:
        while not self._lock.acquire(timeout=0.01):
            if gives_way is not None and gives_way():
                raise Cancelled
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            catalog = dict(self._tables)
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                self._tables = catalog
                raise
        finally:
            self._lock.release()

    def held(self, schema: str, name: str) -> AbstractContextManager[None]:
        raise NotImplementedError

    def held_end(self, schema: str, name: str) -> AbstractContextManager[None]:
        raise NotImplementedError

    def reader(self) -> sqlite3.Connection:
        if not hasattr(self._local, "connection"):
            self._local.connection = self._connect()
        connection: sqlite3.Connection = self._local.connection
        return connection

    def table(self, schema: str, name: str) -> Table | None:
        return self._tables.get((schema.casefold(), name.casefold()))

    def table_by_id(self, object_id: int) -> Table | None:
        return next((table for table in self._tables.values() if table.object_id == object_id), None)

    def tables(self) -> Sequence[Table]:
        return list(self._tables.values())

    def storage(self, table: Table) -> str:
        return quoted(f"{table.schema}.{table.object_id}")

    def create_system_table(
        self,
        connection: sqlite3.Connection,
        schema: str,
        name: str,
        columns: Sequence[Column],
        order: Sequence[str] = (),
    ) -> Table:
        fields = tuple(TableColumn(at, c.name, c.type, c.nullable, c.identity) for at, c in enumerate(columns, 1))
        return self._create(connection, schema, name, fields, (), order, system=True)

    def alter_system_table(self, connection: sqlite3.Connection, table: Table, column: str, kind: SqlType) -> None:
        """As far as a fake needs it: the definition; values stay as they are."""
        columns = tuple(replace(c, type=kind) if c.name == column else c for c in table.columns)
        self.replace_table(replace(table, columns=columns))

    def drop_system_table(self, connection: sqlite3.Connection, table: Table) -> None:
        connection.execute(f"DROP TABLE {self.storage(table)}")
        del self._tables[table.schema.casefold(), table.name.casefold()]

    def create_schema(self, name: str) -> None:
        if name in self.schemas:
            raise SqlError(2714, f"There is already an object named '{name}' in the database.")
        self.schemas.add(name)

    def drop_schema(self, name: str) -> None:
        self.schemas.remove(name)

    def set_observer(self, observer: ChangeObserver | None) -> None:
        self.observer = observer

    def set_cdc_enabled(self, enabled: bool) -> None:
        self.cdc_enabled = enabled

    def set_tracked(self, object_id: int, tracked: bool) -> None:
        (self.tracked.add if tracked else self.tracked.discard)(object_id)

    def now(self) -> str:
        return self._clock()

    def _create(
        self,
        connection: sqlite3.Connection,
        schema: str,
        name: str,
        columns: tuple[TableColumn, ...],
        keys: tuple[KeyIndex, ...],
        order: Sequence[str],
        *,
        system: bool,
    ) -> Table:
        self._next_id += 1
        table = Table(self._next_id, schema, name, columns, keys, system)
        fields = [quoted(column.name) for column in columns]
        if order:
            fields.append(f"UNIQUE ({', '.join(map(quoted, order))})")
        connection.execute(f"CREATE TABLE {self.storage(table)} ({', '.join(fields)})")
        self._tables[schema.casefold(), name.casefold()] = table
        return table

    def define(
        self,
        name: str,
        columns: Mapping[str, SqlType],
        key: Sequence[str] = (),
        unique: Sequence[str] = (),
        computed: Sequence[str] = (),
        schema: str = "dbo",
    ) -> Table:
        """A user table; `key`: its primary key, `unique`: the columns of a unique index."""
        fields = tuple(
            TableColumn(at, column, kind, nullable=column not in key, computed=column in computed)
            for at, (column, kind) in enumerate(columns.items(), 1)
        )
        ids = {field.name: field.column_id for field in fields}
        keys = []
        if key:
            keys.append(KeyIndex(f"PK_{name}", tuple(ids[column] for column in key), primary=True))
        if unique:
            keys.append(KeyIndex(f"UQ_{name}", tuple(ids[column] for column in unique), primary=False, index_id=2))
        with self.writer() as connection:
            return self._create(connection, schema, name, fields, tuple(keys), (), system=False)

    @contextmanager
    def transaction(self) -> Iterator[FakeTransaction]:
        """A user's transaction: commits on leaving unless `rollback` was called; rolls back on an exception."""
        with self._lock:
            self._number += 1
            running = FakeTransaction(self, self._writer, Transaction(self._number, self.now()))
            self._writer.execute("BEGIN IMMEDIATE")
            catalog = dict(self._tables)
            try:
                yield running
                if running.rolled_back:
                    raise _RolledBack
                if self.observer:
                    self.observer.committing(running.transaction, self._writer)
                if self.commit_fails:
                    raise sqlite3.OperationalError("disk I/O error")
                self._writer.execute("COMMIT")
            except BaseException as error:
                self._writer.execute("ROLLBACK")
                self._tables = catalog
                if self.observer:
                    self.observer.rolled_back(running.transaction)
                if not isinstance(error, _RolledBack):
                    raise

    def replace_table(self, table: Table) -> None:
        self._tables[table.schema.casefold(), table.name.casefold()] = table

    def forget_table(self, table: Table) -> None:
        del self._tables[table.schema.casefold(), table.name.casefold()]

    def rows(self, schema: str, name: str, order: str = "rowid") -> list[Named]:
        """All committed rows of a table, as dictionaries."""
        table = self.table(schema, name)
        assert table is not None
        columns = ", ".join(quoted(column.name) for column in table.columns)
        found = self.reader().execute(f"SELECT {columns} FROM {self.storage(table)} ORDER BY {order}").fetchall()
        return [dict(zip([column.name for column in table.columns], row, strict=True)) for row in found]

    def close(self) -> None:
        for connection in self._all:
            connection.close()


class _RolledBack(Exception):
    """Leaves the transaction block the way a rollback does."""


class FakeTransaction:
    """The statements of one transaction. Rows are chosen by a Python predicate over the row as a dictionary."""

    def __init__(self, database: FakeSqlDatabase, connection: sqlite3.Connection, transaction: Transaction) -> None:
        self._database = database
        self._connection = connection
        self.transaction = transaction
        self.rolled_back = False

    def insert(self, name: str, *rows: Named) -> None:
        table = self._table(name)
        after = [self._row(table, row) for row in rows]
        marks = ", ".join("?" * len(table.columns))
        self._connection.executemany(f"INSERT INTO {self._into(table)} VALUES ({marks})", after)
        self._tell(table, [RowChange(None, row) for row in after], frozenset())

    def delete(self, name: str, where: Callable[[Named], bool]) -> None:
        table = self._table(name)
        changes = []
        for rowid, row in self._chosen(table, where):
            self._connection.execute(f"DELETE FROM {self._database.storage(table)} WHERE rowid = ?", (rowid,))
            changes.append(RowChange(row, None))
        self._tell(table, changes, frozenset())

    def update(self, name: str, where: Callable[[Named], bool], change: Callable[[Named], Named]) -> None:
        """`change` gives the new values of the columns that SET names."""
        table = self._table(name)
        changes = []
        named: set[str] = set()
        for rowid, row in self._chosen(table, where):
            as_named = self._named(table, row)
            new = change(as_named)
            named |= new.keys()
            after = self._row(table, as_named | new)
            sets = ", ".join(f"{quoted(column.name)} = ?" for column in table.columns)
            self._connection.execute(
                f"UPDATE {self._database.storage(table)} SET {sets} WHERE rowid = ?", (*after, rowid)
            )
            changes.append(RowChange(row, after))
        self._tell(table, changes, frozenset(c.column_id for c in table.columns if c.name in named))

    def save(self, savepoint: str) -> None:
        self._connection.execute(f"SAVEPOINT {quoted(savepoint)}")
        if self._database.observer:
            self._database.observer.saved(self.transaction, savepoint)

    def rollback_to(self, savepoint: str) -> None:
        self._connection.execute(f"ROLLBACK TO {quoted(savepoint)}")
        if self._database.observer:
            self._database.observer.rolled_back_to(self.transaction, savepoint)

    def rollback(self) -> None:
        self.rolled_back = True

    def add_column(self, name: str, column: str, kind: SqlType) -> None:
        table = self._table(name)
        new = TableColumn(max(c.column_id for c in table.columns) + 1, column, kind)
        self._change(table, replace(table, columns=(*table.columns, new)), f"ALTER TABLE {name} ADD {column}")
        self._connection.execute(f"ALTER TABLE {self._database.storage(table)} ADD COLUMN {quoted(column)}")

    def drop_column(self, name: str, column: str) -> None:
        table = self._table(name)
        left = tuple(c for c in table.columns if c.name != column)
        self._change(table, replace(table, columns=left), f"ALTER TABLE {name} DROP COLUMN {column}")
        self._connection.execute(f"ALTER TABLE {self._database.storage(table)} DROP COLUMN {quoted(column)}")

    def alter(self, before: Table, after: Table | None, ddl: str) -> None:
        """Ask the observer whether a change of the table's definition may be."""
        if self._database.observer:
            self._database.observer.table_changed(before, after, ddl, self.transaction)

    def alter_column(self, name: str, column: str, kind: SqlType) -> None:
        table = self._table(name)
        columns = tuple(replace(c, type=kind) if c.name == column else c for c in table.columns)
        self._change(table, replace(table, columns=columns), f"ALTER TABLE {name} ALTER COLUMN {column} {kind.name}")

    def truncate(self, name: str) -> None:
        table = self._table(name)
        self.alter(table, table, f"TRUNCATE TABLE {name}")
        self._connection.execute(f"DELETE FROM {self._database.storage(table)}")

    def drop_table(self, name: str) -> None:
        table = self._table(name)
        self.alter(table, None, f"DROP TABLE {name}")
        self._connection.execute(f"DROP TABLE {self._database.storage(table)}")
        self._database.forget_table(table)

    def _change(self, before: Table, after: Table, ddl: str) -> None:
        self.alter(before, after, ddl)
        self._database.replace_table(after)

    def _table(self, name: str) -> Table:
        table = self._database.table("dbo", name)
        assert table is not None, name
        return table

    def _into(self, table: Table) -> str:
        columns = ", ".join(quoted(column.name) for column in table.columns)
        return f"{self._database.storage(table)} ({columns})"

    def _row(self, table: Table, row: Named) -> Row:
        return tuple(row.get(column.name) for column in table.columns)

    def _named(self, table: Table, row: Row) -> Named:
        return dict(zip([column.name for column in table.columns], row, strict=True))

    def _chosen(self, table: Table, where: Callable[[Named], bool]) -> list[tuple[int, Row]]:
        columns = ", ".join(quoted(column.name) for column in table.columns)
        found = self._connection.execute(
            f"SELECT rowid, {columns} FROM {self._database.storage(table)} ORDER BY rowid"
        ).fetchall()
        return [(row[0], row[1:]) for row in found if where(self._named(table, row[1:]))]

    def _tell(self, table: Table, changes: Sequence[RowChange], updated: frozenset[int]) -> None:
        observer = self._database.observer
        if observer and observer.tracks(table.object_id):
            observer.statement(self.transaction, table, changes, updated)
