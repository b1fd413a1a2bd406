"""Change -> Message (SPEC 5), deterministic: the same change gives the same bytes and the same id, whoever encodes it and when."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from common.message import Message, PropertyValue
from common.names import Ordering, Origin, TableName
from ingester.change import OPERATION_NAMES, Change
from ingester.lsn import Position
from ingester.oversize import Oversized

_ID_LENGTH = 128
"""What Service Bus takes as a message id (quotas page), in characters."""


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
        table = change.table
        destination = self.origin.topic(table)
        operation = OPERATION_NAMES[change.operation]
        event_id = event_identity(self.origin.database, table, change.position)
        lsn = change.position.lsn.hex
        metadata = self._metadata(change, destination, event_id)
        body: dict[str, object] = {"data": change.data, "metadata": metadata}
        if change.before is not None:
            body["before"] = change.before
        properties: dict[str, PropertyValue] = {
            "table": table.table,
            "schema": table.schema,
            "database": self.origin.database,
            "operation": operation,
            "lsn": lsn,
            "destination": destination,
        }
        if oversized is not None:
            why = {"Bytes": oversized.size, "Limit": oversized.limit}
            body = {"data": orjson.Fragment(oversized.key), "metadata": {**metadata, "Oversize": why}}
            properties["oversize"] = True
        return Message(
            body=orjson.dumps(body),
            message_id=event_id,
            session_id=self._session(change),
            subject=operation,
            application_properties=properties,
        )

    def _metadata(self, change: Change, destination: str, event_id: str) -> Mapping[str, object]:
        position = change.position
        metadata: dict[str, object] = {
            "CaptureInstance": change.capture_instance,
            "CommandID": position.command_id,
            "CommitTime": change.commit_time,
            "Database": self.origin.database,
            "Destination": destination,
            "EventID": event_id,
            "IngestQueue": self.queue,
            "LSN": position.lsn.hex,
            "OperationID": int(change.operation),
            "OperationType": OPERATION_NAMES[change.operation],
            "Schema": change.table.schema,
            "SeqVal": position.seqval.hex(),
            "Server": self.origin.server,
            "TableName": change.table.table,
        }
        if change.changed_columns:
            metadata["ChangedColumns"] = change.changed_columns
        if change.unavailable:
            metadata["Unavailable"] = change.unavailable
        return metadata

    def _session(self, change: Change) -> str | None:
        if self.ordering != "key" or not change.key:
            return self.origin.session_id(change.table, "table" if self.ordering == "key" else self.ordering)
        bucket = zlib.crc32(orjson.dumps(change.key)) % self.key_buckets
        return self.origin.session_id(change.table, "key", bucket=bucket)


def event_identity(database: str, table: TableName, position: Position) -> str:
    """A pure function of the change, at most 128 characters; long names are stood for by their hash."""
    where = f"{position.lsn.hex}-{position.command_id}-{position.seqval.hex()}-{position.operation}"
    names = f"{database}.{table.key}"
    if len(names) + 1 + len(where) > _ID_LENGTH:
        names = hashlib.sha256(names.encode()).hexdigest()[:32]
    return f"{names}:{where}"
