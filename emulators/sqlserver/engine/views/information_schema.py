"""The rows of INFORMATION_SCHEMA.

Sources: the views' pages under https://learn.microsoft.com/sql/relational-databases/system-information-schema-views/
"""

from __future__ import annotations

from collections.abc import Iterator

from emulators.sqlserver.engine.extension import KeyIndex
from emulators.sqlserver.engine.store.catalog import Catalog, TableEntry
from emulators.sqlserver.engine.views.constraints import referenced_index
from emulators.sqlserver.engine.views.objects import relations
from emulators.sqlserver.engine.views.spelling import spelled
from emulators.sqlserver.engine.views.viewing import Row, Viewpoint, Views, nothing, precision_scale, shape
from emulators.sqlserver.sqltypes import MAX
from emulators.sqlserver.tsql.values.types import character_set, collation_shown, family, is_unicode

_LONGEST_DEFINITION = 4000


def _tables(view: Viewpoint) -> Iterator[Row]:
    here, catalog = view.here, view.catalog
    for entry in catalog.tables.values():
        yield here.name, entry.table.schema, entry.table.name, "BASE TABLE"
    for found in catalog.views.values():
        yield here.name, found.schema, found.name, "VIEW"


def _columns(view: Viewpoint) -> Iterator[Row]:
    here = view.here
    for entry in relations(view):
        table = entry.table
        for position, column in enumerate(table.columns, 1):
            kind = column.type
            name = {"rowversion": "timestamp", "sysname": "nvarchar"}.get(kind.name, kind.name)
            group = family(kind)
            length: int | None = None
            octets: int | None = None
            if group in ("string", "binary") and name != "timestamp":
                length = {"text": 2**31 - 1, "image": 2**31 - 1, "ntext": 2**30 - 1, "xml": MAX}.get(name, kind.length)
                octets = (
                    length
                    if length is None or length == MAX or "text" in name
                    else length * (2 if is_unicode(kind) else 1)
                )
            precision, scale = precision_scale(kind)
            numeric = group in ("int", "exact", "float") and name != "bit"
            default = entry.defaults.get(column.column_id)
            yield (
                here.name,
                table.schema,
                table.name,
                column.name,
                position,
                spelled(default.text) if default else None,
                "YES" if column.nullable else "NO",
                name,
                length,
                octets,
                precision if numeric else None,
                10 if group in ("int", "exact") and numeric else 2 if group == "float" else None,
                scale if group in ("int", "exact") and numeric else None,
                (kind.scale if kind.scale is not None else scale) if group == "date" else None,
                "UNICODE" if is_unicode(kind) else character_set(kind) if group == "string" else None,
                collation_shown(kind),
            )


def _keys_of(catalog: Catalog) -> Iterator[tuple[TableEntry, KeyIndex]]:
    for entry in catalog.tables.values():
        for key in entry.table.keys:
            if key.name in entry.constraints:
                yield entry, key


def _constraints(view: Viewpoint) -> Iterator[Row]:
    here, catalog = view.here, view.catalog
    for entry, key in _keys_of(catalog):
        kind = "PRIMARY KEY" if key.primary else "UNIQUE"
        yield here.name, entry.table.schema, key.name, here.name, entry.table.schema, entry.table.name, kind
    for entry in catalog.tables.values():
        schema, table = entry.table.schema, entry.table.name
        for name, kind in (
            *((check.name, "CHECK") for check in entry.checks),
            *((key.name, "FOREIGN KEY") for key in entry.foreign_keys),
        ):
            yield here.name, schema, name, here.name, schema, table, kind


def _key_columns(view: Viewpoint) -> Iterator[Row]:
    here, catalog = view.here, view.catalog
    for entry, key in _keys_of(catalog):
        names = {column.column_id: column.name for column in entry.table.columns}
        for position, column_id in enumerate(key.column_ids, 1):
            table = entry.table
            yield here.name, table.schema, key.name, here.name, table.schema, table.name, names[column_id], position
    for entry in catalog.tables.values():
        table = entry.table
        names = {column.column_id: column.name for column in table.columns}
        for foreign in entry.foreign_keys:
            for place, number in enumerate(foreign.column_ids, 1):
                yield here.name, table.schema, foreign.name, here.name, table.schema, table.name, names[number], place


def _constraint_columns(view: Viewpoint) -> Iterator[Row]:
    for row in _key_columns(view):
        catalog, schema, constraint, _, _, table, column, _ = row
        yield catalog, schema, table, column, catalog, schema, constraint


def _schemata(view: Viewpoint) -> Iterator[Row]:
    for name in view.catalog.schemas:
        yield (
            view.here.name,
            name,
            "dbo" if name not in ("sys", "INFORMATION_SCHEMA", "guest") else name,
            None,
            None,
            "iso_1",
        )


def _views(view: Viewpoint) -> Iterator[Row]:
    for found in view.catalog.views.values():
        text = found.text if len(found.text) <= _LONGEST_DEFINITION else None
        yield view.here.name, found.schema, found.name, text, "NONE", "NO"


def _references(view: Viewpoint) -> Iterator[Row]:
    here = view.here.name
    for entry in view.catalog.tables.values():
        for key in entry.foreign_keys:
            parent = view.catalog.tables.get(key.referenced_id)
            if parent is None:
                continue
            index = referenced_index(view.catalog, key)
            unique = next((k.name for k in parent.table.keys if k.index_id == index), None)
            mine = (here, entry.table.schema, key.name)
            yield *mine, here, parent.table.schema, unique, "SIMPLE", "NO ACTION", "NO ACTION"


def _checks(view: Viewpoint) -> Iterator[Row]:
    for entry in view.catalog.tables.values():
        for check in entry.checks:
            yield view.here.name, entry.table.schema, check.name, spelled(check.text)


VIEWS: Views = {
    "information_schema.tables": (
        shape("TABLE_CATALOG:name TABLE_SCHEMA:name TABLE_NAME:name TABLE_TYPE:family"),
        _tables,
    ),
    "information_schema.columns": (
        shape(
            "TABLE_CATALOG:name TABLE_SCHEMA:name TABLE_NAME:name COLUMN_NAME:name ORDINAL_POSITION:int "
            "COLUMN_DEFAULT:long IS_NULLABLE:answer DATA_TYPE:name CHARACTER_MAXIMUM_LENGTH:int "
            "CHARACTER_OCTET_LENGTH:int NUMERIC_PRECISION:tiny NUMERIC_PRECISION_RADIX:small NUMERIC_SCALE:int "
            "DATETIME_PRECISION:small CHARACTER_SET_NAME:name COLLATION_NAME:name"
        ),
        _columns,
    ),
    "information_schema.table_constraints": (
        shape(
            "CONSTRAINT_CATALOG:name CONSTRAINT_SCHEMA:name CONSTRAINT_NAME:name TABLE_CATALOG:name "
            "TABLE_SCHEMA:name TABLE_NAME:name CONSTRAINT_TYPE:constraint"
        ),
        _constraints,
    ),
    "information_schema.key_column_usage": (
        shape(
            "CONSTRAINT_CATALOG:name CONSTRAINT_SCHEMA:name CONSTRAINT_NAME:name TABLE_CATALOG:name "
            "TABLE_SCHEMA:name TABLE_NAME:name COLUMN_NAME:name ORDINAL_POSITION:int"
        ),
        _key_columns,
    ),
    "information_schema.constraint_column_usage": (
        shape(
            "TABLE_CATALOG:name TABLE_SCHEMA:name TABLE_NAME:name COLUMN_NAME:name CONSTRAINT_CATALOG:name "
            "CONSTRAINT_SCHEMA:name CONSTRAINT_NAME:name"
        ),
        _constraint_columns,
    ),
    "information_schema.check_constraints": (
        shape("CONSTRAINT_CATALOG:name CONSTRAINT_SCHEMA:name CONSTRAINT_NAME:name CHECK_CLAUSE:long"),
        _checks,
    ),
    "information_schema.referential_constraints": (
        shape(
            "CONSTRAINT_CATALOG:name CONSTRAINT_SCHEMA:name CONSTRAINT_NAME:name UNIQUE_CONSTRAINT_CATALOG:name "
            "UNIQUE_CONSTRAINT_SCHEMA:name UNIQUE_CONSTRAINT_NAME:name MATCH_OPTION:word UPDATE_RULE:word "
            "DELETE_RULE:word"
        ),
        _references,
    ),
    "information_schema.schemata": (
        shape(
            "CATALOG_NAME:name SCHEMA_NAME:name SCHEMA_OWNER:name DEFAULT_CHARACTER_SET_CATALOG:name "
            "DEFAULT_CHARACTER_SET_SCHEMA:name DEFAULT_CHARACTER_SET_NAME:name"
        ),
        _schemata,
    ),
    "information_schema.views": (
        shape(
            "TABLE_CATALOG:name TABLE_SCHEMA:name TABLE_NAME:name VIEW_DEFINITION:long CHECK_OPTION:word "
            "IS_UPDATABLE:word"
        ),
        _views,
    ),
    "information_schema.routines": (
        shape("SPECIFIC_CATALOG:name SPECIFIC_SCHEMA:name SPECIFIC_NAME:name ROUTINE_NAME:name ROUTINE_TYPE:word"),
        nothing,
    ),
    "information_schema.sequences": (
        shape("SEQUENCE_CATALOG:name SEQUENCE_SCHEMA:name SEQUENCE_NAME:name DATA_TYPE:name"),
        nothing,
    ),
}
