"""sys.dm_db_partition_stats: how many rows a table has, and how many pages they would fill.

Pages are estimated as Microsoft teaches it, from the types and from the lengths of a sample of the rows at both ends of the table; a
value that is larger than a page is held apart. No page is ever written. Sources:
https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-db-partition-stats-transact-sql
https://learn.microsoft.com/sql/relational-databases/databases/estimate-the-size-of-a-clustered-index
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from emulators.sqlserver.codepages import byte_count
from emulators.sqlserver.engine.extension import KeyIndex, Table, TableColumn
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.links import StaleName
from emulators.sqlserver.engine.views.indexes import partition_id, partitioned
from emulators.sqlserver.engine.views.viewing import Row, Viewpoint, Views, shape
from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.functions.functions import stored_size
from emulators.sqlserver.tsql.values.types import code_page, family, is_unicode

_SAMPLE = 100
_PAGE, _ROW_LIMIT, _POINTER = 8096, 8060, 24
_EXTENT = 8


@dataclass(frozen=True, slots=True)
class _Pages:
    """Of one allocation unit: those with rows, those with B-tree and map as well, and those set aside."""

    data: int = 0
    used: int = 0
    reserved: int = 0


def _partition_stats(view: Viewpoint) -> Iterator[Row]:
    for entry in view.catalog.tables.values():
        table = entry.table
        rows = view.session.rows_in(view.here, table)
        sample = _sample(view, table) if rows else []
        for index_id in partitioned(table):
            in_row, apart = _stored(table, index_id, rows, sample)
            yield (
                *(partition_id(table, index_id), table.object_id, index_id, 1),
                *(in_row.data, in_row.used, in_row.reserved, apart.used, apart.reserved, 0, 0),
                *(in_row.used + apart.used, in_row.reserved + apart.reserved, rows),
            )


def _sample(view: Viewpoint, table: Table) -> Sequence[Sequence[Value]]:
    """Rows at both ends; none of a table that is gone."""
    link = view.session.read_link(view.here, touched=False)
    name, rowid = storage.storage_name(table), storage.rowid_name(table)
    found: list[Sequence[Value]] = []
    try:
        for order in ("ASC", "DESC"):
            found += link.execute(f"SELECT * FROM {name} ORDER BY {rowid} {order} LIMIT {_SAMPLE}").fetchall()
    except StaleName:
        return []
    return found


def _stored(table: Table, index_id: int, rows: int, sample: Sequence[Sequence[Value]]) -> tuple[_Pages, _Pages]:
    """The pages in the row and those apart."""
    if not rows or not sample:
        return _Pages(), _Pages()
    positions = _positions(table, index_id)
    columns = [table.columns[at] for at in positions]
    sizes = [_row_size(columns, [row[at] for at in positions]) for row in sample]
    inside = sum(size for size, _ in sizes) / len(sizes)
    outside = sum(size for _, size in sizes) / len(sizes)
    leaves = -(-rows // max(1, int(_PAGE // (inside + 2))))
    nodes = _nodes(table, index_id, leaves) if index_id else 0
    used = leaves + nodes + 1
    large = -(-int(rows * outside) // _ROW_LIMIT)
    apart = _Pages(large, large + 1, _extents(large + 1)) if large else _Pages()
    return _Pages(leaves, used, _extents(used)), apart


def _extents(used: int) -> int:
    """The map of the pages is in a mixed extent, all others are in extents of their own."""
    return -(-(used - 1) // _EXTENT) * _EXTENT + 1


def _positions(table: Table, index_id: int) -> list[int]:
    """Of the columns that a heap or an index holds; the clustered index holds all, the others its key as well."""
    if index_id in (0, 1):
        return list(range(len(table.columns)))
    found = {index.index_id: index for index in table.all_indexes()}
    ids = {*found[index_id].column_ids, *found[index_id].included, *(found[1].column_ids if 1 in found else ())}
    return [at for at, column in enumerate(table.columns) if column.column_id in ids]


def _nodes(table: Table, index_id: int, leaves: int) -> int:
    """Pages above the leaves."""
    key = next(index for index in table.all_indexes() if index.index_id == index_id)
    fan_out = max(2, _PAGE // (_key_size(table, key) + 13))
    nodes, level = 0, leaves
    while level > 1:
        level = -(-level // fan_out)
        nodes += level
    return nodes


def _key_size(table: Table, key: KeyIndex) -> int:
    """Columns of varying length count as half full."""
    kinds = [column.type for column in table.columns if column.column_id in key.column_ids]
    return sum(stored_size(kind) if _fixed(kind) else max(stored_size(kind), 0) // 2 for kind in kinds)


def _row_size(columns: Sequence[TableColumn], row: Sequence[Value]) -> tuple[int, int]:
    """Bytes in the row, and bytes of the values that do not fit there."""
    bits = sum(column.type.name == "bit" for column in columns)
    inside = 4 + 2 + -(-len(columns) // 8) + -(-bits // 8)
    varying: list[int] = []
    for column, value in zip(columns, row, strict=True):
        if column.computed or column.type.name == "bit":
            continue
        if _fixed(column.type):
            inside += stored_size(column.type)
        elif value is not None:
            varying.append(_length(column.type, value))
    inside += 2 + 2 * len(varying) if varying else 0
    varying.sort()
    outside = 0
    while varying and inside + sum(varying) > _ROW_LIMIT:  # the largest leave first
        outside += varying.pop()
        inside += _POINTER
    return inside + sum(varying), outside


def _fixed(kind: SqlType) -> bool:
    return kind.name in ("char", "nchar", "binary", "rowversion") or family(kind) not in ("string", "binary")


def _length(kind: SqlType, value: Value) -> int:
    if isinstance(value, bytes):
        return len(value)
    text = str(value)
    return (
        len(text.encode("utf-16-le")) if is_unicode(kind) or kind.name == "xml" else byte_count(text, code_page(kind))
    )


VIEWS: Views = {
    "sys.dm_db_partition_stats": (
        shape(
            "partition_id:big object_id:int index_id:int partition_number:int in_row_data_page_count:big "
            "in_row_used_page_count:big in_row_reserved_page_count:big lob_used_page_count:big "
            "lob_reserved_page_count:big row_overflow_used_page_count:big row_overflow_reserved_page_count:big "
            "used_page_count:big reserved_page_count:big row_count:big"
        ),
        _partition_stats,
    ),
}
