"""Port: the versions of a table's columns that its messages have had, in their order, each with its columns.

Kept for tables with `schema_events` alone. The number of a version is part of its event's id, so that an event that is sent again after a kill
is the same message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from common.names import TableName
from ingester.schema.version import SchemaColumn


@dataclass(frozen=True, slots=True)
class KeptSchema:
    """`number`: counts the table's versions from 1; one that comes back is counted again."""

    number: int
    version: str
    columns: tuple[SchemaColumn, ...]


class SchemaStore(Protocol):
    """Not thread-safe. Raises TransientError and PermanentError."""

    def latest(self, table: TableName) -> KeptSchema | None:
        """The table's last version; None if there is none."""
        ...

    def keep(self, table: TableName, epoch: int, schema: KeptSchema) -> None:
        """Add the table's next version. Adding it again does no harm, by whichever task of the owner.

        Raises LeaseLost when a newer owner has claimed the table, TransientError when another version has this number by now.
        """
        ...
