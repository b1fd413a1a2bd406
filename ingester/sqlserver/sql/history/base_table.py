"""A table as a snapshot reads it: its columns, and the unique index that it is read in the order of. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.names import TableName
from ingester.history.rows import BaseTable
from ingester.source import CaptureInstance
from ingester.sqlserver.sql.declared import declared
from ingester.sqlserver.sql.history.keys import KeyColumn, form_of


@dataclass(frozen=True, slots=True)
class BaseColumn:
    """A column of the table as it is now. `captured`: its name in the capture instance, None if it is not captured.

    `length`: in bytes; -1 for max. `collation`: None for what is not text. `masked`: only a login with a right of its own sees the values.
    """

    id: int
    name: str
    captured: str | None
    type: str
    length: int
    precision: int
    scale: int
    collation: str | None
    nullable: bool
    computed: bool
    masked: bool = False

    @property
    def declared(self) -> str:
        """The type as a declaration has it: a parameter of exactly this type lets the server seek in an index."""
        return declared(self.type.lower(), self.length, self.precision, self.scale)


@dataclass(frozen=True, slots=True)
class IndexColumn:
    """One key column of a unique, unfiltered, enabled index. Indexes come in the order of their ids, columns in theirs.

    `partitions`: the index is partitioned by this column.
    """

    index: str
    primary: bool
    column: int
    descending: bool
    partitions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlServerTable(BaseTable):
    """`name`: as the table is called now. `stamp`: shows whether its columns are still `columns`. `index`: the name of the index whose
    key columns are `keys`, in its own order and directions; None where there is none. `partitioned_by`: the column that parts this index into
    pieces across its order, None where it is in order as a whole. `unknown`: types whose bytes this server lays out as nobody here knows."""

    object_id: int
    name: TableName
    stamp: str | None
    columns: tuple[BaseColumn, ...]
    index: str | None = None
    keys: tuple[KeyColumn, ...] = ()
    partitioned_by: str | None = None
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ChosenIndex:
    """`name`, `keys`, `partitioned_by`: as `index`, `keys` and `partitioned_by` of the table."""

    name: str | None = None
    keys: tuple[KeyColumn, ...] = ()
    partitioned_by: str | None = None


def base_of(table: BaseTable) -> SqlServerTable:
    """`table`, which this source has handed out: the core hands it back as it was."""
    if not isinstance(table, SqlServerTable):
        raise TypeError(f"{type(table).__name__} is not a table of SQL Server")
    return table


def masked_columns(columns: Sequence[BaseColumn], keys: Sequence[KeyColumn]) -> tuple[str, ...]:
    """The masked ones among the columns that a snapshot reads."""
    read = {key.name for key in keys}
    return tuple(
        column.name for column in columns if column.masked and (column.captured is not None or column.name in read)
    )


def chosen_key(instance: CaptureInstance, columns: Sequence[BaseColumn], indexed: Sequence[IndexColumn]) -> ChosenIndex:
    """The index to read in the order of, with its key columns: one that is in order as a whole; then the one that capture identifies rows
    by, else the primary key, else the narrowest.

    Only indexes whose columns are all NOT NULL and of types with an exact text: sql_variant is none.
    """
    by_id = {column.id: column for column in columns}
    indexes: dict[str, list[IndexColumn]] = {}
    for one in indexed:
        indexes.setdefault(one.index, []).append(one)
    usable = {
        name: parts
        for name, parts in indexes.items()
        if all((column := by_id.get(part.column)) and not column.nullable and form_of(column.type) for part in parts)
    }
    if not usable:
        return ChosenIndex()
    captured = {column.name for column in instance.columns if column.key_ordinal}

    def rank(name: str) -> tuple[bool, bool, bool, int, int]:
        parts = [by_id[part.column] for part in usable[name]]
        identifies = {part.captured for part in parts} == captured
        size = sum(part.length for part in parts)
        return _parted_by(usable[name]) is not None, not identifies, not usable[name][0].primary, size, len(parts)

    name = min(usable, key=rank)
    parted = _parted_by(usable[name])
    return ChosenIndex(
        name,
        tuple(_key_column(by_id[part.column], descending=part.descending) for part in usable[name]),
        None if parted is None else by_id[parted].name,
    )


def _parted_by(parts: Sequence[IndexColumn]) -> int | None:
    """The column whose partitions each hold rows from anywhere in the index's order. Partitions by its first column follow each other.
    https://learn.microsoft.com/sql/relational-databases/partitions/partitioned-tables-and-indexes
    """
    return next((part.column for part in parts[1:] if part.partitions), None)


def _key_column(column: BaseColumn, *, descending: bool) -> KeyColumn:
    return KeyColumn(column.name, column.type, column.declared, column.collation, descending)
