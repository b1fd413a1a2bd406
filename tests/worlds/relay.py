"""Stands between one client and the Service Bus emulator, and reads along what the client sends to one entity.

So it is known who sends, and a send can be cut at any octet or left without an answer. Everything else passes as it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.values import Described
from emulators.servicebus.message import BATCH_FORMAT, parse_message, split_batch
from tests.worlds.tcp_relay import Passage, Silence, TcpRelay, hang_up

Sending = Callable[[list[str], int], int | Silence | None]
"""Told the ids of the messages that a complete send holds, and its last frame's length: None; or after how many octets of that frame
the connection ends, on the client's side first, so that it gets no answer; or what of the connection falls mute before that frame passes.
"""
Arrived = Callable[[list[str]], None]
"""Told the ids of the messages that have passed."""

_CHUNK = 65536


class Relay(TcpRelay):
    """`entity`: the queue or topic that is read along."""

    def __init__(self, port_behind: int, entity: str, *, sending: Sending, arrived: Arrived) -> None:
        super().__init__(port_behind)
        self._entity = entity
        self._sending, self._arrived = sending, arrived

    def _forth(self, passage: Passage) -> None:
        reading = _Reading(self._entity)
        buffer = bytearray()
        while data := passage.client.recv(_CHUNK):
            buffer += data
            for frame in _whole(buffer):
                ids = reading.sent(frame)
                order = self._sending(ids, len(frame)) if ids else None
                if isinstance(order, int):
                    self._cut(passage, frame, order, ids)
                    return
                if order is not None:
                    passage.fall_mute(order)
                if not self.pass_on(passage, frame):
                    return
                if ids:
                    self._arrived(ids)

    def _cut(self, passage: Passage, frame: bytes, allowed: int, ids: list[str]) -> None:
        hang_up(passage.client)
        passage.server.sendall(frame[:allowed])
        if allowed >= len(frame):
            self._arrived(ids)


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
