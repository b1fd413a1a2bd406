"""What one session may do in one database, asked and enforced with Microsoft's errors: 229, 230, 262, 297, 300, 916.

Every check passes at once for members of sysadmin. Source: https://learn.microsoft.com/sql/relational-databases/errors-events/
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from zlib import crc32

from emulators.sqlserver.engine.catalog import Catalog, TableEntry
from emulators.sqlserver.engine.security import DatabaseSecurity
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql import definitions as df
from emulators.sqlserver.tsql import statements as st
from emulators.sqlserver.tsql.errors import permission_denied
from emulators.sqlserver.tsql.statements import Name, Statement

if TYPE_CHECKING:
    from emulators.sqlserver.engine.database import StoredDatabase
    from emulators.sqlserver.engine.session import SqlSession

_SEEN_THROUGH = ("SELECT", "INSERT", "UPDATE", "DELETE", "ALTER", "REFERENCES", "VIEW DEFINITION")
SERVER_STATE_VIEWS = frozenset(
    ("sys.dm_exec_connections", "sys.dm_exec_requests", "sys.dm_tran_active_transactions", "sys.dm_server_services")
)


def cannot_enter(login: str, database: str) -> SqlError:
    text = f'The server principal "{login}" is not able to access the database "{database}" under the current security context.'
    return SqlError(916, text, 14)


def denied_in_database(permission: str, database: str) -> SqlError:
    return SqlError(262, f"{permission} permission denied in database '{database}'.", 14)


class DatabaseRights:
    """Implements extension.Rights for one session in one database."""

    def __init__(self, session: SqlSession, database: StoredDatabase) -> None:
        self._session = session
        self._database = database
        self._security = session.engine.security
        self.login = session.login_request.user
        # The databases of a session's temporary tables and table variables are its own.
        self.everything = database.name[:1] in ("#", "@") or self._security.is_sysadmin(self.login)

    @property
    def user(self) -> str:
        """Raises 916."""
        if self.everything:
            return "dbo"
        found = self._known().user_of(self.login)
        if found is None:
            raise cannot_enter(self.login, self._database.name)
        return found.name

    def is_member(self, role: str) -> bool:
        known = self._known()
        if self.everything or self.user.lower() == "dbo":
            return True
        groups = known.groups(self.user)
        return role.lower() in groups or "db_owner" in groups

    def allows(self, permission: str, schema_id: int = 0, object_id: int = 0) -> bool:
        if self.everything:
            return True
        known = self._known()
        if permission == "VIEW DATABASE STATE" and self._security.server_allows(self.login, "VIEW SERVER STATE"):
            return True
        return known.allows(self.user, permission, schema_id, object_id)

    def allows_on(self, permission: str, entry: TableEntry, catalog: Catalog) -> bool:
        table = entry.table
        return self.everything or self.allows(permission, catalog.schemas.get(table.schema, 0), table.object_id)

    def ensure_role(self, role: str) -> None:
        known = self._known()
        with self._security.guard:
            if role.lower() not in known.principals:
                known.add(role, role=True)
                self._security.changed()

    def has_principal(self, name: str) -> bool:
        return name.lower() in self._known().principals

    def create_user(self, name: str) -> None:
        with self._security.guard:
            self._known().add(name, schema=name)
            self._security.changed()

    def drop_user(self, name: str) -> None:
        with self._security.guard:
            if self.has_principal(name):
                self._known().remove(name)
                self._security.changed()

    def _known(self) -> DatabaseSecurity:
        return self._security.of(self._database.database_id, self._database.name)

    def may_select(self, schema: str, table: str) -> bool:
        catalog = self._database.catalog_for(self._session)
        entry = catalog.find(schema, table)
        return entry is not None and not self._denied_columns(entry, catalog)

    def _denied_columns(self, entry: TableEntry, catalog: Catalog) -> frozenset[str]:
        """Names of the columns that may not be read. What is said of a column goes before what is said of its table, a DENY too:
        https://learn.microsoft.com/sql/t-sql/statements/grant-object-permissions-transact-sql
        """
        if self.everything or self.user.lower() == "dbo":
            return frozenset()
        said = self._known().columns(self.user, "SELECT", entry.table.object_id)
        whole = self.allows_on("SELECT", entry, catalog)
        return frozenset(c.name for c in entry.table.columns if not said.get(c.column_id, whole))

    def require_select(self, entry: TableEntry, catalog: Catalog) -> frozenset[str]:
        """The columns that may not be read all the same: they are error 230 where they are named. Raises 229."""
        denied = self._denied_columns(entry, catalog)
        if len(denied) == len(entry.table.columns):
            self.require_on("SELECT", entry, catalog)
        return denied

    def require_on(self, permission: str, entry: TableEntry, catalog: Catalog) -> None:
        """Raises 229."""
        if not self.allows_on(permission, entry, catalog):
            raise permission_denied(permission, entry.table.name, self._database.name, entry.table.schema)

    def require(self, permission: str) -> None:
        """Raises 262."""
        if not self.allows(permission):
            raise denied_in_database(permission, self._database.name)

    def sees(self, entry: TableEntry, catalog: Catalog) -> bool:
        """Metadata is visible to whoever has any permission on the object."""
        if any(self.allows_on(permission, entry, catalog) for permission in _SEEN_THROUGH):
            return True
        return any(self._known().columns(self.user, "SELECT", entry.table.object_id).values())

    def visible(self, catalog: Catalog) -> Catalog:
        """The catalog with what the login may see: https://learn.microsoft.com/sql/relational-databases/security/metadata-visibility-configuration"""
        if self.everything:
            return catalog
        tables = {number: entry for number, entry in catalog.tables.items() if self.sees(entry, catalog)}
        names = {name: number for name, number in catalog.names.items() if number in tables}
        return replace(catalog, tables=tables, names=names)


def check_entry(session: SqlSession, database: StoredDatabase) -> None:
    """Raises 916."""
    login = session.login_request.user
    if not session.engine.security.may_enter(login, database.database_id, database.name):
        raise cannot_enter(login, database.name)


def check_view(session: SqlSession, database: StoredDatabase, view: str) -> None:
    """The dynamic management views want VIEW SERVER STATE or VIEW DATABASE STATE, tables of msdb SELECT. Raises 229, 262, 300."""
    rights = session.rights(database)
    if rights.everything:
        return
    if view in SERVER_STATE_VIEWS and not session.engine.security.server_allows(rights.login, "VIEW SERVER STATE"):
        raise SqlError(300, "VIEW SERVER STATE permission was denied on object 'server', database 'master'.", 14)
    if view.startswith("sys.dm_cdc_"):
        rights.require("VIEW DATABASE STATE")
    if view.startswith("msdb."):
        _, schema, table = view.split(".")
        schema_id = database.catalog_for(session).schemas.get(schema, 0)
        if not rights.allows("SELECT", schema_id, offered_object_id(view)):
            raise permission_denied("SELECT", table, database.name, schema)


def offered_object_id(view: str) -> int:
    """A number for a table of msdb, which no catalog holds, so that rights on it can be given; below 0 as those of system objects."""
    return -1 - crc32(view.encode()) % 2**30


def check_statement(session: SqlSession, statement: Statement) -> None:
    """What a statement's target asks for, before it runs. Raises 229, 262, 1088, 2760, 3701, 15151."""
    rights = session.rights(session.current())
    if rights.everything:
        return
    if isinstance(statement, st.Use):
        found = session.engine.find(statement.database)
        if found is not None:
            check_entry(session, found)
    elif isinstance(statement, st.Kill):
        raise SqlError(6102, "User does not have permission to use the KILL statement.", 14)
    elif isinstance(statement, st.Insert):
        _require(session, statement.table, "INSERT")
    elif isinstance(statement, st.Update | st.Delete):
        _, source = session.runner.plan_rows(statement.query, statement.target, statement.has_from)
        name = (source.database, source.schema, source.name)
        _require(session, name, "UPDATE" if isinstance(statement, st.Update) else "DELETE")
    elif isinstance(statement, st.Merge):
        for permission in sorted({clause.action.upper() for clause in statement.clauses}):
            _require(session, statement.table, permission)
    elif isinstance(statement, df.Definition | df.CreateDatabase | df.AlterDatabase | df.DropDatabase):
        _check_definition(session, statement)


def _place(session: SqlSession, name: Name) -> tuple[DatabaseRights, Catalog, TableEntry | None]:
    from emulators.sqlserver.engine.names import SessionNames

    database = SessionNames(session).database(name)
    catalog = database.catalog_for(session)
    return session.rights(database), catalog, catalog.find(name[-2] if len(name) > 1 and name[-2] else "dbo", name[-1])


def _require(session: SqlSession, name: Name, permission: str) -> None:
    rights, catalog, entry = _place(session, name)
    if entry is not None:
        rights.require_on(permission, entry, catalog)


def _check_definition(session: SqlSession, statement: Statement) -> None:
    rights = session.rights(session.current())
    if isinstance(statement, df.CreateTable):
        placed, catalog, _ = _place(session, statement.table)
        placed.require("CREATE TABLE")
        schema = statement.table[-2] if len(statement.table) > 1 and statement.table[-2] else "dbo"
        number = next((n for s, n in catalog.schemas.items() if s.lower() == schema.lower()), 0)
        if not placed.allows("ALTER", number):
            text = (
                f'The specified schema name "{schema}" either does not exist or you do not have permission to use it.'
            )
            raise SqlError(2760, text, 16)
    elif isinstance(statement, df.CreateSchema | df.DropSchema):
        rights.require("CREATE SCHEMA")
    elif isinstance(statement, df.CreateDatabase):
        if not session.engine.security.server_allows(rights.login, "CREATE DATABASE"):
            raise denied_in_database("CREATE DATABASE", "master")
    elif isinstance(statement, df.AlterDatabase):
        if not rights.is_member("db_owner"):
            text = f"User does not have permission to alter database '{statement.name}', the database does not exist, or the database is not in a state that allows access checks."  # noqa: E501
            raise SqlError(5011, text, 14)
    elif isinstance(statement, df.DropDatabase):
        raise SqlError(
            3701,
            f"Cannot drop the database '{statement.names[0]}', because it does not exist or you do not have permission.",
            11,
        )
    else:
        for name in getattr(statement, "tables", None) or (getattr(statement, "table", ()),):
            _require_alter(session, name, isinstance(statement, df.DropTable))


def _require_alter(session: SqlSession, name: Name, dropping: bool) -> None:
    rights, catalog, entry = _place(session, name)
    if entry is None or rights.allows_on("ALTER", entry, catalog):
        return
    shown = ".".join(name)
    if dropping:
        raise SqlError(
            3701, f"Cannot drop the table '{shown}', because it does not exist or you do not have permission.", 14, 20
        )
    text = f'Cannot find the object "{shown}" because it does not exist or you do not have permissions.'
    raise SqlError(1088, text, 16, 13)
