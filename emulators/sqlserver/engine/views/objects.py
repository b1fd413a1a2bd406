"""The rows of the catalog views over schemas, tables, columns, types and users' views.

A view of what cannot exist here (procedures, triggers, security policies, extended properties) has its columns and no rows. Sources: the views' pages
under https://learn.microsoft.com/sql/relational-databases/system-catalog-views/
"""

from __future__ import annotations

from collections.abc import Iterator

from emulators.sqlserver.engine.extension import Table, TableColumn
from emulators.sqlserver.engine.functions.environment import TYPE_IDS, type_id
from emulators.sqlserver.engine.store.catalog import Catalog, TableEntry, View
from emulators.sqlserver.engine.views.constraints import constraint_objects, schema_id
from emulators.sqlserver.engine.views.indexes import key_objects
from emulators.sqlserver.engine.views.viewing import (
    DATE_PRECISIONS,
    Row,
    Viewpoint,
    Views,
    nothing,
    precision_scale,
    shape,
)
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.functions.functions import stored_size
from emulators.sqlserver.tsql.values.types import collation_shown, family, is_unicode


def relations(view: Viewpoint) -> Iterator[TableEntry]:
    """All tables, and users' views as if they were tables; a view that nothing can be read from any more has no columns."""
    yield from view.catalog.tables.values()
    for found in view.catalog.views.values() if view.here is view.session.current() else ():
        try:
            planned = view.session.runner.plan(found.query).columns
        except SqlError:
            continue
        named = zip(found.columns, planned, strict=True)
        columns = tuple(TableColumn(at, name, c.type, c.nullable) for at, (name, c) in enumerate(named, 1))
        yield TableEntry(Table(found.object_id, found.schema, found.name, columns), created=found.created)


def _schemas(view: Viewpoint) -> Iterator[Row]:
    catalog = view.catalog
    principals = view.session.engine.security.of(view.here.database_id, view.here.name).principals
    for name, number in catalog.schemas.items():
        owner = principals.get(name.lower())
        yield name, number, owner.principal_id if owner is not None else 1


def _table_object(catalog: Catalog, entry: TableEntry) -> Row:
    table = entry.table
    schema = catalog.schemas.get(table.schema, 1)
    return (
        table.name,
        table.object_id,
        None,
        schema,
        0,
        "U ",
        "USER_TABLE",
        entry.created,
        entry.created,
        int(table.system),
    )


def _tables(view: Viewpoint) -> Iterator[Row]:
    catalog = view.catalog
    for entry in catalog.tables.values():
        yield (*_table_object(catalog, entry), int(entry.tracked), 0, len(entry.table.columns), 0)


def _view_object(catalog: Catalog, view: View) -> Row:
    """The row of sys.objects for a user's view."""
    schema = schema_id(catalog, view.schema)
    return view.name, view.object_id, None, schema, 0, "V ", "VIEW", view.created, view.created, 0


def _objects(view: Viewpoint) -> Iterator[Row]:
    """Tables and their keys, their other constraints, and users' views."""
    catalog = view.catalog
    for entry in catalog.tables.values():
        yield _table_object(catalog, entry)
        yield from key_objects(catalog, entry)
    for entry in catalog.tables.values():
        yield from constraint_objects(catalog, entry)
    for found in catalog.views.values():
        yield _view_object(catalog, found)


def _sys_columns(view: Viewpoint) -> Iterator[Row]:
    for entry in relations(view):
        for column in entry.table.columns:
            kind = column.type
            precision, scale = precision_scale(kind)
            yield (
                entry.table.object_id,
                column.name,
                column.column_id,
                type_id(kind) if kind.name != "sysname" else 231,
                type_id(kind),
                stored_size(kind),
                precision,
                scale,
                collation_shown(kind),
                int(column.nullable),
                0,
                int(column.identity),
                int(column.computed),
                0,
                entry.constraints.get(entry.defaults[column.column_id].name, 0)
                if column.column_id in entry.defaults
                else 0,
                0,
                0,
                int(family(kind) == "string" and not is_unicode(kind)),
                0,
                "NOT_APPLICABLE",
                *(0, 0),
            )


def _types(view: Viewpoint) -> Iterator[Row]:
    for name, number in TYPE_IDS.items():
        wide = {
            "varchar": 8000,
            "char": 8000,
            "nvarchar": 8000,
            "nchar": 8000,
            "varbinary": 8000,
            "binary": 8000,
            "sysname": 256,
        }
        kind = SqlType("rowversion" if name == "timestamp" else name)
        precision, scale = (38, 38) if name in ("decimal", "numeric") else precision_scale(kind)
        if name in ("time", "datetime2", "datetimeoffset"):
            precision, scale = DATE_PRECISIONS[name][0] + 8, 7
        size = wide.get(name) or (17 if name in ("decimal", "numeric") else stored_size(kind))
        yield name, 231 if name == "sysname" else number, number, 4, size, precision, scale, 1, 0


def _identity_columns(view: Viewpoint) -> Iterator[Row]:
    here, catalog = view.here, view.catalog
    for entry in catalog.tables.values():
        for column in entry.table.columns:
            if column.identity and entry.identity is not None:
                last = here.identities.get(entry.table.object_id)
                yield entry.table.object_id, column.name, column.column_id, *entry.identity, last, 1


def _user_views(view: Viewpoint) -> Iterator[Row]:
    for found in view.catalog.views.values():
        yield *_view_object(view.catalog, found), 0, 0, 0, 0


def _all_views(view: Viewpoint) -> Iterator[Row]:
    for row in _user_views(view):
        yield row[:-1]


def _modules(view: Viewpoint) -> Iterator[Row]:
    for found in view.catalog.views.values():
        yield found.object_id, found.text, 1, 1, 0


_OBJECT = shape(
    "name:name object_id:int principal_id:int schema_id:int parent_object_id:int type:code type_desc:text "
    "create_date:datetime modify_date:datetime is_ms_shipped:bit"
)
_COLUMN = shape(
    "object_id:int name:name column_id:int system_type_id:tiny user_type_id:int max_length:small "
    "precision:tiny scale:tiny collation_name:name is_nullable:bit is_rowguidcol:bit is_identity:bit "
    "is_computed:bit is_sparse:bit default_object_id:int rule_object_id:int is_xml_document:bit "
    "is_ansi_padded:bit generated_always_type:tiny generated_always_type_desc:text is_hidden:bit is_masked:bit"
)

VIEWS: Views = {
    "sys.schemas": (shape("name:name schema_id:int principal_id:int"), _schemas),
    "sys.tables": (
        shape(
            "name:name object_id:int principal_id:int schema_id:int parent_object_id:int type:code type_desc:text "
            "create_date:datetime modify_date:datetime is_ms_shipped:bit is_tracked_by_cdc:bit temporal_type:tiny "
            "max_column_id_used:int is_memory_optimized:bit"
        ),
        _tables,
    ),
    "sys.objects": (_OBJECT, _objects),
    "sys.all_objects": (_OBJECT, _objects),
    "sys.columns": (_COLUMN, _sys_columns),
    "sys.all_columns": (_COLUMN, _sys_columns),
    "sys.types": (
        shape(
            "name:name system_type_id:tiny user_type_id:int schema_id:int max_length:small precision:tiny "
            "scale:tiny is_nullable:bit is_user_defined:bit"
        ),
        _types,
    ),
    "sys.identity_columns": (
        shape(
            "object_id:int name:name column_id:int seed_value:big increment_value:big last_value:big is_identity:bit"
        ),
        _identity_columns,
    ),
    "sys.views": (
        shape(
            "name:name object_id:int principal_id:int schema_id:int parent_object_id:int type:code type_desc:text "
            "create_date:datetime modify_date:datetime is_ms_shipped:bit is_published:bit is_schema_published:bit "
            "with_check_option:bit is_date_correlation_view:bit"
        ),
        _user_views,
    ),
    "sys.all_views": (
        shape(
            "name:name object_id:int principal_id:int schema_id:int parent_object_id:int type:code type_desc:text "
            "create_date:datetime modify_date:datetime is_ms_shipped:bit is_published:bit is_schema_published:bit "
            "with_check_option:bit"
        ),
        _all_views,
    ),
    "sys.sql_modules": (
        shape("object_id:int definition:max uses_ansi_nulls:bit uses_quoted_identifier:bit is_schema_bound:bit"),
        _modules,
    ),
    "sys.all_sql_modules": (
        shape("object_id:int definition:max uses_ansi_nulls:bit uses_quoted_identifier:bit is_schema_bound:bit"),
        _modules,
    ),
    "sys.procedures": (
        shape(
            "name:name object_id:int principal_id:int schema_id:int parent_object_id:int type:code type_desc:text "
            "create_date:datetime modify_date:datetime is_ms_shipped:bit is_published:bit is_schema_published:bit "
            "is_auto_executed:bit"
        ),
        nothing,
    ),
    "sys.triggers": (
        shape("name:name object_id:int parent_class:tiny parent_id:int type:code type_desc:text is_disabled:bit"),
        nothing,
    ),
    "sys.synonyms": (
        shape(
            "name:name object_id:int principal_id:int schema_id:int parent_object_id:int type:code type_desc:text "
            "create_date:datetime modify_date:datetime is_ms_shipped:bit is_published:bit is_schema_published:bit "
            "base_object_name:long"
        ),
        nothing,
    ),
    "sys.sequences": (
        shape(
            "name:name object_id:int principal_id:int schema_id:int parent_object_id:int type:code type_desc:text "
            "create_date:datetime modify_date:datetime is_ms_shipped:bit is_published:bit is_schema_published:bit "
            "start_value:big increment:big current_value:big"
        ),
        nothing,
    ),
    "sys.security_policies": (
        shape(
            "name:name object_id:int principal_id:int schema_id:int parent_object_id:int type:code type_desc:text "
            "create_date:datetime modify_date:datetime is_ms_shipped:bit is_enabled:bit is_not_for_replication:bit "
            "uses_database_collation:bit is_schemabinding_enabled:bit"
        ),
        nothing,
    ),
    "sys.security_predicates": (
        shape(
            "object_id:int security_predicate_id:int target_object_id:int predicate_definition:max predicate_type:int "
            "predicate_type_desc:text operation:int operation_desc:text"
        ),
        nothing,
    ),
    "sys.parameters": (
        shape("object_id:int name:name parameter_id:int system_type_id:tiny user_type_id:int max_length:small"),
        nothing,
    ),
    "sys.extended_properties": (
        shape("class:tiny class_desc:text major_id:int minor_id:int name:name value:long"),
        nothing,
    ),
}
