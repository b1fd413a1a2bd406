"""What of a namespace must outlive the process: hubs and events, in an SQLite file of a directory.

Every call but `commit` only takes note; `commit` is called once a turn of the event loop, before any answer of that turn leaves. A commit that
fails is final: it and every later one raises, because what the hub believes and what the file says have parted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from emulators.servicebus.amqp.decode import decode
from emulators.servicebus.amqp.encode import encode

from .event import Event

FILE: Final = "eventhubs.sqlite3"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS hub (
    name TEXT PRIMARY KEY, spelled TEXT, partitions INTEGER, groups TEXT, status TEXT, created_at INTEGER
);
CREATE TABLE IF NOT EXISTS event (
    hub TEXT, partition INTEGER, sequence INTEGER, offset INTEGER, enqueued_at INTEGER, size INTEGER, message_id BLOB, key TEXT,
    annotations BLOB, annotation_count INTEGER, tail BLOB, PRIMARY KEY (hub, partition, sequence)
) WITHOUT ROWID;
"""

HubRow = tuple[str, int, tuple[str, ...], str, int]
"""Name, partitions, consumer groups, status, when it was created."""


class Journal(Protocol):
    """Takes note of changes. Hubs by name in lower case, but where they are saved."""

    def hubs(self) -> Iterator[HubRow]:
        """Those that are kept."""
        ...

    def events(self, hub: str) -> Iterator[tuple[int, Event]]:
        """Those of a hub with the number of their partition, in order."""
        ...

    def save_hub(self, name: str, partitions: int, groups: tuple[str, ...], status: str, created_at: int) -> None:
        """A new hub, or its new status."""
        ...

    def drop_hub(self, name: str) -> None:
        """With its events."""
        ...

    def save_events(self, hub: str, partition: int, events: list[Event]) -> None:
        """New events."""
        ...

    def commit(self) -> None:
        """Make everything noted safe, all of it or nothing. Raises OSError."""
        ...


class Forgetful:
    """The journal of a namespace in memory: nothing is kept."""

    def hubs(self) -> Iterator[HubRow]:
        """None."""
        return iter(())

    def events(self, hub: str) -> Iterator[tuple[int, Event]]:
        """None."""
        return iter(())

    def save_hub(self, name: str, partitions: int, groups: tuple[str, ...], status: str, created_at: int) -> None:
        """Nothing."""

    def drop_hub(self, name: str) -> None:
        """Nothing."""

    def save_events(self, hub: str, partition: int, events: list[Event]) -> None:
        """Nothing."""

    def commit(self) -> None:
        """Nothing."""


class SqliteJournal:
    """Implements `Journal` on the file of a directory, which no other process may use until `close`. Raises OSError."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._failure: str | None = None
        self._noted: list[tuple[str, list[tuple[Any, ...]]]] = []
        try:
            self._file = sqlite3.connect(directory / FILE, isolation_level=None, timeout=0, check_same_thread=False)
            for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
                self._file.execute(f"PRAGMA {pragma}")
            self._file.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise OSError(f"{directory / FILE} cannot be used: {error}") from error

    def hubs(self) -> Iterator[HubRow]:
        for spelled, partitions, groups, status, created_at in self._file.execute(
            "SELECT spelled, partitions, groups, status, created_at FROM hub"
        ):
            yield spelled, partitions, tuple(json.loads(groups)), status, created_at

    def events(self, hub: str) -> Iterator[tuple[int, Event]]:
        for row in self._file.execute("SELECT * FROM event WHERE hub = ? ORDER BY partition, sequence", (hub,)):
            _, partition, sequence, offset, enqueued_at, size, message_id, key, annotations, count, tail = row
            named = decode(message_id, 0)[0]
            yield partition, Event(size, named, key, annotations, count, tail, sequence, offset, enqueued_at)

    def save_hub(self, name: str, partitions: int, groups: tuple[str, ...], status: str, created_at: int) -> None:
        row = (name.lower(), name, partitions, json.dumps(groups), status, created_at)
        self._noted.append(("INSERT OR REPLACE INTO hub VALUES (?, ?, ?, ?, ?, ?)", [row]))

    def drop_hub(self, name: str) -> None:
        self._noted.append(("DELETE FROM event WHERE hub = ?", [(name,)]))
        self._noted.append(("DELETE FROM hub WHERE name = ?", [(name,)]))

    def save_events(self, hub: str, partition: int, events: list[Event]) -> None:
        rows = [
            (
                hub, partition, e.sequence, e.offset, e.enqueued_at, e.size, encode(e.message_id), e.key, e.annotations,
                e.count, e.tail,
            )
            for e in events
        ]  # fmt: skip
        self._noted.append((f"INSERT INTO event VALUES ({', '.join('?' * 11)})", rows))

    def commit(self) -> None:
        if self._failure is not None:
            raise OSError(self._failure)
        if not self._noted:
            return
        noted, self._noted = self._noted, []
        try:
            self._file.execute("BEGIN IMMEDIATE")
            for statement, rows in noted:
                self._file.executemany(statement, rows)
            self._file.execute("COMMIT")
        except Exception as error:  # whatever it is, the file has not got what the hub believes it has
            self._failure = f"the data file could not be written, and what cannot be kept is not accepted: {error}"
            with suppress(sqlite3.Error):
                self._file.rollback()
            raise OSError(self._failure) from error

    def close(self) -> None:
        """Give the directory free; notes that were not committed are lost. Safe to call twice."""
        self._failure = "the data file is closed"
        self._file.close()
