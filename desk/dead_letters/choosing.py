"""Which messages a person means, and what a message says of its change. Pure; reads a body only where it has to, and shows nothing of a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from common.bus.browsing import Lying
from common.bus.packing import BadPack, is_pack, unpack
from common.message import Message, Property
from desk.documents.messages import MessageFilter
from ingester.operating.newer import ChangeRef

Chooses = Callable[[Lying], bool]

LARGEST_READ: Final = 4 * 1024 * 1024
"""Bytes of a body that is read as JSON."""


def chooses(chosen: MessageFilter, sequences: frozenset[int] | None = None) -> Chooses:
    """Whether a message is meant: by each part of the filter that is given, and among `sequences` where there are some."""
    tests = list[Chooses]()
    if sequences is not None:
        tests.append(lambda lying: lying.sequence in sequences)
    if (since := _zoned(chosen.since)) is not None:
        tests.append(lambda lying: lying.enqueued is not None and lying.enqueued >= since)
    if (until := _zoned(chosen.until)) is not None:
        tests.append(lambda lying: lying.enqueued is not None and lying.enqueued < until)
    if (reason := chosen.reason) is not None:
        tests.append(lambda lying: (lying.reason or "").lower() == reason.lower())
    if (message_id := chosen.message_id) is not None:
        tests.append(lambda lying: lying.message.message_id == message_id)
    if (session := chosen.session_id) is not None:
        tests.append(lambda lying: lying.message.session_id == session)
    if (table := chosen.table) is not None:
        tests.append(lambda lying: any(_is_table(each, table) for each in changes_of(lying.message)))
    if (operation := chosen.operation) is not None:
        tests.append(
            lambda lying: any(
                _text(each, Property.OPERATION).lower() == operation.lower() for each in changes_of(lying.message)
            )
        )
    if (event_id := chosen.event_id) is not None:
        tests.append(lambda lying: has_event_id(lying.message, event_id))
    if (text := chosen.text) is not None:
        octets = text.encode()
        tests.append(lambda lying: octets in lying.message.body)
    return lambda lying: all(test(lying) for test in tests)


def _zoned(at: datetime | None) -> datetime | None:
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)


def changes_of(message: Message) -> tuple[Message, ...]:
    """Those of a pack; else the message itself."""
    if not is_pack(message):
        return (message,)
    try:
        return unpack(message)
    except BadPack:
        return (message,)


def _text(message: Message, name: str) -> str:
    value = message.application_properties.get(name)
    return value if isinstance(value, str) else ""


def _is_table(message: Message, table: str) -> bool:
    schema, name = _text(message, Property.SCHEMA).lower(), _text(message, Property.TABLE).lower()
    wanted = table.lower()
    return bool(name) and wanted in (name, f"{schema}.{name}")


def table_of(message: Message) -> str | None:
    """`dbo.Persons`; None where the message does not say."""
    schema, name = _text(message, Property.SCHEMA), _text(message, Property.TABLE)
    return f"{schema}.{name}" if schema and name else name or None


def has_event_id(message: Message, event_id: str) -> bool:
    if event_id in (message.message_id, message.application_properties.get(Property.REPLAY_OF)):
        return True
    if event_id.encode() not in message.body:
        return False
    return any(event_id in (each.message_id, metadata_of(each).get("EventID")) for each in changes_of(message))


def metadata_of(message: Message) -> Mapping[str, Any]:
    """Of the native envelope; empty where the body is something else."""
    if len(message.body) > LARGEST_READ:
        return {}
    try:
        body = json.loads(message.body)
    except (ValueError, RecursionError):
        return {}
    found = body.get("metadata") if isinstance(body, dict) else None
    return found if isinstance(found, dict) else {}


def ref_of(message: Message) -> ChangeRef | None:
    """How to ask about the change; None for what is no single change."""
    if is_pack(message):
        return None
    told = metadata_of(message)
    try:
        operation = told.get("OperationID")
        lsn, seqval = told["LSN"], told["SeqVal"]
        schema, table = told["Schema"], told["TableName"]
    except KeyError:
        return None
    if not (isinstance(lsn, str) and isinstance(seqval, str) and isinstance(schema, str) and isinstance(table, str)):
        return None
    if not isinstance(operation, int) or isinstance(operation, bool):
        return None
    instance = told.get("CaptureInstance")
    return ChangeRef(schema, table, lsn, seqval, operation, instance if isinstance(instance, str) else None)
