"""From a table's rows to values ready for JSON, the same as the change table's (docs/values.md). Pure.

What a column needs is decided once, when its table's reader is created: every row of a snapshot passes through here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from common.errors import PermanentError
from common.names import quote_name
from ingester.history.rows import Row
from ingester.source import CapturedColumn
from ingester.sqlserver.pages.layouts import refuse
from ingester.sqlserver.sql.history.base_table import BaseColumn, SqlServerTable
from ingester.sqlserver.sql.history.keys import known_form
from ingester.sqlserver.values import Convert, Projection, projection, unchanged

ALIAS = "ct"


class BaseRowReader:
    """Selects a table's captured columns and its key.

    `selected`: the select list. `unavailable`: captured columns that the table no longer has, or that capture never has: they are left
    out, as in changes. They are named whether they are asked for or not: a filter may ask. `columns`: the captured ones, as they are read.
    """

    def __init__(
        self, table: SqlServerTable, *, decimals_as_numbers: bool, columns: tuple[str, ...] | None = None
    ) -> None:
        """`columns`: as in a RowsQuery."""
        self.selected: list[str] = []
        present = {column.captured: column for column in table.columns if column.captured is not None}
        self._data: list[tuple[str, int]] = []
        self._converts: list[tuple[str, Convert]] = []
        missing = []
        for captured in table.instance.columns:
            column = present.get(captured.name)
            if column is None or column.computed or captured.computed or captured.gone:
                missing.append(captured.name)
                continue
            if columns is not None and captured.name not in columns and not captured.key_ordinal:
                continue
            found = projection(column.type, column.length, decimals_as_numbers=decimals_as_numbers)
            if found is None:
                raise unsupported(table.name.key, captured.name, column.type)
            refuse(table.unknown, (column.type.lower(),))
            self._data.append((captured.name, self._at(found.select, column.name)))
            if found.convert is not unchanged:
                self._converts.append((captured.name, found.convert))
        self.unavailable = tuple(missing)
        self.columns = tuple(
            _as_read(captured, None if captured.gone else present.get(captured.name))
            for captured in table.instance.columns
        )
        self._key = [c.name for c in sorted(table.instance.columns, key=lambda c: c.key_ordinal or 0) if c.key_ordinal]
        self._order: list[tuple[str, int, Callable[[object], str]]] = [
            (column.title, self._at(known_form(column).select, column.name), known_form(column).write)
            for column in table.keys
        ]

    def _at(self, select: str, name: str) -> int:
        """The index in a row of the column as it is selected; a key column whose value is also data is selected once."""
        expression = select.format(f"{ALIAS}.{quote_name(name)}")
        if expression not in self.selected:
            self.selected.append(expression)
        return self.selected.index(expression)

    def row(self, values: Sequence[object]) -> Row:
        """The row whose `selected` are `values`."""
        data = {name: values[index] for name, index in self._data}
        for name, convert in self._converts:
            value = data[name]
            if value is not None:
                data[name] = convert(value)
        return Row(
            at=tuple([title + write(values[index]) for title, index, write in self._order]),
            data=data,
            key=tuple([data.get(name) for name in self._key]),
        )


def _as_read(captured: CapturedColumn, column: BaseColumn | None) -> CapturedColumn:
    """A captured column with the type that the table has: its values are read there."""
    return captured if column is None else replace(captured, declared=column.declared)


class ChangedKeys:
    """Selects the key of a change table's rows, and makes of it what `BaseRowReader` makes of the table's."""

    def __init__(self, instance_columns: Sequence[tuple[str, str, int | None]], *, decimals_as_numbers: bool) -> None:
        """`instance_columns`: name, type and length of the key's columns, in key order."""
        found: list[tuple[str, Projection]] = []
        for name, sql_type, length in instance_columns:
            how = projection(sql_type, length, decimals_as_numbers=decimals_as_numbers)
            if how is None:
                raise unsupported("a change table", name, sql_type)
            found.append((name, how))
        self.selected = [how.select.format(f"{ALIAS}.{quote_name(name)}") for name, how in found]
        self._converts = [how.convert for _, how in found]

    def key(self, values: Sequence[object]) -> tuple[object, ...]:
        pairs = zip(self._converts, values, strict=True)
        return tuple([None if value is None else convert(value) for convert, value in pairs])


def unsupported(table: str, column: str, sql_type: str) -> PermanentError:
    return PermanentError(
        f"reading {table}: column {column!r} has type {sql_type}, which DStream does not support",
        hint="leave the column out with exclude_columns, or out of the capture instance (@captured_column_list)",
    )
