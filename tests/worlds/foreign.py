"""Messages that no client of Azure's writes: octets put into a queue as they are, and octets as a subscriber's link gets them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusMessageBatch

NULL = b"\x40"


def section(code: int, value: bytes) -> bytes:
    return bytes([0, 0x53, code]) + value


def listed(*fields: bytes) -> bytes:
    content = b"".join(fields)
    return b"\xd0" + struct.pack(">II", len(content) + 4, len(fields)) + content


def mapped(*members: bytes, count: int | None = None) -> bytes:
    content = b"".join(members)
    return b"\xd1" + struct.pack(">II", len(content) + 4, len(members) if count is None else count) + content


def text(value: str) -> bytes:
    octets = value.encode()
    return b"\xb1" + struct.pack(">I", len(octets)) + octets


def symbol(value: str) -> bytes:
    return b"\xa3" + bytes([len(value)]) + value.encode()


def data(value: bytes) -> bytes:
    return section(0x75, b"\xb0" + struct.pack(">I", len(value)) + value)


def properties(message_id: bytes, session: bytes = NULL, **fields: bytes) -> bytes:
    names = ("user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding")
    head = [message_id, *(fields.get(name, NULL) for name in names), NULL, NULL, session]
    return section(0x73, listed(*head, fields.get("group_sequence", NULL), fields.get("reply_to_session_id", NULL)))


def application_properties(**values: bytes) -> bytes:
    return section(0x74, mapped(*(each for name, value in values.items() for each in (text(name), value))))


def put_raw(connection_string: str, queue: str, messages: Sequence[bytes]) -> None:
    """One batch each, so that they may be of several sessions."""
    with ServiceBusClient.from_connection_string(connection_string) as client, client.get_queue_sender(queue) as sender:
        for octets in messages:
            batch: Any = ServiceBusMessageBatch()
            batch._message[5].append(octets)
            batch._count = 1
            sender.send_messages(batch)
