"""An event: the few facts that the hub acts on, and the rest as the octets its publisher wrote.

Message-id and the annotations are read; everything else stays opaque and goes out as it came in. Annotations that the hub owns are dropped from
what a publisher writes. Refuses octets that are no AMQP message. A time to live and other fields of the header mean nothing here.
Sources: OASIS AMQP 1.0, part 3, section 3.2; azure.github.io/amqpnetlite "Using AMQP.Net Lite with Azure Event Hubs" (Microsoft), properties.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from emulators.servicebus.amqp.decode import compound, decode, skip
from emulators.servicebus.amqp.encode import encode, encode_map_body
from emulators.servicebus.amqp.values import AmqpError, DecodeError, Symbol, Value
from emulators.servicebus.message import (
    BATCH_FORMAT,
    DATA,
    DELIVERY_ANNOTATIONS,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    sections,
)

PARTITION_KEY: Final = "x-opt-partition-key"
_OWNED: Final = frozenset(("x-opt-sequence-number", "x-opt-offset", "x-opt-enqueued-time", "x-opt-publisher"))
_SEQUENCE: Final = encode(Symbol("x-opt-sequence-number")) + b"\x81"
_OFFSET: Final = encode(Symbol("x-opt-offset"))
_ENQUEUED: Final = encode(Symbol("x-opt-enqueued-time")) + b"\x83"
_KEY: Final = encode(Symbol(PARTITION_KEY))
_LONGEST_KEY: Final = 128
_pack_long: Final = struct.Struct(">q").pack


@dataclass(slots=True)
class Event:
    """One event. `annotations`: octets of those that its publisher wrote, but for the key; `count`: how many. `tail`: what follows them."""

    size: int
    message_id: Value
    key: str | None
    annotations: bytes
    count: int
    tail: bytes
    sequence: int = 0
    offset: int = 0
    enqueued_at: int = 0


@dataclass(frozen=True, slots=True)
class Publication:
    """What one transfer holds: events for one partition, and the key that chooses it, if it has one."""

    events: list[Event]
    key: str | None


def read(message_format: int, payload: bytes) -> Publication:
    """Raises DecodeError, AmqpError."""
    if message_format == 0:
        event = _event(payload, None)
        return Publication([event], event.key)
    if message_format != BATCH_FORMAT:
        raise AmqpError("amqp:not-implemented", f"Message format 0x{message_format:08x} is not supported.")
    key, inner = None, []
    for code, start, _ in sections(payload):
        if code == MESSAGE_ANNOTATIONS:
            key = _annotations(payload, start)[0]
        elif code == DATA:
            inner.append(decode(payload, start)[0])
    if not inner or not all(isinstance(each, bytes) for each in inner):
        raise DecodeError("a batch holds events in data sections of binary")
    events = [_event(each, key) for each in inner]
    return Publication(events, key if key is not None else events[0].key)


def render(event: Event) -> bytes:
    """The event as it goes out."""
    body = _SEQUENCE + _pack_long(event.sequence) + _OFFSET + encode(str(event.offset))
    body += _ENQUEUED + _pack_long(event.enqueued_at)
    count = 3 + event.count
    if event.key is not None:
        body += _KEY + encode(event.key)
        count += 1
    return b"\x00\x53\x72" + encode_map_body(2 * count, body + event.annotations) + event.tail


def _event(encoded: bytes, key: str | None) -> Event:
    event = Event(len(encoded), None, key, b"", 0, b"")
    tail_at = 0
    for code, start, end in sections(encoded):
        if code == MESSAGE_ANNOTATIONS:
            own, event.annotations, event.count = _annotations(encoded, start)
            event.key = key if own is None else own
        elif code == PROPERTIES:
            event.message_id = _message_id(encoded, start)
        if code not in (HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS):
            break
        tail_at = end
    event.tail = encoded[tail_at:]
    return event


def _message_id(encoded: bytes, at: int) -> Value:
    count, at, _ = compound(encoded, at)
    return decode(encoded, at)[0] if count else None


def _annotations(encoded: bytes, at: int) -> tuple[str | None, bytes, int]:
    """The partition key, the octets of all others that a publisher may write, and their number. A key that is no text is none."""
    count, at, end = compound(encoded, at)
    key, kept = None, []
    for _ in range(count // 2):
        begin = at
        name, value_at = decode(encoded, at)
        at = skip(encoded, value_at)
        if name == PARTITION_KEY:
            value, _ = decode(encoded, value_at)
            if isinstance(value, str):
                if len(value) > _LONGEST_KEY:
                    text = f"The partition key has {len(value)} characters; at most {_LONGEST_KEY} are allowed."
                    raise AmqpError("com.microsoft:argument-out-of-range", text)
                key = str(value)
        elif name not in _OWNED:
            kept.append(encoded[begin:at])
    if at != end:
        raise DecodeError("size and count of the message annotations disagree")
    return key, b"".join(kept), len(kept)
