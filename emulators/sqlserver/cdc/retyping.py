"""Gives a column of a change table another type, its rows converted: the one place where capture reaches into the engine's storage.

The engine's extension seam makes and drops system tables and does not alter them; capture has to, when the type of a captured column
changes. Refuses a conversion that does not fit, with 22976, and leaves the table as it is then.
"""

from __future__ import annotations

from dataclasses import replace

from emulators.sqlserver.cdc import errors
from emulators.sqlserver.engine import storage
from emulators.sqlserver.engine.database import StoredDatabase
from emulators.sqlserver.engine.extension import Database, Table
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.calls import register
from emulators.sqlserver.tsql.convert import Truncation, converter


def retype(database: Database, change_table: Table, column: str, kind: SqlType) -> None:
    """Inside the caller's write transaction. Raises 22976."""
    if not isinstance(database, StoredDatabase) or database.active is None:
        raise TypeError("a change table is altered inside a write transaction of the engine")
    catalog = database.active.catalog
    entry = catalog.tables[change_table.object_id]
    old = next(c for c in entry.table.columns if c.name == column)
    columns = tuple(replace(c, type=kind) if c is old else c for c in entry.table.columns)
    after = replace(entry, table=replace(entry.table, columns=columns))
    try:
        run = converter(old.type, kind, 0, True)
        number = register(("assign", old.type, kind), lambda: run)
        converted = {old.column_id: f"fn({number}, {storage.quote(column)})"}
        storage.rebuild(database.write_link, entry.table, after, converted, ())
    except (SqlError, Truncation) as wrong:
        raise errors.change_table_not_altered(column, entry.table.name, entry.table.name.removesuffix("_CT")) from wrong
    database.change(catalog.with_table(after))
