"""Log sequence numbers: ten bytes (virtual log file, block, slot), compared as unsigned bytes, and the one source of them in a database.

Source: https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-log-architecture-and-management-guide
Refuses nothing and locks nothing: a source is used only by the thread that holds the database's writer lock; `end` alone may be read by
any.
"""

from __future__ import annotations

import struct

SIZE = 10
ZERO = bytes(SIZE)

_MODULUS = 1 << (8 * SIZE)
_LAST_SLOT = 0xFFFE
_LAST_BLOCK = 0x7FFF_FFF0
_FIRST_VLF = 0x2D
_FIRST_BLOCK = 0x100
_BLOCK_STEP = 8


def increment(lsn: bytes) -> bytes:
    """The next of all 80-bit values (sys.fn_cdc_increment_lsn); the largest is followed by zero."""
    return ((int.from_bytes(lsn, "big") + 1) % _MODULUS).to_bytes(SIZE, "big")


def decrement(lsn: bytes) -> bytes:
    """The previous of all 80-bit values (sys.fn_cdc_decrement_lsn); zero is preceded by the largest."""
    return ((int.from_bytes(lsn, "big") - 1) % _MODULUS).to_bytes(SIZE, "big")


class LsnSource:
    """Hands out ever larger LSNs: a slot for each log record, a new block after each commit record."""

    def __init__(self, after: bytes = ZERO) -> None:
        """Continue behind `after`, the largest LSN that the database holds: a reopened log begins a new virtual log file."""
        vlf: int = struct.unpack(">IIH", after)[0]
        self._vlf = max(vlf + 1, _FIRST_VLF)
        self._block = _FIRST_BLOCK
        self._slot = 0
        self.end = self._here()
        """Where the log ends: not below any LSN that was handed out, and below the commit of every transaction that begins now."""

    def _here(self) -> bytes:
        return struct.pack(">IIH", self._vlf, self._block, max(self._slot, 1))

    def go_on_after(self, lsn: bytes) -> None:
        """Hand out nothing up to `lsn` from now on."""
        vlf, block, slot = struct.unpack(">IIH", lsn)
        if (vlf, block, slot) > (self._vlf, self._block, self._slot):
            self._vlf, self._block, self._slot = vlf, block, slot
            self._next_block()

    def record(self) -> bytes:
        """The LSN of one log record."""
        if self._slot == _LAST_SLOT:
            self._next_block()
        self._slot += 1
        self.end = self._here()
        return self.end

    def commit(self) -> bytes:
        """The LSN of a commit record: larger than every record before it, and it closes its block."""
        lsn = self.record()
        self._next_block()
        return lsn

    def _next_block(self) -> None:
        self._slot = 0
        self._block += _BLOCK_STEP
        if self._block > _LAST_BLOCK:
            self._vlf, self._block = self._vlf + 1, _FIRST_BLOCK
        self.end = self._here()
