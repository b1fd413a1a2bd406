"""A namespace read back from its data file.

Locks are not kept, so what a receiver held when the process ended is available again, with the delivery count of its last
settlement: that delivery was not counted, as nobody knows whether it happened. A file whose rows do not say what this
emulator writes is refused as damaged, before anything is served.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from emulators.servicebus.amqp.decode import decode
from emulators.servicebus.amqp.values import Value
from emulators.servicebus.description import Description, EntityMissing, InvalidEntity
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.entities.restoration import (
    restore_message,
    restore_rule,
    restore_seen,
    restore_sequence,
    restore_session_state,
)
from emulators.servicebus.message import Message
from emulators.servicebus.rules.description import RuleInfo

from .data_file import SEQUENCE_BITS, UNREADABLE, damaged, message_of
from .description_codec import entity_from_json, rule_from_json
from .sqlite_journal import SqliteJournal


def recover(journal: SqliteJournal, namespace: Namespace) -> None:
    """Put back into an empty namespace what the journal's file keeps. Raises UnusableData, and then closes the journal."""
    try:
        _restore(journal.connection, namespace)
    except (*UNREADABLE, EntityMissing, InvalidEntity) as error:
        journal.close()
        raise damaged(journal.file, repr(error)) from error


def _restore(connection: sqlite3.Connection, namespace: Namespace) -> None:
    for entity in read_entities(connection):
        namespace.restore_entity(*entity)
    for rule in read_rules(connection):
        restore_rule(namespace, *rule)
    for shelf, sequence in read_sequences(connection):
        restore_sequence(namespace, shelf, sequence)
    for shelf, message in read_messages(connection):
        restore_message(namespace, shelf, message)
    for state in read_session_states(connection):
        restore_session_state(namespace, *state)
    for seen in read_seen(connection):
        restore_seen(namespace, *seen)


class KeptEntity(NamedTuple):
    """As `Journal.save_entity` was told."""

    path: str
    description: Description
    created_at: datetime
    updated_at: datetime


def read_entities(connection: sqlite3.Connection) -> Iterator[KeptEntity]:
    """In order of path, topics therefore before their subscriptions."""
    for spelled, text, *times in connection.execute(
        "SELECT spelled, description, created_at, updated_at FROM entity ORDER BY path"
    ):
        created_at, updated_at = map(datetime.fromisoformat, times)
        yield KeptEntity(spelled, entity_from_json(text), created_at, updated_at)


def read_rules(connection: sqlite3.Connection) -> Iterator[tuple[str, RuleInfo]]:
    """Subscriptions' paths in lower case, and their rules in order of creation."""
    for subscription, spelled, text, created_at in connection.execute(
        "SELECT subscription, spelled, description, created_at FROM rule ORDER BY rowid"
    ):
        yield subscription, RuleInfo(spelled, rule_from_json(text), datetime.fromisoformat(created_at))


def read_sequences(connection: sqlite3.Connection) -> Iterator[tuple[str, int]]:
    """Shelves and the last sequence numbers given out."""
    yield from connection.execute("SELECT name, last_sequence FROM shelf WHERE last_sequence > 0")


def read_messages(connection: sqlite3.Connection) -> Iterator[tuple[str, Message]]:
    """Shelves and their messages, in order of sequence number."""
    shelves = dict(connection.execute("SELECT number, name FROM shelf"))
    for row in connection.execute("SELECT * FROM message ORDER BY key"):
        yield shelves[row[0] >> SEQUENCE_BITS], message_of(row)


def read_session_states(connection: sqlite3.Connection) -> Iterator[tuple[str, str, bytes, int]]:
    """Shelves, session ids, states, and when they changed in milliseconds since the Unix epoch."""
    yield from connection.execute("SELECT name, id, state, changed_at FROM session JOIN shelf ON number = shelf")


def read_seen(connection: sqlite3.Connection) -> Iterator[tuple[str, Value, int]]:
    """Entities' paths in lower case, message ids and when they were seen, oldest first."""
    for path, octets, at in connection.execute(
        "SELECT name, message_id, at FROM seen JOIN shelf ON shelf.number = seen.shelf ORDER BY seen.number"
    ):
        yield path, decode(octets, 0)[0], at
