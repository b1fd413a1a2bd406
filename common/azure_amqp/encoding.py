"""A message as AMQP 1.0 octets: the sections that DStream's messages have, and nothing else of the protocol. Pure; no SDK.

azure-servicebus 7.15 builds five objects and encodes twice for each message of a batch, which takes 130 of its 145 us. This module makes
the same octets once (AMQP 1.0, part 1 for types, part 3, 3.2 for sections). For kinds of values that it does not write it returns None and
never guesses: the SDK writes those.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from common.message import Message, Opaque

_HEADER: Final = b"\x00\x53\x70"
_ANNOTATIONS: Final = b"\x00\x53\x72"
_PROPERTIES: Final = b"\x00\x53\x73"
_APPLICATION_PROPERTIES: Final = b"\x00\x53\x74"
_DATA: Final = b"\x00\x53\x75"
_NULL: Final = b"\x40"
_PARTITION_KEY: Final = b"\xa3\x13x-opt-partition-key"

FIELDS: Final = (
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "session_id",
    "group_sequence",
    "reply_to_session_id",
)
"""The fields of the properties section, in its order, by their names in `Message` (part 3, 3.2.4)."""

_BEHIND_ID: Final = 1
_SESSION: Final = FIELDS.index("session_id")

DURABLE: Final = b"\x00\x53\x70\xc0\x07\x05\x56\x01\x40\x40\x40\x40"
"""The header of a message that is durable, which is what the SDK for Event Hubs writes of one with a partition key."""

_SHORT: Final = 255
"""Texts and binaries of up to so many octets, and lists and maps of fewer, are written with a length of one octet."""

_LONGEST_NAME: Final = 128
"""Characters of a message id, session id and partition key (https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas)."""

_LATEST: Final = 253_402_243_199_000
"""Milliseconds of the latest expiry that the SDK writes, which is a day short of the year 10000."""

_LONGEST_LIFE: Final = 0xFFFF_FFFF
"""The most milliseconds that a header's time to live can hold; for longer lives, the two times in the properties give the length."""

_MILLISECOND: Final = timedelta(milliseconds=1)

_pack_length = struct.Struct(">I").pack
_pack_double = struct.Struct(">d").pack
_pack_int = struct.Struct(">i").pack
_pack_long = struct.Struct(">q").pack
_pack_unsigned = struct.Struct(">Q").pack


class _Unwritten(Exception):
    """A value of a kind that this module does not write."""


class Written:
    """The application properties of messages that share them, in octets. For the messages of one batch: nobody changes them meanwhile."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Mapping[str, Any], bytes]] = {}

    def __call__(self, held: Mapping[str, Any]) -> bytes:
        """Raises _Unwritten."""
        known = self._known.get(id(held))  # which is nobody else's as long as the mapping is held here
        if known is None:
            known = self._known[id(held)] = held, _application_properties(held)
        return known[1]


def encoded(message: Message, *, now: float, written: Written | None = None) -> bytes | None:
    """The octets of `message`, equal to the SDK's for all that the SDK accepts; None when the SDK must write it, or refuse it.

    `now`: Unix time; a message with a time to live states when it was made. `written`: what was written before. Values that the SDK refuses
    although a broker may have delivered them are written: integers beyond 32 bits (as long, beyond that as ulong), binaries that are not
    UTF-8, and times to live beyond a header's. So are values that it would change: parts of a second in a time to live, and what another
    sender wrote in types of its own. Raises UnicodeEncodeError for a lone surrogate.
    """
    if not message.message_id or len(message.message_id) > _LONGEST_NAME:
        return None  # the SDK gives it one, or refuses it
    session, partition, answers = message.session_id, message.partition_key, message.reply_to_session_id
    if session is not None and partition != session:
        partition = None  # a key that differs from the session is refused by the service: the session id wins
    if _too_long(session) or _too_long(partition) or _too_long(answers):
        return None
    life = message.time_to_live
    milliseconds = None if life is None else life // _MILLISECOND
    if milliseconds is not None and milliseconds < 0:
        return None
    before = b""
    if milliseconds is not None:
        before = _HEADER + _list(b"\x40\x40%b\x40\x40" % _uint(min(milliseconds, _LONGEST_LIFE)), 5)
    if partition is not None:
        before += keyed(partition)
    held = message.application_properties
    try:
        properties = _application_properties(held) if written is None else written(held)
    except _Unwritten:
        return None
    body = message.body
    return b"".join((before, _properties(message, milliseconds, now), properties, before_data(len(body)), body))


def _too_long(name: str | None) -> bool:
    return name is not None and len(name) > _LONGEST_NAME


def event_of(message: Message, key: str) -> bytes | None:
    """The octets of `message` as an event of Event Hubs with this partition key, equal to those of azure-eventhub for what that accepts; None
    when the SDK must write it, or refuse it. An event has no time to live. Raises UnicodeEncodeError for a lone surrogate.
    """
    try:
        held = _application_properties(message.application_properties)
    except _Unwritten:
        return None
    return b"".join(
        (DURABLE, keyed(key), _properties(message, None, 0.0), held, before_data(len(message.body)), message.body)
    )


def keyed(key: str) -> bytes:
    """The section of annotations with a partition key and nothing else."""
    return _ANNOTATIONS + _map(_PARTITION_KEY + _text(key), 1)


def _properties(message: Message, milliseconds: int | None, now: float) -> bytes:
    """Part 3, 3.2.4: thirteen fields, all of them written, as the SDK does."""
    if message.foreign or milliseconds or message.correlation_id is not None:
        fields = _fields(message, milliseconds, now)
        if message.foreign:
            fields = tuple(_as_received(message, name, ours) for name, ours in zip(FIELDS, fields, strict=True))
        return _PROPERTIES + _list(b"".join(fields), len(FIELDS))
    common = b"".join(
        (
            _optional(message.message_id),
            _unchanging(message.to, message.subject, message.reply_to, message.content_type),
            _optional(message.session_id),
            _NULL,  # group-sequence
            _optional(message.reply_to_session_id),
        )
    )
    return _PROPERTIES + _list(common, len(FIELDS))


@lru_cache(maxsize=256)
def _unchanging(to: str | None, subject: str | None, reply_to: str | None, content_type: str | None) -> bytes:
    """The fields between the id and the session, which most messages have in common. Sessions are too many to remember: with ordering by key
    a table has 64 of them."""
    message = Message(b"", None, None, subject, content_type, reply_to=reply_to, to=to)
    return b"".join(_fields(message, None, 0.0)[_BEHIND_ID:_SESSION])


def _fields(message: Message, milliseconds: int | None, now: float) -> tuple[bytes, ...]:
    kind = message.content_type
    expires = created = _NULL
    if milliseconds:
        at = int(now * 1000) if milliseconds % 1000 else int(now) * 1000
        created, expires = b"\x83" + _pack_long(at), b"\x83" + _pack_long(min(_LATEST, at + milliseconds))
    return (
        _optional(message.message_id),
        _NULL,  # user-id
        _optional(message.to),
        _optional(message.subject),
        _optional(message.reply_to),
        _optional(message.correlation_id),
        _NULL if kind is None else _symbol(kind),
        _NULL,  # content-encoding
        expires,
        created,
        _optional(message.session_id),
        _NULL,  # group-sequence
        _optional(message.reply_to_session_id),
    )


def _as_received(message: Message, name: str, ours: bytes) -> bytes:
    held = message.foreign.get(name)
    return ours if held is None else held.octets


def _application_properties(held: Mapping[str, Any]) -> bytes:
    """Part 3, 3.2.5. Raises _Unwritten."""
    if not held:
        return b""
    content = []
    for name, value in held.items():
        write = _WRITERS.get(type(value))
        if write is None or type(name) is not str:
            raise _Unwritten
        content.append(_name(name))
        content.append(write(value))
    return _APPLICATION_PROPERTIES + _map(b"".join(content), len(held))


def _text(value: str) -> bytes:
    octets = value.encode()
    length = len(octets)
    return (b"\xa1%c" % length if length <= _SHORT else b"\xb1" + _pack_length(length)) + octets


_name = lru_cache(maxsize=1024)(_text)
"""Names of properties are few and come again with every message."""


def _optional(value: str | None) -> bytes:
    return _NULL if value is None else _text(value)


@lru_cache(maxsize=64)
def _symbol(value: str) -> bytes:
    octets = value.encode()
    length = len(octets)
    return (b"\xa3%c" % length if length <= _SHORT else b"\xb3" + _pack_length(length)) + octets


def _binary(value: bytes) -> bytes:
    return _binary_of(len(value)) + value


def before_data(length: int) -> bytes:
    """What stands before the octets of a data section of this length."""
    return _DATA + _binary_of(length)


def _binary_of(length: int) -> bytes:
    """What stands before a binary of this length."""
    return b"\xa0%c" % length if length <= _SHORT else b"\xb0" + _pack_length(length)


def _uint(value: int) -> bytes:
    if value == 0:
        return b"\x43"
    return b"\x52%c" % value if value <= _SHORT else b"\x70" + _pack_length(value)


def _integer(value: int) -> bytes:
    """An int if it fits, as the SDK always writes; otherwise the first of long and ulong that holds it."""
    if -128 <= value <= 127:
        return b"\x54%c" % (value & 0xFF)
    if -(2**31) <= value < 2**31:
        return b"\x71" + _pack_int(value)
    if -(2**63) <= value < 2**63:
        return b"\x81" + _pack_long(value)
    if 0 <= value < 2**64:
        return b"\x80" + _pack_unsigned(value)
    raise _Unwritten


def _octets(value: bytes) -> bytes:
    """Text if it is UTF-8, as the SDK writes it; otherwise binary."""
    try:
        return _text(value.decode())
    except UnicodeDecodeError:
        return _binary(value)


_WRITERS: Final[dict[type, Callable[[Any], bytes]]] = {
    str: _text,
    int: _integer,
    bool: lambda value: b"\x56\x01" if value else b"\x56\x00",
    float: lambda value: b"\x82" + _pack_double(value),
    bytes: _octets,
    UUID: lambda value: b"\x98" + value.bytes,
    type(None): lambda value: _NULL,
    Opaque: lambda value: value.octets,
}


def _list(content: bytes, count: int) -> bytes:
    size = len(content)
    if size < _SHORT:
        return b"\xc0%c%c" % (size + 1, count) + content
    return b"\xd0" + _pack_length(size + 4) + _pack_length(count) + content


def _map(content: bytes, pairs: int) -> bytes:
    size, count = len(content), 2 * pairs
    if size < _SHORT and count <= _SHORT:
        return b"\xc1%c%c" % (size + 1, count) + content
    return b"\xd1" + _pack_length(size + 4) + _pack_length(count) + content
