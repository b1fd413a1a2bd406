"""Where a change is in SQL Server's log. Compares and shows LSNs; never steps or computes one (the server does that).

Source: https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql
"""

from __future__ import annotations

from common.values.quick import quick
from ingester.position import Place, Position

_LENGTH = 10
_FIRST = bytes(_LENGTH)
_LAST = b"\xff" * _LENGTH
_INT_MAX = 2**31 - 1


@quick(frozen=True, order=True, slots=True)
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
        """Whether this is 0x000...0: SQL Server's answer for a capture instance that it does not know or may not
        show."""
        return self.value == _FIRST

    def __str__(self) -> str:
        return f"0x{self.value.hex()}"


@quick(frozen=True, order=True, slots=True)
class LogPosition:
    """(`__$start_lsn`, `__$command_id`, `__$seqval`, `__$operation`): nothing less orders the changes of a table.

    A deferred update writes all deletes under one command id and all inserts under the next, and the delete and the
    insert of one row may share commit LSN and sequence value (KB 3030352), so a cursor of fewer parts loses rows at a
    page's end.
    """

    lsn: Lsn
    command_id: int
    seqval: bytes
    operation: int

    @classmethod
    def before(cls, lsn: Lsn) -> LogPosition:
        """The position just before the first change of the transaction that committed at `lsn`."""
        return cls(lsn, -1, _FIRST, 0)

    @classmethod
    def end_of(cls, lsn: Lsn) -> LogPosition:
        """The position after every change of the transaction that committed at `lsn`."""
        return cls(lsn, _INT_MAX, _LAST, _INT_MAX)

    def place(self) -> Place:
        lsn, command_id, seqval = self.lsn.value.hex(), self.command_id, self.seqval.hex()
        return f"{lsn}-{command_id}-{seqval}-{self.operation}", lsn, command_id, seqval

    def __str__(self) -> str:
        """A border of a transaction by its LSN alone; any other place with all that finds its row."""
        if self in (LogPosition.before(self.lsn), LogPosition.end_of(self.lsn)):
            return f"LSN {self.lsn}"
        return f"LSN {self.lsn}, command {self.command_id}, seqval 0x{self.seqval.hex()}, operation {self.operation}"


def in_words(position: Position) -> str:
    """With the side of a transaction that a border is on: `after LSN 0x...` says that the transaction was sent."""
    found = in_the_log(position)
    if found == LogPosition.before(found.lsn):
        return f"before {found}"
    return f"after {found}"


def in_the_log(position: Position) -> LogPosition:
    """`position`, which this source or its offsets have handed out: the core hands it back as it was."""
    if not isinstance(position, LogPosition):
        raise TypeError(f"{type(position).__name__} is not a position in SQL Server's log")
    return position
