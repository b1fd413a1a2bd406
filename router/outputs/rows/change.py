"""A message of the ingest queue as an output that applies rows needs it: what to do with which row, or an event that is about no row.

Which columns identify a row, messages do not say: the output's settings do (`keys.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from common.names import TableName
from router.envelopes.native import Native, read
from router.envelopes.port import NotNative
from router.outputs.rows.position import Position
from router.outputs.rows.values import Value, values

_ROWS: Final = frozenset({"Insert", "Update", "Delete", "Read"})

Key = tuple[Value, ...]
"""The values of a row's key, in the order in which the settings name its columns."""


class NoSuchColumn(LookupError):
    """A column of the configured key is not in the table's messages."""

    def __init__(self, column: str, present: Sequence[str]) -> None:
        super().__init__(f"there is no column {column} in its messages: they have {', '.join(present) or 'none'}")
        self.column = column


@dataclass(frozen=True, slots=True)
class Event:
    """About no row: `Gap`, `Schema`, `Begin`, `End`, or an operation of a later version."""

    table: TableName
    operation: str
    native: Native


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row as it is after an insert, an update or a read, or before a delete.

    `row`: the columns that capture has; one that is missing is unknown, not NULL. `before`: the row before an update or a delete, where
    the ingester sends it (`before_images = true`). `written`: columns that an update names, changed or not.
    """

    table: TableName
    operation: str
    position: Position
    row: Mapping[str, Value]
    before: Mapping[str, Value] | None
    written: frozenset[str]
    unavailable: frozenset[str]
    native: Native

    @property
    def deletes(self) -> bool:
        return self.operation == "Delete"

    def key(self, columns: Sequence[str]) -> Key:
        """Raises NoSuchColumn."""
        return _key(self.row, columns)

    def former_key(self, columns: Sequence[str]) -> Key | None:
        """The key that the row had before this update, if it was another one. Raises NoSuchColumn."""
        if self.operation != "Update" or self.before is None or self.written.isdisjoint(columns):
            return None
        former = _key(self.before, columns)
        return None if former == self.key(columns) else former

    def hides_former_key(self, columns: Sequence[str]) -> bool:
        """Whether it may have changed the key and does not say what the key was: the row that had it stays in the copy."""
        return self.operation == "Update" and self.before is None and not self.written.isdisjoint(columns)


def read_change(body: bytes) -> RowChange | Event:
    """Raises NotNative."""
    native = read(body)
    try:
        table = TableName(native.schema, native.table)
        if native.operation not in _ROWS:
            return Event(table, native.operation, native)
        return RowChange(
            table,
            native.operation,
            Position.of(native),
            values(native.data),
            None if native.before is None else values(native.before),
            _names(native, "ChangedColumns"),
            _names(native, "Unavailable"),
            native,
        )
    except (ValueError, RecursionError) as error:
        raise NotNative(f"the row cannot be read: {error}") from error


def _names(native: Native, key: str) -> frozenset[str]:
    found = native.metadata.get(key) or []
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise NotNative(f"metadata.{key} is not a list of names")
    return frozenset(found)


def _key(row: Mapping[str, Value], columns: Sequence[str]) -> Key:
    try:
        return tuple(row[name] for name in columns)
    except KeyError as error:
        raise NoSuchColumn(str(error.args[0]), sorted(row)) from error
