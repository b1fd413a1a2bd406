"""Runs the statements and procedures about logins, users, roles and permissions.

Refuses what tsql/security.py refuses. Errors: 4621, 4624, 15007, 15023, 15025, 15063, 15144, 15150, 15151, 15247, 33130.
Source: https://learn.microsoft.com/sql/t-sql/statements/security-statements and the pages of those errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from emulators.sqlserver.engine.extension import CallContext, ProcedureSpec
from emulators.sqlserver.engine.queries.names import SessionNames
from emulators.sqlserver.engine.rights import offered_object_id
from emulators.sqlserver.engine.security import (
    DATABASE,
    OBJECT,
    SCHEMA,
    SERVER_ROLES,
    DatabaseSecurity,
    Permission,
    Principal,
)
from emulators.sqlserver.engine.session_ports import DatabaseAccess
from emulators.sqlserver.results import Event, SqlError, StatementDone, Value
from emulators.sqlserver.tsql.reading import security as ts
from emulators.sqlserver.tsql.reading.statements import Name, Statement

_UNTOUCHABLE = ("sa", "dbo", "information_schema", "sys")


def not_allowed() -> SqlError:
    return SqlError(15247, "User does not have permission to perform this action.", 16)


def cannot(verb: str, kind: str, name: str) -> SqlError:
    text = f"Cannot {verb} the {kind} '{name}', because it does not exist or you do not have permission."
    return SqlError(15151, text, 16)


class Principals:
    """These statements of one session."""

    def __init__(self, session: DatabaseAccess) -> None:
        self._session = session

    def handlers(self) -> dict[type[Statement], Callable[[Any], Iterator[Event]]]:
        return dict.fromkeys(ts.STATEMENTS, self.run)

    def run(self, statement: Statement) -> Iterator[Event]:
        security = self._session.engine.security
        with security.guard:
            _RUN[type(statement)](self, statement)
            security.changed()
        yield StatementDone()

    @property
    def _here(self) -> DatabaseSecurity:
        database = self._session.current()
        return self._session.engine.security.of(database.database_id, database.name)

    def _require_server(self, permission: str) -> None:
        if not self._session.engine.security.server_allows(self._session.login_request.user, permission):
            raise not_allowed()

    def _require(self, permission: str) -> None:
        if not self._session.rights(self._session.current()).allows(permission):
            raise not_allowed()

    # -- logins

    def _save_login(self, statement: ts.SaveLogin) -> None:
        security = self._session.engine.security
        self._require_server("ALTER ANY LOGIN")
        known = security.logins.get(statement.name.lower())
        if statement.new:
            if known is not None or statement.name.lower() in SERVER_ROLES:
                raise SqlError(15025, f"The server principal '{statement.name}' already exists.", 16)
            if statement.password is None:
                raise SqlError(156, "Incorrect syntax near the keyword 'WITH'.", 15)
            security.add_login(statement.name, statement.password, statement.database or "master")
            return
        if known is None:
            raise cannot("alter", "login", statement.name)
        known.password = statement.password if statement.password is not None else known.password
        known.database = statement.database or known.database
        known.enabled = statement.enabled if statement.enabled is not None else known.enabled

    # -- users and roles

    def _save_user(self, statement: ts.SaveUser) -> None:
        self._require("ALTER ANY USER")
        if statement.external and not self._session.engine.identity(statement.name):
            text = f"Principal '{statement.name}' could not be found or this principal type is not supported."
            raise SqlError(33130, text, 16)
        here, logins = self._here, self._session.engine.security.logins
        known = here.principals.get(statement.name.lower())
        login = statement.login if statement.login is not None else statement.name if statement.new else None
        if login and login.lower() not in logins:
            raise SqlError(15007, f"'{login}' is not a valid login or you do not have permission.", 16)
        if login and any(p.login.lower() == login.lower() and p is not known for p in here.principals.values()):
            raise SqlError(15063, "The login already has an account under a different user name.", 16)
        if statement.new:
            if known is not None:
                raise _exists(statement.name)
            here.add(statement.name, login=login or "", schema=statement.schema or "dbo")
            return
        if known is None or known.role:
            raise cannot("alter", "user", statement.name)
        known.login = login if login is not None else known.login
        known.schema = statement.schema or known.schema

    def _create_role(self, statement: ts.CreateRole) -> None:
        self._require("ALTER ANY ROLE")
        if statement.name.lower() in self._here.principals:
            raise _exists(statement.name)
        self._here.add(statement.name, role=True)

    def _drop(self, statement: ts.DropPrincipal) -> None:
        kind = statement.kind.lower()
        if statement.kind == "LOGIN":
            self._require_server("ALTER ANY LOGIN")
            if self._session.engine.security.logins.pop(statement.name.lower(), None) is None:
                raise cannot("drop", kind, statement.name)
            return
        self._require("ALTER ANY USER" if statement.kind == "USER" else "ALTER ANY ROLE")
        found = self._here.principals.get(statement.name.lower())
        if found is None or found.role != (statement.kind == "ROLE"):
            if statement.if_exists:
                return
            raise cannot("drop", kind, statement.name)
        if found.fixed or found.principal_id < 5:
            raise SqlError(15150, f"Cannot drop the {kind} '{found.name}'.", 16)
        if found.role and any(found.name.lower() in p.roles for p in self._here.principals.values()):
            raise SqlError(15144, "The role has members. It must be empty before it can be dropped.", 16)
        self._here.remove(found.name)

    def _change_role(self, statement: ts.ChangeRole) -> None:
        if statement.server:
            self._change_server_role(statement)
            return
        here = self._here
        role = here.principals.get(statement.role.lower())
        if role is None or not role.role or role.name == "public":
            raise cannot("alter", "role", statement.role)
        permission = "CONTROL" if role.name == "db_owner" else "ALTER ANY ROLE"
        if not self._session.rights(self._session.current()).allows(permission):
            raise cannot("alter", "role", statement.role)
        member = here.principals.get(statement.member.lower())
        if member is None:
            verb = "add" if statement.add else "drop"
            raise cannot(verb, "principal", statement.member)
        if member.name in _UNTOUCHABLE or member.fixed:
            raise SqlError(15405, f"Cannot use the special principal '{member.name}'.", 11)
        (member.roles.add if statement.add else member.roles.discard)(role.name.lower())

    def _change_server_role(self, statement: ts.ChangeRole) -> None:
        self._require_server("CONTROL SERVER")
        login = self._session.engine.security.logins.get(statement.member.lower())
        if statement.role.lower() not in SERVER_ROLES or statement.role.lower() == "public":
            raise cannot("alter", "server role", statement.role)
        if login is None:
            raise cannot("add" if statement.add else "drop", "principal", statement.member)
        (login.roles.add if statement.add else login.roles.discard)(statement.role.lower())

    # -- permissions

    def _permissions(self, statement: ts.ChangePermissions) -> None:
        wide = [name for name in statement.permissions if name in ts.SERVER_PERMISSIONS]
        if wide:
            self._server_permissions(statement)
            return
        kind, number = self._securable(statement)
        for name in statement.principals:
            principal = self._grantee(name)
            state = "GRANT_WITH_GRANT_OPTION" if statement.grant_option else statement.verb
            for permission, columns in zip(statement.permissions, statement.columns, strict=True):
                for column_id in self._columns(statement.target, number, columns) if columns else (0,):
                    item = Permission(kind, number, principal.name.lower(), permission, state, column_id)
                    self._here.change(statement.verb, item)

    def _columns(self, target: Name, object_id: int, names: Sequence[str]) -> list[int]:
        """Raises 1911 for a column that the object has not."""
        session = self._session
        entry = SessionNames(session).database(target).catalog_for(session).tables[object_id]
        found = []
        for name in names:
            column = entry.column(name)
            if column is None:
                raise SqlError(1911, f"Column name '{name}' does not exist in the target table or view.", 16)
            found.append(column.column_id)
        return found

    def _server_permissions(self, statement: ts.ChangePermissions) -> None:
        if self._session.current().name.lower() != "master":
            text = "Permissions at the server scope can only be granted when the current database is master"
            raise SqlError(4621, text, 16)
        self._require_server("CONTROL SERVER")
        for name in statement.principals:
            login = self._session.engine.security.logins.get(name.lower())
            if login is None:
                raise SqlError(
                    15151,
                    f"Cannot find the login '{name}', because it does not exist or you do not have permission.",
                    16,
                )
            for permission in statement.permissions:
                if statement.verb == "REVOKE":
                    login.permissions.pop(permission, None)
                else:
                    login.permissions[permission] = statement.verb

    def _grantee(self, name: str) -> Principal:
        found = self._here.principals.get(name.lower())
        if found is None:
            raise cannot("find", "user", name)
        if found.name.lower() in _UNTOUCHABLE:
            text = "Cannot grant, deny, or revoke permissions to sa, dbo, entity owner, information_schema, sys, or yourself."
            raise SqlError(4624, text, 16)
        return found

    def _securable(self, statement: ts.ChangePermissions) -> tuple[int, int]:
        """Class and id; only who controls the securable may give permissions on it."""
        session, target = self._session, statement.target
        rights = session.rights(session.current())
        if statement.kind == "DATABASE":
            if target and session.engine.find(target[-1]) is not session.current():
                raise cannot("find", "database", target[-1])
            if not rights.allows("CONTROL"):
                raise cannot("find", "database", session.database)
            return DATABASE, 0
        catalog = session.current().catalog_for(session)
        if statement.kind == "SCHEMA":
            schema = catalog.schema(target[-1])
            if schema is None or not rights.allows("CONTROL", catalog.schemas[schema]):
                raise cannot("find", "schema", target[-1])
            return SCHEMA, catalog.schemas[schema]
        return OBJECT, self._object(target)

    def _object(self, target: Name) -> int:
        session = self._session
        database = SessionNames(session).database(target)
        catalog = database.catalog_for(session)
        schema = target[-2] if len(target) > 1 and target[-2] else "dbo"
        entry = catalog.find(schema, target[-1])
        offered = f"{database.name}.{schema}.{target[-1]}".lower()
        if (
            entry is None
            and SessionNames(session).extension_view(offered)
            and session.rights(database).allows("CONTROL")
        ):
            return offered_object_id(offered)
        if entry is None or not session.rights(database).allows_on("CONTROL", entry, catalog):
            raise cannot("find", "object", target[-1])
        return entry.table.object_id


def _exists(name: str) -> SqlError:
    return SqlError(15023, f"User, group, or role '{name}' already exists in the current database.", 16)


_RUN: dict[type[Statement], Callable[[Principals, Any], None]] = {
    ts.SaveLogin: Principals._save_login,
    ts.SaveUser: Principals._save_user,
    ts.CreateRole: Principals._create_role,
    ts.ChangeRole: Principals._change_role,
    ts.DropPrincipal: Principals._drop,
    ts.ChangePermissions: Principals._permissions,
}


def procedures(session: DatabaseAccess) -> dict[str, ProcedureSpec]:
    """sp_addrolemember and its kin, as the statements that replaced them."""

    def changing(add: bool, server: bool, names: tuple[str, str]) -> ProcedureSpec:
        role, member = names

        def run(context: CallContext, given: Mapping[str, Value]) -> Iterator[Event]:
            return Principals(session).run(ts.ChangeRole(1, str(given[role]), str(given[member]), add, server))

        parameters = (member, role) if server else (role, member)
        return ProcedureSpec(parameters, parameters, run)

    return {
        "sys.sp_addrolemember": changing(True, False, ("@rolename", "@membername")),
        "sys.sp_droprolemember": changing(False, False, ("@rolename", "@membername")),
        "sys.sp_addsrvrolemember": changing(True, True, ("@rolename", "@loginame")),
        "sys.sp_dropsrvrolemember": changing(False, True, ("@rolename", "@loginame")),
    }
