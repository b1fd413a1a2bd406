"""The stores kept open for looks that follow each other every few seconds: a login at each would be dear, and fill the server's audit.

Each question keeps its deadline. What fails is closed, and the next look opens it again. Nothing is claimed, locked or changed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from common.errors import ConnectionLost, DStreamError
from common.in_time import begun
from common.names import TableName
from ingester.blocks.locks import LocalLockSettings
from ingester.commands.stores import LOCAL, Database, LocksSeen, connection_of, held_by, matches_on, on
from ingester.lock_backends import locks_of
from ingester.locks import Locks
from ingester.settings import IngesterSettings

_ANSWER_SECONDS = 5.0
"""How long a connection from an earlier look may take for its first answer, before another is opened."""


class Kept:
    """One connection to the database and one to the locks, opened when they are needed. For any thread, but for one look at a time."""

    def __init__(self, settings: IngesterSettings) -> None:
        self._settings = settings
        self._connection = connection_of(settings)
        self._locks: Locks | None = None
        self._guard = threading.Lock()
        self._looking = 0
        self._closed = False

    @contextmanager
    def database(self) -> Iterator[Database]:
        """As `stores.database`. Nothing that an earlier look learned is used again."""
        with self._look():
            self._connection.as_new(_ANSWER_SECONDS)
            yield on(self._connection, self._settings)

    def with_matches(self) -> IngesterSettings:
        """As `stores.with_matches`."""
        if not self._settings.selection.patterns:
            return self._settings
        with self._look():
            self._connection.as_new(_ANSWER_SECONDS)
            return matches_on(self._connection, self._settings)

    def locks_seen(self, tables: Sequence[TableName]) -> LocksSeen:
        """As `stores.locks_seen`. May run beside `database`."""
        if isinstance(self._settings.locks, LocalLockSettings):
            return LocksSeen(unknown=DStreamError(LOCAL))
        with self._look():
            earlier = self._locks is not None
            seen = self._locks_seen(tables)
            return self._locks_seen(tables) if earlier and isinstance(seen.unknown, ConnectionLost) else seen

    def _locks_seen(self, tables: Sequence[TableName]) -> LocksSeen:
        locks, self._locks = (
            self._locks,
            None,
        )  # after an error nothing of it is used again: a thread may still wait in it
        try:
            locks = locks_of(self._settings, {}) if locks is None else locks
        except DStreamError as error:
            return LocksSeen(unknown=error)
        seen = held_by(locks, self._settings, tables)
        if seen.unknown is None:
            self._locks = locks
        else:
            begun(locks.close, name="locks")  # it waits for a call that is still under way
        return seen

    def close(self) -> None:
        """Waits for no look: the one that is under way closes everything at its end."""
        with self._guard:
            self._closed = True
            idle = self._looking == 0
        if idle:
            self._shut()

    @contextmanager
    def _look(self) -> Iterator[None]:
        with self._guard:
            self._looking += 1
        try:
            yield
        finally:
            with self._guard:
                self._looking -= 1
                last = self._closed and self._looking == 0
            if last:
                self._shut()

    def _shut(self) -> None:
        self._connection.close()
        locks, self._locks = self._locks, None
        if locks is not None:
            locks.close()
