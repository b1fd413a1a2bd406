"""A client made of frames on a socket, for what one process could not do with a thousand of Azure's clients.

It speaks with the emulator's own codec, says only what the measurements need, and trusts what it hears.
"""

from __future__ import annotations

import socket
from collections import deque
from typing import Any, Final

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.encode import encode
from emulators.servicebus.amqp.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, Frame, FrameReader, frame
from emulators.servicebus.amqp.values import Described, Symbol, UByte, UInt, ULong, UShort
from emulators.servicebus.message import BATCH_FORMAT
from emulators.servicebus.server import DEVELOPMENT_KEY, ROOT_POLICY

SESSION_FILTER: Final = Symbol("com.microsoft:session-filter")
_CHANNEL: Final = 1
_WINDOW: Final = 1 << 20
_LARGEST_FRAME: Final = 65_536
_ROOM: Final = 65_000
"""Octets of a message in one frame."""
_SILENCE: Final = 120
"""Seconds after which the emulator is given up."""

Heard = tuple[int, list[Any], bytes]


class WireClient:
    """One connection with one session, open when this returns its first answer; `receive_buffer` in octets."""

    def __init__(self, port: int, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(_SILENCE)
        self.socket.connect(("127.0.0.1", port))
        self._reader = FrameReader(1 << 20)
        self._heard: deque[Heard] = deque()
        self._headers = 0
        self._sent = 0
        response = f"\0{ROOT_POLICY}\0{DEVELOPMENT_KEY}".encode()
        self.socket.sendall(
            b"".join(
                (
                    SASL_HEADER,
                    frame(0, p.perform(p.SASL_INIT, Symbol("PLAIN"), response), SASL_FRAME),
                    AMQP_HEADER,
                    frame(0, p.perform(p.OPEN, "bench", None, UInt(_LARGEST_FRAME), UShort(10))),
                    frame(_CHANNEL, p.perform(p.BEGIN, None, UInt(0), UInt(_WINDOW), UInt(_WINDOW))),
                )
            )
        )

    def close(self) -> None:
        """Without a word."""
        self.socket.close()

    def say(self, code: int, *fields: Any, payload: bytes = b"") -> None:
        """One performative."""
        self.socket.sendall(frame(_CHANNEL, p.perform(code, *fields) + payload))

    def hear(self) -> Heard:
        """The next performative; raises SystemExit for one that tells of a failure."""
        while not self._heard:
            self.read()
        return self._heard.popleft()

    def heard(self) -> list[Heard]:
        """Everything that has come, at least one read's."""
        self.read()
        heard = list(self._heard)
        self._heard.clear()
        return heard

    def read(self) -> None:
        data = self.socket.recv(1 << 18)
        if not data:
            raise SystemExit("the emulator hung up")
        for item in self._reader.feed(data):
            if isinstance(item, bytes):
                self._headers += 1
            elif item.body:
                self._take(item)

    def _take(self, item: Frame) -> None:
        code, fields, end = p.parse(item.body)
        if code == p.SASL_OUTCOME:
            self._reader.expect_header()
        elif code in (p.DETACH, p.END, p.CLOSE):
            raise SystemExit(f"the emulator refuses: {fields}")
        elif code not in (p.SASL_MECHANISMS, p.OPEN):
            self._heard.append((code, fields, item.body[end:]))

    def until(self, code: int) -> Heard:
        """The next performative of a kind; those before it are forgotten."""
        while True:
            heard = self.hear()
            if heard[0] == code:
                return heard

    # -- links

    def attach(self, address: str, handle: int, *, receives: bool, session: str | None = None) -> None:
        """Ask for a link; the answer is an `ATTACH`. The other end of a link that receives is named as its handle."""
        source: list[Any] = [address]
        if session is not None:
            source += [None] * 6 + [{SESSION_FILTER: session}]
        target = [str(handle) if receives else address]
        ends = [Described(ULong(p.SOURCE), source), Described(ULong(p.TARGET), target)]
        count = None if receives else UInt(0)
        unsettled = (UByte(0), UByte(0))
        self.say(p.ATTACH, f"{address} {handle}", UInt(handle), receives, *unsettled, *ends, None, None, count)

    def credit(self, handle: int, credit: int, delivered: int = 0) -> None:
        """Grant credit, after so many deliveries."""
        fields = [UInt(n) for n in (0, _WINDOW, 0, _WINDOW, handle, delivered, credit)]
        self.say(p.FLOW, *fields)

    def send(self, handle: int, payload: bytes, *, batch: bool = False) -> None:
        """A message or a batch; the answer is a `DISPOSITION`."""
        number = UInt(self._sent)
        self._sent += 1
        kind = UInt(BATCH_FORMAT if batch else 0)
        for at in range(0, len(payload), _ROOM):
            more = at + _ROOM < len(payload)
            about = (UInt(handle), number, encode(number), kind, False, more)
            self.say(p.TRANSFER, *about, payload=payload[at : at + _ROOM])

    def complete(self, first: int, last: int) -> None:
        """Deliveries first to last; the answers are `DISPOSITION`s."""
        self.say(p.DISPOSITION, True, UInt(first), UInt(last), False, Described(ULong(p.ACCEPTED), []))


def message(body: bytes, *, session: str | None = None, ttl: int | None = None) -> bytes:
    """An encoded message; time to live in milliseconds."""
    sections = []
    if ttl is not None:
        sections.append(Described(ULong(0x70), [None, None, UInt(ttl)]))
    fields = ["0" * 6, None, None, "orders", None, None, Symbol("application/json"), None, None, None, session]
    sections.append(Described(ULong(0x73), fields))
    sections.append(Described(ULong(0x74), {"table": "Orders", "operation": "insert", "attempt": 1}))
    sections.append(Described(ULong(0x75), body))
    return b"".join(encode(section) for section in sections)


def batch_of(encoded: bytes, count: int) -> bytes:
    """The same message so many times."""
    return encode(Described(ULong(0x75), encoded)) * count
