"""The database server behind the wire: logins, sessions and databases. Implements results.Engine.

Its files are in a temporary directory, or in `data_dir`, where the next engine finds databases, logins and settings again. tempdb is
always new, as on the real server.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from emulators.sqlserver import turns
from emulators.sqlserver.engine.application_locks import ApplicationLocks
from emulators.sqlserver.engine.configuration import Configuration
from emulators.sqlserver.engine.database_states import DatabaseStates
from emulators.sqlserver.engine.definitions.restoring import restore_filters
from emulators.sqlserver.engine.extension import UNCOUNTED, Database, Extension, LogState
from emulators.sqlserver.engine.plan_cache import PlanCache
from emulators.sqlserver.engine.rights import DatabaseRights
from emulators.sqlserver.engine.security import Security
from emulators.sqlserver.engine.session.session import SqlSession
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.store import archive
from emulators.sqlserver.engine.store.availability import Availability
from emulators.sqlserver.engine.store.data_directory import DatabaseRecord, DataDirectory, Home, TemporaryHome, file_of
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.engine.store.private import private_database, remove, remove_files
from emulators.sqlserver.results import Cancel, Cancelled, LoginRequest, Session, SqlError
from emulators.sqlserver.tsql.errors import unknown_database
from emulators.sqlserver.tsql.reading.definitions import Termination

_SYSTEM = ("master", "tempdb", "model", "msdb")
_ALWAYS_NEW = "tempdb"
_SECURITY, _CONFIGURATION = "security", "configuration"
_TRANSACTIONS_A_START = 2**32
"""Numbers of transactions that each start has for itself, so that none is given twice."""
_WAIT_STEP = 0.05


def utc_now() -> datetime:
    """The emulator's server clock is UTC, without a zone, as GETDATE() gives it."""
    return datetime.now(UTC).replace(tzinfo=None)


def cannot_open(database: str) -> SqlError:
    return SqlError(4060, f'Cannot open database "{database}" requested by the login. The login failed.', 11)


class SqlEngine:
    """`users`: login name -> password, all with sysadmin's rights; `databases`: made at once beside the system databases, where they
    are not there yet. `tokens`: those that are taken at the moment -> the identity that each is of, which may log in by token alone and
    has no rights before it is given a user (FROM EXTERNAL PROVIDER); an identity with the name of a login is that login. Raises
    DataDirectoryError.
    """

    def __init__(
        self,
        *,
        users: Mapping[str, str],
        databases: Sequence[str] = (),
        extension: Extension | None = None,
        data_dir: Path | None = None,
        clock: Callable[[], datetime] = utc_now,
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        self.extension = extension
        self.clock = clock
        self.plans = PlanCache()
        self.on_kill: Callable[[int], None] | None = None
        """Called with a session id when KILL ends that session: the server closes the client's connection, whose thread then
        closes the session. While nobody has registered, the session is closed at once."""
        self.home: Home = TemporaryHome() if data_dir is None else DataDirectory(data_dir)
        kept = self.home.load(_SECURITY)
        self.security = Security(users, None if kept is None else archive.read(kept))
        self.tokens = {} if tokens is None else tokens
        self.application_locks = ApplicationLocks()
        self.configuration = Configuration()
        self._guard = threading.RLock()
        self._states = DatabaseStates(self, self._guard)
        self._databases: dict[str, StoredDatabase] = {}
        self._sessions: dict[int, SqlSession] = {}
        self._session_ids = count(51)
        self._descriptors = count(1)
        self._closed = False
        self._keep_state()
        self._restore()
        for name in (*_SYSTEM, *databases):
            if self.find(name) is None:
                self.create_database(name)

    def _keep_state(self) -> None:
        """Take up the settings of an earlier run, and save what belongs to the server from now on."""
        if not self.home.keeps:
            return
        kept = self.home.load(_CONFIGURATION)
        if kept is not None:
            self.configuration.restore(archive.read(kept))
        self.security.saved = lambda: self.home.save(_SECURITY, archive.written(self.security.state()))
        self.configuration.saved = lambda: self.home.save(_CONFIGURATION, archive.written(self.configuration.state()))
        self.security.saved()

    def _restore(self) -> None:
        """Open the databases of an earlier run."""
        for record in self.home.databases():
            database = self._databases[record.name.lower()] = self._opened(record)
            session = SqlSession(self, 0, LoginRequest("", ""), database)
            restore_filters(session, database)
            session.close()
            if self.extension is not None:
                self.extension.attach(database)
            database.availability = Availability(record.access, record.offline)

    def _opened(self, record: DatabaseRecord) -> StoredDatabase:
        path, new = file_of(self.home, record.number), record.name == _ALWAYS_NEW
        if new:
            remove(path)
        database = StoredDatabase(
            record.name,
            record.number,
            path,
            self.clock,
            collation=record.collation,
            kept=self.home.keeps and not new,
            first_transaction=self.home.starts * _TRANSACTIONS_A_START,
        )
        database.created = self.clock() if new else record.created
        database.snapshot_allowed = record.snapshot_allowed
        database.read_committed_snapshot = record.read_committed_snapshot
        database.recovery_model = record.recovery_model or database.recovery_model
        return database

    # -- results.Engine

    def login(self, request: LoginRequest) -> Session:
        """Raises SqlError 18456, 4060."""
        if request.token is not None:
            request = self._identified(request, request.token)
        elif not self.security.authenticated(request.user, request.password):
            raise SqlError(18456, f"Login failed for user '{request.user}'.", 14)
        known = self.security.logins[request.user.lower()]
        database = self.find(request.database or known.database)
        if database is None or not self.security.may_enter(known.name, database.database_id, database.name):
            raise cannot_open(request.database)
        with self._guard:
            try:
                self._states.admit(database, DatabaseRights(self.security, known.name, database, None))
            except SqlError as shut:
                raise cannot_open(request.database or database.name) from shut
            session = SqlSession(self, next(self._session_ids), request, database)
            self._sessions[session.session_id] = session
        return session

    def identity(self, name: str) -> bool:
        """Whether this is an identity that the directory knows; from then on it is known to the server too."""
        if name.lower() not in {known.lower() for known in self.tokens.values()}:
            return False
        with self.security.guard:
            if name.lower() not in self.security.logins:  # nobody has its password
                self.security.add_login(name, secrets.token_urlsafe(), "master")
        return True

    def _identified(self, request: LoginRequest, token: str) -> LoginRequest:
        """The login that a token is for. https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues"""
        name = self.tokens.get(token, "")
        if not self.identity(name) or not self.security.logins[name.lower()].enabled:
            raise SqlError(18456, "Login failed for user '<token-identified principal>'.", 14)
        return replace(request, user=name, password="", token=None)

    def session_ended(self, session_id: int) -> None:
        """It is gone, or begins anew: what it held for as long as it lasts is free."""
        self.application_locks.release_session(session_id)
        if self.extension is not None:
            self.extension.session_ended(session_id)

    def close(self) -> None:
        """Ends every session, stops the extension, removes temporary files. May be called twice."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
            sessions = list(self._sessions.values())
        # Sessions first: a capture thread may be waiting for a transaction that one of them left open.
        for session in sessions:
            session.close()
        if self.extension is not None:
            self.extension.close()
        for database in self.databases():
            database.close()
        self.home.close()

    # -- databases

    def database(self, name: str) -> Database:
        """Raises SqlError 911."""
        found = self.find(name)
        if found is None:
            raise unknown_database(name)
        return found

    def find(self, name: str) -> StoredDatabase | None:
        return self._databases.get(name.lower())

    def databases(self) -> list[StoredDatabase]:
        with self._guard:
            return list(self._databases.values())

    def create_database(self, name: str, collation: str = "") -> StoredDatabase:
        """`collation`: a known name, "" for the server's. Raises SqlError 1801."""
        with self._guard:
            if name.lower() in self._databases:
                text = f"Database '{name}' already exists. Choose a different database name."
                raise SqlError(1801, text, 16, 3)
            record = self.home.new_database(name, collation, self.clock())
            made = self._databases[name.lower()] = self._opened(record)
            return made

    def log(self, database: StoredDatabase) -> LogState:
        """How far its log has come; where the extension does not count, it stands still."""
        extension = None if database.availability.offline else self.extension
        counted = extension.log(database) if extension is not None else None
        return counted or UNCOUNTED

    def save_options(self, database: StoredDatabase) -> None:
        """Keep what ALTER DATABASE said, unless the database was dropped meanwhile."""
        with self._guard:
            if self.find(database.name) is not database:
                return
            self.home.save_database(
                DatabaseRecord(
                    database.database_id,
                    database.name,
                    database.collation,
                    database.created,
                    database.snapshot_allowed,
                    database.read_committed_snapshot,
                    database.availability.access,
                    database.availability.offline,
                    database.recovery_model,
                )
            )

    def admit(self, database: StoredDatabase, session: StatementSession) -> None:
        """Whether it may come in now. Raises 923, 924, 942."""
        self._states.admit(database, session.rights(database), session)

    def enter(self, database: StoredDatabase, session: StatementSession) -> None:
        """Make it the session's current database. Raises 923, 924, 942."""
        with self._guard:
            self.admit(database, session)
            session.use(database)

    def make_available(
        self, database: StoredDatabase, wanted: Availability, termination: Termination, session: StatementSession
    ) -> None:
        """Raises 5064, 5070, Cancelled."""
        self._states.change(database, wanted, termination, session)

    def await_others(self, database: StoredDatabase, termination: Termination, session: StatementSession) -> None:
        """Until the session is alone in a database. Raises 5070, Cancelled."""
        self._states.alone(database, termination, session)

    def drop_database(self, name: str, if_exists: bool, session: object) -> None:
        """Raises SqlError 3701, 3702."""
        if name.lower() in _SYSTEM:
            raise SqlError(3708, f"Cannot drop the database '{name}' because it is a system database.", 16)
        with self._guard:
            found = self.find(name)
            if found is None:
                if if_exists:
                    return
                text = f"Cannot drop the database '{name}', because it does not exist or you do not have permission."
                raise SqlError(3701, text, 11)
            users = [other for other in self._sessions.values() if other.current() is found]
            captured = found.cdc_enabled and found.for_jobs
            if users or found.active is not None or captured or not found.retire(session):
                raise SqlError(3702, f'Cannot drop database "{found.name}" because it is currently in use.', 16, 4)
            del self._databases[name.lower()]
            self.home.forget_database(found.database_id)
            self.security.forget_database(found.database_id)
            for other in self._sessions.values():
                other.forget_database(found)
            if self.extension is not None:
                self.extension.detach(found)
            found.close()
        remove_files(found)

    # -- for sessions

    def private_database(self, name: str, number: int) -> StoredDatabase:
        return private_database(name, number, self.home.path, self.clock)

    def sessions(self) -> list[SqlSession]:
        with self._guard:
            return list(self._sessions.values())

    def forget(self, session: SqlSession) -> None:
        with self._guard:
            self._sessions.pop(session.session_id, None)

    def kill(self, session_id: int) -> None:
        """KILL: roll the session back and end it. Raises SqlError 6106, 6107."""
        with self._guard:
            victim = self._sessions.get(session_id)
        if victim is None:
            if 0 < session_id <= 50:
                raise SqlError(6107, "Only user processes can be killed.", 14)
            raise SqlError(6106, f"Process ID {session_id} is not an active process ID.", 16)
        if self.on_kill is not None:
            self.on_kill(
                session_id
            )  # before the session ends: what it still writes may not look like an end of its own
        victim.killed = True
        if self.on_kill is None:
            victim.close()

    def next_descriptor(self) -> int:
        return next(self._descriptors)

    def wait(self, seconds: float, cancelled: Cancel) -> None:
        """WAITFOR DELAY. Raises Cancelled."""
        turns.give_up()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if cancelled():
                raise Cancelled
            time.sleep(min(_WAIT_STEP, left))
