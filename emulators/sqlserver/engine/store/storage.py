"""The SQLite side of a table: its definition, its unique indexes, and rebuilding it under a new shape. Decides nothing about T-SQL.

Columns have no SQLite type, so that every storage form (sqltypes.py) is kept as it is; collations carry SQL Server's comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulators.sqlserver.engine.extension import KeyIndex, Table, TableColumn
from emulators.sqlserver.engine.store.catalog import TableEntry
from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.values.calls import register
from emulators.sqlserver.tsql.values.convert import converter
from emulators.sqlserver.tsql.values.types import collation, family


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def storage_name(table: Table) -> str:
    return f'"t{table.object_id}"'


def object_id_of(stored: str) -> int:
    """The other way round."""
    return int(stored.strip('"').removeprefix("t"))


def rowid_name(table: Table) -> str:
    """SQLite's name for the row number that no column of the table hides."""
    taken = {column.name.lower() for column in table.columns}
    return next(name for name in ("_rowid_", "rowid", "oid") if name not in taken)


def create(link: Link, entry: TableEntry, name: str | None = None) -> None:
    table = entry.table
    columns = []
    for column in table.columns:
        order = collation(column.type)
        columns.append(quote(column.name) + (f" COLLATE {order}" if order else ""))
    link.execute(f"CREATE TABLE {name or storage_name(table)} ({', '.join(columns)})")


def create_indexes(link: Link, entry: TableEntry) -> None:
    for key in entry.table.unique_indexes():
        create_index(link, entry, key)


def index_name(table: Table, key: KeyIndex) -> str:
    return quote(f"i{table.object_id}_{key.index_id}")


def create_index(link: Link, entry: TableEntry, key: KeyIndex) -> None:
    """Raises sqlite3.IntegrityError when rows repeat a key. One NULL counts as equal to another, as in SQL Server.

    A filtered one holds expressions, so that SQLite names it, not its columns, when a row repeats a key.
    """
    table = entry.table
    by_id = {column.column_id: column for column in table.columns}
    terms = []
    for column_id in key.column_ids:
        column = by_id[column_id]
        name = quote(column.name)
        if (column.nullable or key.filter is not None) and not table.system:
            missing = "'null'" if family(column.type) == "binary" else "x'6e756c6c'"
            name = f"ifnull({name}, {missing})"
        order = collation(column.type)
        terms.append(name + (f" COLLATE {order}" if order else ""))
    where = f" WHERE {key.filter.sql}" if key.filter is not None else ""
    link.execute(f"CREATE UNIQUE INDEX {index_name(table, key)} ON {storage_name(table)} ({', '.join(terms)}){where}")


def drop(link: Link, table: Table) -> None:
    link.execute(f"DROP TABLE {storage_name(table)}")


def rebuild(
    link: Link, before: Table, after: TableEntry, values: Mapping[int, str], parameters: Sequence[object]
) -> None:
    """Give a table another shape, rows and their numbers kept; `values`: column id -> SQL for columns that are not copied."""
    table = after.table
    kept = {column.column_id: column.name for column in before.columns}
    items = [
        values.get(c.column_id) or (quote(kept[c.column_id]) if c.column_id in kept else "NULL") for c in table.columns
    ]
    copy = f'"t{table.object_id}_new"'
    create(link, after, copy)
    names = ", ".join([rowid_name(table), *(quote(column.name) for column in table.columns)])
    link.execute(
        f"INSERT INTO {copy} ({names}) SELECT {', '.join([rowid_name(before), *items])} FROM {storage_name(before)}",
        list(parameters),  # type: ignore[arg-type]  # storage forms
    )
    drop(link, before)
    link.execute(f"ALTER TABLE {copy} RENAME TO {storage_name(table)}")
    create_indexes(link, after)


def convert_column(link: Link, before: Table, after: TableEntry, column: TableColumn, kind: SqlType) -> None:
    """Give a column of `before` another type, its values assigned to it. Raises SqlError, Truncation."""
    run = converter(column.type, kind, 0, True)
    number = register(("assign", column.type, kind), lambda: run)
    rebuild(link, before, after, {column.column_id: f"fn({number}, {quote(column.name)})"}, ())
