"""Where a change sits in the log, in total order. Compares and shows; never steps or computes an LSN (the server does that).

Source: https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql
"""

from __future__ import annotations

from dataclasses import dataclass

_LENGTH = 10
_FIRST = bytes(_LENGTH)
_LAST = b"\xff" * _LENGTH
_INT_MAX = 2**31 - 1


@dataclass(frozen=True, order=True, slots=True)
class Lsn:
    """A log sequence number: ten bytes, compared unsigned and never as text; hex is for people."""

    value: bytes

    def __post_init__(self) -> None:
        if len(self.value) != _LENGTH:
            raise ValueError(f"an LSN has {_LENGTH} bytes, not {len(self.value)}")

    @property
    def hex(self) -> str:
        """20 lower-case hex digits."""
        return self.value.hex()

    @property
    def unknown(self) -> bool:
        """Whether this is 0x000...0: SQL Server's answer for a capture instance that it does not know or may not show."""
        return self.value == _FIRST

    def __str__(self) -> str:
        return f"0x{self.value.hex()}"


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """(`__$start_lsn`, `__$command_id`, `__$seqval`, `__$operation`): nothing less orders the changes of a table.

    A deferred update writes all deletes under one command id and all inserts under the next, and the delete and the insert
    of one row may share commit LSN and sequence value (KB 3030352), so a cursor of fewer parts loses rows at a page's end.
    """

    lsn: Lsn
    command_id: int
    seqval: bytes
    operation: int

    @classmethod
    def before(cls, lsn: Lsn) -> Position:
        """The position just before the first change of the transaction that committed at `lsn`."""
        return cls(lsn, -1, _FIRST, 0)

    @classmethod
    def end_of(cls, lsn: Lsn) -> Position:
        """The position after every change of the transaction that committed at `lsn`."""
        return cls(lsn, _INT_MAX, _LAST, _INT_MAX)

    def __str__(self) -> str:
        return f"{self.lsn}/{self.command_id}/0x{self.seqval.hex()}/{self.operation}"
