"""From a change table's rows to changes: values made ready for JSON, what capture does not hold told apart from NULL. Pure.

Source: https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql (Remarks)
"""

from __future__ import annotations

from collections.abc import Sequence

from common.errors import PermanentError
from common.names import quote_name
from ingester.change import Change, Operation
from ingester.source import CapturedColumn, CaptureInstance
from ingester.values import LOB_TYPES, Convert, projection
from ingester.window import Image, PairedRows

_UNAVAILABLE = object()


class RowReader:
    """Knows one capture instance's columns: what to select, and what the selected values mean."""

    def __init__(self, instance: CaptureInstance, *, decimals_as_numbers: bool, before_images: bool) -> None:
        self._instance = instance
        self._before_images = before_images
        self._columns = instance.columns
        self._converts: list[Convert] = []
        self.selected: list[str] = []
        for column in instance.columns:
            found = projection(column.type, column.length, decimals_as_numbers=decimals_as_numbers)
            if found is None:
                raise PermanentError(
                    f"reading {instance.change_table}: column {column.name!r} has type {column.type}, which DStream does not carry",
                    hint="leave the column out of the capture instance (@captured_column_list)",
                )
            self._converts.append(found.convert)
            name = quote_name(column.name)
            self.selected.append(f"{found.select.format('ct.' + name)} AS {name}")
        self._key = [
            (index, column.key_ordinal)
            for index, column in enumerate(instance.columns)
            if column.key_ordinal is not None
        ]
        self._key.sort(key=lambda pair: pair[1])

    def change(self, rows: PairedRows) -> Change:
        """The change that `rows` are."""
        image = rows.row
        operation = Operation(image.position.operation)
        data = self._values(image, operation)
        before = self._values(rows.before, Operation.BEFORE_UPDATE) if rows.before is not None else None
        if operation is Operation.DELETE and self._before_images:
            before = data
        missing = [
            column.name
            for index, column in enumerate(self._columns)
            if data[index] is _UNAVAILABLE or (before is not None and before[index] is _UNAVAILABLE)
        ]
        return Change(
            table=self._instance.table,
            capture_instance=self._instance.name,
            position=image.position,
            operation=operation,
            data=self._present(data),
            before=None if before is None else self._present(before),
            changed_columns=self._changed(image.mask) if operation is Operation.UPDATE else (),
            unavailable=tuple(missing),
            commit_time=image.commit_time,
            key=tuple(data[index] for index, _ in self._key),
        )

    def _values(self, image: Image, operation: Operation) -> list[object]:
        return [
            convert(value)
            if value is not None
            else (_UNAVAILABLE if _held_back(column, operation, image.mask) else None)
            for column, convert, value in zip(self._columns, self._converts, image.values, strict=True)
        ]

    def _present(self, values: Sequence[object]) -> dict[str, object]:
        return {
            column.name: value for column, value in zip(self._columns, values, strict=True) if value is not _UNAVAILABLE
        }

    def _changed(self, mask: int) -> tuple[str, ...]:
        return tuple(column.name for column in self._columns if mask >> (column.ordinal - 1) & 1)


def _held_back(column: CapturedColumn, operation: Operation, mask: int) -> bool:
    """Whether a NULL here means that capture does not hold the value.

    Computed columns are never captured; text, ntext and image not in deletes and before images; a (max) column's before image
    only if the column changed.
    """
    if column.computed:
        return True
    if column.type in LOB_TYPES:
        return operation in (Operation.DELETE, Operation.BEFORE_UPDATE)
    return operation is Operation.BEFORE_UPDATE and column.large and not mask >> (column.ordinal - 1) & 1
