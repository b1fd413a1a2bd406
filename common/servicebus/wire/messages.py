"""Converts messages to and from the SDK's own. Nothing is dropped silently: a body that is not a byte string is a named fault.

This module reads messages when servicebus_arrivals cannot (a patched SDK), and writes those that servicebus_encoding does not (larger than a
batch). The SDK returns AMQP strings and AMQP binaries alike as bytes, so a binary value that happens to be UTF-8 becomes a string.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus._pyamqp.types import TYPE, VALUE, AMQPTypes
from azure.servicebus.amqp import AmqpMessageBodyType, AmqpMessageProperties

from common.message import Message, Opaque, PropertyValue
from common.servicebus.wire.decoding import plain

_NO_PROPERTIES = AmqpMessageProperties()
_PARTITION_KEY = b"x-opt-partition-key"

_KINDS = {
    **dict.fromkeys((0x50,), AMQPTypes.ubyte),
    **dict.fromkeys((0x51,), AMQPTypes.byte),
    **dict.fromkeys((0x60,), AMQPTypes.ushort),
    **dict.fromkeys((0x61,), AMQPTypes.short),
    **dict.fromkeys((0x43, 0x52, 0x70), AMQPTypes.uint),
    **dict.fromkeys((0x44, 0x53, 0x80), AMQPTypes.ulong),
    **dict.fromkeys((0x55, 0x81), AMQPTypes.long),
    **dict.fromkeys((0x72,), AMQPTypes.float),
    **dict.fromkeys((0x83,), AMQPTypes.timestamp),
    **dict.fromkeys((0x98,), AMQPTypes.uuid),
    **dict.fromkeys((0xA0, 0xB0), AMQPTypes.binary),
    **dict.fromkeys((0xA3, 0xB3), AMQPTypes.symbol),
}
"""The SDK's names of AMQP types, by the constructors of their values (AMQP 1.0, part 1, 1.6)."""

_IDS = (AMQPTypes.ulong, AMQPTypes.uuid, AMQPTypes.binary)
_FIELD_KINDS = {
    "message_id": _IDS,
    "correlation_id": _IDS,
    "user_id": (AMQPTypes.binary,),
    "content_encoding": (AMQPTypes.symbol,),
    "group_sequence": (AMQPTypes.uint,),
}
"""The types besides text with which the SDK writes a field (part 3, 3.2.4)."""


def to_sdk(message: Message) -> ServiceBusMessage:
    """The session id replaces a partition key that differs from it: the SDK and the service refuse such a pair.

    Raises ValueError for values of types that the SDK cannot write.
    """
    keyed = message.session_id is None or message.partition_key == message.session_id
    made = ServiceBusMessage(
        message.body,
        message_id=message.message_id,
        session_id=message.session_id,
        subject=message.subject,
        content_type=message.content_type,
        partition_key=message.partition_key if keyed else None,
        correlation_id=message.correlation_id,
        reply_to=message.reply_to,
        reply_to_session_id=message.reply_to_session_id,
        to=message.to,
        time_to_live=message.time_to_live,
        application_properties=_for_sdk(message.application_properties),
    )
    raw = made.raw_amqp_message
    if message.time_to_live is not None and raw.header is not None:
        # The SDK drops parts of a second, so less than one becomes 0, which expires at once.
        raw.header.time_to_live = message.time_to_live // timedelta(milliseconds=1)
    for name, held in message.foreign.items():
        _set_field(raw.properties, name, held)
    return made


def _for_sdk(held: Mapping[str, PropertyValue]) -> dict[str | bytes, Any] | None:
    return {name: _typed(value) if isinstance(value, Opaque) else value for name, value in held.items()} or None


def _typed(value: Opaque) -> dict[str, Any]:
    """In the form in which the SDK takes a value with its type."""
    kind = _KINDS.get(value.octets[0])
    if kind is None:
        raise ValueError(f"it has a value of type 0x{value.octets[0]:02x}, which azure-servicebus does not write")
    return {TYPE: kind, VALUE: plain(value)}


def _set_field(properties: Any, name: str, held: Opaque) -> None:
    kind = _KINDS.get(held.octets[0])
    if kind not in _FIELD_KINDS.get(name, ()):
        raise ValueError(f"it has a {name} of type 0x{held.octets[0]:02x}, which azure-servicebus does not write")
    setattr(properties, name, plain(held))


def from_sdk(received: ServiceBusReceivedMessage) -> tuple[Message, str | None]:
    """The message, and why it is not what was sent (usually None)."""
    fault = None
    if received.body_type is AmqpMessageBodyType.DATA:
        body = b"".join(received.body)
    else:
        body, fault = b"", f"the body is an AMQP {received.body_type.name.lower()}, not bytes"
    # The AMQP message is read once: each of the SDK's own properties reads it again, which costs more than all the rest of a message.
    raw = received.raw_amqp_message
    properties = raw.properties or _NO_PROPERTIES
    message = Message(
        body=body,
        message_id=_text(properties.message_id),
        session_id=_text(properties.group_id),
        subject=_text(properties.subject),
        content_type=_text(properties.content_type),
        partition_key=_text((raw.annotations or {}).get(_PARTITION_KEY)),
        correlation_id=_text(properties.correlation_id),
        reply_to=_text(properties.reply_to),
        reply_to_session_id=_text(properties.reply_to_group_id),
        to=_text(properties.to),
        time_to_live=received.time_to_live,
        application_properties=_properties(raw.application_properties),
    )
    return message, fault


def _text(value: object) -> str | None:
    if value is None:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _properties(held: Mapping[str | bytes, Any] | None) -> dict[str, PropertyValue]:
    return {cast(str, _text(name)): _value(value) for name, value in held.items()} if held else {}


def _value(value: Any) -> PropertyValue:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return cast(PropertyValue, value)
