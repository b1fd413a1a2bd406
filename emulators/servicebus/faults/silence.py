"""A peer that is there and says nothing: connections that fall silent at one stage of their life. Named in catalogue.py."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.connection import Connection
from emulators.servicebus.amqp.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, Frame
from emulators.servicebus.amqp.values import Value

from .injection import Fault, Server

_HEAD: Final = 8
_CBS: Final = "$cbs"
_MANAGEMENT: Final = "$management"


class Stage(StrEnum):
    """Where a connection falls silent. What the client has said there is not heeded, but for `answer` and the halves."""

    ACCEPT = "accept"
    """TCP is connected; of TLS too nothing is answered."""
    TLS = "tls"
    """As accept, where there is TLS."""
    HEADER = "header"
    SASL = "sasl"
    OPEN = "open"
    BEGIN = "begin"
    CBS = "cbs"
    """A token is put."""
    ATTACH = "attach"
    """To an entity."""
    FLOW = "flow"
    """A link to an entity is attached: a sender is granted nothing, and a receiver delivered nothing."""
    TRANSFER = "transfer"
    """A message is sent, and not taken."""
    ANSWER = "answer"
    """A message is sent and taken, and not answered."""
    DISPOSITION = "disposition"
    """A message is settled, and stays as it is."""
    MANAGEMENT = "management"
    """A request to an entity's `$management`."""
    HALF_FRAME = "half_frame"
    """Half of the next frame of AMQP is said."""
    HTTP = "http"
    """A request to the management API."""
    HALF_ANSWER = "half_answer"
    """Half of the management API's answer is said."""


_AT: Final = {
    p.OPEN: Stage.OPEN,
    p.BEGIN: Stage.BEGIN,
    p.ATTACH: Stage.ATTACH,
    p.FLOW: Stage.FLOW,
    p.TRANSFER: Stage.TRANSFER,
    p.DISPOSITION: Stage.DISPOSITION,
}
"""What a client says at a stage, on links to entities."""
_HANDLE: Final = {p.FLOW: 4, p.TRANSFER: 0}
"""Which field of a performative holds the link's handle."""


class Mute(Fault):
    """A peer that is there and says nothing more: the next `times` connections that come to `stage` (see Stage) fall silent, 0 for all.

    `seconds`: only those that come there within so many. What they send is taken off the wire and not heeded. What remains: such a
    connection stays silent until its client leaves, also when the fault has ended; it holds its locks.
    """

    def __init__(self, stage: str, times: int = 1, seconds: float | None = None) -> None:
        if stage not in list(Stage):
            raise ValueError(f"a connection falls silent at {', '.join(Stage)}, not at {stage!r}")
        self._stage = Stage(stage)
        self._left = times or None
        self._seconds = seconds
        self._server: Server | None = None
        self._began = 0.0

    def begin(self, server: Server) -> None:
        self._server, self._began = server, server.loop.time()

    def arriving(self, secure: bool) -> bool:
        return self._comes_to(Stage.ACCEPT) or (secure and self._comes_to(Stage.TLS))

    def reading(self, connection: Connection, item: bytes | Frame) -> bool:
        if self._left == 0 or not self._comes_to(_stage_of(connection, item)):
            return False
        connection.hush()
        return True

    def writing(self, connection: Connection, frame: bytes) -> bool:
        if self._stage is Stage.HALF_FRAME:
            if not _is_amqp(frame) or not self._comes_to(Stage.HALF_FRAME):
                return False
            connection.emit(frame[: len(frame) // 2])
        elif self._stage in (Stage.ANSWER, Stage.FLOW):
            if not self._comes_to(_stage_of_ours(connection, frame)):
                return False
        else:
            return False
        connection.hush()
        return True

    def managing(self) -> float | None:
        if self._comes_to(Stage.HTTP):
            return 0.0
        return 0.5 if self._comes_to(Stage.HALF_ANSWER) else None

    def _comes_to(self, stage: Stage | None) -> bool:
        """Whether a connection that is at this stage now falls silent; counted as one that does."""
        assert self._server is not None
        over = self._seconds is not None and self._server.loop.time() - self._began >= self._seconds
        if stage is not self._stage or self._left == 0 or over:
            return False
        if self._left is not None:
            self._left -= 1
        return True


def _stage_of(connection: Connection, item: bytes | Frame) -> Stage | None:
    """Of what a client says."""
    if isinstance(item, bytes):
        return Stage.HEADER if item in (SASL_HEADER, AMQP_HEADER) else None
    if item.kind == SASL_FRAME:
        return Stage.SASL
    if not item.body:
        return None
    code, fields, _ = p.parse(item.body)
    node = _node(connection, item.channel, code, fields)
    if code in (p.ATTACH, p.FLOW, p.TRANSFER) and not _is_entity(node):
        if code != p.TRANSFER or node is None:
            return None
        return Stage.CBS if node == _CBS else Stage.MANAGEMENT
    return _AT.get(code)


def _stage_of_ours(connection: Connection, frame: bytes) -> Stage | None:
    """Of what the server is about to say."""
    if not _is_amqp(frame) or len(frame) == _HEAD:
        return None
    code, fields, _ = p.parse(frame[_HEAD:])
    if code == p.DISPOSITION:
        sends = any(not link.client_receives and _is_entity(link.address) for link in connection.links())
        return Stage.ANSWER if fields[0] and sends else None  # as the receiver of what was sent
    if code != p.FLOW:
        return None
    node = _node(connection, int.from_bytes(frame[6:8], "big"), code, fields)
    return Stage.FLOW if _is_entity(node) else None


def _is_entity(node: str | None) -> bool:
    return node is not None and node.lower() != _CBS and not node.lower().endswith(_MANAGEMENT)


def _node(connection: Connection, channel: int, code: int, fields: list[Value]) -> str | None:
    """The node of the link that is spoken of, in lower case; None for what speaks of none."""
    if code == p.ATTACH:
        terminus = fields[5] if fields[2] else fields[6]
        address = terminus.value[0] if terminus is not None else None
        return address.lower() if isinstance(address, str) else None
    at, session = _HANDLE.get(code), connection.sessions.get(channel)
    link = session.links.get(fields[at]) if at is not None and session is not None and fields[at] is not None else None
    return link.address.lower() if link is not None and link.address is not None else None


def _is_amqp(frame: bytes) -> bool:
    return frame[:4] != b"AMQP" and frame[5] == 0
