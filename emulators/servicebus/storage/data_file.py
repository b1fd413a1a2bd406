"""The file that keeps a namespace: one SQLite database in the data directory, held by one emulator at a time.

Write-ahead log, `synchronous=FULL`: SQLite flushes the log to the disk in every commit, so that what is committed survives
the end of the process and the loss of power (with NORMAL, the default elsewhere, power loss may take the last commits;
broker and disk then disagree on what was acknowledged, which is what a broker is there to prevent). The cost is one flush
for all that a turn of the event loop changed, not one for a message.
Refused, each with what to do (`UnusableData`): a directory another emulator uses, a file of a newer format or of another
program, a damaged file. The file does not shrink; the room of gone messages is used again.
Sources: https://sqlite.org/pragma.html (synchronous, locking_mode), https://sqlite.org/wal.html.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

from emulators.servicebus.amqp.encode import encode_list, encode_map_body
from emulators.servicebus.amqp.values import DecodeError
from emulators.servicebus.message import Message, MessageState, parse_message

FILE: Final = "namespace.sqlite"
FORMAT: Final = 1
"""Number of the schema: raised whenever an older emulator would misread the file."""
APPLICATION: Final = 0x53427573
"""SQLite's application_id of our files ("SBus")."""

SEQUENCE_BITS: Final = 40
"""A message's key is its shelf's number and, in this many bits, its sequence number: one B-tree, filled from the right."""

_SCHEMA: Final = """
CREATE TABLE entity (path TEXT PRIMARY KEY, spelled TEXT NOT NULL, description TEXT NOT NULL, created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rule (subscription TEXT, name TEXT, spelled TEXT NOT NULL, description TEXT NOT NULL,
    created_at TEXT NOT NULL, PRIMARY KEY (subscription, name));
CREATE TABLE shelf (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, last_sequence INTEGER NOT NULL);
CREATE TABLE message (key INTEGER PRIMARY KEY, enqueue_sequence INTEGER, enqueued_at INTEGER NOT NULL,
    expires_at INTEGER, scheduled_at INTEGER, ttl INTEGER, delivery_count INTEGER NOT NULL, state INTEGER NOT NULL,
    hops INTEGER NOT NULL, dead_letter_source TEXT, size INTEGER NOT NULL, octets BLOB NOT NULL);
CREATE TABLE session (shelf INTEGER, id TEXT, state BLOB NOT NULL, changed_at INTEGER NOT NULL, PRIMARY KEY (shelf, id));
CREATE TABLE seen (number INTEGER PRIMARY KEY, shelf INTEGER NOT NULL, message_id BLOB NOT NULL, at INTEGER NOT NULL);
"""

_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

UNREADABLE: Final = (sqlite3.Error, LookupError, TypeError, ValueError, DecodeError)
"""What reading rows raises when they do not say what this emulator writes."""

Row = tuple[Any, ...]


class UnusableData(OSError):
    """The data directory cannot be used; the text says why and what to do."""


def damaged(file: Path, why: object) -> UnusableData:
    """The refusal of a file that cannot be read."""
    return UnusableData(
        f"{file} is damaged ({why}). Nothing was changed. Move the directory away to start with an empty namespace; "
        f"'sqlite3 {file} .recover' shows what can still be read of it."
    )


def open_data(directory: Path) -> sqlite3.Connection:
    """The database of a data directory, made when there is none, and held until it is closed. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / FILE
    # The loop's thread uses the connection, the thread that starts and stops the emulator opens and closes it.
    connection = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection, file)
    except sqlite3.Error as error:
        connection.close()
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _BUSY:
            raise UnusableData(
                f"{directory} is in use by another emulator: stop it, or name another directory"
            ) from error
        if code in _DAMAGED:
            raise damaged(file, error) from error
        raise UnusableData(f"{file} cannot be opened: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, file: Path) -> None:
    def pragma(text: str) -> Any:
        return connection.execute(f"PRAGMA {text}").fetchone()[0]

    pragma("locking_mode = EXCLUSIVE")
    application, made_as = pragma("application_id"), pragma("user_version")
    if not application and not made_as and not pragma("schema_version"):
        pragma("journal_mode = WAL")
        connection.executescript(
            f"PRAGMA synchronous = FULL; BEGIN EXCLUSIVE; {_SCHEMA}"
            f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}; COMMIT;"
        )
        return
    if application != APPLICATION:
        raise UnusableData(f"{file} is no data file of this emulator: name another directory")
    if made_as != FORMAT:
        raise UnusableData(
            f"{file} has format {made_as}, and this emulator knows only {FORMAT}: use the emulator that wrote it, "
            "or name another directory"
        )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN EXCLUSIVE")  # whoever else holds the file is found out now, not at the first message
    connection.execute("COMMIT")
    verdict = pragma("quick_check(1)")
    if verdict != "ok":
        raise damaged(file, verdict)


def message_key(shelf: int, sequence: int) -> int:
    """The key of a message. Raises OverflowError."""
    if sequence >> SEQUENCE_BITS:
        raise OverflowError(f"sequence number {sequence} has no place in {SEQUENCE_BITS} bits")
    return shelf << SEQUENCE_BITS | sequence


def message_row(key: int, message: Message) -> Row:
    """A message as a row of the table: everything but its lock."""
    return (
        key,
        message.enqueue_sequence,
        message.enqueued_at,
        message.expires_at,
        message.scheduled_at,
        message.ttl,
        message.delivery_count,
        int(message.state),
        message.hops,
        message.dead_letter_source,
        message.size,
        _octets(message),
    )


def message_of(row: Row) -> Message:
    """The message of a row. Raises DecodeError, ValueError."""
    message = parse_message(row[-1])
    message.sequence = row[0] & ((1 << SEQUENCE_BITS) - 1)
    message.enqueue_sequence, message.enqueued_at, message.expires_at, message.scheduled_at, message.ttl = row[1:6]
    message.delivery_count, state, message.hops, message.dead_letter_source, message.size = row[6:-1]
    message.state = MessageState(state)
    return message


def _octets(message: Message) -> bytes:
    """The message's sections as an AMQP message, which `parse_message` takes apart again."""
    header, annotations = b"", b""
    if message.durable != b"\x40" or message.priority != b"\x40" or not message.tail:
        header = b"\x00\x53\x70" + encode_list((message.durable, message.priority))
    if message.annotation_count:
        annotations = b"\x00\x53\x72" + encode_map_body(message.annotation_count, message.annotations)
    return header + annotations + message.tail if header or annotations else message.tail
