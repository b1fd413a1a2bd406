"""Frames: octets of a connection cut into frames, and performatives put into them.

Refuses (amqp:connection:framing-error) a frame that is shorter than its own header or longer than what was offered.
Source: OASIS AMQP 1.0, part 2, section 2.3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from .values import AmqpError

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
AMQP_FRAME = 0
SASL_FRAME = 1

_HEAD = struct.Struct(">IBBH")


class Frame(NamedTuple):
    """One frame; an empty body is a heartbeat."""

    kind: int
    channel: int
    body: bytes


def frame(channel: int, body: bytes, kind: int = AMQP_FRAME) -> bytes:
    """A frame around an encoded performative (and payload)."""
    return _HEAD.pack(len(body) + 8, 2, kind, channel) + body


HEARTBEAT = frame(0, b"")


class FrameReader:
    """Collects octets and hands out protocol headers (bytes) and frames in the order they came."""

    def __init__(self, max_frame: int) -> None:
        self._buffer = bytearray()
        self._max_frame = max_frame
        self._header_next = True

    def expect_header(self) -> None:
        """The next eight octets are a protocol header (after SASL)."""
        self._header_next = True

    def feed(self, data: bytes) -> Iterator[bytes | Frame]:
        """Everything complete so far. Raises AmqpError; the connection is unusable then."""
        buffer = self._buffer
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= 8:
                if self._header_next:
                    self._header_next = False
                    at += 8
                    yield bytes(buffer[at - 8 : at])
                    continue
                size, offset, kind, channel = _HEAD.unpack_from(buffer, at)
                if size < 8 or offset < 2 or offset * 4 > size or size > self._max_frame:
                    text = f"frame of {size} octets with data offset {offset}"
                    raise AmqpError("amqp:connection:framing-error", text)
                if len(buffer) - at < size:
                    break
                at += size
                yield Frame(kind, channel, bytes(buffer[at - size + offset * 4 : at]))
        finally:
            del buffer[:at]
