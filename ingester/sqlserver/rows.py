"""From a change table's rows to changes: values ready for JSON, and missing values distinguished from NULL. Pure.

Every row of every table passes through here, so what a column needs is decided once, when its table's reader is
created.
Source: https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql (Remarks)
"""

from __future__ import annotations

from functools import lru_cache

from common.errors import PermanentError
from common.names import quote_name
from ingester.change import Change, Operation
from ingester.shape.versions import version_of
from ingester.source import CapturedColumn
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.pairing import BEFORE_UPDATE, Image, PairedRows
from ingester.sqlserver.values import LOB_TYPES, Convert, projection, unchanged

_MASKS = 1024
"""How many update masks are cached with their columns' names: an application has few kinds of updates."""


class RowReader:
    """Selects columns of one capture instance and converts their values. `columns`: as in a PageQuery.

    What was updated and what was not captured is said of the other columns as well: a filter may ask for it.
    """

    def __init__(
        self,
        instance: ChangeTable,
        *,
        decimals_as_numbers: bool,
        before_images: bool,
        columns: tuple[str, ...] | None = None,
    ) -> None:
        self._instance = instance
        self._before_images = before_images
        self._columns = [
            column for column in instance.columns if columns is None or column.name in columns or column.key_ordinal
        ]
        self._names = [column.name for column in self._columns]
        self._unread = [column for column in instance.columns if column.name not in self._names]
        self._converts: list[tuple[int, Convert]] = []
        self.selected: list[str] = []
        for index, column in enumerate(self._columns):
            found = projection(column.type, column.length, decimals_as_numbers=decimals_as_numbers)
            if found is None:
                raise PermanentError(
                    f"reading {instance.change_table}: column {column.name!r} has type {column.type}, which DStream does not support",
                    hint="leave the column out with exclude_columns, or out of the capture instance (@captured_column_list)",
                )
            if found.convert is not unchanged:
                self._converts.append((index, found.convert))
            name = quote_name(column.name)
            self.selected.append(f"{found.select.format('ct.' + name)} AS {name}")
        key = [(column.key_ordinal, index) for index, column in enumerate(self._columns) if column.key_ordinal]
        self._key = [index for _, index in sorted(key)]
        self._doubtful = {
            operation: [
                index for index, column in enumerate(self._columns) if _held_back(column, operation, changed=False)
            ]
            for operation in (*Operation, BEFORE_UPDATE)
        }
        self._version = version_of(instance.columns)
        self._changed = lru_cache(_MASKS)(self._columns_of)
        self._unread_missing = lru_cache(_MASKS)(self._missing_of_unread)

    def change(self, rows: PairedRows, place: int | None = None) -> Change:
        """The change in `rows`. `place`: among its transaction's changes of its table, where that is to be said."""
        image = rows.row
        operation = Operation(image.position.operation)
        values = self._values(image)
        missing = self._missing(image, operation)
        data = self._present(values, missing)
        before = data if operation is Operation.DELETE and self._before_images else None
        if rows.before is not None:
            missing_before = self._missing(rows.before, BEFORE_UPDATE)
            before = self._present(self._values(rows.before), missing_before)
            missing = sorted({*missing, *missing_before})
        unavailable = tuple([self._names[index] for index in missing])
        if self._unread:
            unavailable += self._unread_missing(operation, image.mask, rows.before is not None)
        return Change(
            table=self._instance.table,
            capture_instance=self._instance.name,
            position=image.position,
            operation=operation,
            data=data,
            before=before,
            changed_columns=self._changed(image.mask) if operation is Operation.UPDATE else (),
            unavailable=unavailable,
            commit_time=image.commit_time,
            schema_version=self._version,
            key=tuple([values[index] for index in self._key]),
            transaction=None if place is None else {"Id": image.position.lsn.hex, "TableOrder": place},
        )

    def _values(self, image: Image) -> list[object]:
        values = list(image.values)
        for index, convert in self._converts:
            value = values[index]
            if value is not None:
                values[index] = convert(value)
        return values

    def _missing(self, image: Image, operation: int) -> list[int]:
        """The indices of the columns whose value in this image was not captured."""
        doubtful = self._doubtful[operation]
        if not doubtful:
            return doubtful
        return [
            index
            for index in doubtful
            if image.values[index] is None
            and _held_back(column := self._columns[index], operation, changed=_in(image.mask, column))
        ]

    def _present(self, values: list[object], missing: list[int]) -> dict[str, object]:
        data = dict(zip(self._names, values, strict=True))
        for index in missing:
            del data[self._names[index]]
        return data

    def _columns_of(self, mask: int) -> tuple[str, ...]:
        return tuple(column.name for column in self._instance.columns if _in(mask, column))

    def _missing_of_unread(self, operation: Operation, mask: int, with_before: bool) -> tuple[str, ...]:
        """The others whose value was not captured. Of a dropped one that is known only where it is read."""
        images = (operation, BEFORE_UPDATE) if with_before else (operation,)
        return tuple(
            column.name
            for column in self._unread
            if any(_held_back(column, image, changed=_in(mask, column)) for image in images)
        )


def _in(mask: int, column: CapturedColumn) -> bool:
    return bool(mask >> (column.ordinal - 1) & 1)


def _held_back(column: CapturedColumn, operation: int, *, changed: bool) -> bool:
    """Whether a NULL here means that the value was not captured. `changed`: the update mask has the column.

    A dropped column is no longer captured, even if another one has its name by now. Computed columns are never
    captured; text, ntext and image not in deletes and before images; a (max) column's before image only if the column
    changed.
    """
    if column.computed or column.gone:
        return True
    if column.type in LOB_TYPES:
        return operation in (Operation.DELETE, BEFORE_UPDATE)
    return operation == BEFORE_UPDATE and column.large and not changed
