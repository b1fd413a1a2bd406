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
    destination, session_id, names = _of_table(origin, change.table, ordering)
    if ordering == "key" and change.key:
        session_id = _of_bucket(origin, change.table, zlib.crc32(orjson.dumps(change.key)) % key_buckets)
    place, lsn, command_id, seqval = change.position.place()
    return Identity(_event_id(names, place), session_id, destination, lsn, command_id, seqval)


def _event_id(names: tuple[str, str], place: str) -> str:
    """A pure function of the change, at most 128 characters. Names that are too long are replaced by their hash."""
    whole, digest = names
    return (whole if len(whole) + len(place) <= _ID_LENGTH else digest) + place


def _names(database: str, table: TableName) -> tuple[str, str]:
    """Database and table as an event id begins with them, and their hash."""
    names = f"{database}.{table.key}"
    return f"{names}:", f"{hashlib.sha256(names.encode()).hexdigest()[:32]}:"


@lru_cache(_TABLES)
def _of_table(origin: Origin, table: TableName, ordering: Ordering) -> tuple[str, str | None, tuple[str, str]]:
    """Destination; the session of every change that has none by its key; see `_names`."""
    session_id = origin.session_id(table, "table" if ordering == "key" else ordering)
    return origin.topic(table), session_id, _names(origin.database, table)


@lru_cache(_SESSIONS)
def _of_bucket(origin: Origin, table: TableName, bucket: int) -> str | None:
    return origin.session_id(table, "key", bucket=bucket)
