"""What a connection does that has fallen silent: it waits for its client to leave. Writes nothing and decides nothing."""

from __future__ import annotations

import select
import socket

from emulators.sqlserver.injection import Silence

_STEP = 50
"""Milliseconds between two looks at whether a fault is over."""
_HUNG_UP = getattr(select, "POLLRDHUP", select.POLLHUP)
"""Seen although octets wait unread; Linux alone has its own name for it."""
_RECEIVE = 65536


class Quota:
    """How much of an answer still gets out."""

    def __init__(self, silence: Silence) -> None:
        self._left = silence.octets

    def of(self, packets: bytes) -> bytes | None:
        """The last octets to send when these are too many; None while they may all go."""
        left = len(packets) // 2 if self._left is None else self._left
        if len(packets) > left:
            return packets[:left]
        self._left = left - len(packets)
        return None


def wait_unread(client: socket.socket, silence: Silence) -> None:
    """Read nothing until the client has hung up or the fault is over.

    A client whose octets fill all buffers cannot hang up: its FIN waits behind them. Hence the fault's end.
    """
    poll = select.poll()
    poll.register(client, _HUNG_UP)
    while not (silence.over.is_set() or poll.poll(_STEP)):
        pass


def wait(client: socket.socket) -> None:
    """Read and forget until the client has hung up. Raises OSError when the connection broke."""
    client.settimeout(None)
    while client.recv(_RECEIVE):
        pass
