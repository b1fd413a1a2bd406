"""The limit on large values in captured columns: server option "max text repl size", error 7139. Pure.

Source: https://learn.microsoft.com/sql/database-engine/configure-windows/configure-the-max-text-repl-size-server-configuration-option
(65536 bytes unless set, -1 for no limit; for text, ntext, image, xml and the (max) types, in INSERT, UPDATE and what writes like them).
"""

from __future__ import annotations

from collections.abc import Sequence

from emulators.sqlserver.cdc import errors
from emulators.sqlserver.cdc.instance import CaptureInstance
from emulators.sqlserver.engine.extension import RowChange, Table
from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import MAX, SqlType

NO_LIMIT = -1
_LARGE = frozenset({"text", "ntext", "image", "xml"})
_TWO_BYTES = frozenset({"nvarchar", "ntext", "xml"})


def check(table: Table, changes: Sequence[RowChange], instances: Sequence[CaptureInstance], limit: int) -> None:
    """Raises 7139 when a statement writes a value of more than `limit` bytes to a large column that an instance captures."""
    captured = {column.column_id for instance in instances for column in instance.columns}
    large = [(at, c.type) for at, c in enumerate(table.columns) if c.column_id in captured and _is_large(c.type)]
    if limit == NO_LIMIT or not large:
        return
    for change in changes:
        for at, kind in large:
            value = change.after[at] if change.after is not None else None
            if change.before is not None and change.before[at] == value:
                continue
            size = _size(value, kind)
            if size > limit:
                raise errors.large_object_too_long(size, limit)


def _is_large(kind: SqlType) -> bool:
    return kind.name in _LARGE or kind.length == MAX


def _size(value: Value, kind: SqlType) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-16-le", "surrogatepass")) if kind.name in _TWO_BYTES else len(value)
    return len(value) if isinstance(value, bytes) else 0
