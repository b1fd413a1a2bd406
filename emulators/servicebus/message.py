"""A message in the broker: the few facts the broker acts on, and the rest as the octets the sender wrote.

Of a message's sections the header and the message annotations are taken apart, message-id and group-id are read, and
everything else (properties, application properties, body, footer) stays opaque and goes out as it came in, unless a rule or
an outcome changes properties (`properties.MessageProperties`). Annotations the broker owns are dropped from what a sender
writes. Refuses octets that are no AMQP message, and delivery annotations are not carried (they are hop by hop).
Sources: OASIS AMQP 1.0, part 3, section 3.2; learn.microsoft.com "AMQP 1.0 in Azure Service Bus: protocol guide".
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final
from uuid import UUID

from .amqp.decode import compound, decode, skip
from .amqp.encode import encode, encode_list, encode_map_body, encode_uint
from .amqp.values import DecodeError, Symbol, Timestamp, UInt, Value

UNLOCKED: Final = b""
"""The tag of a delivery that locks nothing (Azure/azure-sdk-for-js pull request 1021)."""
BATCH_FORMAT: Final = 0x80013700
"""Message format of a batch: every data section of the body is a message."""

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
AMQP_VALUE: Final = 0x77
FOOTER: Final = 0x78

_OWNED: Final = frozenset(
    (
        "x-opt-sequence-number", "x-opt-enqueued-time", "x-opt-locked-until", "x-opt-message-state",
        "x-opt-enqueue-sequence-number", "x-opt-deadletter-source",
    )
)  # fmt: skip
_SCHEDULED: Final = "x-opt-scheduled-enqueue-time"
_MESSAGE_ID: Final = 0
_GROUP_ID: Final = 10
_NULL: Final = b"\x40"
_SEQUENCE: Final = encode(Symbol("x-opt-sequence-number")) + b"\x81"
_ENQUEUED: Final = encode(Symbol("x-opt-enqueued-time")) + b"\x83"
_LOCK_TOKEN: Final = encode(Symbol("x-opt-lock-token")) + b"\x98"
_LOCKED: Final = encode(Symbol("x-opt-locked-until")) + b"\x83"
_STATE: Final = encode(Symbol("x-opt-message-state")) + b"\x71"
_ENQUEUE_SEQUENCE: Final = encode(Symbol("x-opt-enqueue-sequence-number")) + b"\x81"
_NO_DELIVERY_ANNOTATIONS: Final = b"\x00\x53\x71" + encode({})
_DEAD_LETTER_SOURCE: Final = encode(Symbol("x-opt-deadletter-source"))
_pack_long = struct.Struct(">q").pack
_pack_int = struct.Struct(">i").pack


class MessageState(IntEnum):
    """`x-opt-message-state`."""

    ACTIVE = 0
    DEFERRED = 1
    SCHEDULED = 2


class Message:
    """One message of one entity. Times are milliseconds since the Unix epoch; `tail` is everything the broker leaves alone."""

    __slots__ = (
        "annotation_count", "annotations", "dead_letter_source", "delivery_count", "durable", "enqueue_sequence",
        "enqueued_at", "expires_at", "hops", "lock_token", "locked_until", "message_id", "priority", "scheduled_at", "sequence",
        "session_id", "size", "state", "tail", "ttl",
    )  # fmt: skip

    def __init__(self, size: int) -> None:
        self.size = size
        self.durable: bytes = b"\x40"
        self.priority: bytes = b"\x40"
        self.ttl: int | None = None
        self.annotations = b""
        self.annotation_count = 0
        self.message_id: Value = None
        self.session_id: str | None = None
        self.scheduled_at: int | None = None
        self.tail = b""
        self.sequence = 0
        self.enqueue_sequence: int | None = None
        self.enqueued_at = 0
        self.expires_at: int | None = None
        self.delivery_count = 0
        self.state = MessageState.ACTIVE
        self.lock_token: bytes | None = None
        self.locked_until = 0
        self.hops = 0
        self.dead_letter_source: str | None = None

    def copy(self) -> Message:
        """A message of its own for another entity; the octets are shared."""
        copied = Message.__new__(Message)  # copy.copy asks __reduce_ex__, which takes three times as long
        for name in Message.__slots__:
            setattr(copied, name, getattr(self, name))
        return copied


def sections(encoded: bytes) -> list[tuple[int, int, int]]:
    """Code, offset of the value and offset behind it, of every section of a message. Raises DecodeError."""
    found = []
    at, length = 0, len(encoded)
    while at < length:
        if encoded.startswith(b"\x00\x53", at) and at + 3 <= length:
            code, start = encoded[at + 2], at + 3
        else:
            code, start = _descriptor(encoded, at)
        if not HEADER <= code <= FOOTER:
            raise DecodeError(f"0x{code:02x} is no section of a message")
        end = skip(encoded, start)
        found.append((code, start, end))
        at = end
    if not found:
        raise DecodeError("a message without sections")
    return found


def leading_sections(tail: bytes) -> list[tuple[int, int, int]]:
    """As `sections`, of properties and application properties only, at the head of a tail; the body is not looked at."""
    found = []
    at = 0
    while at < len(tail):
        if tail[at : at + 2] == b"\x00\x53" and at + 3 <= len(tail):
            code, start = tail[at + 2], at + 3
        else:
            code, start = _descriptor(tail, at)
        if code not in (PROPERTIES, APPLICATION_PROPERTIES):
            break
        end = skip(tail, start)
        found.append((code, start, end))
        at = end
    return found


def _descriptor(encoded: bytes, at: int) -> tuple[int, int]:
    if encoded[at] != 0x00:
        raise DecodeError(f"no section begins at octet {at}")
    code, start = decode(encoded, at + 1)
    if not isinstance(code, int):
        raise DecodeError(f"section descriptor {code!r} is not supported")
    return code, start


def parse_message(encoded: bytes) -> Message:
    """Raises DecodeError."""
    message = Message(len(encoded))
    tail_at = 0
    for code, start, end in sections(encoded):
        if code > PROPERTIES:
            break
        if code == HEADER:
            _read_header(message, encoded, start)
        elif code == MESSAGE_ANNOTATIONS:
            _read_annotations(message, encoded, start)
        elif code == PROPERTIES:
            _read_properties(message, encoded, start)
            break
        tail_at = end
    message.tail = encoded[tail_at:]
    return message


def split_batch(encoded: bytes) -> list[bytes]:
    """The encoded messages in a batch. Raises DecodeError."""
    inner = []
    for code, start, _ in sections(encoded):
        if code == DATA:
            value, _ = decode(encoded, start)
            if not isinstance(value, bytes):
                raise DecodeError("a data section must hold binary")
            inner.append(value)
    if not inner:
        raise DecodeError("a batch without messages")
    return inner


def _read_header(message: Message, encoded: bytes, at: int) -> None:
    fields, _ = decode(encoded, at)
    if not isinstance(fields, list):
        raise DecodeError("a header must be a list")
    fields += [None] * (3 - len(fields))
    message.durable = encode(fields[0])
    message.priority = encode(fields[1])
    if fields[2] is not None and not isinstance(fields[2], UInt):
        raise DecodeError("a time to live must be a uint")
    message.ttl = fields[2]


def _read_annotations(message: Message, encoded: bytes, at: int) -> None:
    count, at, end = compound(encoded, at)
    kept = []
    for _ in range(count // 2):
        begin = at
        name, value_at = decode(encoded, at)
        at = skip(encoded, value_at)
        if name in _OWNED:
            continue
        if name == _SCHEDULED:
            moment, _ = decode(encoded, value_at)
            message.scheduled_at = int(moment) if isinstance(moment, Timestamp) else None
        kept.append(encoded[begin:at])
    if at != end:
        raise DecodeError("size and count of the message annotations disagree")
    message.annotations = b"".join(kept)
    message.annotation_count = 2 * len(kept)


def _read_properties(message: Message, encoded: bytes, at: int) -> None:
    count, at, _ = compound(encoded, at)
    if count > _MESSAGE_ID:
        message_id, at = decode(encoded, at)
        if not isinstance(message_id, str | int | bytes | UUID | None):
            raise DecodeError("a message-id must be a ulong, uuid, binary or string")
        message.message_id = message_id
    if count > _GROUP_ID:
        for _ in range(_MESSAGE_ID + 1, _GROUP_ID):
            at = at + 1 if encoded[at : at + 1] == _NULL else skip(encoded, at)  # most are null
        group_id, _ = decode(encoded, at)
        if group_id is not None and not isinstance(group_id, str):
            raise DecodeError("a group-id must be a string")
        message.session_id = group_id


def render(message: Message, locked_until: int | None = None, token: bytes | None = None) -> bytes:
    """The message as it goes out, with what the broker knows in its header and annotations.

    `token`: of the lock, in .NET's order of octets, as in a delivery's tag. As a UUID it is among the delivery annotations, where
    Go's client looks for that of a deferred message, which has no tag. UNLOCKED: that section is there and empty, as
    in receive-and-delete mode (azure-servicebus, test_message_backcompat_receive_and_delete_databody); None: there is none.
    """
    header = encode_list(
        (
            message.durable,
            message.priority,
            b"\x40" if message.ttl is None else encode_uint(min(message.ttl, 0xFFFFFFFF)),
            b"\x40",
            encode_uint(message.delivery_count),
        )
    )
    count = 4 + message.annotation_count
    body = _ENQUEUED + _pack_long(message.enqueued_at) + _SEQUENCE + _pack_long(message.sequence)
    if locked_until is not None:
        body += _LOCKED + _pack_long(locked_until)
        count += 2
    if message.state:
        body += _STATE + _pack_int(message.state)
        count += 2
    if message.enqueue_sequence is not None:
        body += _ENQUEUE_SEQUENCE + _pack_long(message.enqueue_sequence)
        count += 2
    if message.dead_letter_source is not None:
        body += _DEAD_LETTER_SOURCE + encode(message.dead_letter_source)
        count += 2
    annotations = encode_map_body(count, body + message.annotations)
    return b"".join((b"\x00\x53\x70", header, _delivery(token), b"\x00\x53\x72", annotations, message.tail))


def _delivery(token: bytes | None) -> bytes:
    """The section of delivery annotations, or none."""
    if token is None:
        return b""
    if not token:
        return _NO_DELIVERY_ANNOTATIONS
    ordered = token[3::-1] + token[5:3:-1] + token[7:5:-1] + token[8:]
    return b"\x00\x53\x71" + encode_map_body(2, _LOCK_TOKEN + ordered)
