"""One captured row change, free of SQL, Spark and Service Bus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from common.names import TableName
from ingester.position import Position


class Operation(IntEnum):
    """`__$operation` of a change table's row."""

    DELETE = 1
    INSERT = 2
    BEFORE_UPDATE = 3
    UPDATE = 4


OPERATION_NAMES = {Operation.DELETE: "Delete", Operation.INSERT: "Insert", Operation.UPDATE: "Update"}


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one row; an update's two images are one change.

    `data`: every captured column that capture holds, values ready for JSON (docs/values.md); a delete's is the deleted row.
    `before`: the row before an update or a delete, where before images were asked for. `changed_columns`: of an update, from its mask.
    `unavailable`: columns that capture does not hold in `data` or `before`. `commit_time`: UTC, ISO 8601 with a Z.
    """

    table: TableName
    capture_instance: str
    position: Position
    operation: Operation
    data: Mapping[str, object]
    before: Mapping[str, object] | None = None
    changed_columns: tuple[str, ...] = ()
    unavailable: tuple[str, ...] = ()
    commit_time: str | None = None
    key: tuple[object, ...] = ()
    """The primary key's values in key order; empty for a table without one."""
