"""A capture instance of SQL Server: what its change table is called, and what else a reader of it has to know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from common.names import quote_name
from ingester.source import CaptureInstance


@dataclass(frozen=True, slots=True)
class Shape:
    """What shows that a capture instance is still the same one, and its columns as they were.

    `stamp`: of the table that the columns' types were read from; it differs after any change of them. `source_id`: of the source table, which may
    lose columns. `made_id`: of the change table, which another capture instance of the same name does not share.
    """

    stamp: str | None
    source_id: int
    made_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTable(CaptureInstance):
    """A row of cdc.change_tables with its columns. `has_command_id` is False where what is read does not have it.

    `shape`: of the change table when the columns were read, or of the source where that is all that may be seen.
    `types_known`: whether the columns' types are the change table's, or else the source's. `returned`: of types that the server was asked for,
    what shows that they are still the same (pages/returned.py).
    """

    change_table: str
    has_command_id: bool = True
    shape: Shape | None = None
    types_known: bool = True
    returned: str | None = None

    @property
    def rows_from(self) -> str:
        """What its rows are selected FROM."""
        return f"[cdc].{quote_name(self.change_table)}"

    @property
    def kept(self) -> tuple[str, ...]:
        """The capture instances whose lowest low watermark is its own."""
        return (self.name,)


def change_table(instance: CaptureInstance) -> ChangeTable:
    """`instance`, which this source has handed out: the core hands it back as it was."""
    if not isinstance(instance, ChangeTable):
        raise TypeError(f"{type(instance).__name__} is not a capture instance of SQL Server")
    return instance


def with_columns_of(instance: ChangeTable, known: ChangeTable) -> ChangeTable:
    """`instance`, with what is known of its columns' types. Its table may have another name by now, and may have lost columns since: a dropped
    column never comes back to a capture instance."""
    gone = {column.ordinal for column in instance.columns if column.gone}
    columns = tuple(
        replace(column, gone=True) if column.ordinal in gone and not column.gone else column for column in known.columns
    )
    return replace(instance, columns=columns, shape=known.shape, types_known=known.types_known, returned=known.returned)


def of_one_table(instances: Iterable[ChangeTable]) -> tuple[ChangeTable, ...]:
    """A table's capture instances, in order of creation. What the newest one captures besides has come later than the older one."""
    found = tuple(instances)
    if len(found) < 2:
        return found
    newest = found[-1]
    return (*(_followed_by(one, newest) for one in found[:-1]), newest)


def _followed_by(older: ChangeTable, newest: ChangeTable) -> ChangeTable:
    known = {column.name for column in older.columns}.union(older.added)
    return replace(older, added=(*older.added, *(one.name for one in newest.columns if one.name not in known)))
