"""The functions that tell who the session is, what it is a member of, and what it may do.

Source: https://learn.microsoft.com/sql/t-sql/functions/security-functions-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable

from emulators.sqlserver.engine.functions.object_lookup import ObjectLookup
from emulators.sqlserver.engine.rights import DatabaseRights
from emulators.sqlserver.engine.security import SERVER_ROLES, DatabaseSecurity
from emulators.sqlserver.engine.session_ports import DatabaseAccess
from emulators.sqlserver.results import SqlError, Value

_ANY = "ANY"


class Identity:
    """Security functions of one session. `calls` by upper-case name."""

    def __init__(self, session: DatabaseAccess, objects: ObjectLookup) -> None:
        self._session = session
        self._objects = objects
        self.calls: dict[str, Callable[..., Value]] = {
            "SUSER_ID": self._login_id,
            "SUSER_SID": self._login_sid,
            "USER_ID": self._user_id,
            "DATABASE_PRINCIPAL_ID": self._user_id,
            "IS_MEMBER": lambda role: self._member(role, None),
            "IS_ROLEMEMBER": self._member,
            "IS_SRVROLEMEMBER": self._server_member,
            "HAS_PERMS_BY_NAME": self._has_permission,
            "HAS_DBACCESS": self._has_access,
        }
        for name in ("SUSER_SNAME", "SUSER_NAME"):
            self.calls[name] = self._login_name
        for name in ("SYSTEM_USER", "ORIGINAL_LOGIN"):
            self.calls[name] = lambda: self._session.login_request.user
        for name in ("CURRENT_USER", "SESSION_USER", "USER"):
            self.calls[name] = lambda: self._rights().user
        self.calls["USER_NAME"] = self._user_name

    def _rights(self) -> DatabaseRights:
        return self._session.rights(self._session.current())

    def _known(self) -> DatabaseSecurity:
        database = self._session.current()
        return self._session.engine.security.of(database.database_id, database.name)

    def _login_name(self, key: Value = None) -> Value:
        if key is None:
            return self._session.login_request.user
        logins = self._session.engine.security.logins.values()
        return next((login.name for login in logins if key in (login.sid, login.principal_id)), None)

    def _login_id(self, name: Value = None) -> Value:
        wanted = str(name if name is not None else self._session.login_request.user).lower()
        found = self._session.engine.security.logins.get(wanted)
        return found.principal_id if found else SERVER_ROLES.get(wanted)

    def _login_sid(self, name: Value = None, strict: Value = None) -> Value:
        wanted = str(name if name is not None else self._session.login_request.user).lower()
        found = self._session.engine.security.logins.get(wanted)
        return found.sid if found else None

    def _user_id(self, name: Value = None) -> Value:
        found = self._known().principals.get(str(name if name is not None else self._rights().user).lower())
        return found.principal_id if found else None

    def _user_name(self, number: Value = None) -> Value:
        if number is None:
            return self._rights().user
        return next((p.name for p in self._known().principals.values() if p.principal_id == number), None)

    def _member(self, role: Value, user: Value = None) -> Value:
        """1, 0, or NULL for what is no role here; dbo is in db_owner and public alone."""
        known = self._known()
        found = known.principals.get(str(role).lower()) if role is not None else None
        name = str(user).lower() if user is not None else self._rights().user.lower()
        if found is None or not found.role or name not in known.principals:
            return None
        if name == "dbo" and found.name == "db_owner":
            return 1
        return int(found.name.lower() in known.groups(name))

    def _server_member(self, role: Value, login: Value = None) -> Value:
        name = str(login if login is not None else self._session.login_request.user).lower()
        found = self._session.engine.security.logins.get(name)
        wanted = str(role).lower()
        if wanted not in SERVER_ROLES or found is None:
            return None
        return int(wanted == "public" or wanted in found.roles or "sysadmin" in found.roles)

    def _has_access(self, name: Value) -> Value:
        found = self._session.engine.find(str(name)) if name is not None else None
        if found is None:
            return None
        try:
            self._session.rights(found).require_entry()
            self._session.admitted(found)
        except SqlError:
            return 0
        return 1

    def _has_permission(self, name: Value, kind: Value, permission: Value, *rest: Value) -> Value:
        """NULL for a securable or class that is not known: https://learn.microsoft.com/sql/t-sql/functions/has-perms-by-name-transact-sql"""
        wanted = str(permission).upper()
        group = str(kind).upper() if kind is not None else "SERVER"
        if group == "SERVER":
            return int(self._session.engine.security.server_allows(self._session.login_request.user, wanted))
        rights = self._rights()
        if group == "DATABASE":
            return self._on_database(name, wanted)
        if group == "SCHEMA":
            catalog = self._session.current().catalog_for(self._session)
            schema = catalog.schema(str(name))
            return None if schema is None else int(rights.allows(wanted, catalog.schemas[schema]))
        if group != "OBJECT":
            return None
        entry = self._objects.entry_by_name(name)
        if entry is None:
            return None
        catalog = self._session.current().catalog_for(self._session)
        if wanted == _ANY:
            return int(rights.sees(entry, catalog))
        return int(rights.allows_on(wanted, entry, catalog))

    def _on_database(self, name: Value, permission: str) -> Value:
        found = self._session.engine.find(str(name)) if name is not None else self._session.current()
        if found is None:
            return None
        try:
            return int(self._session.rights(found).allows("CONNECT" if permission == _ANY else permission))
        except SqlError:
            return 0
