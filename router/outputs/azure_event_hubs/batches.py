"""Fills the SDK's batches: with events encoded here when the SDK's batch is built as expected, otherwise by its public method.

Events encoded here go into a batch past its public method: octets, their count and their size, under private names of the 5.15 line.
`supported` fills one batch both ways and compares. If anything differs or is missing, or the SDK traces its events, the public method is used.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from azure.core.settings import settings
from azure.eventhub import EventDataBatch
from azure.eventhub.amqp import AmqpAnnotatedMessage

from common.azure_amqp.encoding import event_of
from common.message import Message, Opaque

_SAMPLES = (
    Message(
        b"{}",
        "id",
        session_id="s",
        subject="subject",
        correlation_id="c",
        reply_to="r",
        reply_to_session_id="q",
        to="t",
        application_properties={"text": "ä", "number": 1_000, "small": -1, "real": 0.5, "flag": True},
    ),
    Message(b"x" * 300, "long", content_type=None),
)
"""Every field that an event has, and both sizes of an event's frame in a batch."""


def add(batch: EventDataBatch, message: Message, key: str) -> bool:
    """Put `message` into `batch`, whose partition key is `key`; False, and nothing done, when it does not fit. Raises ValueError and
    UnicodeEncodeError for what cannot be written."""
    octets = event_of(message, key) if not _traced() and supported() else None
    if octets is not None:
        return _put(batch, octets)
    event, full = annotated(message), len(batch) > 0
    try:
        batch.add(event)
    except ValueError as error:
        if "size limit" not in str(error):
            raise
        if not full and len(message.body) < batch.max_size_in_bytes // 2:
            raise  # not for its size
        return False
    return True


@lru_cache(maxsize=1)
def supported() -> bool:
    """Whether a batch filled here equals the one that the SDK makes of the same events."""
    ours, theirs = EventDataBatch(partition_key="k"), EventDataBatch(partition_key="k")
    try:
        for message in _SAMPLES:
            octets = event_of(message, "k")
            if octets is None or not _put(ours, octets):
                return False
            theirs.add(annotated(message))
        return _content(ours) == _content(theirs)
    except Exception:  # whatever a later SDK raises here, it is not the SDK that this module knows
        return False


def annotated(message: Message) -> AmqpAnnotatedMessage:
    """In the SDK's own form. Raises ValueError for values that the SDK cannot write."""
    if any(isinstance(value, Opaque) for value in message.application_properties.values()) or message.foreign:
        raise ValueError("it has a value of another sender's type, which azure-eventhub does not write")
    properties = {
        "message_id": message.message_id,
        "to": message.to,
        "subject": message.subject,
        "reply_to": message.reply_to,
        "correlation_id": message.correlation_id,
        "content_type": message.content_type,
        "group_id": message.session_id,
        "reply_to_group_id": message.reply_to_session_id,
    }
    return AmqpAnnotatedMessage(
        data_body=[message.body],
        properties=properties,
        annotations={},
        application_properties=dict(message.application_properties) or None,
    )


def _put(batch: Any, octets: bytes) -> bool:
    """As `add` does."""
    length = len(octets)
    size = batch._size + length + (5 if length <= 255 else 8)  # the descriptor and the length of a data section
    if size > batch.max_size_in_bytes:
        return False
    batch._message[5].append(octets)
    batch._size = size
    batch._count += 1
    return True


def _content(batch: Any) -> tuple[object, ...]:
    envelope = list(batch._message)
    octets, envelope[5] = [bytes(each) for each in envelope[5]], None
    return len(batch), batch.size_in_bytes, octets, envelope


def _traced() -> bool:
    """Whether the SDK traces: then each event carries the context of a span of its own."""
    return settings.tracing_implementation() is not None
