"""Messages to and from the SDK's own. Nothing is dropped silently: a body that is no byte string is a named fault.

The SDK hands over AMQP strings and AMQP binaries alike as bytes, so a property's binary value that happens to be UTF-8 turns into a string.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.amqp import AmqpMessageBodyType, AmqpMessageProperties

from common.message import Message, PropertyValue

_NO_PROPERTIES = AmqpMessageProperties()
_PARTITION_KEY = b"x-opt-partition-key"


def to_sdk(message: Message) -> ServiceBusMessage:
    """The SDK refuses a partition key that differs from the session id, and so does the service: the session id wins."""
    keyed = message.session_id is None or message.partition_key == message.session_id
    return ServiceBusMessage(
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
        application_properties=cast(
            "dict[str | bytes, Any] | None",
            dict(message.application_properties) if message.application_properties else None,
        ),
    )


def from_sdk(received: ServiceBusReceivedMessage) -> tuple[Message, str | None]:
    """The message, and why it is not what was sent (None as a rule)."""
    fault = None
    if received.body_type is AmqpMessageBodyType.DATA:
        body = b"".join(received.body)
    else:
        body, fault = b"", f"the body is an AMQP {received.body_type.name.lower()}, not bytes"
    # One look at the AMQP message: the SDK's own properties look again for each of them, which costs more than all the rest of a message.
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
