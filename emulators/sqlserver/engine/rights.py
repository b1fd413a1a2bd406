"""What one session may do in one database, asked and enforced with Microsoft's errors: 229, 230, 262, 297, 300, 916.

Every check passes at once for members of sysadmin. Source: https://learn.microsoft.com/sql/relational-databases/errors-events/
"""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

from emulators.sqlserver.engine.security import DatabaseSecurity, Security
from emulators.sqlserver.engine.store.catalog import Catalog, TableEntry
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import permission_denied

_SEEN_BY_SERVER_STATE = ("VIEW DATABASE STATE", "VIEW DATABASE PERFORMANCE STATE")
_SEEN_THROUGH = ("SELECT", "INSERT", "UPDATE", "DELETE", "ALTER", "REFERENCES", "VIEW DEFINITION")
SERVER_STATE_VIEWS = frozenset(
    (
        "sys.dm_exec_connections",
        "sys.dm_exec_requests",
        "sys.dm_server_services",
        "sys.dm_tran_active_transactions",
        "sys.dm_tran_locks",
    )
)


def cannot_enter(login: str, database: str) -> SqlError:
    text = f'The server principal "{login}" is not able to access the database "{database}" under the current security context.'
    return SqlError(916, text, 14)


def denied_in_database(permission: str, database: str) -> SqlError:
    return SqlError(262, f"{permission} permission denied in database '{database}'.", 14)


class DatabaseRights:
    """Implements extension.Rights for one session in one database."""

    def __init__(self, security: Security, login: str, database: StoredDatabase, owner: object) -> None:
        """`owner`: whose view of the catalog counts (store/database.py)."""
        self._owner = owner
        self._database = database
        self._security = security
        self.login = login
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

    @property
    def unrestricted(self) -> bool:
        """Whether RESTRICTED_USER lets it in."""
        if self.everything or "dbcreator" in self._security.logins[self.login.lower()].roles:
            return True
        inside = self._security.may_enter(self.login, self._database.database_id, self._database.name)
        return inside and self.is_member("db_owner")

    def allows(self, permission: str, schema_id: int = 0, object_id: int = 0) -> bool:
        if self.everything:
            return True
        known = self._known()
        if permission in _SEEN_BY_SERVER_STATE and self._security.server_allows(self.login, "VIEW SERVER STATE"):
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
        catalog = self._database.catalog_for(self._owner)
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

    def require_entry(self) -> None:
        """Raises 916."""
        if not self._security.may_enter(self.login, self._database.database_id, self._database.name):
            raise cannot_enter(self.login, self._database.name)

    def require_view(self, view: str) -> None:
        """The dynamic management views need VIEW SERVER STATE or VIEW DATABASE STATE, tables of msdb SELECT. Raises 229, 262, 300."""
        if self.everything:
            return
        if view in SERVER_STATE_VIEWS:
            self.require_server_state()
        if view == "sys.dm_db_partition_stats":
            self.require("VIEW DATABASE PERFORMANCE STATE")
            self.require("VIEW DEFINITION")
        if view.startswith("sys.dm_cdc_"):
            self.require("VIEW DATABASE STATE")
        if view.startswith("msdb."):
            _, schema, table = view.split(".")
            schema_id = self._database.catalog_for(self._owner).schemas.get(schema, 0)
            if not self.allows("SELECT", schema_id, offered_object_id(view)):
                raise permission_denied("SELECT", table, self._database.name, schema)

    def require_server_state(self) -> None:
        """Raises 300."""
        if not self.everything and not self._security.server_allows(self.login, "VIEW SERVER STATE"):
            raise SqlError(300, "VIEW SERVER STATE permission was denied on object 'server', database 'master'.", 14)

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


def offered_object_id(view: str) -> int:
    """A number for a table of msdb, which no catalog holds, so that rights on it can be given; below 0 as those of system objects."""
    return -1 - crc32(view.encode()) % 2**30
