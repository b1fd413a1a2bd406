"""The rows of the catalog views over logins, users, roles and permissions.

Sources: the views' pages under https://learn.microsoft.com/sql/relational-databases/system-catalog-views/
"""

from __future__ import annotations

from collections.abc import Iterator

from emulators.sqlserver.engine.security import SERVER_ROLES, DatabaseSecurity, Principal
from emulators.sqlserver.engine.views.viewing import STARTED, Row, Viewpoint, Views, shape
from emulators.sqlserver.tsql.reading.security import PERMISSIONS

_STATES = {"GRANT": "G", "DENY": "D", "GRANT_WITH_GRANT_OPTION": "W"}
_CLASSES = {0: "DATABASE", 1: "OBJECT_OR_COLUMN", 3: "SCHEMA"}


def _security(view: Viewpoint) -> DatabaseSecurity:
    return view.session.engine.security.of(view.here.database_id, view.here.name)


def _server_principals(view: Viewpoint) -> Iterator[Row]:
    for login in view.session.engine.security.logins.values():
        yield (
            login.name,
            login.principal_id,
            login.sid,
            "S",
            "SQL_LOGIN",
            int(not login.enabled),
            STARTED,
            STARTED,
            login.database,
            "us_english",
            None,
            None,
            0,
        )
    for role, number in SERVER_ROLES.items():
        sid = number.to_bytes(4, "little")
        yield role, number, sid, "R", "SERVER_ROLE", 0, STARTED, STARTED, None, None, None, 1, int(role != "public")


def _server_members(view: Viewpoint) -> Iterator[Row]:
    for login in view.session.engine.security.logins.values():
        for role in sorted(login.roles):
            yield SERVER_ROLES[role], login.principal_id


def _sid(view: Viewpoint, principal: Principal) -> bytes | None:
    if principal.principal_id == 1:
        return b"\1"
    login = view.session.engine.security.logins.get(principal.login.lower())
    return login.sid if login is not None else None


def _database_principals(view: Viewpoint) -> Iterator[Row]:
    for principal in _security(view).principals.values():
        kind, text = ("R", "DATABASE_ROLE") if principal.role else ("S", "SQL_USER")
        mapped = bool(principal.login) or principal.principal_id == 1
        yield (
            principal.name,
            principal.principal_id,
            kind,
            text,
            None if principal.role else principal.schema,
            STARTED,
            STARTED,
            1 if principal.role else None,
            _sid(view, principal),
            int(principal.fixed and principal.name != "public"),
            1 if mapped else 0,
            "INSTANCE" if mapped else "NONE",
            None,
            None,
            0,
        )


def _role_members(view: Viewpoint) -> Iterator[Row]:
    known = _security(view).principals
    yield known["db_owner"].principal_id, 1
    for principal in known.values():
        for role in sorted(principal.roles):
            yield known[role].principal_id, principal.principal_id


def _permissions(view: Viewpoint) -> Iterator[Row]:
    known = _security(view)
    for item in known.permissions:
        grantee = known.principals[item.principal].principal_id
        code = PERMISSIONS.get(item.name, item.name[:4])
        state = _STATES[item.state]
        yield (
            item.kind,
            _CLASSES[item.kind],
            item.major_id,
            item.column_id,
            grantee,
            1,
            code,
            item.name,
            state,
            item.state,
        )


VIEWS: Views = {
    "sys.server_principals": (
        shape(
            "name:name principal_id:int sid:sid type:letter type_desc:text is_disabled:int create_date:datetime "
            "modify_date:datetime default_database_name:name default_language_name:name credential_id:int "
            "owning_principal_id:int is_fixed_role:bit"
        ),
        _server_principals,
    ),
    "sys.server_role_members": (shape("role_principal_id:int member_principal_id:int"), _server_members),
    "sys.database_principals": (
        shape(
            "name:name principal_id:int type:letter type_desc:text default_schema_name:name create_date:datetime "
            "modify_date:datetime owning_principal_id:int sid:sid is_fixed_role:bit authentication_type:int "
            "authentication_type_desc:text default_language_name:name default_language_lcid:int "
            "allow_encrypted_value_modifications:bit"
        ),
        _database_principals,
    ),
    "sys.database_role_members": (shape("role_principal_id:int member_principal_id:int"), _role_members),
    "sys.database_permissions": (
        shape(
            "class:tiny class_desc:text major_id:int minor_id:int grantee_principal_id:int "
            "grantor_principal_id:int type:four permission_name:name state:letter state_desc:text"
        ),
        _permissions,
    ),
}
