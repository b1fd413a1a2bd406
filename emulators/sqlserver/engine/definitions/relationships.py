"""The DDL side of CHECK, FOREIGN KEY and computed columns: their place in the catalog, and what depends on a column or key."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from emulators.sqlserver.engine.extension import KeyIndex, Table, TableColumn
from emulators.sqlserver.engine.store.catalog import Catalog, Check, ForeignKey, TableEntry
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.reading import definitions as df
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.trees import parse_query


def mentions(fragment: Fragment, column: str) -> bool:
    """Whether an expression names a column; names that differ in case only are not told apart."""
    wanted = column.lower()
    return any(found.name.lower() == wanted for found in parse_query(fragment.text).find_all(exp.Column))


def indexes_over(table: Table, column: TableColumn) -> list[KeyIndex]:
    """The keys and indexes that hold a column or ask for it in their filter."""
    number = column.column_id
    return [
        index
        for index in (*table.keys, *table.indexes)
        if number in (*index.column_ids, *index.included)
        or (index.filter is not None and number in index.filter.column_ids)
    ]


def dependants(entry: TableEntry, column: TableColumn) -> list[str]:
    """The names of what uses a column, in the table itself: indexes, defaults, checks, foreign keys, computed columns."""
    table = entry.table
    found = [index.name for index in indexes_over(table, column)]
    if column.column_id in entry.defaults:
        found.append(entry.defaults[column.column_id].name)
    found += [check.name for check in entry.checks if mentions(check.condition, column.name)]
    found += [key.name for key in entry.foreign_keys if column.column_id in key.column_ids]
    names = {c.column_id: c.name for c in table.columns}
    return found + [names[number] for number, c in entry.computed.items() if mentions(c.value, column.name)]


def with_check(entry: TableEntry, spec: df.CheckSpec, object_id: int) -> TableEntry:
    table = entry.table
    name = spec.name or f"CK__{table.name[:9]}__{spec.column[:5]}__{secrets.token_hex(4).upper()}"
    column = entry.column(spec.column) if spec.column else None
    check = Check(name, spec.text, spec.condition, column.column_id if column is not None else 0)
    return replace(entry, checks=(*entry.checks, check), constraints={**entry.constraints, name: object_id})


def with_foreign_key(entry: TableEntry, spec: df.ForeignKeySpec, catalog: Catalog, object_id: int) -> TableEntry:
    """Raises SqlError 1767, 1769, 1770, 1757, 1773, 1776, 8139."""
    table = entry.table
    name = spec.name or f"FK__{table.name[:9]}__{spec.columns[0][:5]}__{secrets.token_hex(4).upper()}"
    schema = spec.table[-2] if len(spec.table) > 1 and spec.table[-2] else "dbo"
    itself = catalog.key(schema, spec.table[-1]) == catalog.key(table.schema, table.name)
    parent = entry if itself else catalog.find(schema, spec.table[-1])
    if parent is None:
        raise SqlError(1767, f"Foreign key '{name}' references invalid table '{'.'.join(spec.table)}'.", 16)
    mine = []
    for column in spec.columns:
        known = entry.column(column)
        if known is None:
            text = f"Foreign key '{name}' references invalid column '{column}' in referencing table '{table.name}'."
            raise SqlError(1769, text, 16)
        mine.append(known.column_id)
    others = _referenced(name, spec, parent)
    if len(mine) != len(others):
        text = f"Number of referencing columns in foreign key differs from number of referenced columns, table '{table.name}'."
        raise SqlError(8139, text, 16)
    _check_collations(name, (entry, mine), (parent, others))
    key = ForeignKey(name, tuple(mine), parent.table.object_id, others)
    return replace(entry, foreign_keys=(*entry.foreign_keys, key), constraints={**entry.constraints, name: object_id})


def _check_collations(
    name: str, child: tuple[TableEntry, Sequence[int]], parent: tuple[TableEntry, Sequence[int]]
) -> None:
    """Raises 1757 for a column that would compare otherwise than the one it references."""
    for number, other in zip(child[1], parent[1], strict=True):
        mine = next(c for c in child[0].table.columns if c.column_id == number)
        its = next(c for c in parent[0].table.columns if c.column_id == other)
        if mine.type.collation != its.type.collation:
            text = (
                f"Column '{parent[0].table.name}.{its.name}' is not of same collation as referencing column "
                f"'{child[0].table.name}.{mine.name}' in foreign key '{name}'."
            )
            raise SqlError(1757, text, 16)


def _referenced(name: str, spec: df.ForeignKeySpec, parent: TableEntry) -> tuple[int, ...]:
    shown = f"{parent.table.schema}.{parent.table.name}"
    if not spec.referenced:
        primary = next((key for key in parent.table.keys if key.primary), None)
        if primary is None:
            text = f"Foreign key '{name}' has implicit reference to object '{shown}' which does not have a primary key defined on it."
            raise SqlError(1773, text, 16)
        return primary.column_ids
    found = []
    for column in spec.referenced:
        known = parent.column(column)
        if known is None:
            text = f"Foreign key '{name}' references invalid column '{column}' in referenced table '{shown}'."
            raise SqlError(1770, text, 16)
        found.append(known.column_id)
    if not any(set(key.column_ids) == set(found) for key in parent.table.keys):
        text = (
            f"There are no primary or candidate keys in the referenced table '{shown}' that match the referencing column list "
            f"in the foreign key '{name}'."
        )
        raise SqlError(1776, text, 16)
    return tuple(found)


def refuse_referenced_key(entry: TableEntry, key: KeyIndex, catalog: Catalog) -> None:
    """Raises 3725 for a key that a foreign key rests on."""
    for child, reference in catalog.referencing(entry.table.object_id):
        if set(reference.referenced_column_ids) == set(key.column_ids):
            text = (
                f"The constraint '{key.name}' is being referenced by table '{child.table.name}', foreign key constraint "
                f"'{reference.name}'."
            )
            raise SqlError(3725, text, 16)


def refuse_referenced_table(entry: TableEntry, catalog: Catalog, truncates: bool) -> None:
    """Raises 3726 for DROP TABLE, 4712 for TRUNCATE TABLE, while another table references this one."""
    table = entry.table
    if all(child.table.object_id == table.object_id for child, _ in catalog.referencing(table.object_id)):
        return
    if truncates:
        text = f"Cannot truncate table '{table.name}' because it is being referenced by a FOREIGN KEY constraint."
        raise SqlError(4712, text, 16)
    text = f"Could not drop object '{table.schema}.{table.name}' because it is referenced by a FOREIGN KEY constraint."
    raise SqlError(3726, text, 16)
