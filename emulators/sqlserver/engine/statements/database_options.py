"""ALTER DATABASE ... SET: each option does what it says, or is refused by its name and value.

Who must leave a database before it changes is database_states.py's.
https://learn.microsoft.com/sql/t-sql/statements/alter-database-transact-sql-set-options
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.store.availability import ACCESS
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.results import DatabaseChanged, Event, Info, SqlError, StatementDone
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading import definitions as df

_SYSTEM: Final = ("master", "tempdb", "model", "msdb")
_AS_IT_IS: Final[Mapping[str, str]] = {
    "ANSI_NULL_DEFAULT": "OFF",
    "ANSI_NULLS": "OFF",
    "ANSI_PADDING": "OFF",
    "ANSI_WARNINGS": "OFF",
    "ARITHABORT": "OFF",
    "AUTO_CLOSE": "OFF",
    "AUTO_CREATE_STATISTICS": "ON",
    "AUTO_SHRINK": "OFF",
    "AUTO_UPDATE_STATISTICS": "ON",
    "COMPATIBILITY_LEVEL": "160",
    "CONCAT_NULL_YIELDS_NULL": "OFF",
    "NUMERIC_ROUNDABORT": "OFF",
    "PAGE_VERIFY": "CHECKSUM",
    "QUOTED_IDENTIFIER": "OFF",
    "READ_WRITE": "",
    "RECURSIVE_TRIGGERS": "OFF",
}
"""Options of which there is the one value that every database here has, as sys.databases shows it."""
_MODELS: Final = ("FULL", "SIMPLE", "BULK_LOGGED")
_OF_VERSIONS: Final = ("ALLOW_SNAPSHOT_ISOLATION", "READ_COMMITTED_SNAPSHOT")


def alter_database(session: StatementSession, statement: df.AlterDatabase) -> Iterator[Event]:
    """Raises 226, 5011, 5058, 5069 after 5064 or 5070, 50001, Cancelled."""
    if session.transaction.count:
        raise SqlError(226, "ALTER DATABASE statement not allowed within multi-statement transaction.", 16, 6)
    database = session.engine.find(statement.name or session.database)
    if database is None:
        raise errors.cannot_alter_database(statement.name)
    try:
        _option(session, database, statement)
    except SqlError as error:
        if error.number not in (5064, 5070):
            raise
        failed = SqlError(5069, "ALTER DATABASE statement failed.", 16)
        failed.earlier = error
        raise failed from error
    session.engine.save_options(database)
    if database.availability.offline and session.current() is database:
        yield from _leave(session, database)
    yield StatementDone()


def _option(session: StatementSession, database: StoredDatabase, statement: df.AlterDatabase) -> None:
    option, value = statement.option, statement.value
    if option in ACCESS or option in ("ONLINE", "OFFLINE"):
        _available(session, database, statement)
    elif database.availability.offline:
        raise errors.unsupported(f"ALTER DATABASE ... SET {option} of a database that is offline")
    elif option in _OF_VERSIONS and value in ("ON", "OFF"):
        _VERSIONS[option](session, database, statement)
    elif option == "RECOVERY" and value in _MODELS and database.name.lower() != "tempdb":
        database.recovery_model = value
    elif _AS_IT_IS.get(option) != value:
        raise errors.unsupported(f"ALTER DATABASE ... SET {option} {value}".rstrip())


def _available(session: StatementSession, database: StoredDatabase, statement: df.AlterDatabase) -> None:
    option, now = statement.option, database.availability
    if database.name.lower() in _SYSTEM:
        raise SqlError(5058, f"Option '{option}' cannot be set in database '{database.name}'.", 16)
    wanted = replace(now, access=option) if option in ACCESS else replace(now, offline=option == "OFFLINE")
    if wanted != now:
        session.engine.make_available(database, wanted, statement.termination, session)


def _snapshots(session: StatementSession, database: StoredDatabase, statement: df.AlterDatabase) -> None:
    if statement.termination != df.Termination():
        raise SqlError(5083, "The termination option is not supported when making versioning state changes.", 16)
    database.snapshot_allowed = statement.value == "ON"


def _versions(session: StatementSession, database: StoredDatabase, statement: df.AlterDatabase) -> None:
    """Nobody else may be connected to the database: READ_COMMITTED_SNAPSHOT says so on its page."""
    wanted = statement.value == "ON"
    if wanted != database.read_committed_snapshot:
        session.engine.await_others(database, statement.termination, session)
    database.read_committed_snapshot = wanted


_VERSIONS: Final[Mapping[str, Callable[[StatementSession, StoredDatabase, df.AlterDatabase], None]]] = {
    "ALLOW_SNAPSHOT_ISOLATION": _snapshots,
    "READ_COMMITTED_SNAPSHOT": _versions,
}


def _leave(session: StatementSession, database: StoredDatabase) -> Iterator[Event]:
    """Who took its own current database offline goes on in master."""
    master = session.engine.find("master")
    assert master is not None
    session.use(master)
    yield DatabaseChanged(master.name, database.name, master.collation, database.collation)
    text = "Failed to restart the current database. The current database is switched to master."
    yield Info(5068, text)  # a message of severity 10 reaches clients as severity 0
