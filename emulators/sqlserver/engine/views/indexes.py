"""The rows of the catalog views over keys and indexes.

Source: https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-indexes-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator

from emulators.sqlserver.engine.extension import Table
from emulators.sqlserver.engine.store.catalog import Catalog, TableEntry
from emulators.sqlserver.engine.views.spelling import spelled
from emulators.sqlserver.engine.views.viewing import Row, Viewpoint, Views, shape


def key_objects(catalog: Catalog, entry: TableEntry) -> Iterator[Row]:
    table = entry.table
    schema = catalog.schemas.get(table.schema, 1)
    for key in table.keys:
        if key.name in entry.constraints:
            kind, text = ("PK", "PRIMARY_KEY_CONSTRAINT") if key.primary else ("UQ", "UNIQUE_CONSTRAINT")
            number = entry.constraints[key.name]
            yield key.name, number, None, schema, table.object_id, kind, text, entry.created, entry.created, 0


def _key_constraints(view: Viewpoint) -> Iterator[Row]:
    catalog = view.catalog
    for entry in catalog.tables.values():
        ids = {key.name: key.index_id for key in entry.table.keys}
        for row in key_objects(catalog, entry):
            yield (*row, ids[str(row[0])], 0)


def _indexes(view: Viewpoint) -> Iterator[Row]:
    catalog = view.catalog
    for entry in catalog.tables.values():
        table = entry.table
        indexes = table.all_indexes()
        if not any(index.index_id == 1 for index in indexes):
            yield table.object_id, None, 0, 0, "HEAP", 0, 0, 0, 0, None, 0, 1, 0, 0, 0, 0, 1, 1
        for index in indexes:
            kind, text = (1, "CLUSTERED") if index.index_id == 1 else (2, "NONCLUSTERED")
            constraint = int(index.name in entry.constraints and not index.primary)
            condition = spelled(index.filter.text, lists=False) if index.filter is not None else None
            yield (
                table.object_id,
                index.name,
                index.index_id,
                kind,
                text,
                int(index.unique),
                int(index.primary),
                constraint,
                0,
                condition,
                int(condition is not None),
                1,
                *(0, 0, 0, 0),
                *(1, 1),
            )


def _index_columns(view: Viewpoint) -> Iterator[Row]:
    catalog = view.catalog
    for entry in catalog.tables.values():
        for index in entry.table.all_indexes():
            number = entry.table.object_id, index.index_id
            for ordinal, column_id in enumerate(index.column_ids, 1):
                yield *number, ordinal, column_id, ordinal, 0, int(column_id in index.descending), 0
            for ordinal, column_id in enumerate(index.included, len(index.column_ids) + 1):
                yield *number, ordinal, column_id, 0, 0, 0, 1


def partitioned(table: Table) -> list[int]:
    """Ids of what a table is stored in, each in one partition: 0 for the heap, 1 for the clustered index, then the others."""
    numbers = [index.index_id for index in table.all_indexes()]
    return numbers if 1 in numbers else [0, *numbers]


def partition_id(table: Table, index_id: int) -> int:
    """That of its partition, and of its heap or B-tree (hobt_id)."""
    return 72057594037927936 + table.object_id * 256 + index_id


def _partitions(view: Viewpoint) -> Iterator[Row]:
    """One partition an index, with the number of rows that this session sees."""
    for entry in view.catalog.tables.values():
        rows = view.session.rows_in(view.here, entry.table)
        for index in partitioned(entry.table):
            number = partition_id(entry.table, index)
            yield number, entry.table.object_id, index, 1, number, 0, rows, 0, "NONE"


VIEWS: Views = {
    "sys.key_constraints": (
        shape(
            "name:name object_id:int principal_id:int schema_id:int parent_object_id:int type:code type_desc:text "
            "create_date:datetime modify_date:datetime is_ms_shipped:bit unique_index_id:int is_system_named:bit"
        ),
        _key_constraints,
    ),
    "sys.indexes": (
        shape(
            "object_id:int name:name index_id:int type:tiny type_desc:text is_unique:bit is_primary_key:bit "
            "is_unique_constraint:bit is_disabled:bit filter_definition:max has_filter:bit data_space_id:int "
            "fill_factor:tiny ignore_dup_key:bit is_padded:bit is_hypothetical:bit allow_row_locks:bit "
            "allow_page_locks:bit"
        ),
        _indexes,
    ),
    "sys.index_columns": (
        shape(
            "object_id:int index_id:int index_column_id:int column_id:int key_ordinal:tiny partition_ordinal:tiny "
            "is_descending_key:bit is_included_column:bit"
        ),
        _index_columns,
    ),
    "sys.partitions": (
        shape(
            "partition_id:big object_id:int index_id:int partition_number:int hobt_id:big "
            "filestream_filegroup_id:small rows:big data_compression:tiny data_compression_desc:text"
        ),
        _partitions,
    ),
}
