"""SET options: those that change something here, those that change nothing anyone can see, and those refused by name.

Source: https://learn.microsoft.com/sql/t-sql/statements/set-statements-transact-sql
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from emulators.sqlserver.engine.queries.names import SessionNames
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.session_settings import SessionSettings
from emulators.sqlserver.results import Event, SqlError, StatementDone
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading import statements as st

_WHOLE = re.compile(r"-?\d+")
_HARMLESS = frozenset(
    (
        "ANSI_DEFAULTS",
        "ANSI_NULL_DFLT_OFF",
        "ANSI_NULL_DFLT_ON",
        "ANSI_PADDING",
        "ANSI_WARNINGS",
        "ARITHABORT",
        "ARITHIGNORE",
        "CURSOR_CLOSE_ON_COMMIT",
        "DEADLOCK_PRIORITY",
        "IO",
        "NUMERIC_ROUNDABORT",
        "QUERY_GOVERNOR_COST_LIMIT",
        "TEXTSIZE",
        "TIME",
    )
)
_FIXED = {
    "ANSI_NULLS": "ON",
    "CONCAT_NULL_YIELDS_NULL": "ON",
    "DATEFIRST": "7",
    "DATEFORMAT": "MDY",
    "LANGUAGE": "US_ENGLISH",
    "NOEXEC": "OFF",
    "PARSEONLY": "OFF",
    "QUOTED_IDENTIFIER": "ON",
    "REMOTE_PROC_TRANSACTIONS": "OFF",
    "ROWCOUNT": "0",
    "SHOWPLAN_ALL": "OFF",
    "SHOWPLAN_TEXT": "OFF",
    "SHOWPLAN_XML": "OFF",
}
"""Options with the one value that they have here; any other is refused."""
_SWITCHES = {
    "NOCOUNT": "nocount",
    "XACT_ABORT": "xact_abort",
    "IMPLICIT_TRANSACTIONS": "implicit_transactions",
    "FMTONLY": "fmtonly",
}


def set_option(session: StatementSession, statement: st.SetOption) -> Iterator[Event]:
    session.settings = _changed(session, session.settings, statement)
    yield StatementDone()


def _changed(session: StatementSession, settings: SessionSettings, statement: st.SetOption) -> SessionSettings:
    option, value = statement.option, statement.value.upper()
    if option in _SWITCHES:
        if value not in ("ON", "OFF"):
            raise errors.syntax(statement.value)
        return replace(settings, **{_SWITCHES[option]: value == "ON"})  # type: ignore[arg-type]  # all three are bool
    if option == "LOCK_TIMEOUT":
        if not _WHOLE.fullmatch(value):
            raise errors.syntax(statement.value)
        return replace(settings, lock_timeout=int(value))
    if option == "ISOLATION":
        return replace(settings, isolation=value)
    if option == "IDENTITY_INSERT":
        return replace(settings, identity_insert=_identity_insert(session, statement))
    if option not in _HARMLESS and _FIXED.get(option) != value:
        raise errors.unsupported(f"SET {option} {statement.value}")
    return settings


def _identity_insert(session: StatementSession, statement: st.SetOption) -> tuple[str, int] | None:
    names = SessionNames(session)
    database = names.database(statement.table)
    schema = statement.table[-2] if len(statement.table) > 1 and statement.table[-2] else "dbo"
    entry = database.catalog_for(session).find(schema, statement.table[-1])
    shown = ".".join(statement.table)
    if entry is None:
        text = f'Cannot find the object "{shown}" because it does not exist or you do not have permissions.'
        raise SqlError(1088, text, 16)
    if entry.identity is None:
        text = f"Table '{shown}' does not have the identity property. Cannot perform SET operation."
        raise SqlError(8106, text, 16)
    return (database.name, entry.table.object_id) if statement.value.upper() == "ON" else None
