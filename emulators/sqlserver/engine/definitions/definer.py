"""Runs DDL inside the open write transaction: checks, new catalog, SQLite's side, the observer. Views and schemas stand here.

The rest is in layers below: defining.py, indexes.py, tables.py, alterations.py.
"""

from __future__ import annotations

from emulators.sqlserver.engine.definitions.alterations import TableAlterations
from emulators.sqlserver.engine.definitions.defining import NO_SCHEMA, schema_of
from emulators.sqlserver.engine.store.catalog import View
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading import definitions as df

_LASTING = frozenset({"dbo", "guest", "sys", "INFORMATION_SCHEMA"})
"""Schemas of every database, which nobody drops."""


class Definer(TableAlterations):
    """DDL of one statement in one database."""

    # -- views

    def create_view(self, ddl: df.CreateView) -> None:
        schema, name = self.catalog.schema(schema_of(ddl.name)), ddl.name[-1]
        if schema is None:
            raise SqlError(2760, NO_SCHEMA.format(schema_of(ddl.name)), 16)
        known = self.catalog.view(schema, name) if ddl.replaces else None
        if known is None and ddl.alters:
            raise errors.invalid_object(".".join(ddl.name))
        if known is None and self.catalog.has_object(schema, name):
            raise errors.object_exists(name)
        columns = tuple(column.name for column in self.session.runner.plan(ddl.query).columns)
        if ddl.columns and len(ddl.columns) != len(columns):
            more = "more" if len(ddl.columns) > len(columns) else "fewer"
            text = f"View or function '{name}' has {more} column names specified than columns defined."
            raise SqlError(4502, text, 16)
        columns = ddl.columns or columns
        for position, column in enumerate(columns, 1):
            if not column:
                text = f"Create View or Function failed because no column name was specified for column {position}."
                raise SqlError(4511, text, 16)
        object_id = known.object_id if known is not None else self.new_id()
        view = View(object_id, schema, name, ddl.text, ddl.query, columns, self.database.now())
        self.database.change(self.catalog.with_view(view))

    def drop_view(self, ddl: df.DropView) -> None:
        for name in ddl.names:
            view = self.catalog.view(schema_of(name), name[-1])
            if view is not None:
                self.database.change(self.catalog.without_view(view))
            elif not ddl.if_exists:
                raise errors.cannot_drop("view", ".".join(name))

    # -- schemas

    def create_schema(self, ddl: df.CreateSchema) -> None:
        if self.catalog.schema(ddl.name) is not None:
            raise errors.object_exists(ddl.name)
        self.database.change(self.catalog.with_schema(ddl.name))

    def drop_schema(self, ddl: df.DropSchema) -> None:
        schema = self.catalog.schema(ddl.name)
        if schema is None:
            if ddl.if_exists:
                return
            text = f"Cannot drop the schema '{ddl.name}', because it does not exist or you do not have permission."
            raise SqlError(15151, text, 16)
        if schema in _LASTING:
            raise SqlError(15150, f"Cannot drop the schema '{schema}'.", 16)
        tables = [entry.table.name for entry in self.catalog.tables.values() if entry.table.schema == schema]
        views = [view.name for view in self.catalog.views.values() if view.schema == schema]
        user = next(iter((*tables, *views)), None)
        if user is not None:
            text = f"Cannot drop schema '{schema}' because it is being referenced by object '{user}'."
            raise SqlError(3729, text, 16)
        self.database.change(self.catalog.without_schema(schema))
