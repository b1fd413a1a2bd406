"""The rows of the catalog views over foreign keys, checks, defaults and computed columns.

Expressions are shown as spelling.py writes them. Sources: the views' pages under
https://learn.microsoft.com/sql/relational-databases/system-catalog-views/
"""

from __future__ import annotations

from collections.abc import Iterator

from emulators.sqlserver.engine.store.catalog import Catalog, ForeignKey, TableEntry
from emulators.sqlserver.engine.views.spelling import spelled
from emulators.sqlserver.engine.views.viewing import Row, Viewpoint, Views, shape

_NAMED_BY_SERVER = ("FK__", "CK__", "DF__", "PK__", "UQ__")


def schema_id(catalog: Catalog, schema: str) -> int:
    return catalog.schemas.get(schema, 1)


def _constraint(catalog: Catalog, entry: TableEntry, name: str, kind: str, text: str) -> Row:
    """The columns that sys.objects has in common with the views of constraints."""
    table = entry.table
    number = entry.constraints.get(name, 0)
    schema = schema_id(catalog, table.schema)
    return name, number, None, schema, table.object_id, kind, text, entry.created, entry.created, 0


def _by_server(name: str) -> int:
    return int(name.startswith(_NAMED_BY_SERVER))


def _untrusted(catalog: Catalog, entry: TableEntry, name: str) -> int:
    return int(entry.constraints.get(name, 0) in catalog.untrusted)


def _foreign_keys(view: Viewpoint) -> Iterator[Row]:
    for entry in view.catalog.tables.values():
        for key in entry.foreign_keys:
            head = _constraint(view.catalog, entry, key.name, "F ", "FOREIGN_KEY_CONSTRAINT")
            actions = (0, "NO_ACTION", 0, "NO_ACTION")
            index = referenced_index(view.catalog, key)
            trust = _untrusted(view.catalog, entry, key.name)
            yield *head, 0, 0, key.referenced_id, index, 0, 0, trust, *actions, _by_server(key.name)


def _foreign_key_columns(view: Viewpoint) -> Iterator[Row]:
    for entry in view.catalog.tables.values():
        for key in entry.foreign_keys:
            pairs = zip(key.column_ids, key.referenced_column_ids, strict=True)
            for place, (mine, other) in enumerate(pairs, 1):
                number = entry.constraints.get(key.name, 0)
                yield number, place, entry.table.object_id, mine, key.referenced_id, other


def _check_constraints(view: Viewpoint) -> Iterator[Row]:
    for entry in view.catalog.tables.values():
        for check in entry.checks:
            head = _constraint(view.catalog, entry, check.name, "C ", "CHECK_CONSTRAINT")
            yield (
                *head,
                0,
                0,
                0,
                _untrusted(view.catalog, entry, check.name),
                check.column_id,
                spelled(check.text),
                _by_server(check.name),
            )


def _computed_columns(view: Viewpoint) -> Iterator[Row]:
    for entry in view.catalog.tables.values():
        for column in entry.table.columns:
            computed = entry.computed.get(column.column_id)
            if computed is not None:
                text, persisted = spelled(computed.text), int(computed.persisted)
                number = entry.table.object_id
                yield number, column.name, column.column_id, text, persisted, 1, int(column.nullable)


def _defaults(view: Viewpoint) -> Iterator[Row]:
    catalog = view.catalog
    for entry in catalog.tables.values():
        for column_id, default in entry.defaults.items():
            yield (
                default.name,
                entry.constraints.get(default.name, 0),
                entry.table.object_id,
                column_id,
                spelled(default.text),
                _by_server(default.name),
                catalog.schemas.get(entry.table.schema, 1),
                "D ",
                "DEFAULT_CONSTRAINT",
            )


def constraint_objects(catalog: Catalog, entry: TableEntry) -> Iterator[Row]:
    """The rows of sys.objects for a table's defaults, checks and foreign keys."""
    for default in entry.defaults.values():
        yield _constraint(catalog, entry, default.name, "D ", "DEFAULT_CONSTRAINT")
    for check in entry.checks:
        yield _constraint(catalog, entry, check.name, "C ", "CHECK_CONSTRAINT")
    for key in entry.foreign_keys:
        yield _constraint(catalog, entry, key.name, "F ", "FOREIGN_KEY_CONSTRAINT")


def referenced_index(catalog: Catalog, key: ForeignKey) -> int:
    """The index id of the primary key or unique key that a foreign key rests on."""
    parent = catalog.tables.get(key.referenced_id)
    wanted = set(key.referenced_column_ids)
    keys = parent.table.keys if parent is not None else ()
    found = sorted((k for k in keys if set(k.column_ids) == wanted), key=lambda k: not k.primary)
    return found[0].index_id if found else 0


VIEWS: Views = {
    "sys.foreign_keys": (
        shape(
            "name:name object_id:int principal_id:int schema_id:int parent_object_id:int type:code type_desc:text "
            "create_date:datetime modify_date:datetime is_ms_shipped:bit is_published:bit is_schema_published:bit "
            "referenced_object_id:int key_index_id:int is_disabled:bit is_not_for_replication:bit "
            "is_not_trusted:bit delete_referential_action:tiny delete_referential_action_desc:text "
            "update_referential_action:tiny update_referential_action_desc:text is_system_named:bit"
        ),
        _foreign_keys,
    ),
    "sys.foreign_key_columns": (
        shape(
            "constraint_object_id:int constraint_column_id:int parent_object_id:int parent_column_id:int "
            "referenced_object_id:int referenced_column_id:int"
        ),
        _foreign_key_columns,
    ),
    "sys.check_constraints": (
        shape(
            "name:name object_id:int principal_id:int schema_id:int parent_object_id:int type:code type_desc:text "
            "create_date:datetime modify_date:datetime is_ms_shipped:bit is_published:bit is_schema_published:bit "
            "is_disabled:bit is_not_trusted:bit parent_column_id:int definition:max is_system_named:bit"
        ),
        _check_constraints,
    ),
    "sys.computed_columns": (
        shape("object_id:int name:name column_id:int definition:max is_persisted:bit is_computed:bit is_nullable:bit"),
        _computed_columns,
    ),
    "sys.default_constraints": (
        shape(
            "name:name object_id:int parent_object_id:int parent_column_id:int definition:max is_system_named:bit "
            "schema_id:int type:code type_desc:text"
        ),
        _defaults,
    ),
}
