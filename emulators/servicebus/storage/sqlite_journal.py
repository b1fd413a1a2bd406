"""The journal that keeps: notes are gathered in memory, and a commit is one transaction of the data file.

Notes about the same thing replace each other, so a message that comes and goes within a turn is never written. Rows are
built in `commit`, from what the messages are by then. A commit that fails is final: nothing of it is kept, and this and every
later commit raises, because what the broker believes and what the file says have parted.

`commit` runs on the event loop and blocks it for as long as the disk takes to flush. A thread would free the loop for that
time only to gather input whose answers wait for the next flush; as it is, the sockets' buffers gather it, and the next turn
commits everything that came meanwhile at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from emulators.servicebus.amqp.decode import decode
from emulators.servicebus.amqp.encode import encode
from emulators.servicebus.amqp.values import Value
from emulators.servicebus.description import Description
from emulators.servicebus.journal import DEAD_LETTERS, SCHEDULE, TRANSFER_DEAD_LETTERS
from emulators.servicebus.message import Message
from emulators.servicebus.rules.description import RuleInfo

from .data_file import FILE, SEQUENCE_BITS, UNREADABLE, Row, damaged, message_key, message_row, open_data
from .description_codec import entity_to_json, rule_to_json

_SUFFIXES: Final = ("", DEAD_LETTERS, TRANSFER_DEAD_LETTERS, SCHEDULE)
_KEPT_ENTITY: Final = "INSERT OR REPLACE INTO entity VALUES (?, ?, ?, ?, ?)"
_KEPT_RULE: Final = (
    "INSERT INTO rule VALUES (?, ?, ?, ?, ?) ON CONFLICT (subscription, name) DO UPDATE SET "
    "spelled = excluded.spelled, description = excluded.description, created_at = excluded.created_at"
)
_GONE_RULE: Final = "DELETE FROM rule WHERE subscription = ? AND name = ?"
_KEPT_SEQUENCE: Final = "UPDATE shelf SET last_sequence = ? WHERE number = ?"
_KEPT_MESSAGE: Final = "INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_GONE_MESSAGE: Final = "DELETE FROM message WHERE key = ?"
_KEPT_SESSION: Final = "INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?)"
_GONE_SESSION: Final = "DELETE FROM session WHERE shelf = ? AND id = ?"
_KEPT_SEEN: Final = "INSERT INTO seen VALUES (?, ?, ?, ?)"
_GONE_SEEN: Final = "DELETE FROM seen WHERE number = ?"


class SqliteJournal:
    """Implements `Journal` on the data file of a directory, held from here to `close`. Raises OSError.

    `recovery.recover` puts back what an earlier one kept.
    """

    def __init__(self, directory: Path) -> None:
        self.file = directory / FILE
        self.connection = open_data(directory)
        self._failure: str | None = None
        self._shelves: dict[str, int] = {}
        self._seen_rows: dict[str, dict[Value, int]] = {}
        self._last_seen = 0
        self._forget_notes()
        try:
            self._read_numbers()
        except UNREADABLE as error:
            self.close()
            raise damaged(self.file, error) from error

    def _read_numbers(self) -> None:
        self._shelves = dict(self.connection.execute("SELECT name, number FROM shelf"))
        names = {number: name for name, number in self._shelves.items()}
        for number, shelf, octets in self.connection.execute("SELECT number, shelf, message_id FROM seen"):
            self._seen_rows.setdefault(names[shelf], {})[decode(octets, 0)[0]] = number
            self._last_seen = max(self._last_seen, number)

    def _forget_notes(self) -> None:
        self._noted = False
        self._emptied: set[str] = set()
        self._entities: dict[str, Row] = {}
        self._rules: dict[tuple[str, str], RuleInfo | None] = {}
        self._messages: dict[str, dict[int, Message | None]] = {}
        self._sequences: dict[str, int] = {}
        self._sessions: dict[tuple[str, str], tuple[bytes | None, int]] = {}
        self._seen: dict[str, dict[Value, int | None]] = {}

    # -- notes: see `Journal`

    def save_entity(self, path: str, description: Description, created_at: datetime, updated_at: datetime) -> None:
        """See `Journal`."""
        self._noted = True
        times = (created_at.isoformat(), updated_at.isoformat())
        self._entities[path.lower()] = (path.lower(), path, entity_to_json(description), *times)

    def drop_entity(self, path: str) -> None:
        """See `Journal`."""
        self._noted = True
        key = path.lower()
        self._emptied.add(key)
        self._entities.pop(key, None)
        self._seen.pop(key, None)
        for rule in [rule for rule in self._rules if rule[0] == key]:
            del self._rules[rule]
        for shelf in (key + suffix for suffix in _SUFFIXES):
            self._messages.pop(shelf, None)
            self._sequences.pop(shelf, None)
            for session in [session for session in self._sessions if session[0] == shelf]:
                del self._sessions[session]

    def save_rule(self, subscription: str, rule: RuleInfo) -> None:
        """See `Journal`."""
        self._noted = True
        self._rules[subscription.lower(), rule.name.lower()] = rule

    def drop_rule(self, subscription: str, name: str) -> None:
        """See `Journal`."""
        self._noted = True
        self._rules[subscription.lower(), name.lower()] = None

    def save_message(self, shelf: str, message: Message) -> None:
        """See `Journal`."""
        self._noted = True
        self._messages.setdefault(shelf, {})[message.sequence] = message

    def drop_message(self, shelf: str, sequence: int) -> None:
        """See `Journal`."""
        self._noted = True
        self._messages.setdefault(shelf, {})[sequence] = None

    def save_sequence(self, shelf: str, sequence: int) -> None:
        """See `Journal`."""
        self._noted = True
        self._sequences[shelf] = sequence

    def save_session_state(self, shelf: str, session_id: str, state: bytes | None, changed_at: int) -> None:
        """See `Journal`."""
        self._noted = True
        self._sessions[shelf, session_id] = (state, changed_at)

    def save_seen(self, path: str, message_id: Value, at: int) -> None:
        """See `Journal`."""
        self._noted = True
        self._seen.setdefault(path.lower(), {})[message_id] = at

    def drop_seen(self, path: str, message_id: Value) -> None:
        """See `Journal`."""
        self._noted = True
        self._seen.setdefault(path.lower(), {})[message_id] = None

    # -- writing

    def commit(self) -> None:
        """See `Journal`."""
        if self._failure is not None:
            raise OSError(self._failure)
        if not self._noted:
            return
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            self._write()
            self.connection.execute("COMMIT")
        except Exception as error:  # whatever it is, the file has not got what the broker believes it has
            self._failure = f"the data file could not be written, and what cannot be kept is not accepted: {error}"
            with suppress(sqlite3.Error):
                self.connection.rollback()
            raise OSError(self._failure) from error
        self._forget_notes()

    def close(self) -> None:
        """Give the data directory free; notes that were not committed are lost. Safe to call twice."""
        self._failure = "the data file is closed"
        self.connection.close()

    def _write(self) -> None:
        for key in self._emptied:
            self._empty(key)
        self._many(_KEPT_ENTITY, self._entities.values())
        for (subscription, name), rule in self._rules.items():
            if rule is None:
                self.connection.execute(_GONE_RULE, (subscription, name))
            else:
                about = (rule_to_json(rule.description), rule.created_at.isoformat())
                self.connection.execute(_KEPT_RULE, (subscription, name, rule.name, *about))
        for shelf, messages in self._messages.items():
            number = self._number(shelf)
            self._many(_GONE_MESSAGE, ((message_key(number, s),) for s, m in messages.items() if m is None))
            kept = ((message_key(number, s), m) for s, m in messages.items() if m is not None)
            self._many(_KEPT_MESSAGE, (message_row(key, message) for key, message in kept))
        self._many(_KEPT_SEQUENCE, ((last, self._number(shelf)) for shelf, last in self._sequences.items()))
        for (shelf, session), (state, changed_at) in self._sessions.items():
            if state is None:
                self.connection.execute(_GONE_SESSION, (self._number(shelf), session))
            else:
                self.connection.execute(_KEPT_SESSION, (self._number(shelf), session, state, changed_at))
        for path, history in self._seen.items():
            self._write_seen(path, history)

    def _write_seen(self, path: str, history: dict[Value, int | None]) -> None:
        number, rows = self._number(path), self._seen_rows.setdefault(path, {})
        replaced = (rows.pop(message_id, None) for message_id in history)
        self._many(_GONE_SEEN, [(row,) for row in replaced if row is not None])
        added = []
        for message_id, at in history.items():
            if at is not None:
                self._last_seen += 1
                rows[message_id] = self._last_seen
                added.append((self._last_seen, number, encode(message_id), at))
        self._many(_KEPT_SEEN, added)

    def _empty(self, key: str) -> None:
        """Delete an entity and all that is its own; what was noted since is written afterwards."""
        self.connection.execute("DELETE FROM entity WHERE path = ?", (key,))
        self.connection.execute("DELETE FROM rule WHERE subscription = ?", (key,))
        self._many(_GONE_SEEN, [(row,) for row in self._seen_rows.pop(key, {}).values()])
        for shelf in (key + suffix for suffix in _SUFFIXES):
            number = self._shelves.pop(shelf, None)
            if number is not None:
                bounds = (number << SEQUENCE_BITS, (number + 1) << SEQUENCE_BITS)
                self.connection.execute("DELETE FROM message WHERE key >= ? AND key < ?", bounds)
                self.connection.execute("DELETE FROM session WHERE shelf = ?", (number,))
                self.connection.execute("DELETE FROM shelf WHERE number = ?", (number,))

    def _number(self, shelf: str) -> int:
        number = self._shelves.get(shelf)
        if number is None:
            number = 1 + max(self._shelves.values(), default=0)
            self.connection.execute("INSERT INTO shelf VALUES (?, ?, 0)", (number, shelf))
            self._shelves[shelf] = number
        return number

    def _many(self, statement: str, rows: Iterable[Row]) -> None:
        self.connection.executemany(statement, rows)
