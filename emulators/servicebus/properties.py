"""The properties of a message, as rules and management operations speak of them: read when asked for, written back in place.

System properties are named as Service Bus names them and live in the properties section, the header and the annotations;
user properties are the application properties. Names compare without regard to case. Nothing is decoded before somebody
asks, and what is not changed keeps its octets. A value of an AMQP type the decoder refuses is kept, and refused only when it
is read.
Sources: learn.microsoft.com "Messages, payloads, and serialization", "AMQP 1.0 in Azure Service Bus: protocol guide";
OASIS AMQP 1.0, part 3, sections 3.2.4 and 3.2.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from .amqp.decode import compound, decode, skip
from .amqp.encode import encode, encode_list, encode_map_body
from .amqp.values import DecodeError, Int, Symbol, Timestamp, Value
from .message import APPLICATION_PROPERTIES, PROPERTIES, Message, leading_sections

_NULL: Final = b"\x40"
_PARTITION_KEY: Final = "x-opt-partition-key"
_VIA_PARTITION_KEY: Final = "x-opt-via-partition-key"
_SCHEDULED: Final = "x-opt-scheduled-enqueue-time"


@dataclass(slots=True)
class _Pair:
    """An application property: its octets, and its value once it was asked for."""

    name: Value
    octets: bytes
    value_at: int

    def value(self) -> Value:
        return decode(self.octets, self.value_at)[0]


class MessageProperties:
    """A view of one message. Changes reach the message with `write`."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self._split: tuple[bytes, bytes, bytes] | None = None
        self._fields: list[bytes] | None = None
        self._pairs: dict[str, _Pair] | None = None
        self._changed: set[int] = set()

    # -- system properties

    def system(self, name: str) -> Value:
        """None when the message has none. Raises KeyError for a name that no message has, DecodeError."""
        return _SYSTEM[name.lower()].read(self)

    def set_system(self, name: str, value: Value) -> None:
        """None clears it. Raises KeyError for a name that no message has, TypeError for one that is not the sender's to set."""
        _SYSTEM[name.lower()].write(self, value)

    # -- user properties

    def has_user(self, name: str) -> bool:
        """Is it there, be it null? Raises DecodeError."""
        return name.lower() in self._user()

    def user(self, name: str) -> Value:
        """None when it is not there. Raises DecodeError."""
        pair = self._user().get(name.lower())
        return None if pair is None else pair.value()

    def set_user(self, name: str, value: Value) -> None:
        """An existing one keeps its spelling and place. Raises TypeError for a Python type that stands for no AMQP type."""
        pairs = self._user()
        old = pairs.get(name.lower())
        key = encode(name if old is None else old.name)
        pairs[name.lower()] = _Pair(name if old is None else old.name, key + encode(value), len(key))
        self._changed.add(APPLICATION_PROPERTIES)

    def remove_user(self, name: str) -> None:
        """One that is not there is no error."""
        if self._user().pop(name.lower(), None) is not None:
            self._changed.add(APPLICATION_PROPERTIES)

    # -- octets

    def write(self) -> None:
        """Put the changes into the message; its size follows."""
        if not self._changed:
            return
        before = len(self.message.tail)
        properties, application, rest = self._sections()
        if PROPERTIES in self._changed:
            properties = b"\x00\x53\x73" + encode_list(self._items())
        if APPLICATION_PROPERTIES in self._changed:
            pairs = self._user().values()
            application = b"\x00\x53\x74" + encode_map_body(2 * len(pairs), b"".join(pair.octets for pair in pairs))
        self.message.tail = properties + application + rest
        self.message.size += len(self.message.tail) - before
        self._split = None
        self._changed.clear()

    def _sections(self) -> tuple[bytes, bytes, bytes]:
        if self._split is None:
            tail = self.message.tail
            ends = {code: end for code, _, end in leading_sections(tail)}
            first = ends.get(PROPERTIES, 0)
            second = ends.get(APPLICATION_PROPERTIES, first)
            self._split = tail[:first], tail[first:second], tail[second:]
        return self._split

    def _items(self) -> list[bytes]:
        if self._fields is None:
            self._fields = []
            octets = self._sections()[0]
            for _, start, _ in leading_sections(octets):
                count, at, _ = compound(octets, start)
                for _ in range(count):
                    begin, at = at, skip(octets, at)
                    self._fields.append(octets[begin:at])
        return self._fields

    def _user(self) -> dict[str, _Pair]:
        if self._pairs is None:
            self._pairs = {}
            octets = self._sections()[1]
            for _, start, _ in leading_sections(octets):
                count, at, _ = compound(octets, start)
                for number in range(count // 2):
                    begin = at
                    name, value_at = decode(octets, at)
                    at = skip(octets, value_at)
                    key = name.lower() if isinstance(name, str) else f"\x00{number}"
                    while key in self._pairs:  # the same name in another case: kept, and the first one counts
                        key = f"\x00{key}"
                    self._pairs[key] = _Pair(name, octets[begin:at], value_at - begin)
        return self._pairs

    def field(self, index: int) -> Value:
        """A field of the properties section."""
        if self._fields is not None:
            return decode(self._fields[index])[0] if index < len(self._fields) else None
        octets = self._sections()[0]
        for _, start, _ in leading_sections(octets):
            count, at, _ = compound(octets, start)
            if index < count:  # a filter asks for one or two: the others are not taken apart
                for _ in range(index):
                    at = skip(octets, at)
                return decode(octets, at)[0]
            index -= count
        return None

    def set_field(self, index: int, value: Value) -> None:
        """A field of the properties section."""
        items = self._items()
        items += [_NULL] * (index + 1 - len(items))
        items[index] = encode(value)
        self._changed.add(PROPERTIES)

    def annotation(self, name: str) -> Value:
        """A message annotation of the sender's."""
        return next((value() for key, _, value in _annotations(self.message) if key == name), None)

    def set_annotation(self, name: str, value: Value) -> None:
        """None removes it."""
        kept = [octets for key, octets, _ in _annotations(self.message) if key != name]
        if value is not None:
            kept.append(encode(Symbol(name)) + encode(value))
        self.message.annotations = b"".join(kept)
        self.message.annotation_count = 2 * len(kept)


def change_user_properties(message: Message, changes: Mapping[str, Value]) -> int:
    """Set user properties; how many octets the message has grown by. Application properties that are none stay as they are."""
    before = message.size
    properties = MessageProperties(message)
    try:
        for name, value in changes.items():
            properties.set_user(name, value)
        properties.write()
    except DecodeError:
        return 0
    return message.size - before


def _annotations(message: Message) -> list[tuple[Value, bytes, Callable[[], Value]]]:
    found: list[tuple[Value, bytes, Callable[[], Value]]] = []
    octets, at = message.annotations, 0
    while at < len(octets):
        begin = at
        name, value_at = decode(octets, at)
        at = skip(octets, value_at)
        found.append((name, octets[begin:at], lambda where=value_at: decode(octets, where)[0]))  # type: ignore[misc]
    return found


@dataclass(frozen=True, slots=True)
class _System:
    read: Callable[[MessageProperties], Value]
    write: Callable[[MessageProperties, Value], None]
    kind: type = str


def _read_only(properties: MessageProperties, value: Value) -> None:
    raise TypeError("it is set by the broker")


def _of_broker(read: Callable[[Message], Value]) -> _System:
    return _System(lambda properties: read(properties.message), _read_only)


def _string(value: Value) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("it must be a string")
    return None if value is None else str(value)


def _name(value: Value) -> str | None:
    """A message or correlation id as Service Bus shows it."""
    if isinstance(value, bytes):
        return value.hex()
    return None if value is None else str(value)


def _in_field(index: int) -> _System:
    def write(properties: MessageProperties, value: Value) -> None:
        properties.set_field(index, _string(value))

    return _System(lambda properties: _name(properties.field(index)), write)


def _write_message_id(properties: MessageProperties, value: Value) -> None:
    properties.message.message_id = _string(value)
    properties.set_field(0, properties.message.message_id)


def _write_session_id(properties: MessageProperties, value: Value) -> None:
    properties.message.session_id = _string(value)
    properties.set_field(10, properties.message.session_id)


def _write_content_type(properties: MessageProperties, value: Value) -> None:
    text = _string(value)
    if text is not None and not text.isascii():
        raise TypeError("it must be ASCII")
    properties.set_field(6, None if text is None else Symbol(text))


def _in_annotation(name: str) -> _System:
    def write(properties: MessageProperties, value: Value) -> None:
        properties.set_annotation(name, _string(value))

    return _System(lambda properties: properties.annotation(name), write)


def _read_scheduled(properties: MessageProperties) -> Value:
    at = properties.message.scheduled_at
    return None if at is None else Timestamp(at)


def _write_scheduled(properties: MessageProperties, value: Value) -> None:
    if value is not None and not isinstance(value, Timestamp):
        raise TypeError("it must be a point in time")
    properties.message.scheduled_at = None if value is None else int(value)
    properties.set_annotation(_SCHEDULED, value)


def _read_ttl(properties: MessageProperties) -> Value:
    ttl = properties.message.ttl
    return None if ttl is None else timedelta(milliseconds=ttl)


def _write_ttl(properties: MessageProperties, value: Value) -> None:
    if value is not None and (not isinstance(value, timedelta) or value <= timedelta(0)):
        raise TypeError("it must be a positive duration")
    properties.message.ttl = None if value is None else value // timedelta(milliseconds=1)


def _expires_at(message: Message) -> Value:
    return None if message.ttl is None else Timestamp(message.enqueued_at + message.ttl)


_NOT_YET: Final = _of_broker(lambda message: None)
"""What a message gets only later, or (forced persistence) never here."""
_SUBJECT: Final = _in_field(3)
_SYSTEM: Final[dict[str, _System]] = {
    "messageid": _System(lambda properties: _name(properties.field(0)), _write_message_id),
    "to": _in_field(2),
    "label": _SUBJECT,
    "subject": _SUBJECT,
    "replyto": _in_field(4),
    "correlationid": _in_field(5),
    "contenttype": _System(lambda properties: _name(properties.field(6)), _write_content_type),
    "sessionid": _System(lambda properties: _name(properties.field(10)), _write_session_id),
    "replytosessionid": _in_field(12),
    "partitionkey": _in_annotation(_PARTITION_KEY),
    "viapartitionkey": _in_annotation(_VIA_PARTITION_KEY),
    "scheduledenqueuetimeutc": _System(_read_scheduled, _write_scheduled, Timestamp),
    "timetolive": _System(_read_ttl, _write_ttl, timedelta),
    "deliverycount": _of_broker(lambda message: Int(message.delivery_count)),
    "enqueuedsequencenumber": _of_broker(lambda message: message.enqueue_sequence),
    "enqueuedtimeutc": _of_broker(lambda message: Timestamp(message.enqueued_at)),
    "expiresatutc": _of_broker(_expires_at),
    "sequencenumber": _of_broker(lambda message: message.sequence),
    "deadlettersource": _NOT_YET,
    "forcepersistence": _NOT_YET,
    "lockeduntilutc": _NOT_YET,
    "locktoken": _NOT_YET,
    "state": _NOT_YET,
    "size": _of_broker(lambda message: message.size),
}

SYSTEM_NAMES: Final = frozenset(_SYSTEM)
SETTABLE: Final = {name: access.kind for name, access in _SYSTEM.items() if access.write is not _read_only}
"""The names that a sender sets, with the type of their values."""
