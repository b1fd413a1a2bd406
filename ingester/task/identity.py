"""Which change a message is, and what it keeps its order with: event id, session id, destination. Pure.

The same change has the same identity whoever sends it and whenever: duplicate detection and consumers depend on it.
"""

from __future__ import annotations

import hashlib
import zlib
from functools import lru_cache
from typing import NamedTuple

import orjson

from common.names import Ordering, Origin, TableName
from ingester.change import Change

_ID_LENGTH = 128
"""Characters of a message id (https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas)."""

_TABLES = 4_096
"""Tables whose names are remembered."""

_SESSIONS = 65_536
"""Sessions of buckets whose ids are remembered."""


class Identity(NamedTuple):
    """`session_id`: None where the queue has no sessions. `lsn`, `command_id` and `seqval`: of its position."""

    event_id: str
    session_id: str | None
    destination: str
    lsn: str
    command_id: int
    seqval: str


def identity(change: Change, origin: Origin, ordering: Ordering, key_buckets: int) -> Identity:
    """`ordering` and `key_buckets`: the queue's settings. With ordering by key, a table without a key has one session."""
    destination, session_id, names = _of_table(origin, change.table, ordering, change.topic)
    if ordering == "key" and change.key:
        bucket = zlib.crc32(orjson.dumps(change.key)) % key_buckets
        session_id = _of_bucket(origin, change.table, bucket, change.topic)
    place, lsn, command_id, seqval = change.position.place()
    return Identity(_event_id(names, place), session_id, destination, lsn, command_id, seqval)


def event_ids_begin(database: str, table: TableName) -> tuple[str, str]:
    """Both beginnings that the event ids of a table's changes may have, the colon included; which one depends on their length."""
    return _names(database, table)


def _event_id(names: tuple[str, str], place: str) -> str:
    """A pure function of the change, at most 128 characters. Names that are too long are replaced by their hash."""
    whole, digest = names
    return (whole if len(whole) + len(place) <= _ID_LENGTH else digest) + place


def _names(database: str, table: TableName) -> tuple[str, str]:
    """Database and table as an event id begins with them, and their hash."""
    names = f"{database}.{table.key}"
    return f"{names}:", f"{hashlib.sha256(names.encode()).hexdigest()[:32]}:"


@lru_cache(_TABLES)
def _of_table(
    origin: Origin, table: TableName, ordering: Ordering, topic: str | None
) -> tuple[str, str | None, tuple[str, str]]:
    """Destination; the session of every change that has none by its key; see `_names`. `topic`: see Change."""
    by_table: Ordering = "table" if ordering == "key" else ordering
    names = _names(origin.database, table)
    if topic is not None:
        return topic, origin.side_session_id(table, topic, by_table), names
    return origin.topic(table), origin.session_id(table, by_table), names


@lru_cache(_SESSIONS)
def _of_bucket(origin: Origin, table: TableName, bucket: int, topic: str | None) -> str | None:
    if topic is not None:
        return origin.side_session_id(table, topic, "key", bucket=bucket)
    return origin.session_id(table, "key", bucket=bucket)
