"""The rows of the catalog views over constraints, computed columns and users' views, for sys and for INFORMATION_SCHEMA.

Expressions are shown as they were written; the real server shows them in a form of its own. Sources: the views' pages under
https://learn.microsoft.com/sql/relational-databases/system-catalog-views/ and .../system-information-schema-views/
"""

from __future__ import annotations

from collections.abc import Iterator

from emulators.sqlserver.engine.catalog import Catalog, ForeignKey, TableEntry
from emulators.sqlserver.engine.catalog import View as UserView
from emulators.sqlserver.engine.views import Row, Viewpoint

_NAMED_BY_SERVER = ("FK__", "CK__", "DF__", "PK__", "UQ__")
_LONGEST_DEFINITION = 4000


def _schema_id(catalog: Catalog, schema: str) -> int:
    return catalog.schemas.get(schema, 1)


def _constraint(catalog: Catalog, entry: TableEntry, name: str, kind: str, text: str) -> Row:
    """The columns that sys.objects has in common with the views of constraints."""
    table = entry.table
    number = entry.constraints.get(name, 0)
    schema = _schema_id(catalog, table.schema)
    return name, number, None, schema, table.object_id, kind, text, entry.created, entry.created, 0


def _by_server(name: str) -> int:
    return int(name.startswith(_NAMED_BY_SERVER))


def foreign_keys(view: Viewpoint) -> Iterator[Row]:
    for entry in view.catalog.tables.values():
        for key in entry.foreign_keys:
            head = _constraint(view.catalog, entry, key.name, "F ", "FOREIGN_KEY_CONSTRAINT")
            actions = (0, "NO_ACTION", 0, "NO_ACTION")
            index = _referenced_index(view.catalog, key)
            yield *head, 0, 0, key.referenced_id, index, 0, 0, 0, *actions, _by_server(key.name)


def foreign_key_columns(view: Viewpoint) -> Iterator[Row]:
    for entry in view.catalog.tables.values():
        for key in entry.foreign_keys:
            pairs = zip(key.column_ids, key.referenced_column_ids, strict=True)
            for place, (mine, other) in enumerate(pairs, 1):
                number = entry.constraints.get(key.name, 0)
                yield number, place, entry.table.object_id, mine, key.referenced_id, other


def check_constraints(view: Viewpoint) -> Iterator[Row]:
    for entry in view.catalog.tables.values():
        for check in entry.checks:
            head = _constraint(view.catalog, entry, check.name, "C ", "CHECK_CONSTRAINT")
            yield *head, 0, 0, 0, 0, check.column_id, check.text, _by_server(check.name)


def computed_columns(view: Viewpoint) -> Iterator[Row]:
    for entry in view.catalog.tables.values():
        for column in entry.table.columns:
            computed = entry.computed.get(column.column_id)
            if computed is not None:
                text, persisted = f"({computed.text})", int(computed.persisted)
                number = entry.table.object_id
                yield number, column.name, column.column_id, text, persisted, 1, int(column.nullable)


def constraint_objects(catalog: Catalog, entry: TableEntry) -> Iterator[Row]:
    """The rows of sys.objects for a table's defaults, checks and foreign keys."""
    for default in entry.defaults.values():
        yield _constraint(catalog, entry, default.name, "D ", "DEFAULT_CONSTRAINT")
    for check in entry.checks:
        yield _constraint(catalog, entry, check.name, "C ", "CHECK_CONSTRAINT")
    for key in entry.foreign_keys:
        yield _constraint(catalog, entry, key.name, "F ", "FOREIGN_KEY_CONSTRAINT")


def view_object(catalog: Catalog, view: UserView) -> Row:
    """The row of sys.objects for a user's view."""
    schema = _schema_id(catalog, view.schema)
    return view.name, view.object_id, None, schema, 0, "V ", "VIEW", view.created, view.created, 0


def user_views(view: Viewpoint) -> Iterator[Row]:
    for found in view.catalog.views.values():
        yield *view_object(view.catalog, found), 0, 0, 0, 0


def all_views(view: Viewpoint) -> Iterator[Row]:
    for row in user_views(view):
        yield row[:-1]


def modules(view: Viewpoint) -> Iterator[Row]:
    for found in view.catalog.views.values():
        yield found.object_id, found.text, 1, 1, 0


# -- INFORMATION_SCHEMA


def info_views(view: Viewpoint) -> Iterator[Row]:
    for found in view.catalog.views.values():
        text = found.text if len(found.text) <= _LONGEST_DEFINITION else None
        yield view.here.name, found.schema, found.name, text, "NONE", "NO"


def info_constraints(view: Viewpoint) -> Iterator[Row]:
    """CHECK and FOREIGN KEY in TABLE_CONSTRAINTS."""
    here = view.here.name
    for entry in view.catalog.tables.values():
        schema, table = entry.table.schema, entry.table.name
        for name, kind in (
            *((check.name, "CHECK") for check in entry.checks),
            *((key.name, "FOREIGN KEY") for key in entry.foreign_keys),
        ):
            yield here, schema, name, here, schema, table, kind


def info_key_columns(view: Viewpoint) -> Iterator[Row]:
    """The columns of foreign keys in KEY_COLUMN_USAGE."""
    here = view.here.name
    for entry in view.catalog.tables.values():
        table = entry.table
        names = {column.column_id: column.name for column in table.columns}
        for key in entry.foreign_keys:
            for place, number in enumerate(key.column_ids, 1):
                yield here, table.schema, key.name, here, table.schema, table.name, names[number], place


def info_references(view: Viewpoint) -> Iterator[Row]:
    here = view.here.name
    for entry in view.catalog.tables.values():
        for key in entry.foreign_keys:
            parent = view.catalog.tables.get(key.referenced_id)
            if parent is None:
                continue
            index = _referenced_index(view.catalog, key)
            unique = next((k.name for k in parent.table.keys if k.index_id == index), None)
            mine = (here, entry.table.schema, key.name)
            yield *mine, here, parent.table.schema, unique, "SIMPLE", "NO ACTION", "NO ACTION"


def info_checks(view: Viewpoint) -> Iterator[Row]:
    for entry in view.catalog.tables.values():
        for check in entry.checks:
            yield view.here.name, entry.table.schema, check.name, check.text


def _referenced_index(catalog: Catalog, key: ForeignKey) -> int:
    """The index id of the primary key or unique key that a foreign key rests on."""
    parent = catalog.tables.get(key.referenced_id)
    wanted = set(key.referenced_column_ids)
    keys = parent.table.keys if parent is not None else ()
    found = sorted((k for k in keys if set(k.column_ids) == wanted), key=lambda k: not k.primary)
    return found[0].index_id if found else 0
