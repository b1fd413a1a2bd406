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
    """`event_id`: a pure function of the change, at most 128 characters; names that are too long are replaced by their hash.
    `session_id`: None where the queue has no sessions. `lsn`, `command_id` and `seqval`: of its position."""

    event_id: str
    session_id: str | None
    destination: str
    lsn: str
    command_id: int
    seqval: str


class Identities:
    """Gives the changes of one database their identities. What a table's have in common is found once for many changes of it."""

    def __init__(self, origin: Origin, ordering: Ordering, key_buckets: int) -> None:
        """`ordering` and `key_buckets`: the queue's settings. With ordering by key, a table without a key has one session."""
        self._origin, self._ordering, self._key_buckets = origin, ordering, key_buckets
        self._last: _OfTable | None = None

    def of(self, change: Change) -> Identity:
        last = self._last
        if last is None or change.table is not last.table or change.topic != last.topic:
            last = self._last = _of_table(self._origin, change.table, self._ordering, change.topic)
        session_id = last.session_id
        if self._ordering == "key" and change.key:
            bucket = zlib.crc32(orjson.dumps(change.key)) % self._key_buckets
            session_id = _of_bucket(self._origin, change.table, bucket, change.topic)
        place, lsn, command_id, seqval = change.position.place()
        whole, digest = last.names
        event_id = (whole if len(whole) + len(place) <= _ID_LENGTH else digest) + place
        return Identity(event_id, session_id, last.destination, lsn, command_id, seqval)


def identity(change: Change, origin: Origin, ordering: Ordering, key_buckets: int) -> Identity:
    """Of one change."""
    return Identities(origin, ordering, key_buckets).of(change)


def event_ids_begin(database: str, table: TableName) -> tuple[str, str]:
    """Both beginnings that the event ids of a table's changes may have, the colon included; which one depends on their length."""
    return _names(database, table)


def _names(database: str, table: TableName) -> tuple[str, str]:
    """Database and table as an event id begins with them, and their hash."""
    names = f"{database}.{table.key}"
    return f"{names}:", f"{hashlib.sha256(names.encode()).hexdigest()[:32]}:"


class _OfTable(NamedTuple):
    """`session_id`: of every change that has none by its key. `names`: see `_names`."""

    table: TableName
    topic: str | None
    destination: str
    session_id: str | None
    names: tuple[str, str]


@lru_cache(_TABLES)
def _of_table(origin: Origin, table: TableName, ordering: Ordering, topic: str | None) -> _OfTable:
    """`topic`: see Change."""
    by_table: Ordering = "table" if ordering == "key" else ordering
    names = _names(origin.database, table)
    if topic is not None:
        return _OfTable(table, topic, topic, origin.side_session_id(table, topic, by_table), names)
    return _OfTable(table, None, origin.topic(table), origin.session_id(table, by_table), names)


@lru_cache(_SESSIONS)
def _of_bucket(origin: Origin, table: TableName, bucket: int, topic: str | None) -> str | None:
    if topic is not None:
        return origin.side_session_id(table, topic, "key", bucket=bucket)
    return origin.session_id(table, "key", bucket=bucket)
