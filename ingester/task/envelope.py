"""How a change is written into the body of its message: the native envelope, the one that the ingest queue holds. Pure.

Topics may have another one; the router makes it of this one (router/envelopes/).
"""

from __future__ import annotations

from typing import Any, cast

import orjson

from common.message import Body, Metadata
from common.names import Origin
from ingester.change import OPERATION_NAMES, Change
from ingester.oversize import Oversized
from ingester.task.identity import Identity


class NativeEnvelope:
    """`data`, `metadata` and `before`, as docs/messages.md shows them (common/message.py).

    Deterministic: the same change gives the same bytes, because a change that is sent again must be the same message.
    """

    def __init__(self, origin: Origin, queue: str) -> None:
        """`queue`: the ingest queue."""
        self._origin, self._queue = origin, queue

    def change(self, change: Change, identity: Identity) -> bytes:
        body: Body = {"data": change.data, "metadata": self.metadata(change, identity)}
        if change.before is not None:
            body["before"] = change.before
        return orjson.dumps(body)

    def stand_in(self, change: Change, identity: Identity, what: Oversized) -> bytes:
        """Of the message in place of a change that is too large: its key, and why it is there. The router dead-letters it."""
        metadata = self.metadata(change, identity)
        metadata["Oversize"] = {"Bytes": what.size, "Limit": what.limit}
        key = cast(Any, orjson.Fragment(what.key))
        body: Body = {"data": key, "metadata": metadata}
        return orjson.dumps(body)

    def metadata(self, change: Change, identity: Identity) -> Metadata:
        origin = self._origin
        table, operation = change.table, change.operation
        metadata: Metadata = {
            "CaptureInstance": change.capture_instance,
            "CommandID": identity.command_id,
            "CommitTime": change.commit_time,
            "Database": origin.database,
            "Destination": identity.destination,
            "EventID": identity.event_id,
            "IngestQueue": self._queue,
            "LSN": identity.lsn,
            "OperationID": int(operation),
            "OperationType": OPERATION_NAMES[operation],
            "Schema": table.schema,
            "SchemaVersion": change.schema_version,
            "SeqVal": identity.seqval,
            "Server": origin.server,
            "TableName": table.table,
        }
        if change.changed_columns:
            metadata["ChangedColumns"] = change.changed_columns
        if change.unavailable:
            metadata["Unavailable"] = change.unavailable
        if change.transaction is not None:
            metadata["Transaction"] = change.transaction
        if change.history is not None:
            metadata.update(cast(Metadata, change.history))
        return metadata
