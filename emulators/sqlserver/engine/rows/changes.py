"""INSERT, UPDATE and DELETE, row by row: coercion, defaults, identity, rowversion, keys, and the before and after images.

Rows are computed here and handed to SQLite finished. SQLite checks uniqueness row by row, SQL Server by statement: an UPDATE of
key columns is therefore a delete of all its rows and an insert of all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from emulators.sqlserver.engine.extension import KeyIndex, RowChange
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.catalog import Default, TableEntry
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.values.conversions.steps import Converter, Truncation
from emulators.sqlserver.tsql.values.convert import converter
from emulators.sqlserver.tsql.values.types import RANGES

Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """Where a column's value comes from: position in the given row and its type; -1: from nowhere (default or NULL)."""

    position: int
    type: SqlType


class TableWriter:
    """Writes to one table inside the open write transaction of its database."""

    def __init__(self, database: StoredDatabase, entry: TableEntry, link: Link, statement: str = "INSERT") -> None:
        """`statement`: how error texts call the statement."""
        self.statement = statement
        self.database = database
        self.entry = entry
        self.link = link
        table = entry.table
        self.name = storage.storage_name(table)
        self.shown = f"{database.shown}.{table.schema}.{table.name}"
        self.rowid = storage.rowid_name(table)
        self.rowversion = next((i for i, c in enumerate(table.columns) if c.type.name == "rowversion"), -1)
        self.identity = next((i for i, c in enumerate(table.columns) if c.identity), -1)
        self.constrained = bool(entry.checks or entry.foreign_keys)
        self.new_from: int | None = None
        """The first row number of what was inserted, where constraints ask for it."""
        self.numbers: list[int] = []
        """The row numbers of what was updated."""
        self.keys_gone = False
        """Whether keys that other rows may reference were deleted or changed."""
        observer = database.observer
        self.tracked = observer is not None and observer.tracks(table.object_id)

    # -- values

    def coerce(self, index: int, source: SqlType) -> Converter:
        """Assignment of a value of type `source` to the column at `index`."""
        column = self.entry.table.columns[index]
        try:
            run = converter(source, column.type, 0, True)
        except SqlError:
            if source.name == "int" and column.nullable:  # NULL alone has type int and goes anywhere
                return self._only_null(source, index)
            raise
        return run

    def _only_null(self, source: SqlType, index: int) -> Converter:
        column = self.entry.table.columns[index]

        def run(value: Value) -> Value:
            if value is not None:
                raise errors.type_clash(source.name, column.type.name)
            return None

        return run

    def converted(
        self, rows: Iterable[Sequence[Value]], steps: Sequence[Converter], indexes: Sequence[int]
    ) -> list[Row]:
        """Rows of values for the columns at `indexes`. Raises 2628 for what would be cut."""
        done: list[Row] = []
        index = 0
        try:
            for row in rows:
                values: list[Value] = []
                for index, (step, value) in enumerate(zip(steps, row, strict=True)):  # noqa: B007 - names the column at fault
                    values.append(step(value))
                done.append(tuple(values))
        except Truncation as cut:
            column = self.entry.table.columns[indexes[index]]
            raise errors.truncated(self.shown, column.name, cut.value) from None
        return done

    def check_nulls(self, rows: Iterable[Row], statement: str) -> None:
        required = [(i, c.name) for i, c in enumerate(self.entry.table.columns) if not c.nullable]
        for row in rows:
            for index, name in required:
                if row[index] is None:
                    raise errors.null_refused(name, self.shown, statement)

    def next_identity(self) -> int:
        seed, step = self.entry.identity or (1, 1)
        number = self.entry.table.object_id
        identities = self.database.identities
        value = identities[number] + step if number in identities else seed
        kind = self.entry.table.columns[self.identity].type
        if kind.name in RANGES and not RANGES[kind.name][0] <= value <= RANGES[kind.name][1]:
            raise errors.arithmetic_overflow(kind.name)
        identities[number] = value
        return value

    # -- the three statements

    def insert(self, rows: list[Row]) -> None:
        """Finished rows. Raises 515, 2627, 2601."""
        self.check_nulls(rows, self.statement)
        first = (self.link.execute(f"SELECT max({self.rowid}) FROM {self.name}").fetchone()[0] or 0) + 1
        if self.constrained:
            self.new_from = first
        marks = ", ".join("?" * len(self.entry.table.columns))
        self._apply(f"INSERT INTO {self.name} VALUES ({marks})", rows, rows)
        self._hold(range(first, first + len(rows)))
        if self.tracked:
            self._report([RowChange(None, row) for row in rows], frozenset())

    def delete(self, found: Sequence[tuple[int, Row]]) -> None:
        self.keys_gone = True
        self._remove(found)
        self._hold([number for number, _ in found])
        if self.tracked:
            self._report([RowChange(row, None) for _, row in found], frozenset())

    def _remove(self, found: Sequence[tuple[int, Row]]) -> None:
        self.link.raw.executemany(f"DELETE FROM {self.name} WHERE {self.rowid} = ?", [(number,) for number, _ in found])

    def update(self, found: Sequence[tuple[int, Row]], after: list[Row], changed: Sequence[int]) -> list[Row]:
        """`after`: the rows as they shall be, beside `found`; `changed`: positions that SET names. The rows as they are now."""
        self.check_nulls(after, self.statement)
        table = self.entry.table
        keyed = self.entry.deciding_columns()
        if self.rowversion >= 0:
            after = [self._bumped(row) for row in after]
            changed = [*changed, self.rowversion]
        numbers = [number for number, _ in found]
        self.numbers += numbers if self.constrained else []
        self._hold(numbers)
        if keyed & set(changed):
            self.keys_gone = True
            self._remove(found)
            marks = ", ".join("?" * (len(table.columns) + 1))
            columns = ", ".join([self.rowid, *(storage.quote(c.name) for c in table.columns)])
            rows = [(number, *row) for number, row in zip(numbers, after, strict=True)]
            self._apply(f"INSERT INTO {self.name} ({columns}) VALUES ({marks})", rows, after)
        else:
            sets = ", ".join(f"{storage.quote(table.columns[i].name)} = ?" for i in changed)
            parameters = [(*(row[i] for i in changed), number) for number, row in zip(numbers, after, strict=True)]
            self._apply(f"UPDATE {self.name} SET {sets} WHERE {self.rowid} = ?", parameters, after)
        if self.tracked:
            named = frozenset(table.columns[i].column_id for i in changed if i != self.rowversion)
            changes = [RowChange(before, row) for (_, before), row in zip(found, after, strict=True)]
            self._report(changes, named)
        return after

    def _hold(self, numbers: Collection[int]) -> None:
        """Keep readers off changed rows until the transaction ends."""
        active = self.database.active
        if active is not None and numbers:
            active.held.change(self.name, numbers)

    def _bumped(self, row: Row) -> Row:
        at = self.rowversion
        return (*row[:at], self.database.next_row_version(), *row[at + 1 :])

    def _report(self, changes: Sequence[RowChange], updated: frozenset[int]) -> None:
        observer, active = self.database.observer, self.database.active
        if changes and observer is not None and active is not None and active.transaction is not None:
            observer.statement(active.transaction, self.entry.table, changes, updated)

    # -- keys

    def _apply(self, sql: str, parameters: Sequence[Row], rows: Sequence[Row]) -> None:
        self.link.execute("SAVEPOINT rows")
        try:
            self.link.raw.executemany(sql, parameters)
        except sqlite3.IntegrityError:
            self.link.execute("ROLLBACK TO rows")
            raise self._duplicate(sql, parameters, rows) from None
        finally:
            self.link.execute("RELEASE rows")

    def _duplicate(self, sql: str, parameters: Sequence[Row], rows: Sequence[Row]) -> SqlError:
        """Goes through the rows one by one to find which key of which row is there already."""
        try:
            for values, row in zip(parameters, rows, strict=True):
                try:
                    self.link.raw.execute(sql, values)
                except sqlite3.IntegrityError as error:
                    return self._duplicate_key(row, str(error))
        finally:
            self.link.execute("ROLLBACK TO rows")
        raise AssertionError("no row repeats a key")

    def _duplicate_key(self, row: Row, text: str) -> SqlError:
        entry = self.entry
        table = entry.table
        named = [key for key in table.unique_indexes() if storage.index_name(table, key).strip('"') in text]
        key = (named or [key for key in table.keys if self._mentioned(key, text)] or list(table.keys))[0]
        values = ", ".join(_key_text(row[position]) for position in entry.key_columns(key))
        shown = f"{table.schema}.{table.name}"
        if key.name not in entry.constraints:
            return errors.duplicate_index_key(key.name, shown, values)
        return errors.duplicate_key("PRIMARY KEY" if key.primary else "UNIQUE KEY", key.name, shown, values)

    def _mentioned(self, key: KeyIndex, text: str) -> bool:
        """SQLite names the columns: "UNIQUE constraint failed: t1.a, t1.b"."""
        names = {column.column_id: column.name for column in self.entry.table.columns}
        prefix = self.name.strip('"')
        return text.endswith(": " + ", ".join(f"{prefix}.{names[column_id]}" for column_id in key.column_ids))


def _key_text(value: Value) -> str:
    if value is None:
        return "<NULL>"
    return "0x" + value.hex().upper() if isinstance(value, bytes) else str(value)


class RowBuilder:
    """Turns the values that an INSERT gives into finished rows. Raises 109, 110, 213, 264, 273, 544, 545."""

    def __init__(
        self,
        writer: TableWriter,
        columns: Sequence[str] | None,
        identity_insert: bool,
        default: Callable[[Default], Value],
    ) -> None:
        self.writer = writer
        self.table = writer.entry.table
        self._default = default
        self.explicit_identity = False
        self.targets = self._positions(columns, identity_insert)
        if writer.identity >= 0:
            self.explicit_identity = writer.identity in self.targets
            if identity_insert and not self.explicit_identity:
                text = (
                    f"Explicit value must be specified for identity column in table '{self.table.name}' either when "
                    "IDENTITY_INSERT is set to ON or when a replication user is inserting into a NOT FOR REPLICATION identity column."
                )
                raise SqlError(545, text, 16)

    def _positions(self, columns: Sequence[str] | None, identity_insert: bool) -> list[int]:
        writer = self.writer
        if columns is None:
            skipped = {writer.identity} if not identity_insert else {-1}
            return [i for i, c in enumerate(self.table.columns) if i not in skipped and not c.computed]
        positions = []
        fold = writer.entry.fold
        names = {fold(column.name): index for index, column in enumerate(self.table.columns)}
        for name in columns:
            if fold(name) not in names:
                raise errors.invalid_column(name)
            position = names[fold(name)]
            if position in positions:
                text = (
                    f"The column name '{name}' is specified more than once in the SET clause or column list of an INSERT. "
                    "A column cannot be assigned more than one value in the same clause."
                )
                raise SqlError(264, text, 16)
            if self.table.columns[position].computed:
                raise errors.computed_column(name)
            if position == writer.identity and not identity_insert:
                text = f"Cannot insert explicit value for identity column in table '{self.table.name}' when IDENTITY_INSERT is set to OFF."
                raise SqlError(544, text, 16)
            positions.append(position)
        return positions

    def check_count(self, given: int, listed: bool) -> None:
        wanted = len(self.targets)
        if given == wanted:
            return
        if not listed:
            raise SqlError(213, "Column name or number of supplied values does not match table definition.", 16)
        more = "more" if wanted > given else "fewer"
        text = (
            f"There are {more} columns in the INSERT statement than values specified in the VALUES clause. The number of "
            "values in the VALUES clause must match the number of columns specified in the INSERT statement."
        )
        raise SqlError(109 if wanted > given else 110, text, 15)

    def finished(self, values: Iterable[Row], omitted: Sequence[int] = ()) -> list[Row]:
        """`values`: coerced, in the order of the targets; `omitted`: targets given as DEFAULT in every row."""
        writer = self.writer
        columns = self.table.columns
        targets = {position: index for index, position in enumerate(self.targets) if position not in omitted}
        fillers = [None if position in targets else self._filler(position) for position in range(len(columns))]
        if writer.rowversion in targets:
            text = (
                "Cannot insert an explicit value into a timestamp column. Use INSERT with a column list to exclude the "
                "timestamp column, or insert a DEFAULT into the timestamp column."
            )
            raise SqlError(273, text, 16)
        if self.explicit_identity and writer.identity in omitted:
            raise errors.no_explicit_identity()
        order = [(targets.get(position, -1), fillers[position]) for position in range(len(columns))]
        rows = [tuple(row[at] if fill is None else fill() for at, fill in order) for row in values]
        if self.explicit_identity and rows:
            self._raise_identity(rows)
        return rows

    def _raise_identity(self, rows: Sequence[Row]) -> None:
        number, step = self.table.object_id, (self.writer.entry.identity or (1, 1))[1]
        given = [int(str(value)) for row in rows if (value := row[self.writer.identity]) is not None]
        if not given:
            return  # NULL is refused when the rows are stored
        best = max(given) if step > 0 else min(given)
        last = self.writer.database.identities.get(number)
        if last is None or (best > last if step > 0 else best < last):
            self.writer.database.identities[number] = best

    def _filler(self, position: int) -> Callable[[], Value]:
        writer = self.writer
        if position == writer.identity:
            return writer.next_identity
        if position == writer.rowversion:
            return writer.database.next_row_version
        default = writer.entry.defaults.get(self.table.columns[position].column_id)
        if default is None:
            return lambda: None
        if "newid" in default.text.lower():
            return lambda: self._default(default)
        value = self._default(default)
        return lambda: value
