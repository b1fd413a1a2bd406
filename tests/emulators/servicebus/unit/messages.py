"""Messages made by hand, for tests of what reads and changes their properties."""

from __future__ import annotations

from typing import Any

from emulators.servicebus.amqp.encode import encode
from emulators.servicebus.amqp.values import Described, ULong
from emulators.servicebus.message import Message, parse_message

BODY = b"\x00\x53\x75\xa0\x04body"
_FIELDS = (
    "message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding",
    "absolute_expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id",
)  # fmt: skip


def section(code: int, value: Any) -> bytes:
    return encode(Described(ULong(code), value))


def make_message(application: dict[str, Any] | None = None, **fields: Any) -> Message:
    """A message with application properties, and fields of its properties section by name."""
    properties = section(0x73, [fields.get(name) for name in _FIELDS]) if fields else b""
    middle = b"" if application is None else section(0x74, application)
    return parse_message(properties + middle + BODY)
