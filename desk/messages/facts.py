"""What a message says of its change: table, operation, event id, place in the log. In DStream's own envelope, the others, packs and stand-ins.

Pure. Never raises: a message of somebody else says less.

Application properties are the same with each envelope, so the body is read only for what they lack. docs/envelopes.md has the forms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from common.bus.packing import BadPack, is_pack, unpack
from common.message import Message, Property
from common.names import TableName
from desk.times import written

LARGEST_READ: Final = 1 << 20
"""Bytes of a body that is read as JSON for its facts."""

_REPLAY_OF: Final = "dstream_replay_of"
_REPLAYS: Final = "dstream_replays"
_CLOUD: Final = "cloudEvents:"
_DEBEZIUM: Final = {"c": "Insert", "u": "Update", "d": "Delete", "r": "Read"}


@dataclass(frozen=True, slots=True)
class Facts:
    """`lsn`: 20 hexadecimal digits. `commit_time`: UTC, ISO 8601."""

    table: str | None = None
    operation: str | None = None
    event_id: str | None = None
    lsn: str | None = None
    commit_time: str | None = None
    destination: str | None = None


def changes_of(message: Message) -> tuple[Message, ...]:
    """Those of a pack; else, and for a pack that contradicts itself, the message alone."""
    if not is_pack(message):
        return (message,)
    try:
        return unpack(message)
    except BadPack:
        return (message,)


def facts_of(message: Message) -> Facts:
    """Of a message that is no pack."""
    told = message.application_properties
    given = Facts(
        table=_table(_text(told.get(Property.SCHEMA)), _text(told.get(Property.TABLE))),
        operation=_text(told.get(Property.OPERATION)),
        event_id=replay_of(message),
        lsn=_text(told.get(Property.LSN)),
        destination=_text(told.get(Property.DESTINATION)),
    )
    found = _of_body(message)
    ours = given.table is not None or found.table is not None
    return Facts(
        table=given.table or found.table,
        operation=given.operation or found.operation,
        event_id=given.event_id or found.event_id or (message.message_id if ours else None),
        lsn=given.lsn or found.lsn,
        commit_time=found.commit_time,
        destination=given.destination or found.destination,
    )


def together(messages: Sequence[Message]) -> Facts:
    """Of the changes of a pack: what they have in common; the place of the first."""
    each = [facts_of(message) for message in messages]
    if len(each) == 1:
        return each[0]
    return Facts(
        table=_common([one.table for one in each]),
        operation=_common([one.operation for one in each]),
        lsn=each[0].lsn,
        commit_time=each[0].commit_time,
        destination=_common([one.destination for one in each]),
    )


def replays_of(message: Message) -> int:
    count = message.application_properties.get(_REPLAYS)
    return count if type(count) is int and count > 0 else 0


def replay_of(message: Message) -> str | None:
    """The id of the message that this one repeats, if it is a replayed dead letter."""
    return _text(message.application_properties.get(_REPLAY_OF))


def _common(values: Sequence[str | None]) -> str | None:
    return values[0] if len(set(values)) == 1 else None


def _of_body(message: Message) -> Facts:
    if len(message.body) > LARGEST_READ or message.body[:1] != b"{":
        return _of_attributes(message.application_properties)
    try:
        body = json.loads(message.body)
    except (ValueError, RecursionError):
        return _of_attributes(message.application_properties)
    found = _of_document(body) if isinstance(body, dict) else Facts()
    return found if found != Facts() else _of_attributes(message.application_properties)


def _of_document(body: Mapping[str, Any]) -> Facts:
    if isinstance(body.get("metadata"), dict) and "data" in body:
        return _native(body["metadata"])
    if "specversion" in body:  # CloudEvents, structured: the native body is its data
        inner = body.get("data")
        found = _of_document(inner) if isinstance(inner, dict) else Facts()
        return replace(found, event_id=found.event_id or _text(body.get("id")))
    if isinstance(source := body.get("source"), dict) and "op" in body:
        return Facts(
            table=_table(_text(source.get("schema")), _text(source.get("table"))),
            operation=_DEBEZIUM.get(str(body["op"])),
            lsn=_unspelled(source.get("commit_lsn")),
            commit_time=_milliseconds(source.get("ts_ms")),
        )
    if isinstance(changes := body.get("changes"), list) and changes and isinstance(changes[0], dict):
        first = changes[0]
        kind = _text(first.get("change_type"))
        return Facts(
            table=_text(first.get("table_name")),
            operation=None if kind is None else kind.capitalize(),
            event_id=_text(first.get("event_id")),
            lsn=_unspelled(first.get("lsn")),
            commit_time=_text(first.get("timestamp")),
        )
    return Facts()


def _native(metadata: Mapping[str, Any]) -> Facts:
    return Facts(
        table=_table(_text(metadata.get("Schema")), _text(metadata.get("TableName"))),
        operation=_text(metadata.get("OperationType")),
        event_id=_text(metadata.get("EventID")),
        lsn=_text(metadata.get("LSN")),
        commit_time=_text(metadata.get("CommitTime")),
        destination=_text(metadata.get("Destination")),
    )


def _of_attributes(told: Mapping[str, Any]) -> Facts:
    """CloudEvents in binary mode, whose body cannot be read."""
    return Facts(event_id=_text(told.get(f"{_CLOUD}id")), commit_time=_text(told.get(f"{_CLOUD}time")))


def _text(value: object) -> str | None:
    return whole(value) if isinstance(value, str) and value else None


def whole(text: str) -> str:
    """`text` with a question mark in place of half a surrogate pair, which no answer could hold."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _table(schema: str | None, table: str | None) -> str | None:
    if table is None or schema is None:
        return table
    try:
        return whole(TableName(schema, table).key)
    except ValueError:
        return f"{schema}.{table}"


def _unspelled(lsn: object) -> str | None:
    return lsn.replace(":", "") if isinstance(lsn, str) else None


def _milliseconds(at: object) -> str | None:
    if type(at) is not int:
        return None
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
    except OverflowError:
        return None
    return instant(moment)


def instant(at: datetime) -> str:
    """In UTC, ISO 8601 with milliseconds."""
    return written(at, "milliseconds")
