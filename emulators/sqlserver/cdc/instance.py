"""Capture instances and the rows that log records become in their change tables. Pure: no storage, no threads.

Source: https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from emulators.sqlserver.cdc.mask import update_mask
from emulators.sqlserver.engine.extension import Row
from emulators.sqlserver.results import Column, Value
from emulators.sqlserver.sqltypes import MAX, SqlType

DELETE, INSERT, BEFORE_UPDATE, AFTER_UPDATE = 1, 2, 3, 4
"""The values of `__$operation`."""

_TEXT_TYPES = frozenset({"text", "ntext", "image"})
_ROWVERSION_TYPES = frozenset({"rowversion", "timestamp"})

LSN = SqlType("binary", 10)
SYSNAME = SqlType("nvarchar", 128)

_LEADING = (
    Column("__$start_lsn", LSN, nullable=False),
    Column("__$end_lsn", LSN),
    Column("__$seqval", LSN, nullable=False),
    Column("__$operation", SqlType("int"), nullable=False),
    Column("__$update_mask", SqlType("varbinary", 128)),
)
_TRAILING = Column("__$command_id", SqlType("int"))

_CLUSTERED_KEY = ("__$start_lsn", "__$command_id", "__$seqval", "__$operation")
_FORMER_KEY = ("__$start_lsn", "__$seqval", "__$operation")

RESERVED_NAMES = frozenset(column.name for column in (*_LEADING, _TRAILING))


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A source column that an instance captures; `ordinal` counts from 1 and is its bit in the update mask."""

    name: str
    column_id: int
    ordinal: int
    type: SqlType
    computed: bool = False

    @property
    def captured_type(self) -> SqlType:
        """The type in the change table: a rowversion is kept as plain bytes."""
        return SqlType("binary", 8) if self.type.name in _ROWVERSION_TYPES else self.type

    @property
    def type_name(self) -> str:
        """`cdc.captured_columns.column_type`; the catalog's name of rowversion is timestamp."""
        return "timestamp" if self.type.name in _ROWVERSION_TYPES else self.type.name


@dataclass(frozen=True, slots=True)
class CaptureInstance:
    """One capture instance: which columns of which table, from which LSN on, into which change table."""

    name: str
    object_id: int
    source_object_id: int
    start_lsn: bytes
    columns: tuple[CapturedColumn, ...]
    supports_net_changes: bool = False
    index_name: str | None = None
    role_name: str | None = None
    """The gating role."""
    has_command_id: bool = True
    """Whether the change table has `__$command_id`; one of a database that was never upgraded has not (KB 3030352)."""

    @property
    def change_table(self) -> str:
        return f"{self.name}_CT"

    @property
    def clustered_key(self) -> tuple[str, ...]:
        """The columns of the change table's clustered unique index (measured; Debezium PR #6279)."""
        return _CLUSTERED_KEY if self.has_command_id else _FORMER_KEY


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of the transaction log: a row image of a table. `values` and `changed` speak of column ids.

    `mask` stands in the change table instead of what `changed` says, `command_id` None for NULL: for injected records alone.
    """

    object_id: int
    command_id: int | None
    seqval: bytes
    operation: int
    values: Mapping[int, Value]
    changed: frozenset[int] = frozenset()
    mask: bytes | None = None


def change_table_columns(instance: CaptureInstance) -> tuple[Column, ...]:
    """The columns of a change table: captured ones are nullable whatever the source says, and none is an identity."""
    captured = (Column(column.name, column.captured_type) for column in instance.columns)
    return (*_LEADING, *captured, _TRAILING) if instance.has_command_id else (*_LEADING, *captured)


def all_changes_columns(columns: tuple[CapturedColumn, ...]) -> tuple[Column, ...]:
    """The columns of cdc.fn_cdc_get_all_changes_...: neither `__$end_lsn` nor `__$command_id` is among them."""
    metadata = (column for column in _LEADING if column.name != "__$end_lsn")
    return (*metadata, *(Column(column.name, column.captured_type) for column in columns))


def net_changes_columns(columns: tuple[CapturedColumn, ...]) -> tuple[Column, ...]:
    """The columns of cdc.fn_cdc_get_net_changes_...: a net change has no `__$seqval`."""
    return tuple(column for column in all_changes_columns(columns) if column.name != "__$seqval")


def change_row(instance: CaptureInstance, record: LogRecord, commit_lsn: bytes) -> Row | None:
    """The change table's row for a log record; None for an update that changed no captured column."""
    if record.operation in (BEFORE_UPDATE, AFTER_UPDATE):
        marked = [column.ordinal for column in instance.columns if column.column_id in record.changed]
        if not marked and record.mask is None:
            return None
    else:
        marked = [column.ordinal for column in instance.columns]
    mask = update_mask(marked, len(instance.columns)) if record.mask is None else record.mask
    values = (_captured_value(column, record) for column in instance.columns)
    last = (record.command_id,) if instance.has_command_id else ()
    return (commit_lsn, None, record.seqval, record.operation, mask, *values, *last)


def _captured_value(column: CapturedColumn, record: LogRecord) -> Value:
    """What capture holds of a column: nothing of computed ones, and of large ones not in every image. A dropped column is NULL."""
    if column.computed:
        return None
    if column.type.name in _TEXT_TYPES and record.operation in (DELETE, BEFORE_UPDATE):
        return None
    unchanged = column.column_id not in record.changed
    if column.type.length == MAX and record.operation == BEFORE_UPDATE and unchanged:
        return None
    return record.values.get(column.column_id)
