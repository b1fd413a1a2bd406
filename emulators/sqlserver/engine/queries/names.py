"""Finds what names in a query mean, for one session: tables and views of its database and others, functions of the extension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from emulators.sqlserver.collation import every
from emulators.sqlserver.engine.extension import TableFunction
from emulators.sqlserver.engine.functions.properties import SERVER_NAME
from emulators.sqlserver.engine.queries.first_result_set import first_result_set
from emulators.sqlserver.engine.queries.log_stats import log_stats
from emulators.sqlserver.engine.queries.refusals import refused_scalar_function, refused_table_function, refused_view
from emulators.sqlserver.engine.queries.table_functions import built_in
from emulators.sqlserver.engine.session_ports import DatabaseAccess
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.engine.views.register import VIEWS
from emulators.sqlserver.results import Column, SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import undeclared_table, unknown_database, unknown_server, unsupported
from emulators.sqlserver.tsql.planning.plans import ELSEWHERE, Source
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.statements import Name
from emulators.sqlserver.tsql.values.text_order import Fold
from emulators.sqlserver.tsql.values.types import SYSNAME, collated

FUNCTION = "function:"
"""How `Source.view` marks a table function."""
EXTENSION = "extension:"
"""How it marks a system view of the extension."""

HELP_COLLATIONS = TableFunction(
    0,
    (Column("name", SYSNAME, False), Column("description", SqlType("nvarchar", 1000))),
    lambda context, arguments: ((collation.name, collation.description) for collation in every()),
)
"""https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-helpcollations-transact-sql"""


def local(name: Name) -> Name:
    """A name of four parts without that of the server. Raises 7202: there are no linked servers."""
    if name[0] and name[0].upper() != SERVER_NAME:
        raise unknown_server(name[0])
    return name[1:]


class SessionNames:
    """`home`: the database whose connection runs the query; tables of others are copied to it when it runs (runner.py).

    `foreign`: whether another database was named, so that a plan must not be kept. `touched`: the databases of all tables."""

    def __init__(self, session: DatabaseAccess, home: StoredDatabase | None = None, exempt: str = "") -> None:
        self.session = session
        self.home = home or session.current()
        self.foreign = False
        self.touched: dict[str, StoredDatabase] = {}
        self.exempt = exempt
        """Name of a table whose rows are changed without being read: it needs no SELECT permission."""

    @property
    def collation(self) -> str:
        return self.session.current().collation

    @property
    def fold(self) -> Fold:
        return self.session.current().fold

    def database(self, name: Name) -> StoredDatabase:
        """The database that a table's name points to. Raises 911, and 7202 for any server but this one."""
        if len(name) > 3:
            name = local(name)
        if name and name[-1][:1] in ("#", "@"):
            if name[-1].startswith("##"):
                raise unsupported("a global temporary table")
            return self.session.private(name[-1][0])
        if len(name) < 3 or not name[0]:
            return self.session.current()
        found = self.session.engine.find(name[0])
        if found is None:
            raise unknown_database(name[0])
        self.foreign = self.foreign or found is not self.session.current()
        self.session.rights(found).require_entry()
        if found is not self.session.current():
            self.session.admitted(found)
        return found

    def source(self, name: Name) -> Source | None:
        database = self.database(name)
        schema = name[-2] if len(name) > 1 and name[-2] else "dbo"
        entry = database.catalog_for(self.session).find(schema, name[-1])
        if entry is not None:
            self.touched[database.name] = database
            denied: frozenset[str] = frozenset()
            if not self.exempt or self.fold(name[-1]) != self.fold(self.exempt):
                denied = self.session.rights(database).require_select(entry, database.catalog_for(self.session))
            table = entry.table
            columns = tuple(Column(c.name, c.type, c.nullable, c.identity) for c in table.columns)
            where = storage.storage_name(table)
            computed = tuple(
                (at, entry.computed[c.column_id].value) for at, c in enumerate(table.columns) if c.computed
            )
            here = (where, "") if database is self.home else ("", f"{ELSEWHERE}{where}")
            rowid = storage.rowid_name(table)
            indexes = tuple(index.name for index in table.all_indexes())
            return Source(database.name, table.schema, table.name, columns, *here, rowid, computed, denied, indexes)
        if name[-1][:1] == "@":
            raise undeclared_table(name[-1])
        view = f"{schema}.{name[-1]}".lower()
        real = view.upper() if schema.lower() == "information_schema" else view
        if self.fold(f"{schema}.{name[-1]}") != self.fold(real):
            return None
        if view in VIEWS:
            return Source(database.name, schema, name[-1], self._made(VIEWS[view][0]), "", view)
        offered = self._offered()
        for key in (view, f"{database.name.lower()}.{view}"):
            if key in offered:
                return Source(
                    database.name, schema, name[-1], self._made(offered[key].columns), "", f"{EXTENSION}{key}"
                )
        refusal = refused_view(database.name.lower(), schema.lower(), name[-1].lower())
        if refusal is not None and database.catalog_for(self.session).view(schema, name[-1]) is None:
            raise refusal
        return None

    def _made(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """The text of system views and functions has the database's collation, where no captured column gives it another."""
        if not self.collation:
            return tuple(columns)
        return tuple(
            column if column.type.collation else replace(column, type=collated(column.type, self.collation))
            for column in columns
        )

    def view(self, name: Name) -> tuple[Fragment, tuple[str, ...]] | None:
        database = self.database(name)
        schema = name[-2] if len(name) > 1 and name[-2] else "dbo"
        found = database.catalog_for(self.session).view(schema, name[-1])
        if found is None:
            return None
        if database is not self.session.current():
            raise unsupported("a view of another database")
        return found.query, found.columns

    def _offered(self) -> Mapping[str, TableFunction]:
        """The extension's views; an extension of before they were asked for has none."""
        offer: Callable[[], Mapping[str, TableFunction]] | None = getattr(self.session.engine.extension, "views", None)
        return offer() if offer is not None else {}

    def extension_view(self, key: str) -> TableFunction | None:
        return self._offered().get(key.removeprefix(EXTENSION))

    def table_function(self, name: Name, arguments: int) -> Source | None:
        database = self.database(name)
        schema = name[-2] if len(name) > 1 and name[-2] else "dbo"
        found = self.find_function(database, schema, name[-1], arguments)
        if found is None:
            refusal = refused_table_function(schema.lower(), name[-1].lower())
            if refusal is not None:
                raise refusal
            return None
        if arguments != found.arguments:
            text = (
                f"An insufficient number of arguments were supplied for the procedure or function {schema}.{name[-1]}."
                if arguments < found.arguments
                else f"Procedure or function {schema}.{name[-1]} has too many arguments specified."
            )
            raise SqlError(313 if arguments < found.arguments else 8144, text, 16, 3)
        return Source(database.name, schema, name[-1], self._made(found.columns), "", f"{FUNCTION}{schema}.{name[-1]}")

    def find_function(self, database: StoredDatabase, schema: str, name: str, arguments: int) -> TableFunction | None:
        """`arguments`: their number, which tells the forms of a built-in function apart."""
        found = built_in(schema.lower(), name.lower(), arguments)
        if found is not None:
            return found
        if schema.lower() in ("dbo", "sys") and database.fold(name) == database.fold("fn_helpcollations"):
            return HELP_COLLATIONS
        if (schema.lower(), name.lower()) == ("sys", "dm_db_log_stats"):
            return log_stats(self.session)
        if (schema.lower(), name.lower()) == ("sys", "dm_exec_describe_first_result_set"):
            return first_result_set(SessionNames(self.session))
        extension = self.session.engine.extension
        return None if extension is None else extension.table_function(database, schema, name)

    def scalar_function(self, name: Name, arguments: int) -> tuple[str, SqlType] | None:
        if len(name) < 2:
            return None
        extension = self.session.engine.extension
        database = self.database(name)
        key = f"{name[-2]}.{name[-1]}".lower()
        found = extension.scalar_functions().get(key) if extension is not None else None
        if found is None:
            refusal = refused_scalar_function(name[-2].lower(), name[-1].lower())
            if refusal is not None:
                raise refusal
            return None
        if arguments != found.arguments:
            text = f"An insufficient number of arguments were supplied for the procedure or function {key}."
            raise (
                SqlError(313, text, 16, 2)
                if arguments < found.arguments
                else SqlError(8144, f"Procedure or function {key} has too many arguments specified.", 16, 2)
            )
        return f"{database.name if database is not self.session.current() else ''}|{key}", found.type
