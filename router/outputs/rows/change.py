"""A message of the ingest queue as an output that applies rows needs it: what to do with which row, or an event that is about no row.

Which columns identify a row, messages do not say: the output's settings do (`keys.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from common.names import TableName
from router.envelopes.native import Native, read
from router.envelopes.port import NotNative
from router.outputs.rows.keys import NoSuchColumn
from router.outputs.rows.position import Position
from router.outputs.rows.reading import quickly
from router.outputs.rows.values import Number, Value, values

_ROWS: Final = frozenset({"Insert", "Update", "Delete", "Read"})

Key = tuple[Value, ...]
"""The values of a row's key, in the order in which the settings name its columns."""


@dataclass(frozen=True, slots=True)
class Event:
    """About no row: `Gap`, `Schema`, `Begin`, `End`, or an operation of a later version."""

    table: TableName
    operation: str
    native: Native


@dataclass(slots=True)
class RowChange:
    """A row as it is after an insert, an update or a read, or before a delete.

    `text`: `data` of the message, a JSON object. `shown`: its columns; those that capture lacks are unknown, not NULL. Numbers in it may have lost
    digits, which `row` has. `former`: the same of the row before an update or a delete, where the ingester sends it (`before_images = true`).
    `written`: columns that an update names, changed or not.
    """

    table: TableName
    operation: str
    position: Position
    body: bytes
    text: str
    shown: Mapping[str, Any]
    former: Mapping[str, Any] | None
    written: frozenset[str]
    unavailable: frozenset[str]

    @property
    def deletes(self) -> bool:
        return self.operation == "Delete"

    @property
    def row(self) -> Mapping[str, Value]:
        return values(self.text)

    @property
    def before(self) -> Mapping[str, Value] | None:
        return None if self.former is None else values(read(self.body).before or "{}")

    def key(self, columns: Sequence[str]) -> Key:
        """Raises NoSuchColumn."""
        return _key(self.shown, columns, lambda: self.row)

    def former_key(self, columns: Sequence[str]) -> Key | None:
        """The key that the row had before this update, if it was another one. Raises NoSuchColumn."""
        if self.operation != "Update" or self.former is None or self.written.isdisjoint(columns):
            return None
        former = _key(self.former, columns, lambda: self.before or {})
        return None if former == self.key(columns) else former

    def hides_former_key(self, columns: Sequence[str]) -> bool:
        """Whether it may have changed the key and does not say what the key was: the row that had it stays in the copy."""
        return self.operation == "Update" and self.former is None and not self.written.isdisjoint(columns)


def read_change(body: bytes) -> RowChange | Event:
    """Raises NotNative."""
    return _quick(body) or _slow(body)


def _quick(body: bytes) -> RowChange | None:
    """None for what is not a row as the ingester writes it."""
    found = quickly(body)
    if found is None:
        return None
    metadata = found.metadata
    try:
        operation, lsn, seqval = metadata["OperationType"], metadata["LSN"], metadata["SeqVal"]
        position = Position(lsn, metadata["CommandID"], seqval, metadata["OperationID"])
        if operation not in _ROWS or not (_place(lsn) and _place(seqval)):
            return None
        if type(position.command_id) is not int or type(position.operation_id) is not int:
            return None
        table = _table(metadata["Schema"], metadata["TableName"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    written, unavailable = _names(metadata, "ChangedColumns"), _names(metadata, "Unavailable")
    return RowChange(table, operation, position, body, found.text, found.row, found.before, written, unavailable)


def _slow(body: bytes) -> RowChange | Event:
    native = read(body)
    try:
        table = TableName(native.schema, native.table)
        if native.operation not in _ROWS:
            return Event(table, native.operation, native)
        return RowChange(
            table,
            native.operation,
            Position.of(native),
            body,
            native.data,
            values(native.data),
            None if native.before is None else values(native.before),
            _names(native.metadata, "ChangedColumns"),
            _names(native.metadata, "Unavailable"),
        )
    except (ValueError, RecursionError) as error:
        raise NotNative(f"the row cannot be read: {error}") from error


_place: Final = re.compile(r"[0-9a-f]{20}").fullmatch
_table: Final = lru_cache(maxsize=1024)(TableName)
_NONE: Final = frozenset[str]()


def _names(metadata: Mapping[str, Any], key: str) -> frozenset[str]:
    found = metadata.get(key)
    if not found:
        return _NONE
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise NotNative(f"metadata.{key} is not a list of names")
    return frozenset(found)


def _key(shown: Mapping[str, Any], columns: Sequence[str], exact: Callable[[], Mapping[str, Value]]) -> Key:
    """`exact`: the same row with all digits. Only of a whole number is it known that it is written as Python writes it; zero may have a sign."""
    found: list[Value] = []
    for name in columns:
        try:
            value = shown[name]
        except KeyError:
            raise NoSuchColumn(name, sorted(shown)) from None
        if type(value) is int and value:
            value = Number(value)
        elif type(value) in (int, float):
            value = exact()[name]
        found.append(value)
    return tuple(found)
