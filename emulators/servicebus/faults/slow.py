"""An entity that takes what is sent to it slowly: the answer to a send says how long that took. Named in catalogue.py."""

from __future__ import annotations

import asyncio

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.connection import Connection

from .frames import channel_of, code_of, send_answer
from .injection import Fault, Server


class EntitySlow(Fault):
    """An entity takes sends one after the other, from all clients: so many octets a second, and so many milliseconds beside for each.

    Each is answered when it was taken. What remains: the messages, which are there from the beginning. Answers that are not due when their
    session ends, or the fault, are lost or said then.
    """

    def __init__(self, entity: str, octets_per_second: float, milliseconds: float = 0.0) -> None:
        if octets_per_second <= 0:
            raise ValueError("an entity takes more than no octets a second")
        self._entity = entity.strip("/").lower()
        self._pace, self._beside = octets_per_second, milliseconds / 1000
        self._loop: asyncio.AbstractEventLoop | None = None
        self._busy_until = 0.0
        self._next_due: float | None = None
        self._late: list[tuple[Connection, bytes]] = []

    def begin(self, server: Server) -> None:
        self._loop = server.loop

    async def end(self) -> None:
        while self._late:
            self._send(self._late[0])

    def taking(self, path: str, octets: int) -> None:
        if self._loop is not None and self._entity in ("*", path):
            self._busy_until = max(self._busy_until, self._loop.time()) + self._beside + octets / self._pace
            self._next_due = self._busy_until

    def writing(self, connection: Connection, frame: bytes) -> bool:
        if (code := code_of(frame)) in (p.END, p.CLOSE):
            self._late = [late for late in self._late if not _ends(connection, frame, code, late)]
        if self._loop is None or self._next_due is None or not send_answer(frame):
            return False
        due, self._next_due = self._next_due, None
        self._late.append(late := (connection, frame))
        self._loop.call_at(due, self._send, late)
        return True

    def _send(self, late: tuple[Connection, bytes]) -> None:
        if late in self._late:
            self._late.remove(late)
            late[0].emit(late[1])


def _ends(connection: Connection, frame: bytes, code: int, late: tuple[Connection, bytes]) -> bool:
    return late[0] is connection and (code == p.CLOSE or channel_of(late[1]) == channel_of(frame))
