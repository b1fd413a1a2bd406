"""A tombstone: the message without a body behind a delete, which Debezium sends so that a compacted Kafka topic forgets the row."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Final

from common.message import Message

_MARK: Final = ":tombstone"

_ID_LENGTH: Final = 128
"""Characters of a message id (https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas)."""


def tombstone(delete: Message) -> Message:
    """Of the same session and with the same properties as `delete`, a message of the ingest queue; no body, and no content type."""
    return replace(delete, body=b"", content_type=None, message_id=_id(delete.message_id or ""))


def _id(event: str) -> str:
    """The delete's with the mark; what does not fit is replaced by its hash."""
    if len(event) + len(_MARK) > _ID_LENGTH:
        digest = hashlib.sha256(event.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        event = f"{event[: _ID_LENGTH - len(_MARK) - len(digest) - 1]}-{digest}"
    return event + _MARK
