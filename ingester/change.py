"""One captured change of a row. Knows nothing of SQL, Spark or Service Bus."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from common.message import History, OfTransaction
from common.names import TableName
from common.values.quick import quick
from ingester.position import Position


class Operation(IntEnum):
    """As a message's `OperationID` has it. READ: a row as a snapshot found it. GAP: changes before this one were lost.

    SCHEMA: the changes behind this one have other columns. BEGIN and END: events about a transaction.
    """

    END = -4
    BEGIN = -3
    SCHEMA = -2
    GAP = -1
    READ = 0
    DELETE = 1
    INSERT = 2
    UPDATE = 4


OPERATION_NAMES = {
    Operation.END: "End",
    Operation.BEGIN: "Begin",
    Operation.SCHEMA: "Schema",
    Operation.GAP: "Gap",
    Operation.READ: "Read",
    Operation.DELETE: "Delete",
    Operation.INSERT: "Insert",
    Operation.UPDATE: "Update",
}


@quick(frozen=True, slots=True)
class Change:
    """What happened to one row. The two images of an update are one change.

    `data`: the row after the change, or the deleted row: every captured column whose value capture has, ready for JSON
    (docs/values.md). `before`: the row before an update or delete, if before images are configured. `changed_columns`:
    those that an update wrote, by its mask. `unavailable`: columns left out of `data` or `before`, because capture does
    not have their value. `commit_time`: UTC, ISO 8601 with a Z.
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
    history: History | None = None
    """What its metadata says beside: `Snapshot` of a row that was read, `Gap` of a gap, `SchemaChange` of
    other columns, `Replay` of a change that is sent once more."""
    transaction: OfTransaction | None = None
    """What its metadata says of its transaction; None unless `transactions` is on."""
    schema_version: str = ""
    """Names the columns that `data` and `before` have, with their types (ingester/schema)."""
    set_aside: str | None = None
    """Why it is to be dead-lettered in the order of the others instead of delivered, in words without values; None: it is delivered."""
    traceparent: str | None = None
    """The W3C trace context in which the application made it, if it wrote one into the table's `trace_column`."""
    topic: str | None = None
    """The topic that it goes to instead of its table's; it then has a session of its own."""
