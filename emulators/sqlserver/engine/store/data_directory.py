"""Where a server's files are: a data directory that outlives the process, or a temporary one that goes with it.

A data directory has one SQLite file a database, and server.sqlite, which says what databases there are and holds what belongs to the
server: logins, users, permissions, settings. Files are written without waiting for the disk: they survive the death of the process
(kill -9) at any moment, not that of the machine. https://www.sqlite.org/pragma.html#pragma_synchronous
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import tempfile
import threading
from dataclasses import astuple, dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from emulators.sqlserver.engine.store.availability import MULTI_USER

FORMAT = 1
"""Of the files; another number is another format."""

_COLUMNS = (
    "number, name, collation, created, snapshot_allowed, read_committed_snapshot, access, offline, recovery_model"
)
_ADDED = {"access": "TEXT", "offline": "INTEGER", "recovery_model": "TEXT"}
_STARTS = "starts"
_LAST = "last database"


class DataDirectoryError(Exception):
    """The directory cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class DatabaseRecord:
    """A database of the server. `collation`: "" for the server's; `created`: as the server's clock had it."""

    number: int
    name: str
    collation: str
    created: datetime
    snapshot_allowed: bool = False
    read_committed_snapshot: bool = False
    access: str = MULTI_USER
    offline: bool = False
    recovery_model: str = ""


class Home(Protocol):
    """Where an engine's files are, and what it finds there when it starts."""

    path: Path
    keeps: bool
    """Whether what is there outlives the engine."""
    starts: int
    """How often an engine was started here before."""

    def databases(self) -> list[DatabaseRecord]: ...

    def new_database(self, name: str, collation: str, created: datetime) -> DatabaseRecord:
        """Its number is one that was never given before. From here on it is one of `databases`, with or without a file."""
        ...

    def save_database(self, record: DatabaseRecord) -> None: ...

    def forget_database(self, number: int) -> None: ...

    def load(self, name: str) -> str | None:
        """A part of what belongs to the server; None before it was saved."""
        ...

    def save(self, name: str, text: str) -> None: ...

    def close(self) -> None: ...


def file_of(home: Home, number: int) -> Path:
    return home.path / f"{number}.sqlite"


class TemporaryHome:
    """Keeps nothing."""

    keeps = False
    starts = 0

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="sqlserver-emulator-"))
        self._last = 0

    def databases(self) -> list[DatabaseRecord]:
        return []

    def new_database(self, name: str, collation: str, created: datetime) -> DatabaseRecord:
        self._last += 1
        return DatabaseRecord(self._last, name, collation, created)

    def save_database(self, record: DatabaseRecord) -> None: ...

    def forget_database(self, number: int) -> None: ...

    def load(self, name: str) -> str | None:
        return None

    def save(self, name: str, text: str) -> None: ...

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class DataDirectory:
    """One engine's at a time."""

    keeps = True

    def __init__(self, path: Path) -> None:
        """Raises DataDirectoryError when another process has it, its files are of another format, or it cannot be written."""
        self.path = path
        self._guard = threading.Lock()
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(path)
        except OSError as error:
            raise DataDirectoryError(f"the data directory {path} cannot be used: {error}") from error
        try:
            self._server = _opened(path)
        except BaseException:
            os.close(self._lock)
            raise
        self.starts = int(self.load(_STARTS) or 0)
        self.save(_STARTS, str(self.starts + 1))
        self._clear()

    def databases(self) -> list[DatabaseRecord]:
        rows = self._server.execute(f"SELECT {_COLUMNS} FROM databases ORDER BY number").fetchall()
        return [
            DatabaseRecord(
                number,
                name,
                collation,
                datetime.fromisoformat(created),
                bool(snapshot),
                bool(versions),
                access or MULTI_USER,
                bool(offline),
                model or "",
            )
            for number, name, collation, created, snapshot, versions, access, offline, model in rows
        ]

    def new_database(self, name: str, collation: str, created: datetime) -> DatabaseRecord:
        record = DatabaseRecord(int(self.load(_LAST) or 0) + 1, name, collation, created)
        with self._guard:
            self._server.execute("BEGIN")
            self._server.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (_LAST, str(record.number)))
            self._insert(record)
            self._server.execute("COMMIT")
        return record

    def save_database(self, record: DatabaseRecord) -> None:
        with self._guard:
            self._insert(record)

    def _insert(self, record: DatabaseRecord) -> None:
        number, name, collation, created, *options = astuple(record)
        row = (number, name, collation, created.isoformat(), *options)
        marks = ", ".join("?" * len(row))
        self._server.execute(f"INSERT OR REPLACE INTO databases ({_COLUMNS}) VALUES ({marks})", row)

    def forget_database(self, number: int) -> None:
        with self._guard:
            self._server.execute("DELETE FROM databases WHERE number = ?", (number,))

    def load(self, name: str) -> str | None:
        with self._guard:
            row = self._server.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def save(self, name: str, text: str) -> None:
        with self._guard:
            self._server.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, text))

    def close(self) -> None:
        """Another engine may have it then."""
        self._server.close()
        os.close(self._lock)

    def _clear(self) -> None:
        """Files that a killed process left: sessions' own, and of databases that were dropped or not yet made."""
        known = {str(record.number) for record in self.databases()}
        for found in self.path.glob("*.sqlite*"):
            stem = found.name.partition(".")[0]
            if stem.startswith("session-") or (stem.isdigit() and stem not in known):
                found.unlink()


def _locked(path: Path) -> int:
    """A descriptor whose lock ends with the process, however that ends."""
    descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise DataDirectoryError(
            f"the data directory {path} is in use by another emulator (process {holder}): stop that one or take another directory"
        ) from None
    os.truncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    return descriptor


def _opened(path: Path) -> sqlite3.Connection:
    file = path / "server.sqlite"
    if not file.exists() and any(path.glob("*.sqlite")):
        raise DataDirectoryError(f"the data directory {path} has databases and no server.sqlite: {_REMEDY}")
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))  # it holds passwords
    server = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    try:
        _check_format(server, path)
    except BaseException:
        server.close()
        raise
    return server


_REMEDY = "remove it or take another directory"


def _check_format(server: sqlite3.Connection, path: Path) -> None:
    try:
        (found,) = server.execute("PRAGMA user_version").fetchone()
        (tables,) = server.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        raise DataDirectoryError(
            f"server.sqlite in the data directory {path} cannot be read ({error}): {_REMEDY}"
        ) from error
    if tables and found != FORMAT:
        raise DataDirectoryError(
            f"the data directory {path} is of another version of the emulator (format {found}, not {FORMAT}): {_REMEDY}"
        )
    server.execute("PRAGMA journal_mode = WAL")
    server.execute("PRAGMA synchronous = OFF")
    server.execute("BEGIN")
    server.execute("CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT)")
    server.execute(
        "CREATE TABLE IF NOT EXISTS databases (number INTEGER PRIMARY KEY, name TEXT, collation TEXT, created TEXT, "
        "snapshot_allowed INTEGER, read_committed_snapshot INTEGER)"
    )
    known = {row[1] for row in server.execute("PRAGMA table_info(databases)")}
    for column, kind in _ADDED.items():  # a directory of before has none of them
        if column not in known:
            server.execute(f"ALTER TABLE databases ADD COLUMN {column} {kind}")
    server.execute(f"PRAGMA user_version = {FORMAT}")
    server.execute("COMMIT")
