"""Which of a receiver's messages have arrived: in the SDK's buffer, and in the socket. Waits for a frame at most, and decodes none itself."""

from __future__ import annotations

import select
from io import BytesIO
from typing import Any, Final

from common.message import weight
from common.servicebus.wire.arrivals import carried

_AHEAD: Final = 64 * 1024
"""Octets taken from a socket at once."""


class Fitting:
    """How many of the messages in the SDK's buffer to take: at most `count`, and at most `room` bytes."""

    def __init__(self, buffered: Any, count: int, room: float) -> None:
        self._buffered, self._count, self._room = buffered, count, room
        self.ready = 0

    @property
    def wanted(self) -> int:
        """More of them than are ready."""
        return self._count - self.ready

    def more(self) -> bool:
        """Whether there is room for more than has arrived."""
        while self.ready < min(self._count, self._buffered.qsize()):
            size = _octets(self._buffered.queue[self.ready])
            if size > self._room:
                return False
            self._room -= size
            self.ready += 1
        return self.ready < self._count


def _octets(entry: Any) -> int:
    """About how many bytes a message in the SDK's buffer has; the SDK keeps it there with its transfer. A message is a named tuple itself."""
    message = entry[1] if type(entry) is tuple else entry
    if (held := carried(message)) is not None:
        return weight(held[0])
    return sum(map(len, getattr(message, "data", None) or ()))


def readable(handler: Any, seconds: float) -> bool:
    """Whether a frame has begun to arrive, or does so in time, so that reading does not wait."""
    transport = _transport_of(handler)
    sock = getattr(transport, "sock", None)
    if sock is None:
        return False
    if _unread(transport):
        return True
    below = getattr(sock, "sock", None)
    try:
        if not _comes(sock if below is None else below, seconds):
            return False
        if below is None:  # a WebSocket has a buffer of its own
            _read_ahead(transport, sock)
    except (OSError, ValueError):  # closed meanwhile: reading will show the reason
        return True
    return True


def whole_frames(handler: Any, most: int) -> int:
    """How many frames the SDK can read in one go without asking the socket: `most` at most, and at least the one that `readable` saw."""
    buffer = getattr(_transport_of(handler), "_read_buffer", None)
    found = 0
    if isinstance(buffer, BytesIO):
        with buffer.getbuffer() as octets:
            at = buffer.tell()
            while found < most and (behind := at + _frame_size(octets, at)) <= len(octets):
                at, found = behind, found + 1
    return max(found, 1)


def _transport_of(handler: Any) -> Any:
    return getattr(getattr(handler, "_connection", None), "_transport", None)


def _frame_size(octets: memoryview, at: int) -> int:
    """AMQP 1.0, 2.3.1: four octets, themselves included. More than there can be where those four are not all there."""
    size = int.from_bytes(octets[at : at + 4])
    return size if at + 8 <= len(octets) and size >= 8 else len(octets) + 1


def _unread(transport: Any) -> bool:
    """Whether the transport holds octets that are not part of a frame yet."""
    buffer = getattr(transport, "_read_buffer", None)
    return isinstance(buffer, BytesIO) and buffer.tell() < buffer.getbuffer().nbytes


def _comes(sock: Any, seconds: float) -> bool:
    pending = getattr(sock, "pending", None)
    if pending is not None and pending() > 0:
        return True
    if hasattr(select, "poll"):  # select() itself refuses descriptors from 1,024 on
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    return bool(select.select([sock], [], [], seconds)[0])


def _read_ahead(transport: Any, sock: Any) -> None:
    """Everything that has arrived, in one call: the SDK makes four for each frame, and threads of one process wait for each other at each.

    Its transport looks into this buffer, which is where it keeps the beginning of a frame that is cut short, before it asks the socket.
    """
    buffer, lock = getattr(transport, "_read_buffer", None), getattr(transport, "socket_lock", None)
    if not isinstance(buffer, BytesIO) or lock is None:
        return
    with lock:
        if not _unread(transport) and (octets := sock.recv(_AHEAD)):
            transport._read_buffer = BytesIO(octets)
