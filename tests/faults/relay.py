"""Stands between one client and the Service Bus emulator, and reads along what the client sends to one entity.

So it is known who sends, and a send can be cut at any octet. Everything else passes as it comes. Plain TCP only.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.values import Described
from emulators.servicebus.message import BATCH_FORMAT, parse_message, split_batch

Sending = Callable[[list[str], int], int | None]
"""Told the ids of the messages that a complete send holds, and its last frame's length: None, or after how many octets of that frame
the connection ends, on the client's side first, so that it gets no answer.
"""
Arrived = Callable[[list[str]], None]
"""Told the ids of the messages that have passed."""

_CHUNK = 65536


class Relay:
    """Listens on `port` while entered. `entity`: the queue or topic that is read along."""

    def __init__(self, port_behind: int, entity: str, *, sending: Sending, arrived: Arrived) -> None:
        self._behind = port_behind
        self._entity = entity
        self._sending, self._arrived = sending, arrived
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self._sockets: set[socket.socket] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="relay", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for each in (self._listener, *list(self._sockets)):
            _hang_up(each)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), name="relay-client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                server = socket.create_connection(("127.0.0.1", self._behind))
            except OSError:
                return
            with server:
                self._sockets |= {client, server}
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                back = threading.Thread(target=self._back, args=(server, client), name="relay-back", daemon=True)
                back.start()
                with suppress(OSError):
                    self._forth(client, server)
                for each in (client, server):
                    _hang_up(each)
                back.join()
                self._sockets -= {client, server}

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(_CHUNK):
                client.sendall(data)
        _hang_up(client)

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        reading = _Reading(self._entity)
        buffer = bytearray()
        while data := client.recv(_CHUNK):
            buffer += data
            for frame in _whole(buffer):
                ids = reading.sent(frame)
                allowed = self._sending(ids, len(frame)) if ids else None
                if allowed is not None:
                    _hang_up(client)
                server.sendall(frame[:allowed])
                if ids and (allowed is None or allowed >= len(frame)):
                    self._arrived(ids)
                if allowed is not None:
                    return


class _Reading:
    """One connection as far as it sends to the entity."""

    def __init__(self, entity: str) -> None:
        self._entity = entity
        self._links: set[tuple[int, object]] = set()
        self._begun: dict[tuple[int, object], tuple[bool, bytes]] = {}

    def sent(self, frame: bytes) -> list[str]:
        """The ids of the messages of a send to the entity that this frame completes; none for every other frame."""
        if len(frame) <= 8 or frame[:4] == b"AMQP" or frame[5] != 0:
            return []
        code, fields, at = p.parse(frame[frame[4] * 4 :])
        channel = int.from_bytes(frame[6:8], "big")
        if code == p.ATTACH:
            self._attached((channel, fields[1]), target=fields[6])
            return []
        link = (channel, fields[0])
        if code != p.TRANSFER or link not in self._links:
            return []
        batch, payload = self._begun.pop(link, (fields[3] == BATCH_FORMAT, b""))
        payload += frame[frame[4] * 4 + at :]
        if fields[5]:
            self._begun[link] = batch, payload
            return []
        return [parse_message(each).message_id or "" for each in (split_batch(payload) if batch else [payload])]

    def _attached(self, link: tuple[int, object], *, target: object) -> None:
        self._links.discard(link)
        if isinstance(target, Described) and isinstance(target.value, list) and target.value:
            address = str(target.value[0])
            if address.rpartition("/")[2] == self._entity:
                self._links.add(link)


def _whole(buffer: bytearray) -> Iterator[bytes]:
    """Takes the complete frames, and protocol headers, off the buffer."""
    while len(buffer) >= 8:
        size = 8 if buffer[:4] == b"AMQP" else int.from_bytes(buffer[:4], "big")
        if len(buffer) < size:
            return
        frame = bytes(buffer[:size])
        del buffer[:size]
        yield frame


def _hang_up(each: socket.socket) -> None:
    with suppress(OSError):  # it has ended
        each.shutdown(socket.SHUT_RDWR)
