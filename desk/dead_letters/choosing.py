"""Which dead letters a person means, and how to ask about the change of one. Pure; reads a body only where it has to, and shows nothing of a row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from common.bus.packing import is_pack
from common.message import Message
from desk.documents.messages import MessageFilter
from desk.messages import choosing
from ingester.operating.newer import ChangeRef

Chooses = choosing.Chooses

LARGEST_READ: Final = 4 * 1024 * 1024
"""Bytes of a body that is read as JSON."""


def chooses(chosen: MessageFilter, sequences: frozenset[int] | None = None) -> Chooses:
    """By each part of the filter that is given, and among `sequences` where there are some."""
    fits = choosing.chooses(chosen)
    return fits if sequences is None else lambda lying: lying.sequence in sequences and fits(lying)


def ref_of(message: Message) -> ChangeRef | None:
    """None for what is no single change in the native envelope, which is that of the queue."""
    told = {} if is_pack(message) else _metadata(message)
    names = [told.get(name) for name in ("Schema", "TableName", "LSN", "SeqVal")]
    operation, command, instance = (told.get(name) for name in ("OperationID", "CommandID", "CaptureInstance"))
    if type(operation) is not int:
        return None
    match names:
        case [str(schema), str(table), str(lsn), str(seqval)]:
            return ChangeRef(
                schema,
                table,
                lsn,
                seqval,
                operation,
                command_id=command if type(command) is int else None,
                capture_instance=instance if isinstance(instance, str) else None,
            )
    return None


def _metadata(message: Message) -> Mapping[str, Any]:
    if len(message.body) > LARGEST_READ:
        return {}
    try:
        body = json.loads(message.body)
    except (ValueError, RecursionError):
        return {}
    found = body.get("metadata") if isinstance(body, dict) else None
    return found if isinstance(found, dict) else {}
