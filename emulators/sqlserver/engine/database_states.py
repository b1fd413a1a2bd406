"""Who may be in a database, and how one changes that: SET OFFLINE, ONLINE, SINGLE_USER, RESTRICTED_USER and MULTI_USER.

A change that shuts others out waits until they have left, or ends their sessions, as its termination clause says; it waits for ever
without one, whatever LOCK_TIMEOUT is, until its client cancels it. The server's own jobs are nobody's session: they are not in the way,
and pause while a database is offline or has a single user.
https://learn.microsoft.com/sql/t-sql/statements/alter-database-transact-sql-set-options
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from emulators.sqlserver import turns
from emulators.sqlserver.engine.rights import DatabaseRights
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.store import availability
from emulators.sqlserver.engine.store.availability import RESTRICTED_USER, SINGLE_USER, Availability
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.results import Cancelled, SqlError
from emulators.sqlserver.tsql.reading.definitions import Termination

_STEP = 0.01


class Sessions(Protocol):
    """What this asks of the server."""

    def sessions(self) -> Sequence[StatementSession]: ...

    def kill(self, session_id: int) -> None:
        """Raises 6106."""
        ...


class DatabaseStates:
    """The states of a server's databases. No session enters a database without `guard`, so none enters while a database changes."""

    def __init__(self, server: Sessions, guard: AbstractContextManager[object]) -> None:
        self._server = server
        self._guard = guard

    def admit(self, database: StoredDatabase, rights: DatabaseRights, session: StatementSession | None = None) -> None:
        """Whether a session may come in. Raises 923, 924, 942."""
        now = database.availability
        if now.offline:
            raise availability.offline(database.name)
        if now.access == SINGLE_USER and self._others(database, session):
            raise availability.taken(database.name)
        if now.access == RESTRICTED_USER and not rights.unrestricted:
            raise availability.restricted(database.name)

    def change(
        self, database: StoredDatabase, wanted: Availability, termination: Termination, session: StatementSession
    ) -> None:
        """Raises 5064 or 5070, and Cancelled."""
        with self._guard:
            before = database.availability
            busy = before.access == SINGLE_USER and not before.offline and self._others(database, session)
            if wanted.access != SINGLE_USER and not wanted.offline and busy:
                raise in_single_user_mode(database.name)
        self.alone(database, termination, session, wanted)

    def alone(
        self,
        database: StoredDatabase,
        termination: Termination,
        session: StatementSession,
        wanted: Availability | None = None,
    ) -> None:
        """Make `wanted` true, or nothing, once nobody is there who is in the way. Raises 5070, Cancelled."""
        turns.give_up()
        end = None if termination.after is None else time.monotonic() + termination.after
        while True:
            with self._guard:
                others = self._in_the_way(database, wanted, session)
                if not others and database.make_available(wanted or database.availability, session):
                    return
            if others and termination.no_wait:
                text = f"Database state cannot be changed while other users are using the database '{database.name}'"
                raise SqlError(5070, text, 16, 2)
            if end is not None and time.monotonic() >= end:
                for other in others:
                    with suppress(SqlError):  # it has just gone
                        self._server.kill(other.session_id)
            if session.cancelled():
                raise Cancelled
            time.sleep(_STEP)

    def _in_the_way(
        self, database: StoredDatabase, wanted: Availability | None, session: StatementSession
    ) -> list[StatementSession]:
        """Who must leave first. https://learn.microsoft.com/sql/relational-databases/databases/set-a-database-to-single-user-mode"""
        if wanted is None or wanted.offline or wanted.access == SINGLE_USER:
            return self._others(database, session)
        if wanted.access == RESTRICTED_USER:
            return [each for each in self._others(database, session) if not each.rights(database).unrestricted]
        return []

    def _others(self, database: StoredDatabase, session: StatementSession | None) -> list[StatementSession]:
        """The sessions that are in it: whose current database it is, or that use it at the moment."""
        return [
            each
            for each in self._server.sessions()
            if each is not session and (each.current() is database or database.used_by(each) or database.owned_by(each))
        ]


def in_single_user_mode(name: str) -> SqlError:
    text = (
        f"Changes to the state or options of database '{name}' cannot be made at this time. The database is in single-user mode, and "
        "a user is currently connected to it."
    )
    return SqlError(5064, text, 16)
