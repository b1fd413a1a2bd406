"""What may be done to the definition of a table that is under Change Data Capture. Pure.

ADD COLUMN and DROP COLUMN pass (the first is not captured, the second gives NULLs); a truncate, a rename of a captured column and a
change of the index that the instance uses are refused with Microsoft's errors, a change of a captured column's type with ours.
Source: https://learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server
"""

from __future__ import annotations

from collections.abc import Sequence

from emulators.sqlserver.cdc import errors
from emulators.sqlserver.cdc.instance import CaptureInstance
from emulators.sqlserver.engine.extension import Table


def check(instances: Sequence[CaptureInstance], before: Table, after: Table | None, ddl: str) -> None:
    """Raises SqlError 4711, 4928, 22983 or 50001 when the tracked table `before` may not become `after`."""
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
        if renewed.type != column.type:
            raise errors.unsupported(f"changing the type of captured column '{column.name}'")
    for instance in instances:
        if instance.index_name is not None and _key(before, instance) != _key(after, instance):
            raise errors.index_in_use(instance.index_name, before.name)


def _key(table: Table, instance: CaptureInstance) -> tuple[int, ...] | None:
    return next((key.column_ids for key in table.keys if key.name == instance.index_name), None)
