"""How a change is written into the body of its message: the native envelope, the one that the ingest queue holds. Pure.

Most of a metadata is the same for all changes of a table with one operation: it is written once, with gaps for the rest (`_Kind`).

Topics may have another one; the router makes it of this one (router/envelopes/).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

import orjson

from common.message import Body, History, Metadata
from common.names import Origin, TableName
from ingester.change import OPERATION_NAMES, Change, Operation
from ingester.oversize import Oversized
from ingester.task.identity import Identity

_GAP: Final = b"\0"
"""No JSON has this octet: it is escaped in texts."""
_ANY: Final[Any] = orjson.Fragment(_GAP)

_ALWAYS: Final = 6
"""Texts around the five gaps that each metadata has: for its command id, commit time, event id, LSN and seqval."""

_KINDS: Final = 512
"""Kinds of changes whose metadata is remembered: tables, operations, and sets of columns that an update writes. Few, because a wide table
whose updates write any columns has no kind that comes again, and several kilobytes for each."""


class _Kind(NamedTuple):
    """What the metadata of many changes have in common. `transaction`: whether it has one. `history`: the keys of that."""

    schema: str
    table: str
    capture_instance: str
    operation: Operation
    changed_columns: tuple[str, ...]
    unavailable: tuple[str, ...]
    schema_version: str
    destination: str
    transaction: bool
    history: tuple[str, ...]


class NativeEnvelope:
    """`data`, `metadata` and `before`, as docs/messages.md shows them (common/message.py).

    Deterministic: the same change gives the same bytes, because a change that is sent again must be the same message.
    """

    def __init__(self, origin: Origin, queue: str) -> None:
        """`queue`: the ingest queue."""
        self._origin, self._queue = origin, queue
        self._written = lru_cache(_KINDS)(self._around_gaps)

    def change(self, change: Change, identity: Identity) -> bytes:
        dumps, table, history = orjson.dumps, change.table, change.history
        written = self._written(
            table.schema,
            table.table,
            change.capture_instance,
            change.operation,
            change.changed_columns,
            change.unavailable,
            change.schema_version,
            identity.destination,
            change.transaction is not None,
            () if history is None else tuple(history),
        )
        data = dumps(change.data)
        parts = [
            b'{"data":',
            data,
            written[0],
            dumps(identity.command_id),
            written[1],
            dumps(change.commit_time),
            written[2],
            dumps(identity.event_id),
            written[3],
            dumps(identity.lsn),
            written[4],
            dumps(identity.seqval),
            written[5],
        ]
        if len(written) > _ALWAYS:
            beside: list[object] = [] if change.transaction is None else [change.transaction]
            beside += [] if history is None else history.values()
            for value, rest in zip(beside, written[_ALWAYS:], strict=True):
                parts += dumps(value), rest
        if change.before is not None:
            parts += b',"before":', data if change.before is change.data else dumps(change.before)
        parts.append(b"}")
        return b"".join(parts)

    def _around_gaps(self, *kind: Any) -> Sequence[bytes]:
        """The metadata of a kind of changes, as it is written before, between and behind what each change has of its own."""
        of = _Kind(*kind)
        change = Change(
            TableName(of.schema, of.table),
            of.capture_instance,
            _ANY,
            of.operation,
            {},
            changed_columns=of.changed_columns,
            unavailable=of.unavailable,
            commit_time=_ANY,
            schema_version=of.schema_version,
            transaction=_ANY if of.transaction else None,
            history=cast(History, dict.fromkeys(of.history, _ANY)),
        )
        metadata = self.metadata(change, Identity(_ANY, None, of.destination, _ANY, _ANY, _ANY))
        return (b',"metadata":' + orjson.dumps(metadata)).split(_GAP)

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
