"""Counts connections from their acceptance on, before TLS: asyncio hands a connection to its protocol only after the handshake.

If too many wait for their handshake, the one that has waited longest is closed, so silent connections cannot keep others out. If no descriptor
is left, it logs that once a minute, and asyncio pauses for a second.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
import weakref
from collections.abc import Callable
from typing import Any, Final

import structlog

log = structlog.get_logger(__name__)

HANDSHAKE_SECONDS: Final = 5.0
MOST_WAITING: Final = 256
"""Connections that were accepted, and whose handshake is not over."""
BACKLOG: Final = 64
"""Connections that asyncio accepts at a time; fewer than may wait."""
_QUEUE: Final = 256
"""Connections that the system keeps until they are accepted."""
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS: Final = 0.5
_SAID_SECONDS: Final = 60.0


class Loop(asyncio.SelectorEventLoop):
    """With a deadline for handshakes, which uvicorn does not set."""

    handshake_seconds = HANDSHAKE_SECONDS

    async def create_server(self, *given: Any, **named: Any) -> Any:
        if named.get("ssl") is not None:
            named.setdefault("ssl_handshake_timeout", self.handshake_seconds)
        return await super().create_server(*given, **named)


class Listener(socket.socket):
    """Belongs to one event loop, once that has it. `counted_as`: the client whose connections are counted together, None where many share an
    address."""

    most_waiting = MOST_WAITING
    most_of_a_client = 128
    counted_as: Callable[[str], str | None] = staticmethod(lambda address: None)
    now: Callable[[], float] = staticmethod(time.monotonic)
    _exhausted: float = float("-inf")

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._waiting: dict[int, tuple[weakref.ref[socket.socket], str | None]] = {}

    def listen(self, backlog: int = _QUEUE, /) -> None:
        """asyncio does it again, with its own backlog."""
        super().listen(max(backlog, _QUEUE))

    def accept(self) -> tuple[socket.socket, Any]:
        """For asyncio, which after an error tries again at once, as often as its backlog says."""
        if self.now() - self._exhausted < _PAUSE_SECONDS:
            raise BlockingIOError
        try:
            link, address = super().accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._exhausted = self.now()
            raise
        client = self.counted_as(address[0])
        self._make_room(client)
        self._waiting[link.fileno()] = (weakref.ref(link), client)
        return link, address

    def arrived(self, descriptor: int) -> None:
        """The handshake of this connection is over, or it needs none: others count it from now on."""
        self._waiting.pop(descriptor, None)

    def _make_room(self, client: str | None) -> None:
        self._waiting = {at: each for at, each in self._waiting.items() if _open(each[0], at)}
        same = [at for at, each in self._waiting.items() if client is not None and each[1] == client]
        if len(same) >= self.most_of_a_client:
            self._close(same[0])
        elif len(self._waiting) >= self.most_waiting:
            self._close(next(iter(self._waiting)))

    def _close(self, descriptor: int) -> None:
        """asyncio has the socket: it closes what its client seems to have closed."""
        link = self._waiting.pop(descriptor)[0]()
        if link is not None:
            try:
                link.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it is gone already


def _open(link: weakref.ref[socket.socket], descriptor: int) -> bool:
    found = link()
    return found is not None and found.fileno() == descriptor


class Troubles:
    """The handler of an event loop's troubles: those of accepting as one line a minute."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._said = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _EXHAUSTED or "accept" not in context["message"]:
            loop.default_exception_handler(context)
            return
        if self._now() - self._said < _SAID_SECONDS:
            return
        self._said = self._now()
        log.warning(
            "no connection can be accepted",
            error=error.strerror,
            hint="raise the limit of open files (ulimit -n), and see who has so many connections open",
        )
