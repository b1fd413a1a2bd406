"""What may be done to the definition of a table that is under Change Data Capture. Pure.

ADD COLUMN, DROP COLUMN and ALTER COLUMN pass: the first is not captured, the second gives NULLs, and the third changes the change
table later, when capture comes to it. A truncate, a rename of a captured column and a change of the index that an instance uses are
refused.
Source: https://learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server
"""

from __future__ import annotations

from collections.abc import Sequence

from emulators.sqlserver.cdc import errors
from emulators.sqlserver.cdc.instance import CaptureInstance
from emulators.sqlserver.engine.extension import Table
from emulators.sqlserver.sqltypes import SqlType


def check(instances: Sequence[CaptureInstance], before: Table, after: Table | None, ddl: str) -> None:
    """Raises SqlError 4711, 4928 or 22983 when the tracked table `before` may not become `after`."""
    if ddl.lstrip()[:8].upper() == "TRUNCATE":
        raise errors.truncate_refused(before.name)
    if after is None:
        return
    now = {column.column_id: column for column in after.columns}
    captured = {column.column_id for instance in instances for column in instance.columns}
    for column in before.columns:
        renewed = now.get(column.column_id)
        if column.column_id not in captured or renewed is None:
            continue
        if renewed.name != column.name:
            raise errors.rename_refused(column.name)
    for instance in instances:
        if instance.index_name is not None and _key(before, instance) != _key(after, instance):
            raise errors.index_in_use(instance.index_name, before.name)


def retyped(before: Table, after: Table) -> dict[int, SqlType]:
    """The columns whose type a statement changed, by id, with their new types."""
    old = {column.column_id: column.type for column in before.columns}
    return {c.column_id: c.type for c in after.columns if old.get(c.column_id, c.type) != c.type}


def _key(table: Table, instance: CaptureInstance) -> tuple[int, ...] | None:
    return next((key.column_ids for key in table.keys if key.name == instance.index_name), None)
