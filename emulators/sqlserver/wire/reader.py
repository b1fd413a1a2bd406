"""A bounds-checked cursor over the bytes of one TDS message.

Every parser of the wire layer reads through it, so that no length a client sends is believed before it is checked.
It refuses to read past the end: a short message is a `ProtocolError`, which ends the connection, never an IndexError.
"""

from __future__ import annotations

import struct

from emulators.sqlserver.wire.errors import ProtocolError

_I32 = struct.Struct("<i")
_F32 = struct.Struct("<f")
_F64 = struct.Struct("<d")

PLP_NULL = 0xFFFF_FFFF_FFFF_FFFF


class Reader:
    """Little-endian reads from `data`, from `position` on; raises ProtocolError when the bytes run out."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        if position > len(data):
            raise ProtocolError(f"offset {position} lies beyond the message of {len(data)} bytes")
        self.data = data
        self.position = position

    @property
    def remaining(self) -> int:
        return len(self.data) - self.position

    def take(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self.data):
            raise ProtocolError(f"message ends after {len(self.data)} bytes, {end} were announced")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def peek(self) -> int:
        if not self.remaining:
            raise ProtocolError("message ends where a byte was due")
        return self.data[self.position]

    def u8(self) -> int:
        value = self.peek()
        self.position += 1
        return value

    def u16(self) -> int:
        return int.from_bytes(self.take(2), "little")

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def i32(self) -> int:
        return int(_I32.unpack(self.take(4))[0])

    def f32(self) -> float:
        return float(_F32.unpack(self.take(4))[0])

    def f64(self) -> float:
        return float(_F64.unpack(self.take(8))[0])

    def ucs2(self, characters: int) -> str:
        return decode_ucs2(self.take(2 * characters))

    def b_varchar(self) -> str:
        """B_VARCHAR: one byte of character count, then UTF-16."""
        return self.ucs2(self.u8())

    def us_varchar(self) -> str:
        """US_VARCHAR: two bytes of character count, then UTF-16."""
        return self.ucs2(self.u16())

    def plp(self) -> bytes | None:
        """A partially length-prefixed value (MS-TDS 2.2.5.2.3): chunks up to an empty one; None for NULL.

        The announced total is not trusted; the chunks themselves are bounded by the message.
        """
        if self.u64() == PLP_NULL:
            return None
        chunks = []
        while size := self.u32():
            chunks.append(self.take(size))
        return b"".join(chunks)


def decode_ucs2(data: bytes) -> str:
    """UTF-16 of a client; SQL Server stores unpaired surrogates as they come, so they pass."""
    if len(data) % 2:
        raise ProtocolError(f"{len(data)} bytes cannot be UTF-16 text")
    return data.decode("utf-16-le", "surrogatepass")


def after_all_headers(data: bytes) -> Reader:
    """A reader placed behind ALL_HEADERS (MS-TDS 2.2.5.3), which open every batch, RPC and transaction request.

    The headers (transaction descriptor, query notifications, trace activity) are checked for length and skipped:
    without MARS a connection has one request and one transaction at a time, so the descriptor adds nothing.
    """
    reader = Reader(data)
    total = reader.u32()
    if total < 4 or total > len(data):
        raise ProtocolError(f"ALL_HEADERS announces {total} bytes in a message of {len(data)}")
    while reader.position < total:
        length = reader.u32()
        if length < 6 or reader.position - 4 + length > total:
            raise ProtocolError(f"a header announces {length} bytes beyond ALL_HEADERS")
        reader.take(length - 4)
    return reader
