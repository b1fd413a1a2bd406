"""A table as a snapshot reads it: its columns, and the unique index that it is read in the order of. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.names import TableName
from ingester.history.rows import BaseTable
from ingester.source import CaptureInstance
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
        match self.type:
            case "char" | "varchar" | "binary" | "varbinary":
                return f"{self.type}({self.length})"
            case "nchar" | "nvarchar":
                return f"{self.type}({self.length // 2})"
            case "decimal" | "numeric":
                return f"{self.type}({self.precision}, {self.scale})"
            case "time" | "datetime2" | "datetimeoffset":
                return f"{self.type}({self.scale})"
        return self.type


@dataclass(frozen=True, slots=True)
class IndexColumn:
    """One key column of a unique, unfiltered, enabled index. Indexes come in the order of their ids, columns in theirs."""

    index: str
    primary: bool
    column: int
    descending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlServerTable(BaseTable):
    """`name`: as the table is called now. `stamp`: shows whether its columns are still `columns`. `index`: the name of the index whose
    key columns are `keys`, in its own order and directions; None where there is none."""

    object_id: int
    name: TableName
    stamp: str | None
    columns: tuple[BaseColumn, ...]
    index: str | None = None
    keys: tuple[KeyColumn, ...] = ()


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


def chosen_key(
    instance: CaptureInstance, columns: Sequence[BaseColumn], indexed: Sequence[IndexColumn]
) -> tuple[str | None, tuple[KeyColumn, ...]]:
    """The index to read in the order of, with its key columns: the one that capture identifies rows by, else the primary key, else
    the narrowest.

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
        return None, ()
    captured = {column.name for column in instance.columns if column.key_ordinal}

    def rank(name: str) -> tuple[bool, bool, int, int]:
        parts = [by_id[part.column] for part in usable[name]]
        identifies = {part.captured for part in parts} == captured
        return not identifies, not usable[name][0].primary, sum(part.length for part in parts), len(parts)

    name = min(usable, key=rank)
    return name, tuple(_key_column(by_id[part.column], descending=part.descending) for part in usable[name])


def _key_column(column: BaseColumn, *, descending: bool) -> KeyColumn:
    return KeyColumn(column.name, column.type, column.declared, column.collation, descending)
