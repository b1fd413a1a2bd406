"""Faults of frames on their way to a client: late, lost or merged. Named in catalogue.py.

What a fault kept back is sent when it ends, but for what is lost; nothing is sent on a session that ended meanwhile.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from typing import Final

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.connection import Connection
from emulators.servicebus.amqp.encode import encode
from emulators.servicebus.amqp.frames import frame as framed
from emulators.servicebus.amqp.values import Raw, Value

from .injection import Fault, Server

_HEAD: Final = 8
_CODE: Final = 10
_CHANNEL: Final = slice(6, 8)


def code_of(frame: bytes) -> int | None:
    """What performative a frame of ours holds; None for a header, a heartbeat or SASL."""
    if len(frame) <= _CODE or frame[:4] == b"AMQP" or frame[5] != 0:
        return None
    return frame[_CODE]


def channel_of(frame: bytes) -> int:
    """Of which session it is."""
    return int.from_bytes(frame[_CHANNEL], "big")


def _settlement_answer(frame: bytes) -> list[Value] | None:
    """The fields of a disposition of ours as sender; None for any other frame."""
    if code_of(frame) != p.DISPOSITION:
        return None
    _, fields, _ = p.parse(frame[_HEAD:])
    return None if fields[0] else fields


def send_answer(frame: bytes) -> bool:
    """Whether it answers a send: a disposition of ours as receiver."""
    return code_of(frame) == p.DISPOSITION and _settlement_answer(frame) is None


class _Delay(Fault):
    """Frames leave so many milliseconds later, in their order."""

    def __init__(self, milliseconds: float) -> None:
        self._seconds = milliseconds / 1000
        self._loop: asyncio.AbstractEventLoop | None = None
        self._late: deque[tuple[float, Connection, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @abstractmethod
    def delays(self, connection: Connection, frame: bytes) -> bool:
        """Is this frame one of those that come late?"""

    def waits(self, connection: Connection) -> bool:
        """Does this connection wait for a frame?"""
        return any(other is connection for _, other, _ in self._late)

    def begin(self, server: Server) -> None:
        self._loop = server.loop

    async def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        while self._late:
            self._send()

    def writing(self, connection: Connection, frame: bytes) -> bool:
        if self._loop is None or not self.delays(connection, frame):
            return False
        self._late.append((self._loop.time() + self._seconds, connection, frame))
        if self._timer is None:
            self._timer = self._loop.call_at(self._late[0][0], self._due)
        return True

    def _due(self) -> None:
        assert self._loop is not None
        self._timer = None
        now = self._loop.time()
        while self._late and self._late[0][0] <= now:
            self._send()
        if self._late:
            self._timer = self._loop.call_at(self._late[0][0], self._due)

    def _send(self) -> None:
        _, connection, frame = self._late.popleft()
        connection.emit(frame)


class RoundTripAdded(_Delay):
    """A distant service: whatever it says leaves so many milliseconds later. Nothing is lost or changes its order."""

    def delays(self, connection: Connection, frame: bytes) -> bool:
        return True


class AnswersDelayed(_Delay):
    """Answers to sends and settlements leave so many milliseconds later, while messages are delivered at once."""

    def delays(self, connection: Connection, frame: bytes) -> bool:
        return code_of(frame) == p.DISPOSITION or (code_of(frame) in (p.END, p.CLOSE) and self.waits(connection))


class DeliveriesDelayed(_Delay):
    """Messages, and answers of `$management`, leave so many milliseconds later; their locks run meanwhile.

    What comes after one on its connection waits with it, but for answers to sends and settlements.
    """

    def delays(self, connection: Connection, frame: bytes) -> bool:
        code = code_of(frame)
        return code == p.TRANSFER or (code != p.DISPOSITION and self.waits(connection))


class SettlementAnswersLost(Fault):
    """The next `times` answers to settlements are lost, None for all. What remains: the settlement, which was applied."""

    def __init__(self, times: int | None = None) -> None:
        self._left = times

    def writing(self, connection: Connection, frame: bytes) -> bool:
        if self._left == 0 or _settlement_answer(frame) is None:
            return False
        if self._left is not None:
            self._left -= 1
        return True


class SettlementAnswersMerged(Fault):
    """Answers to settlements that come within so many milliseconds are merged: neighbouring deliveries of one outcome into one.

    What Microsoft's AMQP library does when it is told an interval; whether the service does is not known. Refusals stay alone.
    """

    def __init__(self, milliseconds: float) -> None:
        self._seconds = milliseconds / 1000
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept: dict[tuple[Connection, int], list[tuple[int, int, bytes]]] = {}

    def begin(self, server: Server) -> None:
        self._loop = server.loop

    async def end(self) -> None:
        for key in list(self._kept):
            self._flush(key)

    def writing(self, connection: Connection, frame: bytes) -> bool:
        key = (connection, channel_of(frame))
        answer = _settlement_answer(frame)
        if answer is None or self._loop is None:
            if code_of(frame) in (p.END, p.CLOSE):
                for kept in [kept for kept in self._kept if kept[0] is connection]:
                    self._flush(kept)
            return False
        if key not in self._kept:
            self._kept[key] = []
            self._loop.call_later(self._seconds, self._flush, key)
        first = answer[1]
        self._kept[key].append((first, first if answer[2] is None else answer[2], encode(answer[4])))
        return True

    def _flush(self, key: tuple[Connection, int]) -> None:
        connection, channel = key
        run: tuple[int, int, bytes] | None = None
        for answer in sorted(self._kept.pop(key, [])):
            if run is not None and answer[0] == run[1] + 1 and answer[2] == run[2] and answer[2].endswith(b"\x45"):
                run = (run[0], answer[1], run[2])
                continue
            self._answer(connection, channel, run)
            run = answer
        self._answer(connection, channel, run)

    @staticmethod
    def _answer(connection: Connection, channel: int, run: tuple[int, int, bytes] | None) -> None:
        if run is not None:
            first, last, state = run
            connection.emit(framed(channel, p.disposition(False, first, last if last > first else None, Raw(state))))
