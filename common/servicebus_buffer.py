"""What of a receiver's messages is here already: in the SDK's buffer, and in the socket. Waits for nothing but a frame, and reads none itself."""

from __future__ import annotations

import select
from typing import Any

from common.message import weight
from common.servicebus_arrivals import carried


class Fitting:
    """How many of the messages that the SDK has buffered are wanted: `count` at most, and `room` bytes."""

    def __init__(self, buffered: Any, count: int, room: float) -> None:
        self._buffered, self._count, self._room = buffered, count, room
        self.ready = 0

    def more(self) -> bool:
        """Whether there is room for more than is there."""
        while self.ready < min(self._count, self._buffered.qsize()):
            size = _octets(self._buffered.queue[self.ready])
            if size > self._room:
                return False
            self._room -= size
            self.ready += 1
        return self.ready < self._count


def _octets(message: Any) -> int:
    """What a message that the SDK has buffered weighs, about."""
    if (held := carried(message)) is not None:
        return weight(held[0])
    return sum(map(len, getattr(message, "data", None) or ()))


def readable(handler: Any, seconds: float) -> bool:
    """Whether a frame has begun to arrive, or does so in time: reading it will not wait."""
    transport: Any = getattr(getattr(handler, "_connection", None), "_transport", None)
    sock = getattr(transport, "sock", None)
    if sock is None:
        return False
    if (below := getattr(sock, "sock", None)) is not None:  # a WebSocket, whose messages may hold several frames
        if transport._read_buffer.tell() < len(transport._read_buffer.getbuffer()):
            return True
        sock = below
    pending = getattr(sock, "pending", None)
    if pending is not None and pending() > 0:
        return True
    try:
        if hasattr(select, "poll"):  # select() itself refuses descriptors from 1,024 on
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            return bool(poll.poll(seconds * 1000))
        return bool(select.select([sock], [], [], seconds)[0])
    except (OSError, ValueError):  # closed under our hands: reading will tell how
        return True
