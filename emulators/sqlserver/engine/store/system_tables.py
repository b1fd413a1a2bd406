"""Tables that an extension makes for itself: stored, and entered into a catalog, which the caller's write transaction publishes.

Raises what a user's DDL would; rights are not asked here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from emulators.sqlserver.engine.extension import KeyIndex, Table, TableColumn
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.catalog import Catalog, TableEntry
from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.results import Column
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import object_exists, truncated
from emulators.sqlserver.tsql.values.conversions.steps import Truncation


def create(
    link: Link,
    catalog: Catalog,
    named: tuple[str, str],
    columns: Sequence[Column],
    order: Sequence[str],
    created: str,
    stored_type: Callable[[SqlType], SqlType],
) -> tuple[Table, Catalog]:
    """`named`: schema and name. `order`: the columns of its clustered index. Raises 2714."""
    schema, name = named
    if catalog.find(schema, name) is not None:
        raise object_exists(name)
    object_id, catalog = catalog.new_id()
    made = tuple(
        TableColumn(index, column.name, stored_type(column.type), column.nullable)
        for index, column in enumerate(columns, 1)
    )
    ids = {column.name: column.column_id for column in made}
    keys = (KeyIndex(f"{name}_clustered_idx", tuple(ids[column] for column in order), False),) if order else ()
    table = Table(object_id, schema, name, made, keys, system=True)
    entry = TableEntry(table, created=created, next_column=len(made) + 1, fold=catalog.fold)
    storage.create(link, entry)
    storage.create_indexes(link, entry)
    return table, catalog.with_table(entry)


def alter(link: Link, catalog: Catalog, database: str, table: Table, column: str, kind: SqlType) -> Catalog:
    """Give a column another type. Raises 2628, and the caller's write transaction must not go on then."""
    entry = catalog.tables[table.object_id]
    old = next(c for c in entry.table.columns if c.name == column)
    columns = tuple(replace(c, type=kind) if c is old else c for c in entry.table.columns)
    after = replace(entry, table=replace(entry.table, columns=columns))
    try:
        storage.convert_column(link, entry.table, after, old, kind)
    except Truncation as cut:
        raise truncated(f"{database}.{table.schema}.{table.name}", column, cut.value) from None
    return catalog.with_table(after)
