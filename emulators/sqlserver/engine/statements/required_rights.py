"""What a statement's target asks for, checked before it runs: errors 229, 262, 1088, 2760, 3701, 5011, 15151.

What a login may do is known to rights.py; here is only which statement needs which permission on what.
"""

from __future__ import annotations

from emulators.sqlserver.engine.queries.names import SessionNames
from emulators.sqlserver.engine.rights import DatabaseRights, denied_in_database
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.store.catalog import Catalog, TableEntry
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading import definitions as df
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.statements import Name, Statement


def check_statement(session: StatementSession, statement: Statement) -> None:
    """What a statement's target asks for, before it runs. Raises 229, 262, 1088, 2760, 3701, 5011, 15151."""
    if isinstance(statement, df.AlterDatabase):
        _check_alter(session, statement)
        return
    rights = session.rights(session.current())
    if rights.everything:
        return
    if isinstance(statement, st.Use):
        found = session.engine.find(statement.database)
        if found is not None:
            session.rights(found).require_entry()
    elif isinstance(statement, st.Kill):
        raise SqlError(6102, "User does not have permission to use the KILL statement.", 14)
    elif isinstance(statement, st.Insert | st.InsertBulk):
        _require(session, statement.table, "INSERT")
    elif isinstance(statement, st.Update | st.Delete):
        _, source = session.runner.plan_rows(statement.query, statement.target, statement.has_from)
        name = (source.database, source.schema, source.name)
        _require(session, name, "UPDATE" if isinstance(statement, st.Update) else "DELETE")
    elif isinstance(statement, st.Merge):
        for permission in sorted({clause.action.upper() for clause in statement.clauses}):
            _require(session, statement.table, permission)
    elif isinstance(statement, df.Definition | df.CreateDatabase | df.DropDatabase):
        _check_definition(session, statement)


def _place(session: StatementSession, name: Name) -> tuple[DatabaseRights, Catalog, TableEntry | None]:
    database = SessionNames(session).database(name)
    catalog = database.catalog_for(session)
    return session.rights(database), catalog, catalog.find(name[-2] if len(name) > 1 and name[-2] else "dbo", name[-1])


def _require(session: StatementSession, name: Name, permission: str) -> None:
    rights, catalog, entry = _place(session, name)
    if entry is not None:
        rights.require_on(permission, entry, catalog)


def _check_definition(session: StatementSession, statement: Statement) -> None:
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
    elif isinstance(statement, df.DropDatabase):
        raise SqlError(
            3701,
            f"Cannot drop the database '{statement.names[0]}', because it does not exist or you do not have permission.",
            11,
        )
    else:
        for name in getattr(statement, "tables", None) or (getattr(statement, "table", ()),):
            _require_alter(session, name, isinstance(statement, df.DropTable))


def _check_alter(session: StatementSession, statement: df.AlterDatabase) -> None:
    """Of the database that it names, wherever the session is.
    https://learn.microsoft.com/sql/relational-databases/databases/set-a-database-to-single-user-mode (Permissions)
    """
    database = session.engine.find(statement.name or session.database)
    if database is not None and not _owns(session.rights(database)):
        raise errors.cannot_alter_database(statement.name)


def _owns(rights: DatabaseRights) -> bool:
    try:
        return rights.is_member("db_owner")
    except SqlError:  # 916: nobody there
        return False


def _require_alter(session: StatementSession, name: Name, dropping: bool) -> None:
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
