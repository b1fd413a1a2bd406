"""TDS packets: messages cut into packets and put together again (MS-TDS 2.2.3).

Bytes in, bytes out; it reads no socket and knows nothing of what a message means. Packets of unknown type, impossible length
or out of turn, and messages beyond a limit, are refused with ProtocolError.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from enum import IntEnum

from emulators.sqlserver.wire.errors import ProtocolError

HEADER = struct.Struct(">BBHHBB")
HEADER_SIZE = 8
DEFAULT_PACKET_SIZE = 4096
MIN_PACKET_SIZE = 512
MAX_PACKET_SIZE = 32767

EOM = 0x01
IGNORE = 0x02
RESET_CONNECTION = 0x08
RESET_CONNECTION_SKIP_TRAN = 0x10


class PacketType(IntEnum):
    """Packet types a client may send, and the one a server answers with."""

    SQL_BATCH = 0x01
    RPC = 0x03
    TABULAR_RESULT = 0x04
    ATTENTION = 0x06
    BULK_LOAD = 0x07
    TRANSACTION_MANAGER = 0x0E
    LOGIN7 = 0x10
    SSPI = 0x11
    PRELOGIN = 0x12


_FROM_CLIENT = frozenset(PacketType) - {PacketType.TABULAR_RESULT}
_TLS_HANDSHAKE = 0x16


class StrictEncryption(ProtocolError):
    """The client starts with TLS instead of PRELOGIN: TDS 8.0, Encrypt=Strict. Not spoken here."""

    ALERT = bytes((0x15, 3, 3, 0, 2, 2, 120))
    """A fatal TLS alert, no_application_protocol (RFC 7301 3.2): the name that TLS has for "tds/8.0 is not spoken"."""


@dataclass(frozen=True, slots=True)
class Message:
    """A whole message: its type, its body, and the status bits seen on any of its packets."""

    type: PacketType
    body: bytes
    status: int = EOM


class Reassembler:
    """Turns received bytes into messages. `limit`: bytes a message may have; raise it once the client is logged in."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._received = bytearray()
        self._parts: list[bytes] = []
        self._size = 0
        self._status = 0
        self._type: PacketType | None = None
        self._messages: deque[Message] = deque()

    def feed(self, data: bytes) -> None:
        """Take received bytes. Raises ProtocolError at the first packet that cannot be."""
        self._received += data
        while len(self._received) >= HEADER_SIZE:
            kind, status, length, _, _, _ = HEADER.unpack_from(self._received)
            self._check(kind, length)
            if len(self._received) < length:
                return
            self._packet(PacketType(kind), status, bytes(self._received[HEADER_SIZE:length]))
            del self._received[:length]

    def pop(self) -> Message | None:
        """The next whole message, oldest first."""
        return self._messages.popleft() if self._messages else None

    def take_attention(self) -> bool:
        """Whether the next whole message is an ATTENTION; it is taken then."""
        if self._messages and self._messages[0].type is PacketType.ATTENTION:
            self._messages.popleft()
            return True
        return False

    @property
    def wanted(self) -> int:
        """How many bytes are missing to the end of the packet that is being received, or first of its header."""
        if len(self._received) < HEADER_SIZE:
            return HEADER_SIZE - len(self._received)
        return int(HEADER.unpack_from(self._received)[2]) - len(self._received)

    @property
    def waiting(self) -> int:
        """Whole messages not yet popped."""
        return len(self._messages)

    def _check(self, kind: int, length: int) -> None:
        if kind == _TLS_HANDSHAKE:
            raise StrictEncryption("the emulator does not support TDS 8.0 (Encrypt=Strict)")
        if kind not in _FROM_CLIENT:
            raise ProtocolError(f"a client cannot send packets of type 0x{kind:02x}")
        if not HEADER_SIZE <= length <= MAX_PACKET_SIZE + 1:
            raise ProtocolError(f"a packet cannot have {length} bytes")
        if self._type is not None and kind != self._type:
            raise ProtocolError(f"a packet of type 0x{kind:02x} inside a message of type 0x{self._type:02x}")
        if self._size + length - HEADER_SIZE > self.limit:
            raise ProtocolError(f"a message exceeds {self.limit} bytes")

    def _packet(self, kind: PacketType, status: int, body: bytes) -> None:
        self._type = kind
        self._status |= status
        self._parts.append(body)
        self._size += len(body)
        if status & EOM:
            self._messages.append(Message(kind, b"".join(self._parts), self._status))
            self._parts, self._size, self._status, self._type = [], 0, 0, None


class MessageWriter:
    """Cuts one answer after another into packets of `packet_size` bytes, header included; PacketID counts from 1 in each."""

    def __init__(self, packet_size: int = DEFAULT_PACKET_SIZE) -> None:
        self.packet_size = packet_size
        self.session_id = 0
        self._type = PacketType.TABULAR_RESULT
        self._pending = bytearray()
        self._packet_id = 1

    def add(self, data: bytes) -> bytes:
        """Take bytes of the current message; returns the packets that are full, maybe none."""
        pending = self._pending
        pending += data
        room = self.packet_size - HEADER_SIZE
        if len(pending) <= room:
            return b""
        packets = []
        start = 0
        # The last packet of a message carries EOM, so some bytes must stay behind for it.
        while len(pending) - start > room:
            packets.append(self._header(0, room))
            packets.append(bytes(pending[start : start + room]))
            start += room
        del pending[:start]
        return b"".join(packets)

    def finish(self) -> bytes:
        """The rest of the message, its last packet marked EOM."""
        last = self._header(EOM, len(self._pending)) + bytes(self._pending)
        self._pending.clear()
        self._packet_id = 1
        return last

    def handshake(self, data: bytes) -> bytes:
        """A whole message with a part of the TLS handshake, which alone has the type of its question."""
        self._type = PacketType.PRELOGIN
        packets = self.add(data) + self.finish()
        self._type = PacketType.TABULAR_RESULT
        return packets

    def _header(self, status: int, size: int) -> bytes:
        header = HEADER.pack(self._type, status, size + HEADER_SIZE, self.session_id & 0xFFFF, self._packet_id, 0)
        self._packet_id = (self._packet_id + 1) & 0xFF
        return header
