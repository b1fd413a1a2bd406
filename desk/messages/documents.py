"""A message as a document: of whoever sent it, whatever its body is. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from common.bus.browsing import Lying
from common.message import Message as Carried
from common.message import Opaque, PropertyValue
from desk.documents.messages import Message, MessageDetail
from desk.messages.facts import changes_of, facts_of, instant, replays_of, together, whole
from desk.messages.remedies import remedy

BODY_LIMIT: Final = 262_144
"""Bytes of a body that are shown: what a message of Standard may have."""

_LONGEST: Final = 4_096
"""Characters of a property that are shown."""
_FIELDS: Final = ("subject", "content_type", "partition_key", "correlation_id", "reply_to", "reply_to_session_id", "to")


def document(entity: str, lying: Lying, *, dead: bool) -> Message:
    return Message(**_common(entity, lying, dead=dead))


def detail(entity: str, lying: Lying, *, dead: bool) -> MessageDetail:
    changes = changes_of(lying.message)
    packed = changes if changes[0] is not lying.message else ()
    return MessageDetail(
        **_common(entity, lying, dead=dead),
        properties=_properties(lying.message),
        body=_body(lying.message.body),
        body_limit=BODY_LIMIT,
        fault=None if lying.fault is None else whole(lying.fault),
        remedy=remedy(lying.reason) if dead else None,
        packed=[_change(entity, lying, each, dead=dead) for each in packed],
    )


def _common(entity: str, lying: Lying, *, dead: bool) -> dict[str, Any]:
    message, changes = lying.message, changes_of(lying.message)
    facts = together(changes)
    return {
        "entity": entity,
        "dead": dead,
        "sequence": lying.sequence,
        "message_id": _whole(message.message_id),
        "session_id": _whole(message.session_id),
        "event_id": facts.event_id,
        "table": facts.table,
        "operation": facts.operation,
        "lsn": facts.lsn,
        "commit_time": facts.commit_time,
        "destination": facts.destination,
        "enqueued_at": None if lying.enqueued is None else instant(lying.enqueued),
        "state": lying.state,
        "delivery_count": lying.delivery_count,
        "size": len(message.body),
        "changes": len(changes),
        "reason": _whole(lying.reason),
        "description": _whole(lying.description),
        "replays": replays_of(message),
    }


def _change(entity: str, lying: Lying, change: Carried, *, dead: bool) -> Message:
    """One of a pack; it has the pack's place."""
    facts = facts_of(change)
    return Message(
        entity=entity,
        dead=dead,
        sequence=lying.sequence,
        message_id=_whole(change.message_id),
        session_id=_whole(change.session_id),
        event_id=facts.event_id,
        table=facts.table,
        operation=facts.operation,
        lsn=facts.lsn,
        commit_time=facts.commit_time,
        destination=facts.destination,
        state=lying.state,
        size=len(change.body),
    )


def _properties(message: Carried) -> dict[str, Any]:
    """The application properties, and behind them the other fields that are set, in one object as a person reads them."""
    found: dict[str, Any] = {whole(name): _value(value) for name, value in message.application_properties.items()}
    for name in _FIELDS:
        if (value := getattr(message, name)) is not None:
            found.setdefault(name, _value(value))
    if message.time_to_live is not None:
        found.setdefault("time_to_live", f"{message.time_to_live.total_seconds():g} s")
    for name, held in _foreign(message.foreign).items():
        found.setdefault(name, held)
    return found


def _foreign(fields: Mapping[str, Opaque]) -> dict[str, Any]:
    return {whole(name): _value(value) for name, value in fields.items()}


def _value(value: PropertyValue) -> str | int | float | bool:
    """As JSON has it. What is neither text nor a number is shown by its octets."""
    match value:
        case Opaque():
            return _short(f"0x{value.octets.hex()}")
        case bytes():
            return _short(f"0x{value.hex()}")
        case str():
            return _short(whole(value))
        case float() if not math.isfinite(value):
            return str(value)
    return value


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


def _body(body: bytes) -> str | None:
    if len(body) > BODY_LIMIT:
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _whole(text: str | None) -> str | None:
    return None if text is None else whole(text)
