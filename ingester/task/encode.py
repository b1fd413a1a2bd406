"""Change -> Message (docs/messages.md), deterministic: the same change gives the same bytes and the same id, whoever encodes it and when."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from functools import lru_cache

import orjson

from common.message import Message, PropertyValue
from common.names import Ordering, Origin, TableName
from ingester.change import OPERATION_NAMES, Change
from ingester.oversize import Oversized
from ingester.position import Position

_ID_LENGTH = 128
"""What Service Bus takes as a message id (quotas page), in characters."""


_TABLES = 4096
"""Tables whose names are remembered."""


@dataclass(frozen=True, slots=True)
class _Names:
    """What the changes of a table have in common."""

    destination: str
    session: str | None


@dataclass(frozen=True, slots=True)
class Encoder:
    """Where the messages come from and go to. `ordering` and `key_buckets`: the queue's settings."""

    origin: Origin
    queue: str
    ordering: Ordering = "table"
    key_buckets: int = 64

    def message(self, change: Change) -> Message:
        """The message of one change."""
        return self._message(change, None)

    def stand_in(self, change: Change, what: Oversized) -> Message:
        """What is sent in the place of a change that fits no message: all but its values, of which the key's are left.

        The application property `oversize` tells it from changes, and `metadata.Oversize` why it is there.
        """
        return self._message(change, what)

    def _message(self, change: Change, oversized: Oversized | None) -> Message:
        table, position, origin = change.table, change.position, self.origin
        names = _names(origin, table, self.ordering)
        operation = OPERATION_NAMES[change.operation]
        lsn, seqval = position.lsn.hex, position.seqval.hex()
        event_id = event_identity(origin.database, table, position)
        metadata: dict[str, object] = {
            "CaptureInstance": change.capture_instance,
            "CommandID": position.command_id,
            "CommitTime": change.commit_time,
            "Database": origin.database,
            "Destination": names.destination,
            "EventID": event_id,
            "IngestQueue": self.queue,
            "LSN": lsn,
            "OperationID": int(change.operation),
            "OperationType": operation,
            "Schema": table.schema,
            "SeqVal": seqval,
            "Server": origin.server,
            "TableName": table.table,
        }
        if change.changed_columns:
            metadata["ChangedColumns"] = change.changed_columns
        if change.unavailable:
            metadata["Unavailable"] = change.unavailable
        body: dict[str, object] = {"data": change.data, "metadata": metadata}
        if change.before is not None:
            body["before"] = change.before
        properties: dict[str, PropertyValue] = {
            "table": table.table,
            "schema": table.schema,
            "database": origin.database,
            "operation": operation,
            "lsn": lsn,
            "destination": names.destination,
        }
        if oversized is not None:
            why = {"Bytes": oversized.size, "Limit": oversized.limit}
            body = {"data": orjson.Fragment(oversized.key), "metadata": {**metadata, "Oversize": why}}
            properties["oversize"] = True
        return Message(
            body=orjson.dumps(body),
            message_id=event_id,
            session_id=self._bucket(change) if self.ordering == "key" and change.key else names.session,
            subject=operation,
            application_properties=properties,
        )

    def _bucket(self, change: Change) -> str | None:
        bucket = zlib.crc32(orjson.dumps(change.key)) % self.key_buckets
        return self.origin.session_id(change.table, "key", bucket=bucket)


@lru_cache(_TABLES)
def _names(origin: Origin, table: TableName, ordering: Ordering) -> _Names:
    """`session`: of every change, where it does not depend on the key; of one without a key."""
    whole: Ordering = "table" if ordering == "key" else ordering
    return _Names(origin.topic(table), origin.session_id(table, whole))


def event_identity(database: str, table: TableName, position: Position) -> str:
    """A pure function of the change, at most 128 characters; long names are stood for by their hash."""
    where = f"{position.lsn.hex}-{position.command_id}-{position.seqval.hex()}-{position.operation}"
    names = f"{database}.{table.key}"
    if len(names) + 1 + len(where) > _ID_LENGTH:
        names = hashlib.sha256(names.encode()).hexdigest()[:32]
    return f"{names}:{where}"
