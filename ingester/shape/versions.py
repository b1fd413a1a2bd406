"""What messages have of a table's columns after its shape, and the version that names them. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ingester.schema.version import SchemaColumn, schema_version
from ingester.shape.columns import TEXT_TYPES, SentColumn, sent_columns
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CapturedColumn

_TABLES: Final = 4_096
"""Tables whose versions are remembered."""

HASHED: Final = "nvarchar(max)"
"""The type of what a mask makes text of."""


@lru_cache(_TABLES)
def schema_of(columns: tuple[CapturedColumn, ...], shape: TableShape = AS_CAPTURED) -> tuple[SchemaColumn, ...]:
    """What messages have of `columns`. Capture never has the values of computed columns. Raises ShapeRefused.

    A column that was dropped from the table is one of them: its earlier changes have its values, and a change must not have another version
    when it is read later.
    """
    return tuple(
        SchemaColumn(each.column.name, _type(each), each.column.key_ordinal)
        for each in sent_columns(shape, columns)
        if not each.column.computed
    )


@lru_cache(_TABLES)
def version_of(columns: tuple[CapturedColumn, ...], shape: TableShape = AS_CAPTURED) -> str:
    """The version of messages with `columns` and `shape`. Raises ShapeRefused."""
    return schema_version(schema_of(columns, shape))


def _type(each: SentColumn) -> str:
    """A hash makes text of any type; other masks keep it."""
    column = each.column
    if each.masked == "hash" and column.type not in TEXT_TYPES:
        return HASHED
    return column.declared or column.type
