"""By which columns SQL Server can share the rows of a change table out, so that a hash keeps together what must stay in
order. Pure."""

from __future__ import annotations

from common.names import Ordering
from ingester.source import CaptureInstance

_HASHED_TYPES = frozenset(
    (
        *("bit", "tinyint", "smallint", "int", "bigint", "decimal", "numeric", "money", "smallmoney", "float", "real"),
        *("char", "varchar", "nchar", "nvarchar", "sysname", "binary", "varbinary", "uniqueidentifier"),
        *("date", "time", "smalldatetime", "datetime", "datetime2", "datetimeoffset"),
    )
)
"""Types whose equal values have one CHECKSUM. Not sql_variant, whose values may be equal and of two types."""


def shared_by(instance: CaptureInstance, ordering: Ordering) -> tuple[str, ...]:
    """See the port. A part of the key will do: all changes of a row have it in common."""
    if ordering == "none":
        return ("__$seqval",)  # both images of an update have it
    keys = [column for column in instance.columns if column.key_ordinal is not None]
    if ordering != "key" or any(column.type not in _HASHED_TYPES or column.large for column in keys):
        return ()
    return tuple(column.name for column in keys)
