"""Reads the statements about logins, users, roles and permissions; decides nothing about them.

Refuses by name: Windows principals, Entra logins (not users), certificates and keys, application roles, UPDATE and REFERENCES on columns, EXECUTE AS.
Source: https://learn.microsoft.com/sql/t-sql/statements/security-statements
"""

from __future__ import annotations

from dataclasses import dataclass

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.statements import Name, Statement
from emulators.sqlserver.tsql.reading.tokens import END, NSTRING, STRING, WORD, string_value

_CLASSES = {"OBJECT": "OBJECT", "SCHEMA": "SCHEMA", "DATABASE": "DATABASE"}
_LOGIN_OPTIONS = ("DEFAULT_LANGUAGE", "CHECK_POLICY", "CHECK_EXPIRATION")
PERMISSIONS = {
    "SELECT": "SL  ",
    "INSERT": "IN  ",
    "UPDATE": "UP  ",
    "DELETE": "DL  ",
    "REFERENCES": "RF  ",
    "EXECUTE": "EX  ",
    "ALTER": "AL  ",
    "CONTROL": "CL  ",
    "CONNECT": "CO  ",
    "VIEW DEFINITION": "VW  ",
    "VIEW DATABASE STATE": "VWDS",
    "VIEW DATABASE PERFORMANCE STATE": "VDP ",
    "VIEW SERVER STATE": "VWSS",
    "VIEW ANY DATABASE": "VWDB",
    "CREATE TABLE": "CRTB",
    "CREATE SCHEMA": "CRSM",
    "CREATE DATABASE": "CRDB",
    "ALTER ANY SCHEMA": "ALSM",
    "ALTER ANY USER": "ALUS",
    "ALTER ANY ROLE": "ALRL",
    "ALTER ANY LOGIN": "ALLG",
    "CONTROL SERVER": "CL  ",
}
"""The permissions that are known here, with their codes in sys.database_permissions."""
SERVER_PERMISSIONS = frozenset(
    ("VIEW SERVER STATE", "VIEW ANY DATABASE", "CREATE ANY DATABASE", "ALTER ANY LOGIN", "CONTROL SERVER")
)


@dataclass(frozen=True, slots=True)
class SaveLogin(Statement):
    """CREATE LOGIN (`new`) and ALTER LOGIN; None: not mentioned."""

    name: str
    new: bool
    password: str | None = None
    database: str | None = None
    enabled: bool | None = None


@dataclass(frozen=True, slots=True)
class SaveUser(Statement):
    """CREATE USER and ALTER USER. `login` "": WITHOUT LOGIN. `external`: FROM EXTERNAL PROVIDER, an identity of Microsoft Entra ID."""

    name: str
    new: bool
    login: str | None = None
    schema: str | None = None
    external: bool = False


@dataclass(frozen=True, slots=True)
class CreateRole(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class ChangeRole(Statement):
    """ALTER [SERVER] ROLE role ADD or DROP MEMBER member."""

    role: str
    member: str
    add: bool
    server: bool


@dataclass(frozen=True, slots=True)
class DropPrincipal(Statement):
    """`kind`: LOGIN, USER or ROLE."""

    kind: str
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class ChangePermissions(Statement):
    """GRANT, DENY or REVOKE. `target` () with class DATABASE: the current one. `columns`: of each permission, () for all."""

    verb: str
    permissions: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    kind: str
    target: Name
    principals: tuple[str, ...]
    grant_option: bool = False


STATEMENTS = (SaveLogin, SaveUser, CreateRole, ChangeRole, DropPrincipal, ChangePermissions)


def parse_security(reader: Reader) -> Statement | None:
    """The statement that begins here when it is one of these; the reader stands still otherwise."""
    line, verb, noun = reader.line(), reader.here.key, reader.peek(1).key
    if verb in ("GRANT", "DENY", "REVOKE"):
        return _permissions(reader, line)
    if verb not in ("CREATE", "ALTER", "DROP"):
        return None
    if noun == "SERVER" and reader.peek(2).key == "ROLE":
        reader.advance()
        reader.advance()
        reader.advance()
        return _change_role(reader, line, True)
    if noun not in ("LOGIN", "USER", "ROLE"):
        return None
    reader.advance()
    reader.advance()
    if verb == "DROP":
        if_exists = reader.accept("IF", "EXISTS")
        return DropPrincipal(line, noun, reader.name(), if_exists)
    if noun == "LOGIN":
        return _login(reader, line, verb == "CREATE")
    if noun == "USER":
        return _user(reader, line, verb == "CREATE")
    return _role(reader, line) if verb == "CREATE" else _change_role(reader, line, False)


def _login(reader: Reader, line: int, new: bool) -> Statement:
    name = reader.name()
    if reader.accept("ENABLE"):
        return SaveLogin(line, name, new, enabled=True)
    if reader.accept("DISABLE"):
        return SaveLogin(line, name, new, enabled=False)
    if reader.at("FROM"):
        raise unsupported("CREATE LOGIN ... FROM")
    reader.expect("WITH")
    password: str | None = None
    database: str | None = None
    while True:
        if reader.accept("PASSWORD"):
            reader.expect("=")
            if reader.here.kind not in (STRING, NSTRING):
                raise unsupported("a hashed password")
            password = string_value(reader.advance())
            if reader.at("MUST_CHANGE") or reader.at("OLD_PASSWORD"):
                raise unsupported(f"{reader.here.key} of a login")
        elif reader.accept("DEFAULT_DATABASE"):
            reader.expect("=")
            database = reader.name()
        elif reader.here.key in _LOGIN_OPTIONS:
            reader.advance()
            reader.expect("=")
            reader.advance()
        else:
            raise unsupported(f"{reader.here.text} of a login")
        if not reader.accept(","):
            return SaveLogin(line, name, new, password, database)


def _user(reader: Reader, line: int, new: bool) -> Statement:
    name = reader.name()
    login: str | None = None
    schema: str | None = None
    external = new and reader.accept("FROM", "EXTERNAL", "PROVIDER")
    if external:
        login = name
    elif reader.accept("WITHOUT", "LOGIN"):
        login = ""
    elif reader.accept("FOR", "LOGIN") or reader.accept("FROM", "LOGIN"):
        login = reader.name()
    elif reader.at("FROM") or reader.at("FOR"):
        raise unsupported(f"CREATE USER ... {reader.here.key} {reader.peek(1).key}")
    if reader.accept("WITH"):
        while True:
            if reader.accept("DEFAULT_SCHEMA"):
                reader.expect("=")
                schema = reader.name()
            elif not new and reader.accept("LOGIN"):
                reader.expect("=")
                login = reader.name()
            else:
                raise unsupported(f"{reader.here.text} of a user")
            if not reader.accept(","):
                break
    return SaveUser(line, name, new, login, schema, external)


def _role(reader: Reader, line: int) -> Statement:
    name = reader.name()
    if reader.accept("AUTHORIZATION"):
        reader.name()
    return CreateRole(line, name)


def _change_role(reader: Reader, line: int, server: bool) -> Statement:
    role = reader.name()
    add = reader.accept("ADD")
    if not add:
        reader.expect("DROP")
    reader.expect("MEMBER")
    return ChangeRole(line, role, reader.name(), add, server)


def _permissions(reader: Reader, line: int) -> Statement:
    verb = reader.advance().key
    if verb == "REVOKE" and reader.accept("GRANT", "OPTION", "FOR"):
        raise unsupported("REVOKE GRANT OPTION FOR")
    permissions = [_permission(reader)]
    columns = [reader.names_in_parentheses() if reader.at("(") else ()]
    while reader.accept(","):
        permissions.append(_permission(reader))
        columns.append(reader.names_in_parentheses() if reader.at("(") else ())
    kind, target = _securable(reader)
    if reader.at("("):
        everywhere = reader.names_in_parentheses()
        columns = [each or everywhere for each in columns]
    _check_columns(permissions, columns, kind)
    if verb != "REVOKE" or not reader.accept("FROM"):
        reader.expect("TO")
    principals = [reader.name()]
    while reader.accept(","):
        principals.append(reader.name())
    grant_option = reader.accept("WITH", "GRANT", "OPTION")
    reader.accept("CASCADE")
    if reader.at("AS"):
        raise unsupported(f"{verb} ... AS")
    return ChangePermissions(
        line, verb, tuple(permissions), tuple(columns), kind, target, tuple(principals), grant_option
    )


def _check_columns(permissions: list[str], columns: list[tuple[str, ...]], kind: str) -> None:
    """Raises 1020 where there are no columns to speak of."""
    for name, listed in zip(permissions, columns, strict=True):
        if listed and name in ("UPDATE", "REFERENCES"):
            raise unsupported(f"{name} on columns")
        if listed and (name != "SELECT" or kind != "OBJECT"):
            text = "Sub-entity lists (such as column or security expressions) cannot be specified for entity-level permissions."
            raise SqlError(1020, text, 15)


def _permission(reader: Reader) -> str:
    words: list[str] = []
    while reader.here.kind == WORD and reader.here.key not in ("ON", "TO", "FROM"):
        words.append(reader.advance().key)
        if reader.at("("):
            break
    name = " ".join(words).removesuffix(" PRIVILEGES").replace("EXEC ", "EXECUTE ") if words else ""
    name = {"EXEC": "EXECUTE"}.get(name, name)
    if reader.here.kind == END or not name:
        raise reader.unexpected()
    if name not in PERMISSIONS and name not in SERVER_PERMISSIONS:
        raise unsupported(f"permission {name}")
    return name


def _securable(reader: Reader) -> tuple[str, Name]:
    """Class and name behind ON; ("DATABASE", ()) without it."""
    if not reader.accept("ON"):
        return "DATABASE", ()
    kind = "OBJECT"
    if reader.peek(1).key == ":" and reader.peek(2).key == ":":
        word = reader.advance().key
        if word not in _CLASSES:
            raise unsupported(f"a permission on {word}")
        kind = word
        reader.advance()
        reader.advance()
    elif reader.peek(1).key == "::":
        word = reader.advance().key
        if word not in _CLASSES:
            raise unsupported(f"a permission on {word}")
        kind = word
        reader.advance()
    return kind, reader.qualified()
