"""A message as both stages see it: the body's bytes and the properties that travel with them. Knows no broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value of a type that this module does not know, in the octets of the broker's protocol, type included. It is passed on unchanged."""

    octets: bytes


PropertyValue = str | int | float | bool | bytes | Opaque


@dataclass(frozen=True, slots=True)
class Message:
    """One change on its way (docs/messages.md): what must arrive unchanged at the topic."""

    body: bytes
    message_id: str | None
    session_id: str | None = None
    subject: str | None = None
    content_type: str | None = "application/json"
    partition_key: str | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    reply_to_session_id: str | None = None
    to: str | None = None
    time_to_live: timedelta | None = None
    application_properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    foreign: Mapping[str, Opaque] = field(default_factory=dict)
    """What another sender wrote into fields that are not listed above, or into those above as another type than text, by the field's name.
    For the latter, the text above is for reading only."""


_SECTIONS = 90
"""Bytes around body and properties: headers of sections, annotations, times."""


def weight(message: Message) -> int:
    """About how many bytes it takes on the wire, and never much less."""
    size = _SECTIONS + len(message.body)
    for text in (
        message.message_id,
        message.session_id,
        message.partition_key,
        message.subject,
        message.correlation_id,
    ):
        if text is not None:
            size += len(text) + 2
    for name, value in message.application_properties.items():
        size += len(name) + _of_value(value)
    for name, value in message.foreign.items():
        size += len(name) + _of_value(value)
    return size


def _of_value(value: PropertyValue) -> int:
    if isinstance(value, (str, bytes)):
        return len(value) + 4
    return len(value.octets) + 4 if isinstance(value, Opaque) else 11
