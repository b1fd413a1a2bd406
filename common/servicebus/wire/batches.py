"""Fills the SDK's batches: with messages encoded here when the SDK's batch is built as expected, otherwise by its public method.

Messages encoded here go into a batch past its public method: octets, their count and their size, under private names of the 7.15 line.
`supported` fills one batch both ways and compares. If anything differs or is missing, or the SDK traces its messages, the public method is used.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from azure.core.settings import settings
from azure.servicebus import ServiceBusMessageBatch
from azure.servicebus.exceptions import MessageSizeExceededError

from common.azure_amqp.encoding import Written, encoded
from common.message import Message
from common.servicebus.wire.messages import to_sdk

MOST = 4_500
"""Messages of a batch. The service refuses more with an error that names no reason, and no link states the limit (Azure/azure-service-bus issues
397 and 708; Azure.Messaging.ServiceBus limits its own batches to the same number, CreateMessageBatchOptions.MaxMessageCount)."""

_SAMPLES = (
    Message(
        b"{}",
        "id",
        session_id="s",
        subject="subject",
        partition_key="s",
        correlation_id="c",
        reply_to="r",
        reply_to_session_id="q",
        to="t",
        application_properties={"text": "ä", "number": 1_000, "small": -1, "real": 0.5, "flag": True, "octets": b"o"},
    ),
    Message(
        b"{}",
        "usual",
        session_id="s",
        subject="subject",
        reply_to="r",
        reply_to_session_id="q",
        to="t",
        application_properties={"text": "ä", "number": 1_000},
    ),
    Message(b"x" * 300, "long", content_type=None),
)
"""Every field except the time to live, which depends on when the message was made, with and without the correlation id that changes the way
they are written; and both sizes of a message's frame in a batch."""


def fill(batch: ServiceBusMessageBatch, messages: Iterable[Message]) -> int:
    """Put `messages` into `batch`, in order, up to the first that does not fit or that the SDK refuses; return how many.

    Raises ValueError for what the SDK refuses, if that is the first.
    """
    ours = not _traced() and supported()
    written, now, count = Written(), time.time(), 0
    for message in messages:
        try:
            fits = _add(batch, message, encoded(message, now=now, written=written) if ours else None)
        except Exception:  # it is the first of the next batch, and raised again
            if not count:
                raise
            break
        if not fits:
            break
        count += 1
    return count


def add(batch: ServiceBusMessageBatch, message: Message) -> bool:
    """Put `message` into `batch`; False, and nothing done, when it does not fit. Raises ValueError for what the SDK refuses."""
    return fill(batch, (message,)) == 1


def _add(batch: ServiceBusMessageBatch, message: Message, octets: bytes | None) -> bool:
    """`octets`: of the message, where they were made here."""
    if len(batch) >= MOST:
        return False
    if octets is not None:
        return _put(batch, message, octets)
    try:
        batch.add_message(to_sdk(message))
    except MessageSizeExceededError:
        return False
    return True


@lru_cache(maxsize=1)
def supported() -> bool:
    """Whether a batch filled here equals the one that the SDK makes of the same messages."""
    ours, theirs = ServiceBusMessageBatch(), ServiceBusMessageBatch()
    try:
        written = Written()
        for message in _SAMPLES:
            octets = encoded(message, now=0.0, written=written)
            if octets is None or not _put(ours, message, octets):
                return False
            theirs.add_message(to_sdk(message))
        return _content(ours) == _content(theirs)
    except Exception:  # whatever a later SDK raises here, it is not the SDK that this module knows
        return False


def _put(batch: Any, message: Message, octets: bytes) -> bool:
    """As `add_message` does. The batch's envelope repeats the first message's id, session and partition key."""
    length = len(octets)
    size = batch._size + length + (5 if length <= 255 else 8)  # the descriptor and the length of a data section
    if size > batch._max_size_in_bytes:
        return False
    batch._message[5].append(octets)
    batch._size = size
    batch._count += 1
    if batch._count == 1:
        keyed = message.session_id is None or message.partition_key == message.session_id
        batch._amqp_transport.set_batch_envelope_properties(
            batch._message, message.message_id, message.session_id, message.partition_key if keyed else None
        )
    return True


def _content(batch: Any) -> tuple[object, ...]:
    envelope = list(batch._message)
    octets, envelope[5] = [bytes(each) for each in envelope[5]], None
    return len(batch), batch.size_in_bytes, octets, envelope


def _traced() -> bool:
    """Whether the SDK traces: then each message carries the context of a span of its own."""
    return settings.tracing_implementation() is not None
