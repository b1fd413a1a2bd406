"""From a change table's rows to changes: values ready for JSON, and missing values distinguished from NULL. Pure.

Every row of every table passes through here, so what a column needs is decided once, when its table's reader is
created, and a page is converted column by column: a row at a time takes twice as long.
Source: https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql (Remarks)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from common.errors import PermanentError
from common.names import quote_name
from ingester.change import Change, Operation
from ingester.shape.versions import version_of
from ingester.source import CapturedColumn
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.pages.at_once import converted_or_null
from ingester.sqlserver.pages.joined import MOST, Joined, read_as
from ingester.sqlserver.pages.meter import widest
from ingester.sqlserver.pages.place import mask_of
from ingester.sqlserver.pairing import BEFORE_UPDATE, Pair
from ingester.sqlserver.position import LogPosition
from ingester.sqlserver.values import LOB_TYPES, Convert, projection, unchanged

_OPERATIONS: Final = {int(operation): operation for operation in Operation}

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
        self.types = frozenset(column.type for column in self._columns)
        self.widest = widest(self._columns)
        self._names = [column.name for column in self._columns]
        self._unread = [column for column in instance.columns if column.name not in self._names]
        self._joined: list[tuple[list[int], Joined]] = []
        self._alone: list[tuple[int, Convert]] = []
        self.beside = ""
        self.selected: list[str] = []
        self._select(decimals_as_numbers=decimals_as_numbers)
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

    def _select(self, *, decimals_as_numbers: bool) -> None:
        """Decide how each column is read: first those that are joined, beside a row's place as many as one value may have, and
        behind them the others. Raises PermanentError."""
        together = [index for index, column in enumerate(self._columns) if read_as(column) is not None]
        for begin in range(0, len(together), MOST):
            some = together[begin : begin + MOST]
            columns = [self._columns[index] for index in some]
            joined = Joined(columns, decimals_as_numbers=decimals_as_numbers, place=not begin)
            self._joined.append((some, joined))
            if not begin:
                self.beside = joined.selected
            else:
                self.selected.append(f"{joined.selected} AS [__$joined{begin}]")
        self._beside_octets = self._joined[0][1].octets if self._joined else 0
        for index, column in enumerate(self._columns):
            if index in together:
                continue
            found = projection(column.type, column.length, decimals_as_numbers=decimals_as_numbers)
            if found is None:
                raise PermanentError(
                    f"reading {self._instance.change_table}: column {column.name!r} has type {column.type}, which DStream does not support",
                    hint="leave the column out with exclude_columns, or out of the capture instance (@captured_column_list)",
                )
            name = quote_name(column.name)
            self._alone.append((index, found.convert))
            self.selected.append(f"{found.select.format('ct.' + name)} AS {name}")

    def changes(
        self,
        rows: Sequence[Sequence[Any]],
        positions: Sequence[LogPosition],
        pairs: Sequence[Pair],
        committed: Sequence[str | None],
        places: Sequence[int] | None = None,
    ) -> list[Change]:
        """The changes that the `pairs` of `rows` make. Of each row: its position, and when its transaction was `committed`.

        `places`: of each change among its transaction's changes of its table, where that is to be said.
        """
        if not rows:
            return []
        columns = list(zip(*rows, strict=True))
        at_places, values = columns[0], self._converted(columns[: 1 + len(self.selected)])
        names = self._names
        data = [dict(zip(names, row)) for row in _rows(values, len(rows))]  # noqa: B905 - a row has a value of each name
        keys = _rows([values[index] for index in self._key], len(rows))
        doubtful = self._unread or any(self._doubtful.values())
        table, name, version = self._instance.table, self._instance.name, self._version
        # a column without a NULL in this page lacks no value
        nulls = [at for at, column in enumerate(values) if None in column] if self._before_images else []
        beside, found = self._beside_octets, list[Change]()
        for number, (before_at, at) in enumerate(pairs):
            position = positions[at]
            operation, mask = _OPERATIONS[position.operation], mask_of(at_places[at], beside)
            before_row = None if before_at is None else (mask_of(at_places[before_at], beside), data[before_at])
            asked = doubtful or (before_row is not None and nulls)
            unavailable = self._unavailable(operation, mask, data[at], before_row, nulls) if asked else ()
            deleted = self._before_images and operation is Operation.DELETE
            before = before_row[1] if before_row is not None else data[at] if deleted else None
            found.append(
                Change(
                    table,
                    name,
                    position,
                    operation,
                    data[at],
                    before,
                    self._changed(mask) if operation is Operation.UPDATE else (),
                    unavailable,
                    committed[at],
                    keys[at],
                    None,
                    None if places is None else {"Id": position.lsn.hex, "TableOrder": places[number]},
                    version,
                )
            )
        return found

    def _converted(self, values: Sequence[Sequence[object]]) -> list[Sequence[object]]:
        """The columns' values, ready for JSON. `values`: the rows' places, and of each that is `selected`."""
        ready: list[Sequence[object]] = [()] * len(self._columns)
        for (places, joined), found in zip(self._joined, values, strict=False):
            for index, of_one in zip(places, joined.apart(found), strict=True):
                ready[index] = of_one
        for (index, convert), found in zip(self._alone, values[max(1, len(self._joined)) :], strict=True):
            ready[index] = found if convert is unchanged else converted_or_null(convert, found)
        return ready

    def _unavailable(
        self,
        operation: Operation,
        mask: bytes,
        data: dict[str, object],
        before: tuple[bytes, dict[str, object]] | None,
        nulls: Sequence[int],
    ) -> tuple[str, ...]:
        """The columns whose value in an image was not captured. They are taken out of it. `before`: with its own mask. `nulls`: the columns
        of the page that have any."""
        missing = self._taken_out(data, operation, mask)
        if before is not None:
            held_back = self._taken_out(before[1], BEFORE_UPDATE, before[0])
            missing = sorted({*missing, *held_back, *self._contradicted(before[1], data, mask, nulls)})
        unavailable = tuple([self._names[index] for index in missing])
        if self._unread:
            unavailable += self._unread_missing(operation, mask, before is not None)
        return unavailable

    def _taken_out(self, row: dict[str, object], operation: int, mask: bytes) -> list[int]:
        changed = _number(mask)
        missing = [
            index
            for index in self._doubtful[operation]
            if row[self._names[index]] is None
            and _held_back(column := self._columns[index], operation, changed=_in(changed, column))
        ]
        for index in missing:
            del row[self._names[index]]
        return missing

    def _contradicted(
        self, before: dict[str, object], data: dict[str, object], mask: bytes, nulls: Sequence[int]
    ) -> list[int]:
        """The columns that an update left as they were, and that are NULL only before it: capture did not hold them. Their type was another
        one when they were captured. They are taken out of `before`."""
        names = self._names
        held_back = [i for i in nulls if before.get(names[i], ()) is None and data.get(names[i]) is not None]
        if not held_back:
            return []
        changed = _number(mask)
        missing = [index for index in held_back if not _in(changed, self._columns[index])]
        for index in missing:
            del before[self._names[index]]
        return missing

    def _columns_of(self, mask: bytes) -> tuple[str, ...]:
        changed = _number(mask)
        return tuple(column.name for column in self._instance.columns if _in(changed, column))

    def _missing_of_unread(self, operation: Operation, mask: bytes, with_before: bool) -> tuple[str, ...]:
        """The others whose value was not captured. Of a dropped one that is known only where it is read."""
        changed, images = _number(mask), (operation, BEFORE_UPDATE) if with_before else (operation,)
        return tuple(
            column.name
            for column in self._unread
            if any(_held_back(column, image, changed=_in(changed, column)) for image in images)
        )


def _rows(columns: Sequence[Sequence[object]], count: int) -> list[tuple[object, ...]]:
    return list(zip(*columns, strict=True)) if columns else [()] * count


def _number(mask: bytes) -> int:
    """The update mask: bit ordinal - 1 of a column."""
    return int.from_bytes(mask, "big")


def _in(changed: int, column: CapturedColumn) -> bool:
    return bool(changed >> (column.ordinal - 1) & 1)


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
