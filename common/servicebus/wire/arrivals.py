"""Between a receiver's link and its messages: decodes what arrives, because the SDK's own reader fails at types that it does not know.

A message that azure-servicebus 7.15 cannot decode ends the connection, and comes again on the next one. So each link gets its frames without
their payload, which the SDK reads as an empty message. That message is replaced by what servicebus_decoding made of the octets. Changes single
links, and nothing in an SDK that is built otherwise: then the SDK decodes, with decoders added for the types that it lacks.

The SDK catches what is raised here and goes on with the next message. So nothing is raised: a link that has failed to read one message hands
over none of the messages behind it, and `failure` has the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast

import structlog
from azure.servicebus._pyamqp import _decode
from azure.servicebus._pyamqp.message import Header
from azure.servicebus._pyamqp.message import Message as SdkMessage

from common.message import Message, Opaque
from common.servicebus.wire.decoding import Arrived, decoded

_MORE, _PAYLOAD, _FIELDS = 5, 11, 12
"""Indices in a transfer as the SDK passes it to a link (AMQP 1.0, 2.7.5); the last is that of the payload."""

_FAILURE: Final = "dstream_failure"
"""Attribute of a link: why it hands over no more messages."""

_LACKING: Final = {0x73: 4, 0x74: 4, 0x84: 8, 0x94: 16}
"""Octets of the types for which the SDK has no decoder (char, decimal32, decimal64), or one that fails (decimal128)."""

log = structlog.get_logger(__name__)


class Carrier(SdkMessage):
    """The SDK's message, with the broker's figures that settling and renewing need. `arrived` is the message that it stands for."""

    arrived: Arrived

    @classmethod
    def of(cls, octets: bytes) -> Carrier:
        arrived = decoded(octets)
        annotations = cast("dict[str | bytes, Any] | None", arrived.annotations or None)
        header = Header(delivery_count=arrived.delivery_count)
        carrier = cls(header=header, message_annotations=annotations, data=[b""])
        carrier.arrived = arrived
        return carrier


def carried(message: object) -> tuple[Message, str | None] | None:
    """The message that the SDK's stands for, and its fault; None when the SDK has decoded it."""
    arrived = getattr(message, "arrived", None)
    return (arrived.message, arrived.fault) if isinstance(arrived, Arrived) else None


def failure(handler: Any) -> str | None:
    """Why this handler's link hands over no more messages; None while it does."""
    told = getattr(getattr(handler, "_link", None), _FAILURE, None)
    return told if isinstance(told, str) else None


def read_arrivals(handler: Any) -> None:
    """Call once for a handler whose link is attached, before it has credit."""
    link: Any = getattr(handler, "_link", None)
    transfer, deliver = getattr(link, "_incoming_transfer", None), getattr(link, "_on_transfer", None)
    if callable(transfer) and callable(deliver):
        _take_over(link, transfer, deliver)
    else:
        warn_once("its links are built otherwise")


def _take_over(link: Any, transfer: Callable[[Any], None], deliver: Callable[[Any, Any], Any]) -> None:
    pieces: list[bytes] = []

    def incoming(frame: Any) -> None:
        if not _known(frame):
            pieces.clear()
            warn_once("its transfers are built otherwise")
            return transfer(frame)
        pieces.append(bytes(frame[_PAYLOAD]))
        return transfer([*frame[:_PAYLOAD], b""])

    def delivered(frame: Any, message: Any) -> Any:
        if getattr(link, _FAILURE, None) is not None:
            pieces.clear()
            return None
        try:
            if not pieces:
                return deliver(frame, message)
            octets = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            return deliver(frame, Carrier.of(octets))
        except Exception as error:
            setattr(link, _FAILURE, f"a message could not be read: {type(error).__name__}: {error}")
            pieces.clear()
            return None

    link._incoming_transfer, link._on_transfer = incoming, delivered


def _known(frame: Any) -> bool:
    return (
        isinstance(frame, (list, tuple)) and len(frame) == _FIELDS and isinstance(frame[_PAYLOAD], (bytes, memoryview))
    )


@lru_cache(maxsize=1)
def warn_once(why: str) -> None:
    """From now on the SDK decodes messages itself."""
    known = _teach_the_sdk()
    log.warning(
        "this azure-servicebus is not the one that this release was made for: it reads messages by itself",
        reason=why,
        hint="install the version that the release names. Until then some types of foreign properties change on their way, and a message that "
        "it cannot decode holds up its session"
        + ("" if known else "; so do properties of the types char, decimal32 and decimal64"),
    )


def _teach_the_sdk() -> bool:
    """Adds decoders for the types that the SDK lacks; False when it keeps its decoders otherwise."""
    decoders: Any = getattr(_decode, "_DECODE_BY_CONSTRUCTOR", None)
    if not isinstance(decoders, list) or len(decoders) != 256:
        return False
    for constructor, length in _LACKING.items():
        decoders[constructor] = _opaque(constructor, length)
    return True


def _opaque(constructor: int, length: int) -> Callable[..., tuple[memoryview, Opaque]]:
    def decode(buffer: memoryview, _depth: int = 0) -> tuple[memoryview, Opaque]:
        if len(buffer) < length:
            raise struct.error("a value is cut short")
        return buffer[length:], Opaque(bytes([constructor]) + buffer[:length].tobytes())

    return decode
