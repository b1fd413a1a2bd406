"""The database server behind the wire: logins, sessions and databases. Implements results.Engine.

Databases live in files of a temporary directory, or of `data_dir`, for as long as the engine runs: the catalog is in memory, so
files of an earlier run are refused, not opened.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from emulators.sqlserver.engine.application_locks import ApplicationLocks
from emulators.sqlserver.engine.configuration import Configuration
from emulators.sqlserver.engine.database import StoredDatabase
from emulators.sqlserver.engine.extension import Database, Extension
from emulators.sqlserver.engine.locks import Cancelled
from emulators.sqlserver.engine.private import private_database, remove_files
from emulators.sqlserver.engine.runner import PlanCache
from emulators.sqlserver.engine.security import Security
from emulators.sqlserver.engine.session import SqlSession
from emulators.sqlserver.results import Cancel, LoginRequest, Session, SqlError
from emulators.sqlserver.tsql.errors import unknown_database

_SYSTEM = ("master", "tempdb", "model", "msdb")
_WAIT_STEP = 0.05


def utc_now() -> datetime:
    """The emulator's server clock is UTC, without a zone, as GETDATE() gives it."""
    return datetime.now(UTC).replace(tzinfo=None)


class SqlEngine:
    """`users`: login name -> password, all with sysadmin's rights; `databases`: made at once beside the system databases."""

    def __init__(
        self,
        *,
        users: Mapping[str, str],
        databases: Sequence[str] = (),
        extension: Extension | None = None,
        data_dir: Path | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.extension = extension
        self.clock = clock
        self.plans = PlanCache()
        self.on_kill: Callable[[int], None] | None = None
        """Called with a session id when KILL ends that session: the server closes the client's connection, whose thread then
        closes the session. While nobody has registered, the session is closed at once."""
        self.security = Security(users)
        self.application_locks = ApplicationLocks()
        self.configuration = Configuration()
        self._temporary = data_dir is None
        self._directory = Path(tempfile.mkdtemp(prefix="sqlserver-emulator-")) if data_dir is None else data_dir
        self._directory.mkdir(parents=True, exist_ok=True)
        self._guard = threading.RLock()
        self._databases: dict[str, StoredDatabase] = {}
        self._sessions: dict[int, SqlSession] = {}
        self._ids = count(1)
        self._session_ids = count(51)
        self._descriptors = count(1)
        self._closed = False
        for name in (*_SYSTEM, *databases):
            self.create_database(name)

    # -- results.Engine

    def login(self, request: LoginRequest) -> Session:
        """Raises SqlError 18456, 4060."""
        if not self.security.authenticated(request.user, request.password):
            raise SqlError(18456, f"Login failed for user '{request.user}'.", 14)
        known = self.security.logins[request.user.lower()]
        database = self.find(request.database or known.database)
        if database is None or not self.security.may_enter(known.name, database.database_id, database.name):
            text = f'Cannot open database "{request.database}" requested by the login. The login failed.'
            raise SqlError(4060, text, 11)
        with self._guard:
            session = SqlSession(self, next(self._session_ids), request, database)
            self._sessions[session.session_id] = session
        return session

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
        if self._temporary:
            shutil.rmtree(self._directory, ignore_errors=True)

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
        """`collation`: a known name, "" for the server's. Raises SqlError 1801, FileExistsError for a file of an earlier run."""
        with self._guard:
            if name.lower() in self._databases:
                text = f"Database '{name}' already exists. Choose a different database name."
                raise SqlError(1801, text, 16, 3)
            number = next(self._ids)
            path = self._directory / f"{number}.sqlite"
            if path.exists():
                raise FileExistsError(f"{path} is of an earlier run; the emulator keeps no catalog on disk")
            made = self._databases[name.lower()] = StoredDatabase(name, number, path, self.clock, collation=collation)
            return made

    def drop_database(self, name: str, if_exists: bool, session: SqlSession) -> None:
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
            if users or found.active is not None or found.cdc_enabled or not found.retire(session):
                raise SqlError(3702, f'Cannot drop database "{found.name}" because it is currently in use.', 16, 4)
            del self._databases[name.lower()]
            self.security.forget_database(found.database_id)
            for other in self._sessions.values():
                other.forget_database(found)
            found.close()
        remove_files(found)

    # -- for sessions

    def private_database(self, name: str) -> StoredDatabase:
        return private_database(name, self._directory, self.clock)

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
        victim.killed = True
        if self.on_kill is not None:
            self.on_kill(session_id)
        else:
            victim.close()

    def next_descriptor(self) -> int:
        return next(self._descriptors)

    def wait(self, seconds: float, cancelled: Cancel) -> None:
        """WAITFOR DELAY. Raises Cancelled."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if cancelled():
                raise Cancelled
            time.sleep(min(_WAIT_STEP, left))
