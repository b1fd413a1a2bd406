"""The catalog views: sys.databases, sys.tables, sys.columns ... and INFORMATION_SCHEMA. Their columns, and rows made from a catalog.

A view lists the columns that tools ask for, not all of the real ones; a column that is not here is error 207, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulators.sqlserver.collation import SERVER_DEFAULT
from emulators.sqlserver.engine.catalog import Catalog, TableEntry
from emulators.sqlserver.engine.database import StoredDatabase
from emulators.sqlserver.engine.environment import TYPE_IDS, type_id
from emulators.sqlserver.engine.extension import KeyIndex, Table, TableColumn
from emulators.sqlserver.results import Column, SqlError, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.functions import stored_size
from emulators.sqlserver.tsql.types import (
    BIT,
    DATETIME,
    INT,
    SYSNAME,
    character_set,
    collation_shown,
    exact_shape,
    family,
    is_unicode,
)

if TYPE_CHECKING:
    from emulators.sqlserver.engine.session import SqlSession

Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Viewpoint:
    """Who looks, and at what: the session, the databases of the server, the one looked at, and what of its catalog is visible."""

    session: SqlSession
    everyone: Sequence[StoredDatabase]
    here: StoredDatabase
    catalog: Catalog


Rows = Callable[[Viewpoint], Iterator[Row]]
_TINY, _SMALL = SqlType("tinyint"), SqlType("smallint")
_CODE = SqlType("char", 2)
_NAMES = {"text": SqlType("nvarchar", 60)}
_PRECISIONS = {
    "bit": 1,
    "tinyint": 3,
    "smallint": 5,
    "int": 10,
    "bigint": 19,
    "float": 53,
    "real": 24,
    "date": 10,
    "datetime": 23,
    "smalldatetime": 16,
}
_BASIC = {
    "date": (10, 0),
    "time": (8, 7),
    "datetime2": (19, 7),
    "datetimeoffset": (26, 7),
    "datetime": (23, 3),
    "smalldatetime": (16, 0),
}


_KINDS = {
    "name": SYSNAME,
    "int": INT,
    "big": SqlType("bigint"),
    "tiny": _TINY,
    "small": _SMALL,
    "bit": BIT,
    "datetime": DATETIME,
    "text": SqlType("nvarchar", 60),
    "wide": SqlType("nvarchar", 256),
    "long": SqlType("nvarchar", 4000),
    "max": SqlType("nvarchar", MAX),
    "code": _CODE,
    "letter": SqlType("char", 1),
    "four": SqlType("char", 4),
    "sid": SqlType("varbinary", 85),
    "word": SqlType("varchar", 48),
    "number": SqlType("numeric", None, 38, 0),
    "params": SqlType("varchar", 32),
}


def shape(text: str) -> tuple[Column, ...]:
    """Columns written as "name:kind", with the kinds above."""
    named = (item.split(":") for item in text.split())
    return tuple(Column(name, _KINDS[kind]) for name, kind in named)


def _columns(**types: SqlType) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in types.items())


def precision_scale(kind: SqlType) -> tuple[int, int]:
    """sys.columns.precision and scale."""
    if kind.name in ("time", "datetime2", "datetimeoffset"):
        base, scale = _BASIC[kind.name][0], kind.scale or 0
        return base + (scale + 1 if scale else 0), scale
    if kind.name in _BASIC:
        return _BASIC[kind.name]
    if family(kind) == "exact":
        return exact_shape(kind)
    return _PRECISIONS.get(kind.name, 0), 0


def _databases(view: Viewpoint) -> Iterator[Row]:
    for database in view.everyone:
        snapshot = int(database.snapshot_allowed)
        simple = database.name.lower() in ("master", "tempdb", "msdb")
        yield (
            database.name,
            database.database_id,
            None,
            b"\1",
            "2024-01-01 00:00:00.000",
            160,
            database.collation or SERVER_DEFAULT,
            0,
            "MULTI_USER",
            *(0, 0, 0),
            0,
            "ONLINE",
            *(0, 0, 0),
            snapshot,
            "ON" if snapshot else "OFF",
            int(database.read_committed_snapshot),
            3 if simple else 1,
            "SIMPLE" if simple else "FULL",
            2,
            "CHECKSUM",
            *(1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
            *(0, 0, 0, 0, 0, 0, 0, 0, 0),
            0,
            "NOTHING",
            0,
            int(database.cdc_enabled),
            0,
            0,
            "NONE",
            0,
            "DISABLED",
            0,
            0,
        )


def _relations(view: Viewpoint) -> Iterator[TableEntry]:
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


def _object(catalog: Catalog, entry: TableEntry) -> Row:
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
        yield (*_object(catalog, entry), int(entry.tracked), 0, len(entry.table.columns), 0)


def _objects(view: Viewpoint) -> Iterator[Row]:
    catalog = view.catalog
    for entry in catalog.tables.values():
        yield _object(catalog, entry)
        yield from _key_objects(catalog, entry)


def _key_objects(catalog: Catalog, entry: TableEntry) -> Iterator[Row]:
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
        for row in _key_objects(catalog, entry):
            yield (*row, ids[str(row[0])], 0)


def _sys_columns(view: Viewpoint) -> Iterator[Row]:
    for entry in _relations(view):
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
            precision, scale = _BASIC[name][0] + 8, 7
        size = wide.get(name) or (17 if name in ("decimal", "numeric") else stored_size(kind))
        yield name, 231 if name == "sysname" else number, number, 4, size, precision, scale, 1, 0


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
            condition = f"({index.filter.text})" if index.filter is not None else None
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


def _identity_columns(view: Viewpoint) -> Iterator[Row]:
    here, catalog = view.here, view.catalog
    for entry in catalog.tables.values():
        for column in entry.table.columns:
            if column.identity and entry.identity is not None:
                last = here.identities.get(entry.table.object_id)
                yield entry.table.object_id, column.name, column.column_id, *entry.identity, last, 1


def _defaults(view: Viewpoint) -> Iterator[Row]:
    catalog = view.catalog
    for entry in catalog.tables.values():
        for column_id, default in entry.defaults.items():
            yield (
                default.name,
                entry.constraints.get(default.name, 0),
                entry.table.object_id,
                column_id,
                f"({default.text})",
                0,
                catalog.schemas.get(entry.table.schema, 1),
                "D ",
                "DEFAULT_CONSTRAINT",
            )


def _info_tables(view: Viewpoint) -> Iterator[Row]:
    here, catalog = view.here, view.catalog
    for entry in catalog.tables.values():
        yield here.name, entry.table.schema, entry.table.name, "BASE TABLE"
    for found in catalog.views.values():
        yield here.name, found.schema, found.name, "VIEW"


def _info_columns(view: Viewpoint) -> Iterator[Row]:
    here = view.here
    for entry in _relations(view):
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
                f"({default.text})" if default else None,
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


def _info_constraints(view: Viewpoint) -> Iterator[Row]:
    here, catalog = view.here, view.catalog
    for entry, key in _keys_of(catalog):
        kind = "PRIMARY KEY" if key.primary else "UNIQUE"
        yield here.name, entry.table.schema, key.name, here.name, entry.table.schema, entry.table.name, kind


def _info_key_columns(view: Viewpoint) -> Iterator[Row]:
    here, catalog = view.here, view.catalog
    for entry, key in _keys_of(catalog):
        names = {column.column_id: column.name for column in entry.table.columns}
        for position, column_id in enumerate(key.column_ids, 1):
            table = entry.table
            yield here.name, table.schema, key.name, here.name, table.schema, table.name, names[column_id], position


_TEXT = _NAMES["text"]
_OBJECT = {
    "name": SYSNAME,
    "object_id": INT,
    "principal_id": INT,
    "schema_id": INT,
    "parent_object_id": INT,
    "type": _CODE,
    "type_desc": _TEXT,
    "create_date": DATETIME,
    "modify_date": DATETIME,
    "is_ms_shipped": BIT,
}
_CONSTRAINT = {"CONSTRAINT_CATALOG": SYSNAME, "CONSTRAINT_SCHEMA": SYSNAME, "CONSTRAINT_NAME": SYSNAME}
_TABLE = {"TABLE_CATALOG": SYSNAME, "TABLE_SCHEMA": SYSNAME, "TABLE_NAME": SYSNAME}

VIEWS: dict[str, tuple[tuple[Column, ...], Rows]] = {
    "sys.databases": (
        shape(
            "name:name database_id:int source_database_id:int owner_sid:sid create_date:datetime "
            "compatibility_level:tiny collation_name:name user_access:tiny user_access_desc:text is_read_only:bit "
            "is_auto_close_on:bit is_auto_shrink_on:bit state:tiny state_desc:text is_in_standby:bit "
            "is_cleanly_shutdown:bit is_supplemental_logging_enabled:bit snapshot_isolation_state:tiny "
            "snapshot_isolation_state_desc:text is_read_committed_snapshot_on:bit recovery_model:tiny "
            "recovery_model_desc:text page_verify_option:tiny page_verify_option_desc:text "
            "is_auto_create_stats_on:bit is_auto_create_stats_incremental_on:bit is_auto_update_stats_on:bit "
            "is_auto_update_stats_async_on:bit is_ansi_null_default_on:bit is_ansi_nulls_on:bit is_ansi_padding_on:bit "
            "is_ansi_warnings_on:bit is_arithabort_on:bit is_concat_null_yields_null_on:bit is_numeric_roundabort_on:bit "
            "is_quoted_identifier_on:bit is_recursive_triggers_on:bit is_cursor_close_on_commit_on:bit "
            "is_local_cursor_default:bit is_fulltext_enabled:bit is_trustworthy_on:bit is_db_chaining_on:bit "
            "is_parameterization_forced:bit is_query_store_on:bit is_published:bit is_subscribed:bit "
            "is_merge_published:bit log_reuse_wait:tiny log_reuse_wait_desc:text is_distributor:bit is_cdc_enabled:bit "
            "is_encrypted:bit containment:tiny containment_desc:text delayed_durability:int "
            "delayed_durability_desc:text is_accelerated_database_recovery_on:bit is_broker_enabled:bit"
        ),
        _databases,
    ),
    "sys.schemas": (_columns(name=SYSNAME, schema_id=INT, principal_id=INT), _schemas),
    "sys.tables": (
        _columns(
            **_OBJECT, is_tracked_by_cdc=BIT, temporal_type=_TINY, max_column_id_used=INT, is_memory_optimized=BIT
        ),
        _tables,
    ),
    "sys.objects": (_columns(**_OBJECT), _objects),
    "sys.key_constraints": (_columns(**_OBJECT, unique_index_id=INT, is_system_named=BIT), _key_constraints),
    "sys.columns": (
        _columns(
            object_id=INT,
            name=SYSNAME,
            column_id=INT,
            system_type_id=_TINY,
            user_type_id=INT,
            max_length=_SMALL,
            precision=_TINY,
            scale=_TINY,
            collation_name=SYSNAME,
            is_nullable=BIT,
            is_rowguidcol=BIT,
            is_identity=BIT,
            is_computed=BIT,
            is_sparse=BIT,
            default_object_id=INT,
            rule_object_id=INT,
            is_xml_document=BIT,
            is_ansi_padded=BIT,
            generated_always_type=_TINY,
            generated_always_type_desc=_TEXT,
        ),
        _sys_columns,
    ),
    "sys.types": (
        _columns(
            name=SYSNAME,
            system_type_id=_TINY,
            user_type_id=INT,
            schema_id=INT,
            max_length=_SMALL,
            precision=_TINY,
            scale=_TINY,
            is_nullable=BIT,
            is_user_defined=BIT,
        ),
        _types,
    ),
    "sys.indexes": (
        _columns(
            object_id=INT,
            name=SYSNAME,
            index_id=INT,
            type=_TINY,
            type_desc=_TEXT,
            is_unique=BIT,
            is_primary_key=BIT,
            is_unique_constraint=BIT,
            is_disabled=BIT,
            filter_definition=SqlType("nvarchar", MAX),
            has_filter=BIT,
            data_space_id=INT,
            fill_factor=_TINY,
            ignore_dup_key=BIT,
            is_padded=BIT,
            is_hypothetical=BIT,
            allow_row_locks=BIT,
            allow_page_locks=BIT,
        ),
        _indexes,
    ),
    "sys.index_columns": (
        _columns(
            object_id=INT,
            index_id=INT,
            index_column_id=INT,
            column_id=INT,
            key_ordinal=_TINY,
            partition_ordinal=_TINY,
            is_descending_key=BIT,
            is_included_column=BIT,
        ),
        _index_columns,
    ),
    "sys.identity_columns": (
        _columns(
            object_id=INT,
            name=SYSNAME,
            column_id=INT,
            seed_value=SqlType("bigint"),
            increment_value=SqlType("bigint"),
            last_value=SqlType("bigint"),
            is_identity=BIT,
        ),
        _identity_columns,
    ),
    "sys.default_constraints": (
        _columns(
            name=SYSNAME,
            object_id=INT,
            parent_object_id=INT,
            parent_column_id=INT,
            definition=SqlType("nvarchar", MAX),
            is_system_named=BIT,
            schema_id=INT,
            type=_CODE,
            type_desc=_TEXT,
        ),
        _defaults,
    ),
    "information_schema.tables": (_columns(**_TABLE, TABLE_TYPE=SqlType("varchar", 10)), _info_tables),
    "information_schema.columns": (
        _columns(
            **_TABLE,
            COLUMN_NAME=SYSNAME,
            ORDINAL_POSITION=INT,
            COLUMN_DEFAULT=SqlType("nvarchar", 4000),
            IS_NULLABLE=SqlType("varchar", 3),
            DATA_TYPE=SYSNAME,
            CHARACTER_MAXIMUM_LENGTH=INT,
            CHARACTER_OCTET_LENGTH=INT,
            NUMERIC_PRECISION=_TINY,
            NUMERIC_PRECISION_RADIX=_SMALL,
            NUMERIC_SCALE=INT,
            DATETIME_PRECISION=_SMALL,
            CHARACTER_SET_NAME=SYSNAME,
            COLLATION_NAME=SYSNAME,
        ),
        _info_columns,
    ),
    "information_schema.table_constraints": (
        _columns(**_CONSTRAINT, **_TABLE, CONSTRAINT_TYPE=SqlType("varchar", 11)),
        _info_constraints,
    ),
    "information_schema.key_column_usage": (
        _columns(**_CONSTRAINT, **_TABLE, COLUMN_NAME=SYSNAME, ORDINAL_POSITION=INT),
        _info_key_columns,
    ),
}
"""Lower-case schema.name -> columns, and what makes the rows."""
