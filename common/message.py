"""A message as both stages see it: the body's bytes and the properties that travel with them. Knows no broker.

The names in a change's message are written here once: `Body` and `Metadata` are the native envelope, `Property` the application properties.
docs/messages.md explains each of them to subscribers. The ingester writes them. The router reads the properties, and the body only where
they do not have what it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypedDict

from common.values.quick import quick


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value of a type that this module does not know, in the octets of the broker's protocol, type included. It is passed on unchanged."""

    octets: bytes


PropertyValue = str | int | float | bool | bytes | Opaque


@quick(frozen=True, slots=True)
class Message:
    """One change on its way (docs/messages.md): what must arrive unchanged at the topic."""

    body: bytes
    message_id: str | None
    session_id: str | None = None
    subject: str | None = None
    content_type: str | None = "application/json"
    partition_key: str | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    reply_to_session_id: str | None = None
    to: str | None = None
    time_to_live: timedelta | None = None
    application_properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    foreign: Mapping[str, Opaque] = field(default_factory=dict)
    """What another sender wrote into fields that are not listed above, or into those above as another type than text, by the field's name.
    For the latter, the text above is for reading only."""


class Property:
    """Names of the application properties of a change."""

    TABLE: Final = "table"
    SCHEMA: Final = "schema"
    DATABASE: Final = "database"
    OPERATION: Final = "operation"
    LSN: Final = "lsn"
    DESTINATION: Final = "destination"
    SCHEMA_VERSION: Final = "schema_version"
    OVERSIZE: Final = "oversize"
    """Present, and true, in a stand-in only: what the router dead-letters and never delivers."""
    SET_ASIDE: Final = "set_aside"
    """Present only in a change that is dead-lettered and never delivered: why, in words without values of the row."""
    REPLAYS: Final = "dstream_replays"
    """Present only in a copy of a dead letter: how often its change was sent again by `dstream dlq replay`."""
    REPLAY_OF: Final = "dstream_replay_of"
    """Of such a copy: the id of the message that was dead-lettered first."""


class Excess(TypedDict):
    """Of a stand-in: the size of the change's body, and the limit that the message exceeded, in bytes."""

    Bytes: int
    Limit: int


class OfSnapshot(TypedDict):
    """Of a row that a snapshot read: the snapshot's id, the chunk's number in it, and whether nothing of the snapshot follows."""

    Id: str
    Chunk: int
    Last: bool


class Lost(TypedDict):
    """Of a gap event: the changes after the first LSN are lost, up to the second. The stream goes on there."""

    From: str
    To: str


class OfReplay(TypedDict):
    """Of a change that is sent once more: the replay's id, and the `EventID` of the change when it was sent live."""

    Id: str
    EventID: str


class TableCount(TypedDict):
    """How many changes a transaction has in one table, by the table's key: `dbo.Persons`."""

    Table: str
    Count: int


class _TransactionOfEach(TypedDict):
    Id: str


class OfTransaction(_TransactionOfEach, total=False):
    """The transaction of a change, or what a `Begin` or `End` event says of it. `Id`: the LSN of its commit.

    `TableOrder`: of a change, its place among the transaction's changes of its table, from 1. `Status`: of an event, `BEGIN` or `END`.
    `EventCount` and `Tables`: of an event, how many changes the transaction has, and in which tables.
    """

    TableOrder: int
    Status: str
    EventCount: int
    Tables: Sequence[TableCount]


class _ColumnSent(TypedDict):
    Name: str
    Type: str


class ColumnSent(_ColumnSent, total=False):
    """A column of a table's messages: its type as it is declared, and its place in the key, from 1, if it has one."""

    Key: int


class OtherColumns(TypedDict):
    """Of a schema event: the version of the messages behind it, with its columns, and the version before it."""

    Version: str
    Previous: str
    Columns: Sequence[ColumnSent]


class History(TypedDict, total=False):
    """What `metadata` says of a message that is not a change at the time of its commit; one of these keys."""

    Snapshot: OfSnapshot
    Gap: Lost
    SchemaChange: OtherColumns
    Replay: OfReplay


class _MetadataOfEach(TypedDict):
    CaptureInstance: str
    CommandID: int
    CommitTime: str | None
    Database: str
    Destination: str
    EventID: str
    IngestQueue: str
    LSN: str
    OperationID: int
    OperationType: str
    Schema: str
    SchemaVersion: str
    SeqVal: str
    Server: str
    TableName: str


class Metadata(_MetadataOfEach, History, total=False):
    """The keys of `metadata` in the native envelope; those of this class are present only when they have something to say."""

    ChangedColumns: Sequence[str]
    Unavailable: Sequence[str]
    Oversize: Excess
    Transaction: OfTransaction


class _BodyOfEach(TypedDict):
    data: Mapping[str, object]
    metadata: Metadata


class Body(_BodyOfEach, total=False):
    """The native envelope: what the body of a change's message holds, as JSON."""

    before: Mapping[str, object]


_SECTIONS = 90
"""Bytes around body and properties: headers of sections, annotations, times."""


def weight(message: Message) -> int:
    """About how many bytes it takes on the wire, and never much less."""
    size = _SECTIONS + len(message.body)
    for text in (
        message.message_id,
        message.session_id,
        message.partition_key,
        message.subject,
        message.correlation_id,
    ):
        if text is not None:
            size += len(text) + 2
    for name, value in message.application_properties.items():
        size += len(name) + _of_value(value)
    for name, value in message.foreign.items():
        size += len(name) + _of_value(value)
    return size


def _of_value(value: PropertyValue) -> int:
    if isinstance(value, (str, bytes)):
        return len(value) + 4
    return len(value.octets) + 4 if isinstance(value, Opaque) else 11
