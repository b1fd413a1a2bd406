"""Logins, users, roles and permissions, and what follows from them. Pure decisions over plain data; runs no statement.

Not imitated: ownership chains (there are no procedures), UPDATE and REFERENCES on columns, and transactions: a GRANT stays when its
transaction is rolled back. Source: https://learn.microsoft.com/sql/relational-databases/security/permissions-database-engine
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

FIXED_ROLES = {
    "public": 0,
    "db_owner": 16384,
    "db_accessadmin": 16385,
    "db_securityadmin": 16386,
    "db_ddladmin": 16387,
    "db_backupoperator": 16389,
    "db_datareader": 16390,
    "db_datawriter": 16391,
    "db_denydatareader": 16392,
    "db_denydatawriter": 16393,
}
SERVER_ROLES = {
    "public": 2,
    "sysadmin": 3,
    "securityadmin": 4,
    "serveradmin": 5,
    "setupadmin": 6,
    "processadmin": 7,
    "diskadmin": 8,
    "dbcreator": 9,
    "bulkadmin": 10,
}
_WRITES = ("INSERT", "UPDATE", "DELETE")
_GIVEN_BY_ROLE = {
    "db_datareader": ("SELECT",),
    "db_datawriter": _WRITES,
    "db_ddladmin": ("ALTER", "CREATE TABLE", "CREATE SCHEMA", "ALTER ANY SCHEMA", "REFERENCES"),
    "db_accessadmin": ("ALTER ANY USER", "CREATE SCHEMA"),
    "db_securityadmin": ("ALTER ANY ROLE", "CREATE SCHEMA", "VIEW DEFINITION"),
}
_TAKEN_BY_ROLE = {"db_denydatareader": ("SELECT",), "db_denydatawriter": _WRITES}
_COVERED_BY = {
    "VIEW DATABASE PERFORMANCE STATE": ("VIEW DATABASE STATE",),
    "CREATE TABLE": ("ALTER",),
    "CREATE SCHEMA": ("ALTER ANY SCHEMA", "ALTER"),
    "ALTER ANY SCHEMA": ("ALTER",),
    "ALTER ANY USER": ("ALTER",),
    "ALTER ANY ROLE": ("ALTER",),
}
_FIRST_USER, _FIRST_LOGIN = 5, 257
_GUEST_DATABASES = ("master", "tempdb", "msdb")
DATABASE, OBJECT, SCHEMA = 0, 1, 3
"""`class` of sys.database_permissions."""


@dataclass(slots=True)
class Login:
    name: str
    password: str
    principal_id: int
    roles: set[str] = field(default_factory=set)
    permissions: dict[str, str] = field(default_factory=dict)
    """Permission -> GRANT or DENY."""
    database: str = "master"
    enabled: bool = True

    @property
    def sid(self) -> bytes:
        return b"\1" if self.principal_id == 1 else self.principal_id.to_bytes(16, "big")


@dataclass(slots=True)
class Principal:
    """A user (`login` "" without one) or a role of a database."""

    name: str
    principal_id: int
    role: bool = False
    login: str = ""
    schema: str = "dbo"
    roles: set[str] = field(default_factory=set)
    """Lower-case names of the roles that it is a member of."""

    @property
    def fixed(self) -> bool:
        return self.name.lower() in FIXED_ROLES


@dataclass(frozen=True, slots=True)
class Permission:
    kind: int
    major_id: int
    principal: str
    name: str
    state: str
    """GRANT, GRANT_WITH_GRANT_OPTION or DENY. `principal` in lower case."""
    column_id: int = 0
    """Of an object's column; 0: the whole object."""


class DatabaseSecurity:
    """The principals and permissions of one database."""

    def __init__(self, name: str) -> None:
        self._ids = count(_FIRST_USER)
        self.name = name
        named = {"dbo": 1, "guest": 2, "INFORMATION_SCHEMA": 3, "sys": 4}
        self.principals = {name.lower(): Principal(name, number) for name, number in named.items()}
        self.principals |= {role: Principal(role, number, role=True) for role, number in FIXED_ROLES.items()}
        self.permissions: list[Permission] = []
        self.guests = name.lower() in _GUEST_DATABASES

    def restore(self, principals: Mapping[str, Principal], permissions: list[Permission]) -> None:
        """Take up what was kept."""
        self.principals, self.permissions = dict(principals), permissions
        used = (p.principal_id for p in principals.values() if not p.fixed)
        self._ids = count(max(_FIRST_USER, *(number + 1 for number in used)))

    def add(self, name: str, *, role: bool = False, login: str = "", schema: str = "dbo") -> Principal:
        made = self.principals[name.lower()] = Principal(name, next(self._ids), role, login, schema)
        return made

    def remove(self, name: str) -> None:
        del self.principals[name.lower()]
        self.permissions = [item for item in self.permissions if item.principal != name.lower()]
        for principal in self.principals.values():
            principal.roles.discard(name.lower())

    def user_of(self, login: str) -> Principal | None:
        """The user that a login is in this database, guest where guests may enter."""
        wanted = login.lower()
        found = next((p for p in self.principals.values() if p.login.lower() == wanted and not p.role), None)
        return found or (self.principals["guest"] if self.guests else None)

    def groups(self, user: str) -> frozenset[str]:
        """The user, public, and every role that it is in, directly or through another; lower case."""
        found = {user.lower(), "public"}
        pending = [user.lower()]
        while pending:
            for role in self.principals[pending.pop()].roles - found:
                found.add(role)
                pending.append(role)
        return frozenset(found)

    def change(self, verb: str, item: Permission) -> None:
        """GRANT and DENY replace each other; REVOKE takes away both."""
        same = (item.kind, item.major_id, item.principal, item.name, item.column_id)
        self.permissions = [
            p for p in self.permissions if (p.kind, p.major_id, p.principal, p.name, p.column_id) != same
        ]
        if verb != "REVOKE":
            self.permissions.append(item)

    def allows(self, user: str, permission: str, schema_id: int = 0, object_id: int = 0) -> bool:
        """Whether the user may; ids of 0 ask for the database itself. A DENY anywhere wins."""
        if user.lower() == "dbo":
            return True
        groups = self.groups(user)
        names = {permission, "CONTROL", *_COVERED_BY.get(permission, ())}
        states = {p.state for p in self._applying(groups, names, schema_id, object_id)}
        if "DENY" in states or any(permission in _TAKEN_BY_ROLE.get(group, ()) for group in groups):
            return False
        return bool(states) or "db_owner" in groups or any(names & set(_GIVEN_BY_ROLE.get(g, ())) for g in groups)

    def columns(self, user: str, permission: str, object_id: int) -> dict[int, bool]:
        """What is said of single columns: id -> whether the user may. A DENY wins."""
        groups = self.groups(user)
        found: dict[int, bool] = {}
        for item in self.permissions:
            if item.column_id and item.major_id == object_id and item.name == permission and item.principal in groups:
                found[item.column_id] = found.get(item.column_id, True) and item.state != "DENY"
        return found

    def _applying(
        self, groups: frozenset[str], names: set[str], schema_id: int, object_id: int
    ) -> Iterator[Permission]:
        for item in self.permissions:
            if item.principal not in groups or item.name not in names or item.column_id:
                continue
            here = {DATABASE: 0, SCHEMA: schema_id, OBJECT: object_id}[item.kind]
            if item.kind == DATABASE or (item.major_id == here and here):
                yield item


class Security:
    """The logins of a server and the security of each of its databases. `version` moves with every change.

    `users`: login name -> password, all with sysadmin's rights; one that was kept too gets this password.
    """

    def __init__(self, users: Mapping[str, str], kept: Mapping[str, Any] | None = None) -> None:
        """`kept`: what `state` gave in an earlier run."""
        self.guard = threading.RLock()
        self.version = 0
        self.saved: Callable[[], None] = lambda: None
        """Called after every change, with `guard` held, before the change is answered."""
        self.logins: dict[str, Login] = dict(kept["logins"]) if kept is not None else {}
        self._ids = count(max([_FIRST_LOGIN, *(login.principal_id + 1 for login in self.logins.values())]))
        self._databases: dict[int, DatabaseSecurity] = {}
        for name, password in users.items():
            self._have_administrator(name, password)
        for number, (name, principals, permissions) in kept["databases"].items() if kept is not None else ():
            self.of(number, name).restore(principals, permissions)

    def _have_administrator(self, name: str, password: str) -> None:
        known = self.logins.get(name.lower())
        if known is None:
            number = 1 if name.lower() == "sa" else next(self._ids)
            self.logins[name.lower()] = Login(name, password, number, {"sysadmin"})
        else:
            known.password, known.enabled = password, True
            known.roles.add("sysadmin")

    def state(self) -> dict[str, Any]:
        """All of it, of the classes here and plain values."""
        databases = {n: (each.name, each.principals, each.permissions) for n, each in self._databases.items()}
        return {"logins": self.logins, "databases": databases}

    def changed(self) -> None:
        """Call it with `guard` held, after a change."""
        self.version += 1
        self.saved()

    def add_login(self, name: str, password: str, database: str) -> None:
        self.logins[name.lower()] = Login(name, password, next(self._ids), database=database)

    def authenticated(self, name: str, password: str) -> bool:
        login = self.logins.get(name.lower())
        if login is None or not login.enabled:
            return False
        return hmac.compare_digest(login.password.encode(), password.encode())

    def of(self, database_id: int, name: str) -> DatabaseSecurity:
        with self.guard:
            return self._databases.setdefault(database_id, DatabaseSecurity(name))

    def forget_database(self, database_id: int) -> None:
        with self.guard:
            if self._databases.pop(database_id, None) is not None:
                self.saved()

    def is_sysadmin(self, login: str) -> bool:
        found = self.logins.get(login.lower())
        return found is not None and "sysadmin" in found.roles

    def server_allows(self, login: str, permission: str) -> bool:
        found = self.logins.get(login.lower())
        if found is None:
            return False
        if "sysadmin" in found.roles or (permission == "CREATE DATABASE" and "dbcreator" in found.roles):
            return True
        if permission in ("VIEW SERVER STATE", "ALTER SETTINGS") and "serveradmin" in found.roles:
            return True
        if permission == "ALTER ANY LOGIN" and "securityadmin" in found.roles:
            return True
        states = {found.permissions.get(name) for name in (permission, "CONTROL SERVER")}
        return "GRANT" in states and "DENY" not in states

    def may_enter(self, login: str, database_id: int, name: str) -> bool:
        return self.is_sysadmin(login) or self.of(database_id, name).user_of(login) is not None
