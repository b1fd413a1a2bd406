"""Stands between clients and a server of any kind, passes octets on, and falls mute on order: accepts, or goes on, and says nothing more.
It can also be slow, and refuse connections.

A connection that fell mute stays open and stays mute, whatever becomes of the others: that is what a peer looks like whose process hangs, whose
machine lost power, or that a firewall has forgotten. Nothing is read that cannot be passed on, so that senders get to feel it. A client that
hangs up is always told to the server, so that no session outlives its client. Plain TCP, the way to one port of this machine.
"""

from __future__ import annotations

import errno
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Flag, auto
from typing import Self

_CHUNK = 65536
_BACKLOG = 64
_SMALL = 2048
"""Octets that a slow relay passes on at once."""
_CLOSED = (errno.EBADF, errno.EINVAL)
"""What `accept` says of a listener that was closed or shut down."""
_BREATH = 0.05
"""Seconds until an accept that failed is tried again."""


class Way(Flag):
    """Directions. FORTH: from the client to the server."""

    FORTH = auto()
    BACK = auto()
    BOTH = FORTH | BACK


@dataclass(frozen=True, slots=True)
class Silence:
    """What falls mute. `after`: octets that still pass each of these ways."""

    way: Way = Way.BOTH
    after: int = 0


class Passage:
    """One connection: its two sockets, and how much may still pass each way (None: whatever comes)."""

    def __init__(self, client: socket.socket, server: socket.socket, silence: Silence | None) -> None:
        self.client, self.server = client, server
        self._left: dict[Way, int | None] = {Way.FORTH: None, Way.BACK: None}
        self._guard = threading.Lock()
        self.withheld = False
        """Whether something came that was not passed on."""
        if silence is not None:
            self.fall_mute(silence)

    def fall_mute(self, silence: Silence) -> None:
        """From now on."""
        with self._guard:
            for way in silence.way:
                self._left[way] = silence.after

    def mute(self, way: Way) -> bool:
        """Whether nothing passes that way any more."""
        return self._left[way] == 0

    def passing(self, way: Way, count: int) -> int:
        """How many of `count` octets pass."""
        with self._guard:
            left = self._left[way]
            if left is None:
                return count
            self._left[way] = left - min(left, count)
            self.withheld |= left < count
            return min(left, count)

    def hang_up(self) -> None:
        """Both ends learn of it."""
        for each in (self.client, self.server):
            hang_up(each)


class Pace:
    """So many octets a second, of all connections together in one way; None: as many as come."""

    def __init__(self) -> None:
        self.rate: float | None = None
        self._guard = threading.Lock()
        self._free = 0.0

    def take(self, count: int) -> None:
        """Return when that many may pass, or soon after the pace was lifted."""
        with self._guard:
            rate = self.rate
            if rate is None:
                return
            self._free = max(self._free, time.monotonic()) + count / rate
            until = self._free
        while self.rate is not None and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _BREATH))


class TcpRelay:
    """Listens on `port` while entered."""

    def __init__(self, port_behind: int) -> None:
        self._behind = port_behind
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._refuses = False
        self.port = self._listener.getsockname()[1]
        self._closed = threading.Event()
        self._guard = threading.Lock()
        self._open: set[Passage] = set()
        self._silence: Silence | None = None
        self._fell_mute = 0
        self._paces = {Way.FORTH: Pace(), Way.BACK: Pace()}

    def __enter__(self) -> Self:
        self._listen()
        return self

    def _listen(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), name="relay", daemon=True).start()

    def __exit__(self, *details: object) -> None:
        self._closed.set()
        self.refuse()

    def refuse(self) -> None:
        """Hang up, and let nobody connect, as a machine does on which nothing listens. The port stays the relay's."""
        hang_up(self._listener)
        self._listener.close()
        if not self._closed.is_set():
            self._listener = socket.socket()
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(("127.0.0.1", self.port))
        self._refuses = True
        self.drop()

    def pace(self, octets_a_second: float | None) -> None:
        """As fast as that in each way from now on, all connections together; None: as fast as they go."""
        for each in self._paces.values():
            each.rate = octets_a_second

    def well(self) -> None:
        """No silence, no pace, no refusal for whoever connects from now on. Connections that fell mute stay so."""
        self.speak()
        self.pace(None)
        if self._refuses:
            self._listener.listen(_BACKLOG)
            self._refuses = False
            self._listen()

    def mute(self, silence: Silence = Silence()) -> None:
        """The connections that there are, and those that come, until `speak`. They stay open."""
        with self._guard:
            self._silence = silence
            for passage in self._open:
                passage.fall_mute(silence)

    def speak(self) -> None:
        """Connections that come from now on are well; those that fell mute stay so."""
        with self._guard:
            self._silence = None

    @contextmanager
    def muted(self, silence: Silence = Silence()) -> Iterator[None]:
        """As long as the block lasts."""
        self.mute(silence)
        try:
            yield
        finally:
            self.speak()

    def drop(self) -> None:
        """Hang up on everybody who is connected."""
        with self._guard:
            for passage in self._open:
                passage.hang_up()

    @property
    def fell_mute(self) -> int:
        """On how many connections something was withheld so far."""
        with self._guard:
            return self._fell_mute + sum(passage.withheld for passage in self._open)

    def _accept(self, listener: socket.socket) -> None:
        while not self._closed.is_set():
            try:
                client, _ = listener.accept()
            except OSError as error:
                if self._closed.is_set() or error.errno in _CLOSED:
                    return
                self._closed.wait(_BREATH)  # too many files are open, or the client has left again: others will come
                continue
            threading.Thread(target=self._serve, args=(client,), name="relay-client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                server = socket.create_connection(("127.0.0.1", self._behind))
            except OSError:
                return
            with server, self._passage(client, server) as passage:
                back = threading.Thread(target=self._back, args=(passage,), name="relay-back", daemon=True)
                back.start()
                with suppress(OSError):
                    self._forth(passage)
                passage.hang_up()
                back.join()

    @contextmanager
    def _passage(self, client: socket.socket, server: socket.socket) -> Iterator[Passage]:
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._guard:
            self._open.add(passage := Passage(client, server, self._silence))
        if self._closed.is_set():
            passage.hang_up()
        try:
            yield passage
        finally:
            with self._guard:
                self._open.discard(passage)
                self._fell_mute += passage.withheld

    def _forth(self, passage: Passage) -> None:
        """Until the client hangs up."""
        while data := passage.client.recv(self._most()):
            self._paces[Way.FORTH].take(len(data))
            if not self.pass_on(passage, data):
                return

    @staticmethod
    def pass_on(passage: Passage, data: bytes) -> bool:
        """To the server, as much as may pass. False, once the client has hung up, where that was not all."""
        allowed = passage.passing(Way.FORTH, len(data))
        passage.server.sendall(data[:allowed])
        if allowed < len(data):
            _await_end(passage.client)
        return allowed == len(data)

    def _most(self) -> int:
        return _CHUNK if self._paces[Way.FORTH].rate is None else _SMALL

    def _back(self, passage: Passage) -> None:
        """Until the server hangs up, which the client learns unless nothing passes that way."""
        with suppress(OSError):
            while data := passage.server.recv(self._most()):
                self._paces[Way.BACK].take(len(data))
                allowed = passage.passing(Way.BACK, len(data))
                passage.client.sendall(data[:allowed])
                if allowed < len(data):
                    return
        if not passage.mute(Way.BACK):
            hang_up(passage.client)


def hang_up(each: socket.socket) -> None:
    """Whoever waits at it, on either side, goes on; it is closed by its owner."""
    with suppress(OSError):  # it has ended
        each.shutdown(socket.SHUT_RDWR)


def _await_end(each: socket.socket) -> None:
    """Until the other side has hung up, without reading what it says before."""
    poll = select.poll()
    poll.register(each, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    poll.poll()
